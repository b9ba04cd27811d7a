//! The databases in which DeepSeek Harness keeps sessions: read, never written.

mod encoding;
mod rows;
mod source;

use std::path::Path;

use rusqlite::Connection;

use self::rows::Rows;
pub(super) use self::source::{Found, Source};
use super::deposit::deposit;
use super::{ImportError, ImportOptions, Imported, Tally};
use crate::log::{InvalidRecord, SessionHeader};
use crate::seam::SessionPersistence;

/// The layouts of such a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Schema {
    /// Version 14: one row an event, all of it text.
    V14,
    /// Version 17: data that may be compressed, rows that may stand for several events.
    V17,
}

impl Schema {
    /// The layout of a schema version.
    fn of(version: i64) -> Option<Self> {
        match version {
            14 => Some(Self::V14),
            17 => Some(Self::V17),
            _ => None,
        }
    }
}

/// Imports the sessions of a database of DeepSeek Harness, those with the oldest last event first, each by the
/// rules of
/// [`import_reader`](super::import_reader) and whatever becomes of the others. Schema versions 14 and 17.
///
/// The database is only read: not a byte of it changes, and no file is left beside it. Where another program left
/// changes beside it (a `-wal` or `-journal`), a copy in the folder for temporary files is read. Such a database keeps no
/// key order of the envelope, so its events have the usual one. Rows behind the last finished turn that cannot be read
/// were never finished: they are left out, with a warning in the log; before that they are damage.
///
/// `report` is told of each session, or of the one error that refuses the database.
pub fn import_database(
    store: &dyn SessionPersistence,
    path: &Path,
    options: ImportOptions,
    report: &mut dyn FnMut(Result<Imported, ImportError>),
) -> Tally {
    Tally::of(report, |tell| {
        let foreign = |reason| ImportError::Foreign { file: path.display().to_string(), reason };
        match Source::find(path)? {
            Found::Dsh(source) => import_source(store, &source, options, tell),
            Found::Other(reason) => Err(foreign(reason)),
            Found::NoDatabase => Err(foreign("is no SQLite database".to_owned())),
        }
    })
}

/// The same of a database that was found already.
pub(super) fn import_source(
    store: &dyn SessionPersistence,
    source: &Source,
    options: ImportOptions,
    tell: &mut dyn FnMut(Result<Imported, ImportError>),
) -> Result<(), ImportError> {
    let sessions = sessions(source.connection())
        .map_err(|e| source.foreign(format!("cannot be read as a database of DeepSeek Harness: {e}")))?;
    for session in sessions {
        tell(import_session(store, source, session, options));
    }
    Ok(())
}

fn import_session(
    store: &dyn SessionPersistence,
    source: &Source,
    session: Session,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    let header = session.header().map_err(|e| ImportError::Header {
        file: source.name().to_owned(),
        session: session.id.clone(),
        reason: e.to_string(),
    })?;
    let failed = |error| rows::failure(source, header.id(), error);
    let finished = rows::last_finished(source, header.id()).map_err(failed)?;
    let mut statement = source.connection().prepare(&rows::all(source.schema())).map_err(failed)?;
    let rows = statement.query([header.id().as_str()]).map_err(failed)?;
    let rows = Rows::new(source, &header, rows, finished);
    deposit(store, source.name(), header.clone(), rows, options)
}

/// A session as its row has it.
struct Session {
    id: String,
    version: i64,
    created_at: i64,
    cwd: Option<String>,
    parent_session: Option<String>,
    seed_length: Option<i64>,
    origin: Option<String>,
    delegation_depth: Option<i64>,
    agent_preset: Option<String>,
}

fn sessions(connection: &Connection) -> rusqlite::Result<Vec<Session>> {
    let mut statement = connection.prepare(
        "SELECT id, version, created_at, cwd, parent_session, seed_length, origin, delegation_depth, agent_preset \
         FROM sessions ORDER BY coalesce((SELECT time FROM events WHERE session_id = sessions.id \
         ORDER BY seq DESC LIMIT 1), created_at), id",
    )?;
    let sessions = statement.query_map([], |row| {
        Ok(Session {
            id: row.get(0)?,
            version: row.get(1)?,
            created_at: row.get(2)?,
            cwd: row.get(3)?,
            parent_session: row.get(4)?,
            seed_length: row.get(5)?,
            origin: row.get(6)?,
            delegation_depth: row.get(7)?,
            agent_preset: row.get(8)?,
        })
    })?;
    sessions.collect()
}

impl Session {
    /// The header line that the values stand for.
    fn header(&self) -> Result<SessionHeader, InvalidRecord> {
        let mut line = "{\"type\":\"session\"".to_owned();
        let mut entry = |key: &str, value: Option<serde_json::Value>| {
            if let Some(value) = value {
                line += &format!(",\"{key}\":{value}");
            }
        };
        entry("version", Some(self.version.into()));
        entry("id", Some(self.id.as_str().into()));
        entry("createdAt", Some(self.created_at.into()));
        entry("cwd", self.cwd.as_deref().map(Into::into));
        entry("parentSession", self.parent_session.as_deref().map(Into::into));
        entry("seedLength", self.seed_length.map(Into::into));
        entry("origin", self.origin.as_deref().map(Into::into));
        entry("delegationDepth", self.delegation_depth.map(Into::into));
        entry("agentPreset", self.agent_preset.as_deref().map(Into::into));
        SessionHeader::parse((line + "}").as_bytes())
    }
}
