//! Full-text search and statistics over any store, from a file that can be deleted at any time.
//!
//! A [`SearchIndex`] is a SQLite file of its own beside a store. [`SearchIndex::update`] brings it up to the store: it reads
//! the events that are new since, and nothing else. [`SearchIndex::search`] finds events by a text, letter by letter as
//! [`LiteralText`](super::LiteralText) compares; [`SearchIndex::facts`] and [`SearchIndex::statistics`] tell what happened.
//! What the index tells is what the store held at the last update.
//!
//! [`known_facts`] tells the same of many sessions at once to whoever does not keep an index open.
//!
//! The file and the store know nothing of each other: damage or a lock in the one is no matter of the other, and
//! [`SearchIndex::check`] tells the one from the other. The file belongs on a local disk. A file that was deleted or damaged is
//! made anew; one that is not an index is refused and stays as it is.
//!
//! ```
//! use session_persistence::query::index::{SearchIndex, SearchQuery};
//! use session_persistence::{CreateOptions, MemoryStore, SessionEvent, SessionHeader, SessionId, SessionPersistence, text};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("sessions.index");
//! let store = MemoryStore::new();
//! let header = SessionHeader::new(SessionId::new("my-session")?, 1_700_000_000_000)?;
//! let line = br#"{"type":"user/message","seq":0,"time":1,"data":{"content":[{"type":"text","text":"Where is src/a.rs?"}]}}"#;
//! store.create(&header, CreateOptions::default())?.append(&[text::parse_event(line)?])?;
//!
//! let index = SearchIndex::open(&path)?;
//! index.update(&store)?;
//! let page = index.search(&SearchQuery::new("SRC/a.rs?"))?;
//! assert_eq!((page.hits[0].session.as_str(), page.hits[0].seq), ("my-session", 0));
//! # Ok(())
//! # }
//! ```

mod catch_up;
mod check;
mod claim;
mod counts;
mod cursor;
mod document;
mod error;
mod facts;
mod file;
mod hit;
mod search;
mod search_index;
mod session_facts;
mod snippet;
mod statistics;
mod watermark;

pub use catch_up::UpdateReport;
pub use counts::Counts;
pub use cursor::SearchCursor;
pub use error::{IndexError, IndexResult};
pub use hit::{SearchHit, SearchPage};
pub use search::SearchQuery;
pub use search_index::{IndexOptions, SearchIndex};
pub use session_facts::{SessionFacts, known_facts};
pub use snippet::Snippet;
pub use statistics::{GroupBy, StatisticsRow};
