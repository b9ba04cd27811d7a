//! [`Place`]: where a broken store keeps its sessions.

use std::sync::{Arc, Mutex};

use session_persistence::contract::{Capabilities, Fixture, Unsupported};
use session_persistence::{
    CreateOptions, ListQuery, MemoryStore, OpenOptions, SessionId, SessionPersistence, SqliteStore,
};
use tempfile::TempDir;

use crate::fault::Fault;
use crate::store::{BrokenStore, lock};

/// Where a broken store keeps its sessions.
pub(crate) struct Place {
    good: Good,
    fault: Fault,
}

/// The good store below the broken one.
enum Good {
    /// Outlives the stores over it, and can lose the end of a log.
    Memory(Mutex<Arc<MemoryStore>>),
    /// Can be open twice.
    File(TempDir),
}

impl Place {
    pub(crate) fn for_cases_of(verb: &str, fault: Fault) -> Self {
        let good = match verb {
            "instance" => Good::File(tempfile::tempdir().expect("a folder for the database")),
            _ => Good::Memory(Mutex::default()),
        };
        Self { good, fault }
    }
}

impl Fixture for Place {
    fn capabilities(&self) -> Capabilities {
        match &self.good {
            _ if self.fault == Fault::DeniesItsCapabilities => Capabilities::default(),
            Good::Memory(_) => Capabilities { reopen: true, tear_tail: true, cross_process: false },
            Good::File(_) => Capabilities { reopen: true, tear_tail: false, cross_process: true },
        }
    }

    fn store(&self) -> Arc<dyn SessionPersistence> {
        let good: Arc<dyn SessionPersistence> = match &self.good {
            Good::Memory(store) => lock(store).clone(),
            Good::File(folder) => {
                Arc::new(SqliteStore::open(folder.path().join("sessions.db")).expect("the database can be opened"))
            }
        };
        Arc::new(BrokenStore::new(good, self.fault))
    }

    fn elsewhere(&self) -> Arc<dyn SessionPersistence> {
        Arc::new(BrokenStore::new(Arc::new(MemoryStore::new()), self.fault))
    }

    fn reopen(&self) -> Result<Arc<dyn SessionPersistence>, Unsupported> {
        Ok(self.store())
    }

    fn beside(&self) -> Result<Arc<dyn SessionPersistence>, Unsupported> {
        match &self.good {
            Good::Memory(_) => Err(Unsupported),
            Good::File(_) => Ok(self.store()),
        }
    }

    fn tear_tail(&self, id: &SessionId) -> Result<(), Unsupported> {
        let Good::Memory(store) = &self.good else { return Err(Unsupported) };
        let cut = match self.fault {
            Fault::GivesTornTails => 0,
            Fault::CutsTooMuch => 2,
            _ => 1,
        };
        let mut store = lock(store);
        *store = Arc::new(copy_without(&store, id, cut).expect("a log in memory can be copied"));
        Ok(())
    }
}

/// A copy of a store that lacks the last events of one log, as if they had never been stored.
fn copy_without(store: &MemoryStore, id: &SessionId, cut: usize) -> session_persistence::Result<MemoryStore> {
    let copy = MemoryStore::new();
    for snapshot in store.list(&ListQuery::default())?.items {
        let reader = store.open(&snapshot.id, OpenOptions::uninterpreted())?;
        let mut log = reader.read((..).into())?;
        if &snapshot.id == id {
            log.truncate(log.len() - cut);
        }
        copy.create(reader.header(), CreateOptions::default())?.append(&log)?;
    }
    Ok(copy)
}
