//! The contract suite over the backends of this crate, directly and through the pointers that hosts keep them in.

use std::sync::Arc;

use session_persistence::contract::{Capabilities, Fixture, Unsupported};
use session_persistence::{MemoryStore, SessionId, SessionPersistence, contract_tests};

type Store = Arc<dyn SessionPersistence>;

/// How the store under test is held.
#[derive(Clone, Copy)]
enum Held {
    Plain,
    InBox,
    InArc,
}

impl Held {
    fn hold(self, store: impl SessionPersistence + 'static) -> Store {
        match self {
            Self::Plain => Arc::new(store),
            Self::InBox => Arc::new(Box::new(store) as Box<dyn SessionPersistence>),
            Self::InArc => Arc::new(Arc::new(store) as Arc<dyn SessionPersistence>),
        }
    }
}

/// A place that is gone with the value of its store.
struct Passing(fn() -> Store);

impl Fixture for Passing {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn store(&self) -> Store {
        (self.0)()
    }

    fn elsewhere(&self) -> Store {
        (self.0)()
    }

    fn reopen(&self) -> Result<Store, Unsupported> {
        Err(Unsupported)
    }

    fn beside(&self) -> Result<Store, Unsupported> {
        Err(Unsupported)
    }

    fn tear_tail(&self, _: &SessionId) -> Result<(), Unsupported> {
        Err(Unsupported)
    }
}

contract_tests!(memory, Passing(|| Held::Plain.hold(MemoryStore::new())));
contract_tests!(memory_in_box, Passing(|| Held::InBox.hold(MemoryStore::new())));
contract_tests!(memory_in_arc, Passing(|| Held::InArc.hold(MemoryStore::new())));

#[cfg(feature = "sqlite")]
mod sqlite {
    use session_persistence::{Journal, SqliteOptions, SqliteStore};
    use tempfile::TempDir;

    use super::*;

    /// A folder with a database, and databases of other places beside it.
    struct File {
        folder: TempDir,
        held: Held,
        journal: Journal,
    }

    impl File {
        fn held(held: Held) -> Self {
            Self { folder: tempfile::tempdir().expect("a folder for the databases"), held, journal: Journal::Wal }
        }

        fn in_rollback_mode() -> Self {
            Self { journal: Journal::Rollback, ..Self::held(Held::Plain) }
        }

        fn open(&self, name: &str) -> Store {
            let options = SqliteOptions::default().with_journal(self.journal);
            let store = SqliteStore::open_with(self.folder.path().join(name), options);
            self.held.hold(store.expect("the database can be opened"))
        }
    }

    impl Fixture for File {
        /// A batch is one transaction, so no log can end in the middle of a write.
        fn capabilities(&self) -> Capabilities {
            Capabilities { reopen: true, cross_process: true, tear_tail: false }
        }

        fn store(&self) -> Store {
            self.open("sessions.db")
        }

        fn elsewhere(&self) -> Store {
            let others = std::fs::read_dir(self.folder.path()).expect("the folder is there").count();
            self.open(&format!("other {others}.db"))
        }

        fn reopen(&self) -> Result<Store, Unsupported> {
            Ok(self.open("sessions.db"))
        }

        fn beside(&self) -> Result<Store, Unsupported> {
            Ok(self.open("sessions.db"))
        }

        fn tear_tail(&self, _: &SessionId) -> Result<(), Unsupported> {
            Err(Unsupported)
        }
    }

    fn in_memory() -> SqliteStore {
        SqliteStore::in_memory().expect("SQLite starts")
    }

    contract_tests!(file, File::held(Held::Plain));
    contract_tests!(file_in_rollback_mode, File::in_rollback_mode());
    contract_tests!(file_in_box, File::held(Held::InBox));
    contract_tests!(file_in_arc, File::held(Held::InArc));
    contract_tests!(memory, Passing(|| Held::Plain.hold(in_memory())));
    contract_tests!(memory_in_box, Passing(|| Held::InBox.hold(in_memory())));
    contract_tests!(memory_in_arc, Passing(|| Held::InArc.hold(in_memory())));
}

#[cfg(feature = "jsonl")]
mod jsonl {
    use std::fs::File;
    use std::path::PathBuf;

    use session_persistence::{Encoding, JsonlOptions, JsonlStore};
    use tempfile::TempDir;

    use super::*;

    /// A folder with a root, and roots of other places beside it.
    struct Root {
        folder: TempDir,
        encoding: Encoding,
        held: Held,
    }

    impl Root {
        fn new(encoding: Encoding, held: Held) -> Self {
            Self { folder: tempfile::tempdir().expect("a folder for the roots"), encoding, held }
        }

        fn open(&self, name: &str) -> Store {
            let mut options = JsonlOptions::default();
            options.encoding = self.encoding;
            let root = self.folder.path().join(name);
            self.held.hold(JsonlStore::open_with(root, options).expect("the root can be opened"))
        }

        /// The log of a session of format 3, whatever project it stands in.
        fn log(&self, id: &SessionId) -> PathBuf {
            let suffix = if self.encoding == Encoding::Zstd { ".zstd" } else { "" };
            let name = format!("{}/session.v3.jsonl{suffix}", id.escaped());
            let projects = std::fs::read_dir(self.folder.path().join("root")).expect("the root is there");
            let mut logs = projects.map(|project| project.expect("a project").path().join(&name));
            logs.find(|log| log.exists()).expect("the session is stored")
        }
    }

    impl Fixture for Root {
        fn capabilities(&self) -> Capabilities {
            Capabilities { reopen: true, cross_process: true, tear_tail: true }
        }

        fn store(&self) -> Store {
            self.open("root")
        }

        fn elsewhere(&self) -> Store {
            let others = std::fs::read_dir(self.folder.path()).expect("the folder is there").count();
            self.open(&format!("other {others}"))
        }

        fn reopen(&self) -> Result<Store, Unsupported> {
            Ok(self.open("root"))
        }

        fn beside(&self) -> Result<Store, Unsupported> {
            Ok(self.open("root"))
        }

        /// Cuts a few bytes off: fewer than any row or frame has.
        fn tear_tail(&self, id: &SessionId) -> Result<(), Unsupported> {
            let log = File::options().write(true).open(self.log(id)).expect("the log can be written");
            let size = log.metadata().expect("the log has a size").len();
            log.set_len(size - 9).expect("the log can be cut");
            Ok(())
        }
    }

    contract_tests!(raw, Root::new(Encoding::Raw, Held::Plain));
    contract_tests!(raw_in_box, Root::new(Encoding::Raw, Held::InBox));
    contract_tests!(zstd, Root::new(Encoding::Zstd, Held::Plain));
    contract_tests!(zstd_in_arc, Root::new(Encoding::Zstd, Held::InArc));
}
