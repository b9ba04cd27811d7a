//! Live sessions: what a host holds while an agent runs.
//!
//! A [`Session`] is a log in memory that only grows. [`Session::append`] makes an event, checks it, tells every
//! [`SessionObserver`] of it, and returns the very record that was kept. A [`SessionHub`] publishes sessions, and a
//! [`SessionRouter`] stores what happens to them: it makes, resumes and forks sessions over a store, and writes their
//! events in batches. A host acquires a session, appends to it, and closes it.
//!
//! ```
//! use std::sync::Arc;
//!
//! use session_persistence::session::{
//!     AppendOptions, InvariantObserver, LifecycleOptions, Seed, SessionHub, SessionRouter,
//! };
//! use session_persistence::{MemoryStore, OpenOptions, SeqRange, SessionHeader, SessionId, SessionPersistence};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (hub, store) = (SessionHub::new(), Arc::new(MemoryStore::new()));
//! let router = SessionRouter::new(&hub, store.clone())?;
//! let header = SessionHeader::new(SessionId::new("my-session")?, 1_700_000_000_000)?;
//! let session = router.create(header, Seed::None, LifecycleOptions::default(), |_| Ok(()))?;
//! let rules = session.observe(Arc::new(InvariantObserver::new()))?;
//!
//! session.append("turn/start", &serde_json::json!({ "turn": 1 }), AppendOptions::default())?;
//! let message = serde_json::json!({
//!     "content": [{ "type": "text", "text": "Hi" }], "source": { "kind": "user" }, "role": "user", "id": "m1",
//! });
//! session.append("user/message", &message, AppendOptions::surface())?;
//! assert_eq!(session.derive_messages().len(), 1);
//! // A second turn within the first breaks a rule: nothing is appended.
//! session.append("turn/start", &serde_json::json!({ "turn": 2 }), AppendOptions::default()).unwrap_err();
//!
//! hub.flush(session.id())?; // from here on the events survive a loss of power
//! drop(router); // as if the process had ended within the turn
//!
//! let router = SessionRouter::new(&SessionHub::new(), store.clone())?;
//! let resumed = router.resume(session.id(), LifecycleOptions::default(), |_| Ok(()))?;
//! assert_eq!(resumed.closers[0].event_type(), "turn/end");
//! router.close(session.id())?;
//! # drop(rules);
//! # Ok(())
//! # }
//! ```
//!
//! # What is stored when
//!
//! An event that was appended is in memory until its batch is written: for at most the window of the router
//! ([`RouterOptions::window`], 200 milliseconds by default), or until [`SessionHub::flush`] returns. What a process loses
//! that dies before that, the repair of its session cannot tell from what never happened: a host flushes behind a
//! `tool/call` and before it lets a tool do what must not be done twice.
//!
//! A write that fails loses nothing: its events stay queued, [`SessionRouter::backlog`] tells how many, and the next flush
//! or close writes each once.

mod clock;
mod error;
mod fork;
mod hub;
mod invariant_observer;
mod lifecycle;
mod log;
mod observer;
mod route;
mod router;
mod seed;
#[expect(clippy::module_inception, reason = "the session is what the room is about")]
mod session;
mod shape;
mod timer;

pub use clock::Clock;
pub use error::LiveError;
pub use hub::{HubObservation, SessionHub};
pub use invariant_observer::InvariantObserver;
pub use lifecycle::{LifecycleOptions, Resumed};
pub use log::Log;
pub use observer::{ObserverFailure, SessionObserver};
pub use route::Backlog;
pub use router::{RouterOptions, SessionRouter};
pub use seed::Seed;
pub use session::{AppendOptions, Observation, Session};
