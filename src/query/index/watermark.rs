//! [`Watermark`]: how far a session is indexed.

use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::xxh3_128;

use super::IndexResult;
use super::file::IndexFile;
use crate::log::{SessionEvent, SessionHeader, SessionId};
use crate::seam::{SessionHandle, Snapshot};

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
                "INSERT INTO session (id, events, checksum, inherited, cwd, parent) VALUES (?, 0, ?, ?, ?, ?)",
            )?
            .execute(params![
                id.as_str(),
                checksum,
                inherited,
                header.and_then(SessionHeader::cwd),
                header.and_then(SessionHeader::parent_session),
            ])?;
        let number = connection.last_insert_rowid();
        Ok(Self { number, revision: None, events: 0, checksum, inherited, problem: None })
    }

    /// Whether all is indexed that a session held when it was looked at.
    pub(super) fn is_at(&self, session: &Snapshot) -> bool {
        self.revision.as_deref() == Some(session.revision.as_str())
    }

    /// The sessions of which not all is indexed, by id, and why.
    pub(super) fn problems(file: &IndexFile) -> IndexResult<Vec<(SessionId, String)>> {
        file.filled()?;
        let read = || {
            let sql = "SELECT id, problem FROM session WHERE problem IS NOT NULL ORDER BY id";
            let mut statement = file.connection.prepare_cached(sql)?;
            let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
            rows.collect::<Result<Vec<(String, String)>, _>>()
        };
        let rows = read().map_err(|e| file.failure(&e))?;
        let named = rows.into_iter().map(|(id, problem)| Some((SessionId::new(&id).ok()?, problem)));
        named.collect::<Option<_>>().ok_or_else(|| file.damaged("it names a session with what is no id".to_owned()))
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
