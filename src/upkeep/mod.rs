//! Stores that are looked after: checked, saved from damage, backed up, and cleared of what is old.
//!
//! - [`verify()`] reads every log and holds what a store tells of it against it.
//! - [`salvage()`] takes the sound start of a damaged log into a new session.
//! - [`prune()`] removes sessions that were not written for long: the only call that removes several, and never called
//!   but by its host.
//! - A backup is the store's own: `SqliteStore::backup`, `JsonlStore::backup`; and so is giving back the room that
//!   removed sessions took: `SqliteStore::compact`.
//!
//! The first three hold a few megabytes in memory, or what the largest event takes, however long the logs are.
//!
//! ```
//! use session_persistence::upkeep::{self, Progress};
//! use session_persistence::{CreateOptions, MemoryStore, SessionHeader, SessionId, SessionPersistence};
//!
//! let store = MemoryStore::new();
//! store.create(&SessionHeader::new(SessionId::new("s1")?, 0)?, CreateOptions::default())?.flush()?;
//!
//! let report = upkeep::verify(&store, None, &mut |progress| {
//!     if let Progress::Fault(fault) = progress {
//!         eprintln!("{fault}");
//!     }
//! })?;
//! assert!(report.is_sound());
//! assert_eq!(report.sessions, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod log_check;
mod prune;
#[cfg(feature = "jsonl")]
mod root_backup;
mod salvage;
mod verify;

pub use prune::{Kept, PruneOptions, PruneReport, Pruned, prune};
pub use salvage::{Salvaged, salvage};
pub use verify::{Progress, Report, verify};
