//! Every kind of store, to run the same tests over.

use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "jsonl")]
use session_persistence::{Encoding, JsonlOptions, JsonlStore};
use session_persistence::{MemoryStore, SessionPersistence};
use tempfile::TempDir;

pub(crate) type Store = Arc<dyn SessionPersistence>;

/// A way to keep sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    #[cfg(feature = "sqlite")]
    Sqlite,
    #[cfg(feature = "jsonl")]
    Raw,
    #[cfg(feature = "jsonl")]
    Zstd,
}

impl Kind {
    pub(crate) const ALL: &[Self] = &[
        Self::Memory,
        #[cfg(feature = "sqlite")]
        Self::Sqlite,
        #[cfg(feature = "jsonl")]
        Self::Raw,
        #[cfg(feature = "jsonl")]
        Self::Zstd,
    ];

    /// A store at a path, as each process opens it; what is in memory is new each time.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "jsonl")),
        expect(unused_variables, reason = "only files have one")
    )]
    pub(crate) fn open(self, path: &Path) -> Store {
        match self {
            Self::Memory => Arc::new(MemoryStore::new()),
            #[cfg(feature = "sqlite")]
            Self::Sqlite => Arc::new(session_persistence::SqliteStore::open(path).unwrap()),
            #[cfg(feature = "jsonl")]
            Self::Raw | Self::Zstd => {
                let encoding = if self == Self::Raw { Encoding::Raw } else { Encoding::Zstd };
                Arc::new(JsonlStore::open_with(path, JsonlOptions::default().with_encoding(encoding)).unwrap())
            }
        }
    }
}

/// Where sessions of one kind are kept, gone with its value.
pub(crate) struct Place {
    pub(crate) kind: Kind,
    folder: TempDir,
}

impl Place {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("sessions")
    }

    #[cfg_attr(not(any(feature = "sqlite", feature = "jsonl")), expect(dead_code, reason = "only files have another"))]
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn open(&self) -> Store {
        self.kind.open(&self.path())
    }

    /// The files of the store that hold what is stored, with their bytes.
    pub(crate) fn bytes(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn collect(folder: &Path, into: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    collect(&path, into);
                } else if !path.to_string_lossy().ends_with("-shm") {
                    into.push((path.clone(), std::fs::read(path).unwrap()));
                }
            }
        }
        let mut files = Vec::new();
        collect(self.folder.path(), &mut files);
        files.sort();
        files
    }
}
