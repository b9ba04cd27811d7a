//! [`Context`]: SQLite's failures as errors of the seam, in this one place.

use std::ops::Range;
use std::path::Path;

use rusqlite::ErrorCode;

use super::super::runtime::writer_of;
use super::side_files::beside;
use crate::log::{Seq, SessionId};
use crate::seam::{Error, Source};

/// The bytes that SQLite locks, as its documents of the file format and of the WAL have them: of the -shm file to write, to
/// copy the WAL and to recover it, and of the database in any mode.
const WAL_LOCKS: Range<u64> = 120..123;
const FILE_LOCKS: Range<u64> = 0x4000_0000..0x4000_0200;

/// Which store and which session a failure is about.
#[derive(Clone)]
pub(super) struct Context<'a> {
    store: &'a Path,
    session: Option<SessionId>,
}

impl<'a> Context<'a> {
    pub(super) fn store(store: &'a Path) -> Self {
        Self { store, session: None }
    }

    pub(super) fn session(self, id: &SessionId) -> Self {
        Self { session: Some(id.clone()), ..self }
    }

    pub(super) fn sqlite(&self, error: rusqlite::Error) -> Error {
        let code = error.sqlite_error_code();
        let store = || self.store.display().to_string();
        let session = self.session.clone();
        match code {
            Some(ErrorCode::ConstraintViolation) if let Some(session) = &session => {
                corruption(session, None, format!("its rows contradict its counters: {error}"))
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Error::StoreBusy { session, store: store(), holder: self.holder(), source: Some(error.into()) }
            }
            // Making the -shm file on a full disk fails like this.
            _ if error.sqlite_error().is_some_and(|e| e.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE) => {
                Error::StorageFull { session, store: store(), source: Some(error.into()) }
            }
            Some(ErrorCode::DiskFull) => Error::StorageFull { session, store: store(), source: Some(error.into()) },
            Some(ErrorCode::CannotOpen) if let Some(failure) = self.out_of_files() => failure,
            Some(ErrorCode::CannotOpen) if let Some(reason) = unreadable(self.store) => self.read_only(reason),
            // A database that exists cannot be opened for the lack of a right: of the file, or to make the files beside it.
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Error::StorageReadOnly { session, store: store(), source: Some(error.into()) }
            }
            Some(ErrorCode::NotADatabase) => self.unsupported("it is not a SQLite database", Some(error.into())),
            Some(ErrorCode::DatabaseCorrupt) if let Some(session) = &session => {
                corruption(session, None, format!("SQLite finds {} malformed: {error}", store()))
            }
            Some(ErrorCode::DatabaseCorrupt) => self.unsupported(
                "SQLite finds the file malformed; copy it away with its -wal, then restore a backup, or run .recover of a \
                 sqlite3 that is built with SQLITE_ENABLE_DBPAGE_VTAB on the copy: what that gives is a store only where \
                 all tables came back whole, else write its events out as a log and import that",
                Some(error.into()),
            ),
            Some(ErrorCode::TooBig) => Error::InvalidArgument {
                session,
                reason: "a value is larger than SQLite holds; store it outside and keep a reference".to_owned(),
            },
            _ => Error::Io { session, operation: format!("using the store {}", store()), source: error.into() },
        }
    }

    /// Somebody is in the way for longer than is waited.
    pub(super) fn busy(&self) -> Error {
        let (session, store) = (self.session.clone(), self.store.display().to_string());
        Error::StoreBusy { session, store, holder: self.holder(), source: None }
    }

    /// This process itself is in the way for longer than is waited.
    pub(super) fn busy_here(&self, reason: String) -> Error {
        let (session, store) = (self.session.clone(), self.store.display().to_string());
        Error::StoreBusy { session, store, holder: None, source: Some(reason.into()) }
    }

    /// The failure that no file at all can be opened, which SQLite tells as one of the database.
    pub(super) fn out_of_files(&self) -> Option<Error> {
        let failed = std::fs::File::open(ANY_FILE).err()?;
        let operation = format!("opening the store {}", self.store.display());
        let error = Error::Io { session: self.session.clone(), operation, source: failed.into() };
        error.is_out_of_files().then_some(error)
    }

    /// Who holds a lock of SQLite's for writing.
    fn holder(&self) -> Option<u32> {
        writer_of(&beside(self.store, "-shm"), WAL_LOCKS).or_else(|| writer_of(self.store, FILE_LOCKS))
    }

    /// The store cannot be written, and what was asked for cannot be had without.
    pub(super) fn read_only(&self, reason: impl Into<Source>) -> Error {
        let (session, store) = (self.session.clone(), self.store.display().to_string());
        Error::StorageReadOnly { session, store, source: Some(reason.into()) }
    }

    pub(super) fn io(&self, operation: &str, error: std::io::Error) -> Error {
        let store = self.store.display().to_string();
        let operation = format!("{operation} {store}");
        match Error::of_io(self.session.clone(), store, operation, error) {
            Error::StorageReadOnly { session, store, source } => {
                let source = unreadable(self.store).map(Source::from).or(source);
                Error::StorageReadOnly { session, store, source }
            }
            other => other,
        }
    }

    pub(super) fn invalid(&self, reason: impl Into<String>) -> Error {
        Error::InvalidArgument { session: self.session.clone(), reason: reason.into() }
    }

    pub(super) fn unsupported(&self, reason: impl Into<String>, source: Option<Source>) -> Error {
        Error::UnsupportedStore { store: self.store.to_owned(), reason: reason.into(), source }
    }
}

/// A file that everybody can open, and whose locks nobody has.
const ANY_FILE: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

/// Which right is missing to read a file, and to which file or folder.
#[cfg(unix)]
fn unreadable(path: &Path) -> Option<String> {
    use rustix::fs::{Access, access};
    let mut folders: Vec<_> = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()).collect();
    folders.reverse();
    for folder in folders {
        if access(folder, Access::EXEC_OK) == Err(rustix::io::Errno::ACCESS) {
            return Some(format!("the folder {} cannot be entered", folder.display()));
        }
    }
    (access(path, Access::READ_OK) == Err(rustix::io::Errno::ACCESS))
        .then(|| format!("the file {} cannot be read", path.display()))
}

#[cfg(not(unix))]
fn unreadable(_: &Path) -> Option<String> {
    None
}

/// Stored data that is not what was stored.
pub(super) fn corruption(session: &SessionId, seq: Option<u64>, reason: impl Into<String>) -> Error {
    Error::Corruption { session: session.clone(), seq: seq.and_then(Seq::new), offset: None, reason: reason.into() }
}
