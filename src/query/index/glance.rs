//! [`known_facts`]: what an index knows of many sessions, for whoever does not keep it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{Counts, IndexError, IndexResult, SessionFacts};
use crate::log::SessionId;
use crate::seam::Snapshot;

/// What an index says of itself that this build reads.
const KNOWN: (u32, i64) = (0x5365_4964, 1);

/// Whoever closes the file as the last one has it alone for a moment.
const MOMENT: Duration = Duration::from_millis(250);

/// What the index in a file knows of sessions, of each at exactly the revision that its snapshot tells and only where all of
/// it is indexed. One statement, whatever the number of sessions.
///
/// The index is neither made nor brought up to date, nor made anew where it is damaged, and nobody is waited for: an absent
/// file knows nothing.
///
/// # Errors
///
/// `Busy` where the file is being made anew or closed; `NotAnIndex`, `Damaged`, `Failed`.
pub fn known_facts(path: impl AsRef<Path>, sessions: &[Snapshot]) -> IndexResult<HashMap<SessionId, SessionFacts>> {
    let path = path.as_ref();
    let mut name = OsString::from(path);
    name.push("-lock");
    // Held for sharing while the file is open: nobody puts another one in its place meanwhile.
    let (Ok(true), Ok(lock)) = (path.try_exists(), File::open(&name)) else { return Ok(HashMap::new()) };
    match lock.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(IndexError::Busy { path: path.to_owned() }),
        Err(TryLockError::Error(e)) => {
            return Err(IndexError::Failed { path: path.to_owned(), reason: e.to_string() });
        }
    }
    let looked = look(path, sessions);
    drop(lock);
    match looked.map_err(|e| failure(path, &e))? {
        Some(known) => Ok(known),
        None => {
            let reason = "it is a database of another kind, or of another build".to_owned();
            Err(IndexError::NotAnIndex { path: path.to_owned(), reason })
        }
    }
}

fn failure(path: &Path, error: &rusqlite::Error) -> IndexError {
    let (path, reason) = (path.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => IndexError::Busy { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => IndexError::Damaged { path, reason },
        _ => IndexError::Failed { path, reason },
    }
}

fn look(path: &Path, sessions: &[Snapshot]) -> Result<Option<HashMap<SessionId, SessionFacts>>, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(MOMENT)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.pragma_update(None, "query_only", true)?;
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) = KNOWN;
    if (pragma("application_id")?, pragma("user_version")?) != (i64::from(application), version) {
        return Ok(None);
    }
    let asked: HashMap<&str, &Snapshot> = sessions.iter().map(|session| (session.id.as_str(), session)).collect();
    let names = serde_json::Value::from(asked.keys().copied().collect::<Vec<_>>()).to_string();
    let sql = format!(
        "SELECT s.id, revision, title, is_open, first_time, last_time, is_inherited, count.{} \
         FROM json_each(?) AS asked CROSS JOIN session AS s ON s.id = asked.value \
         LEFT JOIN count ON count.session = s.number WHERE problem IS NULL",
        Counts::COLUMNS.join(", count.")
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([names])?;
    let mut known: HashMap<SessionId, SessionFacts> = HashMap::new();
    while let Some(row) = rows.next()? {
        let (id, revision): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        let Some(snapshot) = asked.get(&*id).filter(|s| Some(s.revision.as_str()) == revision.as_deref()) else {
            continue;
        };
        if !known.contains_key(&snapshot.id) {
            let facts = SessionFacts {
                session: snapshot.id.clone(),
                title: row.get(2)?,
                is_interrupted: row.get(3)?,
                is_blank: true,
                first_time: row.get(4)?,
                last_time: row.get(5)?,
                problem: None,
                own: Counts::default(),
                inherited: Counts::default(),
            };
            known.insert(snapshot.id.clone(), facts);
        }
        let (Some(facts), Some(is_inherited)) = (known.get_mut(&snapshot.id), row.get::<_, Option<bool>>(6)?) else {
            continue;
        };
        let counts = Counts::read(row, 7)?;
        facts.is_blank &= counts.user_messages + counts.turns == 0;
        if is_inherited { &mut facts.inherited } else { &mut facts.own }.add(&counts);
    }
    Ok(Some(known))
}
