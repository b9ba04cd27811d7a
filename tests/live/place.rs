//! Every kind of store, to run the same tests over.

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
}

/// Where sessions of one kind are kept, gone with its value.
pub(crate) struct Place {
    kind: Kind,
    #[cfg_attr(not(any(feature = "sqlite", feature = "jsonl")), expect(dead_code, reason = "nothing needs a folder"))]
    folder: TempDir,
    memory: Store,
}

impl Place {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, folder: tempfile::tempdir().unwrap(), memory: Arc::new(MemoryStore::new()) }
    }

    /// Opens it once more, as another process would; what is in memory is one store for all.
    pub(crate) fn open(&self) -> Store {
        match self.kind {
            Kind::Memory => self.memory.clone(),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => {
                Arc::new(session_persistence::SqliteStore::open(self.folder.path().join("sessions.db")).unwrap())
            }
            #[cfg(feature = "jsonl")]
            Kind::Raw | Kind::Zstd => {
                let mut options = JsonlOptions::default();
                options.encoding = if self.kind == Kind::Raw { Encoding::Raw } else { Encoding::Zstd };
                Arc::new(JsonlStore::open_with(self.folder.path().join("root"), options).unwrap())
            }
        }
    }
}
