//! [`Place`]: the store that the command works on.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::SqliteStore;
use crate::seam::{Error, SessionPersistence};

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
        Ok(Box::new(self.open_sqlite()?.1))
    }

    /// Opens the store, which must be one of SQLite, and tells its file.
    pub(super) fn open_sqlite(&self) -> Result<(PathBuf, SqliteStore), Failure> {
        let path = self.sqlite()?;
        if matches!(path.try_exists(), Ok(false)) {
            return Err(unsupported(
                path,
                format!(
                    "there is no such file; name the store with --store or ${VARIABLE}, \
                     or make one with `sessions demo` or `sessions import`"
                ),
            ));
        }
        Ok((path.to_owned(), SqliteStore::open_existing(path)?))
    }

    /// Opens the store, which is made where it is absent.
    pub(super) fn open_or_create(&self) -> Result<Box<dyn SessionPersistence>, Failure> {
        Ok(Box::new(SqliteStore::open(self.sqlite()?)?))
    }

    /// The file of a store of SQLite. The one place that tells the backends apart.
    fn sqlite(&self) -> Result<&Path, Failure> {
        let path = Path::new(&self.name);
        if let Some(name) = self.name.to_str() {
            if let Some(path) = name.strip_prefix("sqlite:") {
                return Ok(Path::new(path));
            }
            if name.starts_with("jsonl:") || name.starts_with("jsonl+raw:") {
                return Err(unsupported(path, "this build has no backend for files of JSONL, only SQLite".to_owned()));
            }
        }
        if path.is_dir() {
            let reason = "it is a folder, and this build has no backend for files of JSONL; name an SQLite file";
            return Err(unsupported(path, reason.to_owned()));
        }
        Ok(path)
    }
}

fn unsupported(path: &Path, reason: String) -> Failure {
    Failure::Store(Error::UnsupportedStore { store: path.to_owned(), reason, source: None })
}
