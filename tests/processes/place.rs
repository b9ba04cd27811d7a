//! [`Place`]: where a store stands, in a folder of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use session_persistence::{Durability, Result, SessionPersistence};
#[cfg(feature = "jsonl")]
use session_persistence::{Encoding, JsonlOptions, JsonlStore};
#[cfg(feature = "sqlite")]
use session_persistence::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

#[cfg(feature = "jsonl")]
use super::log::id;

/// A store, whatever its kind.
pub(crate) type Store = Arc<dyn SessionPersistence>;

/// A way to keep sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    #[cfg(feature = "sqlite")]
    Sqlite,
    #[cfg(feature = "jsonl")]
    Raw,
    #[cfg(feature = "jsonl")]
    Zstd,
}

/// What an acknowledged append may survive.
pub(crate) const DURABILITIES: [Durability; 2] = [Durability::OnFlush, Durability::EveryAppend];

impl Kind {
    pub(crate) const ALL: &[Self] = &[
        #[cfg(feature = "sqlite")]
        Self::Sqlite,
        #[cfg(feature = "jsonl")]
        Self::Raw,
        #[cfg(feature = "jsonl")]
        Self::Zstd,
    ];

    /// Whether who gets the lock file has the session, whoever had it before.
    pub(crate) fn goes_by_the_lock_alone(self) -> bool {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite => true,
            #[cfg(feature = "jsonl")]
            Self::Raw | Self::Zstd => false,
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        Self::ALL.iter().copied().find(|kind| format!("{kind:?}") == name).unwrap()
    }

    pub(crate) fn open(self, path: &Path, durability: Durability) -> Result<Store> {
        Ok(match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite => {
                Arc::new(SqliteStore::open_with(path, SqliteOptions::default().with_durability(durability))?)
            }
            #[cfg(feature = "jsonl")]
            Self::Raw | Self::Zstd => {
                let mut options = JsonlOptions::default();
                options.encoding = if self == Self::Raw { Encoding::Raw } else { Encoding::Zstd };
                options.durability = durability;
                Arc::new(JsonlStore::open_with(path, options)?)
            }
        })
    }
}

/// Where a store stands, in a folder of its own.
pub(crate) struct Place {
    folder: TempDir,
    pub(crate) kind: Kind,
    pub(crate) durability: Durability,
}

impl Place {
    pub(crate) fn new(kind: Kind) -> Self {
        Self::with(kind, Durability::default())
    }

    pub(crate) fn with(kind: Kind, durability: Durability) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), kind, durability }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        match self.kind {
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => self.folder().join("sessions.db"),
            #[cfg(feature = "jsonl")]
            _ => self.folder().join("root"),
        }
    }

    pub(crate) fn open(&self) -> Store {
        self.kind.open(&self.path(), self.durability).unwrap_or_else(|e| panic!("{:?}: {e:?}", self.kind))
    }

    /// The lock file of a session, the only one that is open for writing or was left behind by a writer that is gone.
    pub(crate) fn lock(&self, session: &str) -> PathBuf {
        match self.kind {
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => {
                let mut locks: Vec<_> = std::fs::read_dir(self.locks()).unwrap().map(|e| e.unwrap().path()).collect();
                // Beside the locks stands the queue of those that commit.
                locks.retain(|path| path.extension().is_some_and(|end| end == "lock"));
                assert_eq!(locks.len(), 1, "the lock of {session:?} is one of {locks:?}");
                locks[0].clone()
            }
            #[cfg(feature = "jsonl")]
            _ => self.session(session).join("session.lock"),
        }
    }

    /// The folder of the locks of a database.
    #[cfg(feature = "sqlite")]
    pub(crate) fn locks(&self) -> PathBuf {
        self.folder().join("sessions.db-locks")
    }

    /// The folder of a session in plain files.
    #[cfg(feature = "jsonl")]
    fn session(&self, session: &str) -> PathBuf {
        self.path().join("--w--").join(id(session).escaped())
    }

    /// The files that hold what is stored when `sessions` are, and no writer is open: any other is a leftover.
    #[cfg_attr(not(feature = "jsonl"), expect(unused_variables, reason = "they are all in one file"))]
    pub(crate) fn expected(&self, sessions: &[String]) -> Vec<PathBuf> {
        let mut paths: Vec<_> = match self.kind {
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => vec![self.path()],
            #[cfg(feature = "jsonl")]
            Kind::Raw | Kind::Zstd => {
                let log = if self.kind == Kind::Raw { "session.v3.jsonl" } else { "session.v3.jsonl.zstd" };
                let folder = |name: &String| self.session(name);
                sessions.iter().flat_map(|name| [folder(name).join(log), folder(name).join("session.lock")]).collect()
            }
        };
        paths.sort();
        paths
    }

    /// What stands in the folder and holds nothing of what is stored.
    pub(crate) fn leftovers(&self, sessions: &[String]) -> Vec<PathBuf> {
        let expected = self.expected(sessions);
        let holds = |path: &PathBuf| *path == self.path() || expected.iter().any(|file| file.starts_with(path));
        self.entries().into_iter().filter(|path| !holds(path)).collect()
    }

    /// Checks that `sessions` are stored, as far as their files tell, that no writer is open, and that nothing is left over.
    #[track_caller]
    pub(crate) fn assert_holds(&self, sessions: &[String], what: &str) {
        assert_eq!(self.files(), self.expected(sessions), "{what}");
        let left = self.leftovers(sessions);
        assert!(left.is_empty(), "{what}: {left:?} is left over");
    }

    /// Every file below the folder.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.entries().into_iter().filter(|path| !path.is_dir()).collect()
    }

    /// Every file and folder below the folder. What goes while it is looked at is left out.
    pub(crate) fn entries(&self) -> Vec<PathBuf> {
        fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                into.push(entry.path());
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    collect(&entry.path(), into);
                }
            }
        }
        let mut entries = Vec::new();
        collect(self.folder(), &mut entries);
        entries.sort();
        entries
    }

    /// The bytes of what is stored: of every file that is no lock and none of SQLite's notes about its readers.
    pub(crate) fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let is_stored = |path: &PathBuf| {
            let path = path.to_str().unwrap();
            !path.ends_with("-shm") && !path.ends_with(".lock") && !path.contains("-locks/")
        };
        self.files().into_iter().filter(is_stored).map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }
}
