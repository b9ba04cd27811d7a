//! [`Watermark`]: how far a session is indexed.

use rusqlite::{Connection, OptionalExtension, params};

use super::IndexResult;
use super::file::IndexFile;
use crate::log::{LogDigest, SessionHeader, SessionId};
use crate::seam::Snapshot;

/// How far a session is indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Watermark {
    /// The row of the session; another one once it was indexed anew.
    pub(super) number: i64,
    pub(super) revision: Option<String>,
    pub(super) events: u64,
    /// Of the header and all that is indexed.
    pub(super) digest: LogDigest,
    pub(super) inherited: u64,
    pub(super) problem: Option<String>,
}

impl Watermark {
    pub(super) fn of(connection: &Connection, id: &SessionId) -> Result<Option<Self>, rusqlite::Error> {
        let sql = "SELECT number, revision, events, seed, digest, inherited, problem FROM session WHERE id = ?";
        let mut statement = connection.prepare_cached(sql)?;
        let row = statement.query_row([id.as_str()], |row| {
            Ok(Self {
                number: row.get(0)?,
                revision: row.get(1)?,
                events: row.get(2)?,
                digest: LogDigest::from_parts(
                    row.get::<_, i64>(3)?.cast_unsigned(),
                    row.get::<_, i64>(4)?.cast_unsigned(),
                ),
                inherited: row.get(5)?,
                problem: row.get(6)?,
            })
        });
        row.optional()
    }

    /// That of a session of which nothing is indexed. Without a header its digest is that of no log: once the session can be
    /// read, by a newer build too, it is indexed.
    pub(super) fn start(
        connection: &Connection,
        session: &Snapshot,
        header: Option<&SessionHeader>,
        inherited: u64,
    ) -> Result<Self, rusqlite::Error> {
        let seed = session.digest.map_or(0, |digest| digest.parts().0);
        let digest = header.map_or(LogDigest::from_parts(seed, 0), |header| LogDigest::new(header, seed));
        let header = header.or(session.header.as_ref());
        let sql = "INSERT INTO session (id, events, seed, digest, inherited, cwd, parent) VALUES (?, 0, ?, ?, ?, ?, ?)";
        connection.prepare_cached(sql)?.execute(params![
            session.id.as_str(),
            digest.parts().0.cast_signed(),
            digest.parts().1.cast_signed(),
            inherited,
            header.and_then(SessionHeader::cwd),
            header.and_then(SessionHeader::parent_session),
        ])?;
        let number = connection.last_insert_rowid();
        Ok(Self { number, revision: None, events: 0, digest, inherited, problem: None })
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

    pub(super) fn store(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let sql = "UPDATE session SET revision = ?, events = ?, digest = ?, problem = ? WHERE number = ?";
        connection
            .prepare_cached(sql)?
            .execute(params![
                self.revision,
                self.events,
                self.digest.parts().1.cast_signed(),
                self.problem,
                self.number
            ])
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
