//! The backends. Each stores what the others store; what a handle may do when is decided once, in `runtime`.

#[cfg(feature = "jsonl")]
mod jsonl;
mod memory;
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
mod report;
mod runtime;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "jsonl")]
pub use jsonl::{Encoding, JsonlOptions, JsonlStore};
pub use memory::MemoryStore;
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
pub use report::BackupReport;
#[cfg(feature = "sqlite")]
pub use report::CompactReport;
#[cfg(feature = "cli")]
pub(crate) use sqlite::sql;
#[cfg(feature = "sqlite")]
pub(crate) use sqlite::{DSH_APPLICATION_ID, Mode, SQLITE_APPLICATION_ID, beside, open_read_only};
#[cfg(feature = "sqlite")]
pub use sqlite::{Journal, SqliteOptions, SqliteStore};
