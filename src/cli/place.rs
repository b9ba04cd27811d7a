//! [`Place`]: the store that the command works on.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::backend::beside;
use crate::seam::{Error, SessionPersistence};
use crate::{BackupReport, CompactReport, Encoding, Journal, JsonlOptions, JsonlStore, SqliteOptions, SqliteStore};

const DEFAULT: &str = "sessions.db";
const VARIABLE: &str = "SESSIONS_STORE";

/// What stands before the path in the name of a place to say what a new store is to be.
const KINDS: &str = "sqlite:, sqlite+rollback:, jsonl: and jsonl+raw:";

/// What SQLite keeps beside a database, and this crate: see [`Place::owns`].
const BESIDE: [&str; 4] = ["-wal", "-shm", "-journal", "-locks"];

/// Where a store is, as the user said it or as it is by default.
pub(super) struct Place {
    name: OsString,
    is_given: bool,
}

impl Place {
    /// The place that was given with the call, else that of the environment, else the default. A name that can only be a
    /// slip is refused.
    pub(super) fn new(given: Option<OsString>) -> Result<Self, Failure> {
        let is_given = given.is_some();
        let of_environment = || std::env::var_os(VARIABLE).filter(|v| !v.is_empty());
        let place = Self { name: given.or_else(of_environment).unwrap_or_else(|| DEFAULT.into()), is_given };
        if place.path().as_os_str().is_empty() {
            return Err(Failure::Usage("the path of the store is empty: name a file or a folder".to_owned()));
        }
        match place.unknown_kind() {
            Some(kind) if !place.is_there() => Err(Failure::Usage(format!(
                "{kind}: is no kind of store; those that are known are {KINDS}; of a file whose own name starts so give \
                 ./{}",
                place.name.display()
            ))),
            _ => Ok(place),
        }
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
    pub(super) fn open_or_create(&self) -> Result<Box<dyn SessionPersistence>, Error> {
        if let Some(database) = self.database_beside() {
            return Err(Error::InvalidArgument {
                session: None,
                reason: format!(
                    "{} is the name of a file that SQLite keeps beside {}: name another place for the new store",
                    self.path().display(),
                    database.display()
                ),
            });
        }
        Ok(match self.kind() {
            Kind::Sqlite(path, journal) => Box::new(SqliteStore::open_with(path, options(journal))?),
            Kind::Jsonl(path, encoding) => {
                Box::new(JsonlStore::open_with(path, JsonlOptions { encoding, ..JsonlOptions::default() })?)
            }
        })
    }

    /// Whether a path is one of the files that the store itself is made of, or one that it may be made of at any time.
    /// Writing one destroys the store, or is undone by it, and even opening one beside SQLite gives up the locks that
    /// SQLite holds on it.
    pub(super) fn owns(&self, path: &Path) -> bool {
        let whole_path = whole(path);
        match self.kind() {
            // SQLite keeps its files beside the file itself, and not beside a link to it.
            Kind::Sqlite(store, _) => [store.to_owned(), whole(store)].iter().any(|store| {
                let parts = BESIDE.map(|end| beside(store, end));
                is_same(path, store)
                    || whole_path == whole(store)
                    || parts.iter().any(|part| is_same(path, part) || whole_path.starts_with(whole(part)))
            }),
            Kind::Jsonl(root, _) => {
                let root = whole(root);
                whole_path.starts_with(&root) && (whole_path != root || root.is_dir())
            }
        }
    }

    /// Where the search index of the store is unless another place is named for it: beside a file, and in a folder of log
    /// files under a name that is no project's.
    pub(super) fn index(&self) -> PathBuf {
        match self.kind() {
            // One index for all links to a file.
            Kind::Sqlite(store, _) => beside(&whole(store), ".index"),
            Kind::Jsonl(root, _) => root.join(".sessions.index"),
        }
    }

    /// Whether a path is the one of [`Place::index`].
    pub(super) fn is_index(&self, path: &Path) -> bool {
        whole(path) == whole(&self.index())
    }

    /// Whether two places are of one store, or one would be a part of the other.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        // A file that lies in a folder of log files is no part of that.
        self.owns(other.path()) || matches!(other.kind(), Kind::Sqlite(..)) && other.owns(self.path())
    }

    /// Whether there is anything.
    pub(super) fn is_there(&self) -> bool {
        !matches!(self.path().try_exists(), Ok(false))
    }

    /// Where the store is, without what says of which kind it is.
    fn path(&self) -> &Path {
        match self.kind() {
            Kind::Sqlite(path, _) | Kind::Jsonl(path, _) => path,
        }
    }

    /// The database beside which SQLite keeps a file of this name, where this is an absent place beside one.
    fn database_beside(&self) -> Option<PathBuf> {
        let name = self.path().to_str().filter(|_| !self.is_there())?;
        BESIDE.iter().find_map(|end| name.strip_suffix(end)).map(PathBuf::from).filter(|database| database.is_file())
    }

    /// What stands where a kind of store would be said, and is none.
    fn unknown_kind(&self) -> Option<&str> {
        let (kind, _) = self.name.to_str()?.split_once(':')?;
        let is_word = kind.len() > 1 && kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+');
        (is_word && kind.starts_with(|c: char| c.is_ascii_alphabetic()) && !says_kind(&self.name)).then_some(kind)
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

/// Whether a name says of which kind of store it is.
pub(super) fn says_kind(name: &OsStr) -> bool {
    let kinds = ["sqlite:", "sqlite+rollback:", "jsonl:", "jsonl+raw:"];
    name.to_str().is_some_and(|name| kinds.iter().any(|kind| name.starts_with(kind)))
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

/// A path from the root of the file system on, without links as far as anything is there: one name for one file.
fn whole(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in absolute.ancestors() {
        if let Ok(found) = above.canonicalize() {
            return match absolute.strip_prefix(above) {
                Ok(rest) if !rest.as_os_str().is_empty() => found.join(rest),
                _ => found,
            };
        }
    }
    absolute
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
