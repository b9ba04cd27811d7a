//! The contract between a host and a backend: two traits, their values, the errors that a consumer can see, and the
//! checks that every backend applies in the same way. Nothing here knows a backend.

pub mod checks;
mod durability;
mod error;
mod error_kind;
mod fault;
mod handle;
mod holder;
mod list;
mod list_filter;
mod persistence;
mod snapshot;

pub use durability::Durability;
#[cfg(feature = "cli")]
pub(crate) use error::is_out_of_files;
pub use error::{Error, FormatProblem, Result, Source};
pub use error_kind::ErrorKind;
pub use fault::{Fault, FaultKind};
pub use handle::{Access, EventSource, SeqRange, SessionHandle};
pub use holder::Holder;
pub(crate) use holder::now;
pub use list::{Cursor, ListOrder, ListQuery, Page, Position};
pub use list_filter::ListFilter;
pub use persistence::{CreateOptions, OpenOptions, Removal, SessionPersistence};
pub use snapshot::{Revision, SessionState, Snapshot, StateKind, TornTail, WriteFailure};
