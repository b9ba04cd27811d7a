//! The work of the main calls, counted, which no busy machine changes: statements and rows of SQLite, calls of the system and
//! their bytes, allocations. How often the disk is waited for is counted where disks are simulated.

#![allow(unsafe_code, reason = "an allocator and a hook of SQLite that count can only be made of unsafe calls")]

mod counting;
mod files;
mod import;
mod sqlite;

use session_persistence::{
    CreateOptions, Json, OpenOptions, SessionEvent, SessionHandle, SessionHeader, SessionId, SessionPersistence,
    SurfaceOp,
};

/// Types that a log has in turn.
const TYPES: [&str; 4] = ["turn/start", "user/message", "assistant/message", "turn/end"];

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

/// An event of about 1 KB.
fn event(seq: u64) -> SessionEvent {
    let data = format!(r#"{{"text":"{}"}}"#, "word ".repeat(190 + seq as usize % 7));
    let event = SessionEvent::new(TYPES[seq as usize % 4], seq, seq as i64, Json::parse(&data).unwrap()).unwrap();
    if seq % 4 == 1 { event.with_surface_op(SurfaceOp::Append).unwrap() } else { event }
}

fn events(from: u64, count: u64) -> Vec<SessionEvent> {
    (from..from + count).map(event).collect()
}

/// The bytes of their lines.
fn text_bytes(events: &[SessionEvent]) -> u64 {
    events.iter().map(|event| event.to_line().len() as u64 + 1).sum()
}

/// Makes the session, with so many events.
fn create(store: &dyn SessionPersistence, count: u64) -> Box<dyn SessionHandle> {
    let header = SessionHeader::new(id(), 1).unwrap();
    let handle = store.create(&header, CreateOptions::default()).unwrap();
    events(0, count).chunks(100).for_each(|batch| handle.append(batch).unwrap());
    handle
}

fn reader(store: &dyn SessionPersistence) -> Box<dyn SessionHandle> {
    store.open(&id(), OpenOptions::read()).unwrap()
}
