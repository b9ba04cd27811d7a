//! [`Watermark`]: how far a session is indexed.

use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::xxh3_128;

use crate::log::{SessionEvent, SessionHeader, SessionId};
use crate::seam::SessionHandle;

/// How far a session is indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Watermark {
    /// The row of the session; another one once it was indexed anew.
    pub(super) number: i64,
    pub(super) revision: Option<String>,
    pub(super) events: u64,
    pub(super) checksum: Vec<u8>,
    pub(super) inherited: u64,
    pub(super) problem: Option<String>,
}

impl Watermark {
    pub(super) fn of(connection: &Connection, id: &SessionId) -> Result<Option<Self>, rusqlite::Error> {
        let sql = "SELECT number, revision, events, checksum, inherited, problem FROM session WHERE id = ?";
        let mut statement = connection.prepare_cached(sql)?;
        let row = statement.query_row([id.as_str()], |row| {
            Ok(Self {
                number: row.get(0)?,
                revision: row.get(1)?,
                events: row.get(2)?,
                checksum: row.get(3)?,
                inherited: row.get(4)?,
                problem: row.get(5)?,
            })
        });
        row.optional()
    }

    /// That of a session of which nothing is indexed.
    pub(super) fn start(
        connection: &Connection,
        id: &SessionId,
        header: Option<&SessionHeader>,
        inherited: u64,
    ) -> Result<Self, rusqlite::Error> {
        let checksum = header.map(|header| checksum(header, None)).unwrap_or_default();
        connection
            .prepare_cached(
                "INSERT INTO session (id, events, checksum, inherited, created_at, cwd, parent) VALUES (?, 0, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                id.as_str(),
                checksum,
                inherited,
                header.map(SessionHeader::created_at),
                header.and_then(SessionHeader::cwd),
                header.and_then(SessionHeader::parent_session),
            ])?;
        let number = connection.last_insert_rowid();
        Ok(Self { number, revision: None, events: 0, checksum, inherited, problem: None })
    }

    /// Whether a log starts with what is indexed: its header and the last event of that are the same.
    pub(super) fn fits(&self, handle: &dyn SessionHandle, last: Option<&SessionEvent>) -> bool {
        self.inherited == handle.inherited_event_count()
            && (self.events == 0 || last.is_some())
            && self.checksum == checksum(handle.header(), last)
    }

    pub(super) fn store(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let sql = "UPDATE session SET revision = ?, events = ?, checksum = ?, problem = ? WHERE number = ?";
        connection
            .prepare_cached(sql)?
            .execute(params![self.revision, self.events, self.checksum, self.problem, self.number])
            .map(drop)
    }

    /// Forgets all that is indexed of a session.
    pub(super) fn remove(connection: &Connection, number: i64) -> Result<(), rusqlite::Error> {
        for sql in [
            "DELETE FROM letters WHERE rowid IN (SELECT number FROM document WHERE session = ?)",
            "DELETE FROM document WHERE session = ?",
            "DELETE FROM count WHERE session = ?",
            "DELETE FROM session WHERE number = ?",
        ] {
            connection.prepare_cached(sql)?.execute([number])?;
        }
        Ok(())
    }
}

/// The checksum of a header and an event's line.
pub(super) fn checksum(header: &SessionHeader, last: Option<&SessionEvent>) -> Vec<u8> {
    let mut lines = header.to_line();
    if let Some(last) = last {
        lines.push('\n');
        lines.push_str(&last.to_line());
    }
    xxh3_128(lines.as_bytes()).to_be_bytes().into()
}
