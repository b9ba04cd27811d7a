//! Sessions and events to look at.

use serde_json::json;
use session_persistence::query::{ObservedSession, QueryError};
use session_persistence::{CreateOptions, SessionEvent, SessionHeader, SessionId, SessionPersistence, SurfaceOp};

pub(crate) const TIME: i64 = 1_700_000_000_000;

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(crate) fn header(name: &str) -> SessionHeader {
    SessionHeader::new(id(name), TIME as u64).unwrap()
}

/// An event that says `mark` and shows itself to no model.
pub(crate) fn plain(seq: u64, mark: &str) -> SessionEvent {
    let todo = json!({ "todos": [{ "content": mark, "status": "pending" }] });
    SessionEvent::of("todo/write", seq, TIME + seq as i64, &todo).unwrap()
}

pub(crate) fn plains(seqs: std::ops::Range<u64>, mark: &str) -> Vec<SessionEvent> {
    seqs.map(|seq| plain(seq, mark)).collect()
}

pub(crate) fn says(seq: u64, text: &str) -> SessionEvent {
    let message = json!({
        "content": [{ "type": "text", "text": text }], "source": { "kind": "user" }, "role": "user", "id": format!("m{seq}"),
    });
    SessionEvent::of("user/message", seq, TIME + seq as i64, &message).unwrap()
}

pub(crate) fn shown(seq: u64, text: &str) -> SessionEvent {
    says(seq, text).with_surface_op(SurfaceOp::Append).unwrap()
}

pub(crate) fn turn_start(seq: u64) -> SessionEvent {
    SessionEvent::of("turn/start", seq, TIME + seq as i64, &json!({ "turn": 1 })).unwrap()
}

pub(crate) fn store_session(store: &dyn SessionPersistence, name: &str, events: &[SessionEvent]) {
    store_under(store, &header(name), events);
}

pub(crate) fn store_under(store: &dyn SessionPersistence, header: &SessionHeader, events: &[SessionEvent]) {
    let writer = store.create(header, CreateOptions::default()).unwrap();
    writer.append(events).unwrap();
    writer.flush().unwrap();
    writer.close().unwrap();
}

pub(crate) fn events_of(session: &ObservedSession) -> Vec<SessionEvent> {
    session.events(0..u64::MAX)
}

/// The name of an error, of the store's own where it is one.
pub(crate) fn kind(error: &QueryError) -> String {
    match error {
        QueryError::Store(error) => error.kind().name().to_owned(),
        other => format!("{other:?}").split([' ', '(']).next().unwrap_or_default().to_owned(),
    }
}
