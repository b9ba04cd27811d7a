//! The backends. Each stores what the others store; what a handle may do when is decided once, in `runtime`.

mod memory;
mod runtime;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use memory::MemoryStore;
#[cfg(feature = "sqlite")]
pub(crate) use sqlite::SQLITE_APPLICATION_ID;
#[cfg(feature = "cli")]
pub(crate) use sqlite::sql;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteOptions, SqliteStore};
