//! ZIP archives of sessions.

mod bounds;
mod frame;
mod names;
mod problem;
mod reader;
mod unpacked;
mod writer;

pub use bounds::{FREE_BYTES, MAX_ARCHIVE_BYTES, MAX_ENTRIES, MAX_ENTRY_BYTES, MAX_RATIO};
pub use problem::ArchiveProblem;
pub use reader::import_archive;
pub(super) use reader::import_entries;
pub use writer::{ArchiveReport, zip};
