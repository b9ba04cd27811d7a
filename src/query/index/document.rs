//! [`Document`]: what can be found of one event.

use rusqlite::{Connection, params};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::super::literal_text::folded;
use crate::log::SessionEvent;

/// What can be found of one event.
pub(super) struct Document<'a> {
    /// The row of its session.
    pub(super) session: i64,
    pub(super) seq: i64,
    pub(super) time: i64,
    pub(super) event_type: &'a str,
    pub(super) text: &'a str,
}

impl<'a> Document<'a> {
    pub(super) fn of(session: i64, event: &'a SessionEvent, text: &'a str) -> Self {
        Self { session, seq: event.seq().get().cast_signed(), time: event.time(), event_type: event.event_type(), text }
    }

    /// What SQLite does not notice, a text that is not what was stored, shows here.
    pub(super) fn checksum(&self) -> i64 {
        let mut sum = 0;
        for number in [self.session, self.seq, self.time] {
            sum = xxh3_64_with_seed(&number.to_le_bytes(), sum);
        }
        for text in [self.event_type, self.text] {
            sum = xxh3_64_with_seed(text.as_bytes(), sum);
        }
        sum.cast_signed()
    }

    pub(super) fn store(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let Self { session, seq, time, event_type, text } = *self;
        let sql = "INSERT INTO document (session, seq, time, type, text, checksum) VALUES (?, ?, ?, ?, ?, ?)";
        connection.prepare_cached(sql)?.execute(params![session, seq, time, event_type, text, self.checksum()])?;
        let number = connection.last_insert_rowid();
        let sql = "INSERT INTO letters (rowid, text) VALUES (?, ?)";
        connection.prepare_cached(sql)?.execute(params![number, letters(text)]).map(drop)
    }
}

/// A text as it is indexed: in no language is a letter lost to the case of another.
pub(super) fn letters(text: &str) -> String {
    without_nul(&folded(text))
}

/// SQLite ends a text at the first NUL.
pub(super) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
