//! What all backends share: who owns which session, and the states that a handle goes through. A backend supplies the
//! [`Storage`] below and nothing else.

mod batch;
mod claims;
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
pub(crate) mod cores;
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
mod file_lock;
mod handle;
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
mod lock_table;
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
mod pieces;
mod process;
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
mod record;
mod storage;
mod store;

pub(crate) use batch::Batch;
#[cfg(feature = "jsonl")]
pub(crate) use file_lock::LockFile;
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
pub(crate) use file_lock::{Alone, LOOKERS_TIMEOUT, holder_of, lock_alone, record_of_locked};
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
pub(crate) use lock_table::writer_of;
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
pub(crate) use pieces::Pieces;
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
pub(crate) use process::Process;
#[cfg(feature = "jsonl")]
pub(crate) use record::MAX_RECORD;
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
pub(crate) use record::write_record;
pub(crate) use storage::{Listed, Slice, Storage, Stored, Wanted};
pub(crate) use store::{Runtime, store_over_runtime};
