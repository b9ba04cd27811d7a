//! Sessions that move: as text, as archives, from store to store, and out of where other programs keep them.
//!
//! - [`jsonl()`] writes the text of a session, and [`import_reader`] and [`import_file`] read it: one log, one file.
//! - `zip` (feature `zip`) writes a session with its descendants as one archive, and `import_archive` reads it.
//! - [`copy()`] takes sessions from any store to any other.
//! - [`import_path`] takes whatever a path leads to: one of the above, or a folder (`import_root`) or a database
//!   (`import_database`) of DeepSeek Harness.
//!
//! All that comes in is held to the same rules. A session is stored whole or not at all. One that is stored already is
//! never replaced: the same log changes nothing, a longer one is added where [`ImportOptions::extend`] says so, any other
//! is a [`Conflict`]. Its source is only read.
//!
//! The text is the header's line, then each event's line, with a line feed after each and nothing else. It is the same
//! bytes from every backend, and a file that is imported and exported again comes back as it was. Three things are not
//! text of the log and do not come back: a carriage return at the end of a line, the short form of `sourceEventSeqs` that
//! some files use, which becomes the plain list, and the rows of the formats 0 and 1 that stand for several events, which
//! become those events.
//!
//! ```
//! use session_persistence::export::{self, ImportOptions, Imported};
//! use session_persistence::{MemoryStore, SessionId};
//!
//! let log = concat!(
//!     r#"{"type":"session","version":3,"id":"s1","createdAt":0,"isSeeded":false,"delegationDepth":0}"#, "\n",
//!     r#"{"type":"turn/start","seq":0,"time":5,"data":{"turn":1}}"#, "\n",
//! );
//! let store = MemoryStore::new();
//! let imported = export::import_reader(&store, "log", log.as_bytes(), ImportOptions::default())?;
//! assert!(matches!(imported, Imported::Created { events: 1, .. }));
//!
//! let mut text = Vec::new();
//! export::jsonl(&store, &SessionId::new("s1")?, &mut text)?;
//! assert_eq!(text, log.as_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "zip")]
pub mod archive;
mod copy;
mod deposit;
#[cfg(feature = "sqlite")]
mod dsh_database;
#[cfg(feature = "jsonl")]
mod dsh_root;
mod import;
mod import_error;
mod importable;
mod jsonl;
#[cfg(feature = "zip")]
mod lineage;
mod log_file;
mod spool;

#[cfg(feature = "zip")]
pub use archive::{ArchiveProblem, ArchiveReport, import_archive, zip};
pub use copy::copy;
#[cfg(feature = "sqlite")]
pub use dsh_database::import_database;
#[cfg(feature = "jsonl")]
pub use dsh_root::import_root;
pub use import::{ImportOptions, Imported, Tally, import_file, import_reader};
pub use import_error::{Conflict, ImportError};
pub use importable::{Importable, import_path};
#[cfg(feature = "cli")]
pub(crate) use jsonl::warn_of_torn_tail;
pub use jsonl::{ExportReport, jsonl, write_failure};
