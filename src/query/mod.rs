//! Looking at sessions: live ones and stored ones, over any store, and without writing to it.
//!
//! A [`SessionReader`] gives a session as it is now, an [`ObservedSession`]. A stored one is read once and kept in memory
//! ([`ColdCache`]) as long as its store tells the same revision; a turn in which its process died is ended there in memory
//! alone. An [`EventFilter`] says which of its events are wanted, [`ObservedSession::trace_event`] what an event has to do with
//! others.
//!
//! [`SessionReader::sessions`] finds sessions by a [`SessionFilter`], [`SessionReader::ancestry`] and
//! [`SessionReader::descendants`] what they descend from and what from them. What the model would see of a session is told
//! by [`Messages`](crate::Messages) over its events. With the feature `search` there is the module `index`: full-text search
//! and statistics over all sessions of a store.
//!
//! ```
//! use std::sync::Arc;
//!
//! use session_persistence::query::{EventFilter, LiteralText, SessionReader, Window};
//! use session_persistence::{
//!     CreateOptions, MemoryStore, SessionEvent, SessionHeader, SessionId, SessionPersistence, payload::TurnStart,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Arc::new(MemoryStore::new());
//! let header = SessionHeader::new(SessionId::new("my-session")?, 1_700_000_000_000)?;
//! let writer = store.create(&header, CreateOptions::default())?;
//! writer.append(&[SessionEvent::of("turn/start", 0, 1_700_000_000_010, &TurnStart { turn: 1 })?])?;
//!
//! let reader = SessionReader::new(store);
//! let session = reader.observe(header.id())?;
//! assert_eq!((session.event_count(), session.closers().len()), (2, 1)); // the turn was interrupted
//! let ends = EventFilter::new().with_texts([LiteralText::new("Interrupted")?]);
//! assert_eq!(session.filter(&ends)?.count(), 1);
//! assert_eq!(reader.read_event(header.id(), 0, Window::new(0, 1))?.after.len(), 1);
//! assert_eq!((reader.cache().stats().loads, reader.cache().stats().hits), (1, 1));
//! # Ok(())
//! # }
//! ```

mod cold_cache;
mod cold_session;
mod error;
mod event_view;
mod filter;
#[cfg(feature = "search")]
pub mod index;
mod lineage;
mod literal_text;
mod load;
mod observed_session;
mod reader;
mod session_filter;
mod session_record;
mod surface_index;

pub use cold_cache::{CacheStats, ColdCache};
pub use error::QueryError;
pub use event_view::{EventTrace, EventWindow, SurfaceState, Window};
pub use filter::EventFilter;
pub use lineage::{Ancestry, Descendant};
pub use literal_text::LiteralText;
pub use observed_session::ObservedSession;
pub use reader::{ReaderOptions, SessionReader};
pub use session_filter::{Availability, SessionFilter};
pub use session_record::SessionRecord;
