//! The logs that the tests write: each event tells its session and its seq, so that none can stand for another.

use std::ops::Range;

use session_persistence::{
    Json, ListQuery, OpenOptions, SeqRange, SessionEvent, SessionHeader, SessionId, SessionPersistence, Snapshot,
};

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(crate) fn header(name: &str) -> SessionHeader {
    SessionHeader::new(id(name), 1_700_000_000_000).unwrap().with_cwd("/w")
}

pub(crate) fn event(name: &str, seq: u64) -> SessionEvent {
    written_by(name, "it", seq)
}

pub(crate) fn events(name: &str, range: Range<u64>) -> Vec<SessionEvent> {
    range.map(|seq| event(name, seq)).collect()
}

/// An event that tells which of several writers stored it.
pub(crate) fn written_by(name: &str, writer: &str, seq: u64) -> SessionEvent {
    with_text(seq, &format!("{name} {writer} {seq}"))
}

/// The writer of an event of [`written_by`].
pub(crate) fn writer_of(event: &SessionEvent) -> String {
    event.data().as_str().split(' ').nth(1).unwrap().to_owned()
}

/// An event whose line has about `bytes` bytes.
#[cfg(feature = "sqlite")]
pub(crate) fn sized(seq: u64, bytes: usize) -> SessionEvent {
    with_text(seq, &"0123456789abcdef".repeat(bytes / 16))
}

fn with_text(seq: u64, text: &str) -> SessionEvent {
    let data = Json::parse(&format!(r#"{{"todos":[{{"content":"{text}","status":"open"}}]}}"#)).unwrap();
    SessionEvent::new("todo/write", seq, 1_700_000_000_000 + seq as i64, data).unwrap()
}

pub(crate) fn read(store: &dyn SessionPersistence, name: &str) -> Vec<SessionEvent> {
    store.open(&id(name), OpenOptions::read()).unwrap().read(SeqRange::ALL).unwrap()
}

/// Checks that a log holds each of its first `count` events once, in order, and nothing else.
pub(crate) fn assert_log(store: &dyn SessionPersistence, name: &str, count: u64) {
    let found = read(store, name);
    assert!(found == events(name, 0..count), "{name}: {} events, not the {count} that were stored", found.len());
    assert_eq!(stat(store, name).event_count.unwrap_or(count), count, "{name}");
}

pub(crate) fn stat(store: &dyn SessionPersistence, name: &str) -> Snapshot {
    store.stat(&id(name)).unwrap().unwrap()
}

pub(crate) fn list(store: &dyn SessionPersistence) -> Vec<Snapshot> {
    store.list(&ListQuery::default()).unwrap().items
}
