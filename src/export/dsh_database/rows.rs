//! [`Rows`]: the events of one session, as its rows have them.

use std::collections::VecDeque;

use rusqlite::types::ValueRef;
use rusqlite::{ErrorCode, Row};

use super::Schema;
use super::encoding::{seqs, unpack};
use super::source::Source;
use crate::export::ImportError;
use crate::export::deposit::{Incoming, Unpacking};
use crate::log::{InvalidRecord, Json, Seq, SessionEvent, SessionHeader, SessionId, packed, text};
use crate::seam::Error;

/// The type of the event that ends a turn: a proof that what stands before it was stored as a whole.
const TURN_END: &str = "turn/end";

/// The query for all rows of a session, in their order.
pub(super) fn all(schema: Schema) -> String {
    select(schema, "ORDER BY seq")
}

fn select(schema: Schema, rest: &str) -> String {
    let ignorable = if schema == Schema::V14 { "NULL" } else { "ignorable" };
    format!(
        "SELECT seq, type, time, data, source_event_seqs, surface_op, {ignorable} FROM events WHERE session_id = ? {rest}"
    )
}

/// The seq of the last event that ends a turn and can be read.
pub(super) fn last_finished(source: &Source, session: &SessionId) -> rusqlite::Result<Option<i64>> {
    let query = select(source.schema(), &format!("AND type = '{TURN_END}' ORDER BY seq DESC"));
    let mut statement = source.connection().prepare(&query)?;
    let mut rows = statement.query([session.as_str()])?;
    while let Some(row) = rows.next()? {
        if events(source.schema(), row).is_ok() {
            return row.get(0).map(Some);
        }
    }
    Ok(None)
}

/// The events of one session.
pub(super) struct Rows<'a> {
    source: &'a Source,
    session: &'a SessionId,
    rows: rusqlite::Rows<'a>,
    finished: Option<i64>,
    next: u64,
    waiting: VecDeque<SessionEvent>,
    unpacking: Unpacking,
    is_done: bool,
}

impl<'a> Rows<'a> {
    pub(super) fn new(
        source: &'a Source,
        header: &'a SessionHeader,
        rows: rusqlite::Rows<'a>,
        finished: Option<i64>,
    ) -> Self {
        Self {
            source,
            session: header.id(),
            rows,
            finished,
            next: 0,
            waiting: VecDeque::new(),
            unpacking: Unpacking::default(),
            is_done: false,
        }
    }

    /// The events of the next row; none at the end of the log.
    fn next_row(&mut self) -> Result<VecDeque<SessionEvent>, ImportError> {
        let (source, session) = (self.source, self.session);
        let schema = source.schema();
        let row = self.rows.next().map_err(|error| failure(source, session, error))?;
        let Some(row) = row else { return Ok(VecDeque::new()) };
        let seq = row.get(0).unwrap_or(-1);
        let found = events(schema, row).and_then(|events| {
            let starts_at = events.first().map_or(0, |event| event.seq().get());
            match events.last() {
                Some(last) if starts_at == self.next => {
                    self.next = last.seq().get() + 1;
                    self.unpacking.add(&events)?;
                    Ok(events)
                }
                _ => Err(InvalidRecord::new(format!("seq {starts_at} stands where {} comes next", self.next))),
            }
        });
        match found {
            Ok(events) => Ok(events.into()),
            Err(broken) if self.finished.is_some_and(|finished| seq <= finished) => {
                let reason = broken.reason().to_owned();
                Err(corrupt(source, session, Seq::new(self.next), reason))
            }
            Err(broken) => {
                log::warn!(
                    "{}: session {:?}: what stands from seq {} on was never finished and is left out ({broken})",
                    source.name(),
                    session,
                    self.next
                );
                Ok(VecDeque::new())
            }
        }
    }
}

/// A failure of SQLite while a session is read.
pub(super) fn failure(source: &Source, session: &SessionId, error: rusqlite::Error) -> ImportError {
    if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) {
        return corrupt(source, session, None, error.to_string());
    }
    let error = Error::Io {
        session: Some(session.clone()),
        operation: "reading the database".to_owned(),
        source: error.into(),
    };
    ImportError::Source { file: source.name().to_owned(), session: session.clone(), source: Box::new(error) }
}

fn corrupt(source: &Source, session: &SessionId, seq: Option<Seq>, reason: String) -> ImportError {
    let error = Error::Corruption { session: session.clone(), seq, offset: None, reason };
    ImportError::Source { file: source.name().to_owned(), session: session.clone(), source: Box::new(error) }
}

impl Incoming for Rows<'_> {
    fn next_event(&mut self) -> Result<Option<SessionEvent>, ImportError> {
        if self.waiting.is_empty() && !self.is_done {
            self.waiting = self.next_row()?;
            if self.waiting.is_empty() {
                self.is_done = true;
                self.source.check_unchanged()?;
            }
        }
        Ok(self.waiting.pop_front())
    }
}

/// The events that a row stands for, at least one.
fn events(schema: Schema, row: &Row<'_>) -> Result<Vec<SessionEvent>, InvalidRecord> {
    let seq = whole("seq", value(row, 0)?)?;
    let seq = u64::try_from(seq).map_err(|_| InvalidRecord::new(format!("seq {seq} is none")))?;
    let time = whole("time", value(row, 2)?)?;
    let event_type = words("type", value(row, 1)?)?;
    let unpacked;
    let data = match (schema, value(row, 3)?) {
        (Schema::V17, ValueRef::Blob(packed)) => {
            unpacked = unpack(packed)?;
            &*unpacked
        }
        (_, plain) => words("data", plain)?,
    };
    let ignorable = match value(row, 6)? {
        ValueRef::Null => false,
        ValueRef::Integer(1) => true,
        ValueRef::Integer(0) => {
            if value(row, 4)? != ValueRef::Null || value(row, 5)? != ValueRef::Null {
                return Err(InvalidRecord::new("a row that packs several events cites or replaces none"));
            }
            return packed::expand(event_type, seq, time, data);
        }
        _ => return Err(InvalidRecord::new("ignorable is neither 0 nor 1")),
    };
    let sources = match (schema, value(row, 4)?) {
        (_, ValueRef::Null) => None,
        (Schema::V14, plain) => Some(one_value("sourceEventSeqs", words("sourceEventSeqs", plain)?)?),
        (Schema::V17, ValueRef::Blob(bytes)) => {
            let seqs: Vec<_> = seqs(bytes)?.iter().map(u64::to_string).collect();
            Some(format!("[{}]", seqs.join(",")))
        }
        (Schema::V17, _) => return Err(InvalidRecord::new("sourceEventSeqs are no list in bytes")),
    };
    let surface_op = match value(row, 5)? {
        ValueRef::Null => None,
        plain => Some(one_value("surfaceOp", words("surfaceOp", plain)?)?),
    };
    // As one line, so that an event from here is held to the very rules of one from a file.
    let mut line =
        format!("{{\"type\":{},\"seq\":{seq},\"time\":{time},\"data\":", serde_json::Value::from(event_type));
    line += &one_value("data", data)?;
    for (key, value) in [("sourceEventSeqs", sources), ("surfaceOp", surface_op)] {
        if let Some(value) = value {
            line += &format!(",\"{key}\":{value}");
        }
    }
    line += if ignorable { ",\"ignorable\":true}" } else { "}" };
    text::parse_event(line.as_bytes()).map(|event| vec![event])
}

fn value<'a>(row: &'a Row<'_>, index: usize) -> Result<ValueRef<'a>, InvalidRecord> {
    row.get_ref(index).map_err(|e| InvalidRecord::new(e.to_string()))
}

fn whole(key: &str, value: ValueRef<'_>) -> Result<i64, InvalidRecord> {
    value.as_i64().map_err(|_| InvalidRecord::new(format!("{key} is no whole number")))
}

fn words<'a>(key: &str, value: ValueRef<'a>) -> Result<&'a str, InvalidRecord> {
    value.as_str().map_err(|_| InvalidRecord::new(format!("{key} is no text")))
}

/// Checks that a text is one value of JSON, and so ends where it seems to.
fn one_value(key: &str, text: &str) -> Result<String, InvalidRecord> {
    Json::parse(text)
        .map(|json| json.as_str().to_owned())
        .map_err(|error| InvalidRecord::new(format!("{key} is {error}")))
}
