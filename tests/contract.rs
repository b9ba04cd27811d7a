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
    use session_persistence::SqliteStore;
    use tempfile::TempDir;

    use super::*;

    /// A folder with a database, and databases of other places beside it.
    struct File {
        folder: TempDir,
        held: Held,
    }

    impl File {
        fn held(held: Held) -> Self {
            Self { folder: tempfile::tempdir().expect("a folder for the databases"), held }
        }

        fn open(&self, name: &str) -> Store {
            self.held.hold(SqliteStore::open(self.folder.path().join(name)).expect("the database can be opened"))
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
    contract_tests!(file_in_box, File::held(Held::InBox));
    contract_tests!(file_in_arc, File::held(Held::InArc));
    contract_tests!(memory, Passing(|| Held::Plain.hold(in_memory())));
    contract_tests!(memory_in_box, Passing(|| Held::InBox.hold(in_memory())));
    contract_tests!(memory_in_arc, Passing(|| Held::InArc.hold(in_memory())));
}
