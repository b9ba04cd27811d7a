//! The ids, headers and events that the cases store.

use std::ops::Range;

use crate::log::{Json, SessionEvent, SessionHeader, SessionId, text};

/// When the sessions of the cases were created, in milliseconds since 1970.
pub(super) const TIME: u64 = 1_700_000_000_000;

/// A type that is not in the vocabulary of a store under test.
pub(super) const UNKNOWN: &str = "acme/pulse";

#[track_caller]
pub(super) fn id(text: &str) -> SessionId {
    SessionId::new(text).expect("the ids of the cases are valid")
}

#[track_caller]
pub(super) fn header(id: &str) -> SessionHeader {
    header_created_at(id, TIME)
}

#[track_caller]
pub(super) fn header_created_at(id: &str, created_at: u64) -> SessionHeader {
    SessionHeader::new(self::id(id), created_at).expect("the headers of the cases are valid")
}

#[track_caller]
pub(super) fn parsed_header(line: &str) -> SessionHeader {
    SessionHeader::parse(line.as_bytes()).expect("the header lines of the cases are valid")
}

/// An event of a known type whose data tells its place.
#[track_caller]
pub(super) fn event(seq: u64) -> SessionEvent {
    typed("turn/start", seq)
}

pub(super) fn events(seqs: Range<u64>) -> Vec<SessionEvent> {
    seqs.map(event).collect()
}

/// An event whose data tells who wrote it.
#[track_caller]
pub(super) fn signed(seq: u64, writer: usize) -> SessionEvent {
    with_data("turn/start", seq, TIME as i64, &format!(r#"{{"turn":{writer}}}"#))
}

#[track_caller]
pub(super) fn typed(event_type: &str, seq: u64) -> SessionEvent {
    with_data(event_type, seq, (TIME + seq) as i64, &format!(r#"{{"turn":{}}}"#, seq + 1))
}

#[track_caller]
pub(super) fn at_time(seq: u64, time: i64) -> SessionEvent {
    with_data("turn/start", seq, time, r#"{"turn":1}"#)
}

/// The mark at the end of a prefix that was inherited.
#[track_caller]
pub(super) fn end_of_inherited(seq: u64) -> SessionEvent {
    with_data("session/end-seed", seq, TIME as i64, r#"{"inherited":true}"#)
}

#[track_caller]
pub(super) fn with_data(event_type: &str, seq: u64, time: i64, data: &str) -> SessionEvent {
    let data = Json::parse(data).expect("the data of the cases is JSON");
    SessionEvent::new(event_type, seq, time, data).expect("the events of the cases are valid")
}

#[track_caller]
pub(super) fn parsed(line: &str) -> SessionEvent {
    match text::parse_event(line.as_bytes()) {
        Ok(event) => event,
        Err(e) => panic!("the event lines of the cases are valid, and {line} is not: {e}"),
    }
}
