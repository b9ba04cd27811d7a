//! Durable, append-only storage for AI-agent session logs behind one small seam.
//!
//! A **session** is a header and events numbered 0, 1, 2, ... Events are facts: never changed, never reordered. A
//! **host** creates or opens a session through [`SessionPersistence`], gets a [`SessionHandle`], and reads and appends
//! through it, without knowing which backend is behind it.
//!
#![cfg_attr(feature = "sqlite", doc = "```")]
#![cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
//! use session_persistence::{
//!     CreateOptions, OpenOptions, SeqRange, SessionEvent, SessionHeader, SessionId, SessionPersistence, SqliteStore,
//!     payload::TurnStart,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("sessions.db");
//! let store = SqliteStore::open(&path)?;
//! let header = SessionHeader::new(SessionId::new("my-session")?, 1_700_000_000_000)?.with_cwd("/srv/app");
//! let writer = store.create(&header, CreateOptions::default())?;
//! writer.append(&[SessionEvent::of("turn/start", 0, 1_700_000_000_010, &TurnStart { turn: 1 })?])?;
//! writer.flush()?; // from here on it survives a loss of power
//!
//! let reader = store.open(header.id(), OpenOptions::read())?;
//! for event in reader.read(SeqRange::ALL)? {
//!     println!("{}", event.to_line());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What it does
//!
//! - **Nothing is lost.** A batch is stored whole or not at all; after any failure the same batch can be appended again.
//!   What `append` acknowledged survives the death of the process, what `flush` acknowledged survives a loss of power.
//! - **Nothing is changed.** Event data is kept as text, to the byte: key order, number spelling, escapes, lone
//!   surrogates. What was exported, imported and exported again is the same file. In SQLite each row has a checksum,
//!   and triggers refuse every statement that would change one.
//! - **Nothing is guessed.** A log of a newer program is refused by name and still listed and exported; a damaged one is
//!   an error with its place, never a shorter log; a file that is no store is an error, never an empty list.
//! - **A turn that broke off is told and can be closed.** [`interrupted_turn_closers`] gives the events that a log lacks
//!   when its process died within a turn; [`Invariants`] checks how events follow on one another. Both are pure: what to
//!   append and what to refuse is up to the host.
//! - **A host holds live sessions.** [`session`] keeps a log in memory, checks each event before it is a part of it, tells
//!   observers, and stores it in the background in batches; [`Messages`] has what the model sees without reading the log
//!   again.
//! - **Looking is cheap and never stale.** [`query`] keeps stored sessions in memory as long as their store tells the same
//!   revision, prefers live ones, and finds events, sessions and what they descend from. With the feature `search`,
//!   `query::index` finds texts in all sessions and counts what happened in them.
//! - **Nothing is removed** but by a call that says so: [`SessionPersistence::remove`] and, for what is old,
//!   [`upkeep::prune`](upkeep::prune()). [`upkeep`] also checks a store as a whole, and saves what can be saved of a
//!   damaged log.
//! - **Metadata is cheap.** [`SessionPersistence::stat`] and [`SessionPersistence::list`] read no event.
//!
//! # What it does not do
//!
//! It does not run agents, call models, sync between machines or encrypt. It has no async face yet: calls block for as
//! long as the disk does.
//!
//! # Backends
//!
//! | store | where | for |
//! |---|---|---|
//! | `SqliteStore` | one file, read by `sqlite3` and anything else that speaks SQL | the usual choice |
//! | `JsonlStore` | a folder, one file a session, as DSH keeps them | sessions that exist already, and files that any tool can read |
//! | [`MemoryStore`] | memory | tests, and the model that the others are held against |
//!
//! # Features
//!
//! | feature | default | what it brings |
//! |---|---|---|
//! | `sqlite` | yes | `SqliteStore`, and the import of databases of DSH; SQLite and Zstandard are compiled in |
//! | `jsonl` | yes | `JsonlStore`, and the import of folders of DSH; Zstandard is compiled in |
//! | `zip` | no | ZIP archives in [`export`](mod@export): `zip` and `import_archive` |
//! | `contract` | no | `contract`, the suite of tests that every backend passes, for backends of your own |
//! | `search` | no | `query::index`: full-text search and statistics, in a file beside a store; SQLite is compiled in |
//! | `cli` | no | the `sessions` command, which brings all of the above but `contract` |
//!
//! # Source of the format
//!
//! The log format is that of DeepSeek Harness (DSH), version 3. Logs of the versions 0 to 2 are stored, listed and
//! exported as they are.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod backend;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "contract")]
pub mod contract;
pub mod export;
mod log;
mod paging;
#[cfg(any(feature = "sqlite", feature = "jsonl", feature = "search"))]
mod private;
pub mod query;
mod seam;
pub mod session;
pub mod upkeep;

#[cfg(any(feature = "sqlite", feature = "jsonl"))]
pub use crate::backend::BackupReport;
#[cfg(feature = "sqlite")]
pub use crate::backend::CompactReport;
pub use crate::backend::MemoryStore;
#[cfg(feature = "jsonl")]
pub use crate::backend::{Encoding, JsonlOptions, JsonlStore};
#[cfg(feature = "sqlite")]
pub use crate::backend::{Journal, SqliteOptions, SqliteStore};
pub use crate::log::{
    FoldError, InvalidJson, InvalidRecord, InvalidSessionId, Invariants, Json, LifecycleState, LogDigest,
    MessageIdTemplate, MessageList, MessagePlan, Messages, ModelMessage, ModelRequest, NotLossless, OpenTurn, Origin,
    RepairTexts, Replacement, RequestBasis, RequestContext, RequestHeader, Requests, Rule, Seq, SessionEvent,
    SessionHeader, SessionId, Surface, SurfaceOp, SurfacePlan, Violation, Vocabulary, check_model_request,
    interrupted_turn_closers, payload, searchable_text, text,
};
pub use crate::paging::Listed;
pub use crate::seam::{
    Access, CreateOptions, Cursor, Durability, Error, ErrorKind, EventSource, Fault, FaultKind, FormatProblem, Holder,
    ListFilter, ListOrder, ListQuery, OpenOptions, Page, Position, Removal, Result, Revision, SeqRange, SessionHandle,
    SessionPersistence, SessionState, Snapshot, Source, StateKind, TornTail, WriteFailure, checks,
};

/// The README's programs run as tests.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
pub struct Readme;
