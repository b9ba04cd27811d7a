//! [`Place`]: the store that the command works on.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::backend::side_files;
use crate::seam::{Error, SessionPersistence};
use crate::{BackupReport, CompactReport, Encoding, Journal, JsonlOptions, JsonlStore, SqliteOptions, SqliteStore};

const DEFAULT: &str = "sessions.db";
const VARIABLE: &str = "SESSIONS_STORE";

/// Where a store is, as the user said it or as it is by default.
pub(super) struct Place {
    name: OsString,
    is_given: bool,
}

impl Place {
    /// The place that was given with the call, else that of the environment, else the default.
    pub(super) fn new(given: Option<OsString>) -> Self {
        let is_given = given.is_some();
        let of_environment = || std::env::var_os(VARIABLE).filter(|v| !v.is_empty());
        Self { name: given.or_else(of_environment).unwrap_or_else(|| DEFAULT.into()), is_given }
    }

    /// The same place where it was given with the call, and another where it was not.
    pub(super) fn given_or(self, other: &str) -> Self {
        if self.is_given { self } else { Self { name: other.into(), is_given: false } }
    }

    /// The name as the user would give it.
    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Opens the store; an absent one is an error and stays absent.
    pub(super) fn open(&self) -> Result<Box<dyn SessionPersistence>, Failure> {
        Ok(match self.open_as_it_is()? {
            Opened::Sqlite(store) => Box::new(store),
            Opened::Jsonl(store) => Box::new(store),
        })
    }

    /// Opens the store, for what only its own kind can do.
    pub(super) fn open_as_it_is(&self) -> Result<Opened, Failure> {
        Ok(match self.kind() {
            Kind::Sqlite(path, journal) => {
                Opened::Sqlite(SqliteStore::open_existing_with(existing(path)?, options(journal))?)
            }
            Kind::Jsonl(path, _) => Opened::Jsonl(JsonlStore::open_existing(existing(path)?)?),
        })
    }

    /// Opens the store, which must be one of SQLite, and tells its file.
    pub(super) fn open_sqlite(&self) -> Result<(PathBuf, SqliteStore), Failure> {
        match self.kind() {
            Kind::Sqlite(path, journal) => {
                Ok((path.to_owned(), SqliteStore::open_existing_with(existing(path)?, options(journal))?))
            }
            Kind::Jsonl(path, _) => Err(unsupported(
                path,
                "it is a folder of log files, which have no SQL; copy them into a file of SQLite with `sessions copy`"
                    .to_owned(),
            )),
        }
    }

    /// Opens the store, which is made where it is absent.
    pub(super) fn open_or_create(&self) -> Result<Box<dyn SessionPersistence>, Failure> {
        Ok(match self.kind() {
            Kind::Sqlite(path, journal) => Box::new(SqliteStore::open_with(path, options(journal))?),
            Kind::Jsonl(path, encoding) => {
                Box::new(JsonlStore::open_with(path, JsonlOptions { encoding, ..JsonlOptions::default() })?)
            }
        })
    }

    /// Whether a path is one of the files that the store itself is made of. Writing one destroys the store, and even opening
    /// one beside SQLite gives up the locks that SQLite holds on it.
    pub(super) fn owns(&self, path: &Path) -> bool {
        match self.kind() {
            Kind::Sqlite(store, _) => is_same(path, store) || side_files(store).iter().any(|part| is_same(path, part)),
            Kind::Jsonl(root, _) => match (path.canonicalize(), root.canonicalize()) {
                (Ok(path), Ok(root)) => path != root && path.starts_with(root),
                _ => false,
            },
        }
    }

    /// Which backend the place is of: as the name says, else a folder is one of log files and all else of SQLite.
    fn kind(&self) -> Kind<'_> {
        let path = Path::new(&self.name);
        if let Some(name) = self.name.to_str() {
            if let Some(path) = name.strip_prefix("sqlite:") {
                return Kind::Sqlite(Path::new(path), None);
            }
            if let Some(path) = name.strip_prefix("sqlite+rollback:") {
                return Kind::Sqlite(Path::new(path), Some(Journal::Rollback));
            }
            if let Some(path) = name.strip_prefix("jsonl:") {
                return Kind::Jsonl(Path::new(path), Encoding::Zstd);
            }
            if let Some(path) = name.strip_prefix("jsonl+raw:") {
                return Kind::Jsonl(Path::new(path), Encoding::Raw);
            }
        }
        if path.is_dir() { Kind::Jsonl(path, Encoding::default()) } else { Kind::Sqlite(path, None) }
    }
}

/// An open store of one of the backends.
pub(super) enum Opened {
    Sqlite(SqliteStore),
    Jsonl(JsonlStore),
}

impl Opened {
    pub(super) fn store(&self) -> &dyn SessionPersistence {
        match self {
            Self::Sqlite(store) => store,
            Self::Jsonl(store) => store,
        }
    }

    /// Copies the store as a whole to a new place.
    pub(super) fn backup(&self, to: &Path) -> Result<BackupReport, Error> {
        match self {
            Self::Sqlite(store) => store.backup(to),
            Self::Jsonl(store) => store.backup(to),
        }
    }

    /// Gives back the room that removed sessions took; nothing where their files were all.
    pub(super) fn compact(&self) -> Result<Option<CompactReport>, Error> {
        match self {
            Self::Sqlite(store) => store.compact().map(Some),
            Self::Jsonl(_) => Ok(None),
        }
    }
}

/// A backend and where its store is.
enum Kind<'a> {
    /// With the journal mode that it is to have, where that was said.
    Sqlite(&'a Path, Option<Journal>),
    /// With how new sessions are stored where there are none yet.
    Jsonl(&'a Path, Encoding),
}

fn options(journal: Option<Journal>) -> SqliteOptions {
    SqliteOptions { journal, ..SqliteOptions::default() }
}

#[cfg(unix)]
fn is_same(one: &Path, two: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (one.metadata(), two.metadata()) {
        (Ok(one), Ok(two)) => (one.dev(), one.ino()) == (two.dev(), two.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_same(one: &Path, two: &Path) -> bool {
    matches!((one.canonicalize(), two.canonicalize()), (Ok(one), Ok(two)) if one == two)
}

fn existing(path: &Path) -> Result<&Path, Failure> {
    if matches!(path.try_exists(), Ok(false)) {
        return Err(unsupported(
            path,
            format!(
                "there is no such file; name the store with --store or ${VARIABLE}, \
                 or make one with `sessions demo` or `sessions import`"
            ),
        ));
    }
    Ok(path)
}

fn unsupported(path: &Path, reason: String) -> Failure {
    Failure::Store(Error::UnsupportedStore { store: path.to_owned(), reason, source: None })
}
