//! [`Source`]: a database that is read without a trace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};
use tempfile::TempDir;

use super::Schema;
use crate::backend::{self, Mode, beside, open_read_only};
use crate::export::ImportError;

/// What SQLite keeps beside a database that holds changes of it.
const BESIDE: [&str; 2] = ["-wal", "-journal"];

/// A database of DeepSeek Harness.
pub(in crate::export) struct Source {
    name: String,
    schema: Schema,
    connection: Connection,
    /// What is read in place and must not change meanwhile; nothing of a copy.
    watched: Option<(PathBuf, Stamp)>,
    // Dropped behind the connection.
    _copy: Option<TempDir>,
}

/// What a file is, as far as databases go.
pub(in crate::export) enum Found {
    Dsh(Box<Source>),
    /// A database that is not for import, with the reason.
    Other(String),
    NoDatabase,
}

impl Source {
    /// Looks at a file. SQLite opens it, and nobody else: to close a database that this process has open too would give
    /// up the locks on it.
    pub(in crate::export) fn find(path: &Path) -> Result<Found, ImportError> {
        let name = path.display().to_string();
        let unreadable = |source| ImportError::Unreadable { file: name.clone(), source };
        let real = fs::canonicalize(path).map_err(unreadable)?;
        let connection = open_read_only(&real, Mode::Immutable).map_err(|e| unreadable(io::Error::other(e)))?;
        let number = |pragma| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
        let application = match number("PRAGMA application_id") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => return Ok(Found::NoDatabase),
            other => other.map_err(|e| unreadable(io::Error::other(e)))?,
        };
        if fs::metadata(&real).map_err(unreadable)?.len() == 0 {
            return Ok(Found::NoDatabase);
        }
        if application == backend::SQLITE_APPLICATION_ID {
            let reason = "is a store of sessions; copy from it (`sessions --store THIS copy --to THAT`)";
            return Ok(Found::Other(reason.to_owned()));
        }
        if application != backend::DSH_APPLICATION_ID {
            return Ok(Found::Other(format!(
                "is an SQLite database of another program (application id {application:#010x}), which holds no sessions \
                 that are known here"
            )));
        }
        drop(connection);
        Self::open(name, real)
    }

    fn open(name: String, real: PathBuf) -> Result<Found, ImportError> {
        let unreadable = |source| ImportError::Unreadable { file: name.clone(), source };
        let stamp = Stamp::of(&real).map_err(unreadable)?;
        let copy = if stamp.has_changes_beside() { Some(copy(&real, &stamp).map_err(unreadable)?) } else { None };
        let connection = match &copy {
            Some(folder) => Connection::open(folder.path().join(COPY)),
            None => open_read_only(&real, Mode::Immutable),
        };
        let connection = connection.and_then(|connection| {
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
            connection.pragma_update(None, "query_only", true)?;
            connection.pragma_update(None, "cell_size_check", true)?;
            Ok(connection)
        });
        let connection = connection.map_err(|e| unreadable(io::Error::other(e)))?;
        let version = connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
        let version = version.map_err(|e| unreadable(io::Error::other(e)))?;
        let Some(schema) = Schema::of(version) else {
            return Ok(Found::Other(format!(
                "is a database of DeepSeek Harness with schema version {version}; the versions 14 and 17 are known here"
            )));
        };
        // A view or a virtual table of that name could run anything.
        let tables = "SELECT count(*) FROM pragma_table_list \
             WHERE schema = 'main' AND type = 'table' AND name IN ('sessions', 'events')";
        let tables = connection.query_row(tables, [], |row| row.get::<_, i64>(0));
        if tables.map_err(|e| unreadable(io::Error::other(e)))? != 2 {
            return Ok(Found::Other(format!(
                "calls itself a database of DeepSeek Harness with schema version {version} and does not have its tables"
            )));
        }
        let watched = copy.is_none().then_some((real, stamp));
        Ok(Found::Dsh(Box::new(Self { name, schema, connection, watched, _copy: copy })))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn schema(&self) -> Schema {
        self.schema
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn foreign(&self, reason: String) -> ImportError {
        ImportError::Foreign { file: self.name.clone(), reason }
    }

    /// Checks that what was read so far was not written meanwhile: reading takes no lock.
    pub(super) fn check_unchanged(&self) -> Result<(), ImportError> {
        let Some((path, stamp)) = &self.watched else { return Ok(()) };
        let now = Stamp::of(path).map_err(|source| ImportError::Unreadable { file: self.name.clone(), source })?;
        if now == *stamp {
            return Ok(());
        }
        let reason = "was written by another program while it was read; close that program and import again";
        Err(self.foreign(reason.to_owned()))
    }
}

const COPY: &str = "copy.db";

/// Copies a database with what stands beside it, so that SQLite can put the two together without touching the source.
fn copy(real: &Path, stamp: &Stamp) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("sessions-").tempdir()?;
    fs::copy(real, folder.path().join(COPY))?;
    for (end, state) in BESIDE.iter().zip(&stamp.beside) {
        if state.is_some() {
            fs::copy(beside(real, end), folder.path().join(format!("{COPY}{end}")))?;
        }
    }
    if Stamp::of(real)? != *stamp {
        return Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another program writes it; close that program and import again",
        ));
    }
    Ok(folder)
}

/// The state of a database file and of those beside it.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    database: FileState,
    beside: [Option<FileState>; BESIDE.len()],
}

type FileState = (u64, SystemTime);

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let state = |path: &Path| -> io::Result<FileState> {
            let found = fs::metadata(path)?;
            Ok((found.len(), found.modified()?))
        };
        let mut stamp = Self { database: state(path)?, beside: [None; BESIDE.len()] };
        for (end, found) in BESIDE.iter().zip(&mut stamp.beside) {
            match state(&beside(path, end)) {
                Ok(state) => *found = Some(state),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(stamp)
    }

    fn has_changes_beside(&self) -> bool {
        self.beside.iter().flatten().any(|(length, _)| *length > 0)
    }
}
