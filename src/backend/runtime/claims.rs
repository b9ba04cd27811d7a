//! [`Claims`]: which sessions have a writer, and which of them are not stored yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::Storage;
use super::handle::Core;
use crate::log::{SessionHeader, SessionId, Vocabulary};
use crate::seam::{Error, Holder, Result, Revision, SessionState, Snapshot};

/// The sessions that have a writer.
pub(super) struct Claims<S: Storage> {
    table: Mutex<Table<S>>,
}

pub(super) struct Table<S: Storage> {
    by_id: HashMap<SessionId, Claim<S>>,
    /// How many claims there were; numbers them.
    claimed: u64,
}

struct Claim<S: Storage> {
    number: u64,
    holder: Holder,
    pending: Option<Pending<S::Key>>,
    /// The handle that owns the session; none while it is being opened or removed.
    core: Weak<Core<S>>,
}

/// A session that was created and is not stored yet.
#[derive(Clone)]
pub(super) struct Pending<K> {
    number: u64,
    pub(super) header: SessionHeader,
    pub(super) inherited: u64,
    /// Its key, once it is stored: what its readers know it by, whoever takes its id when it never is.
    pub(super) stored: Arc<OnceLock<K>>,
}

impl<K> Pending<K> {
    pub(super) fn snapshot(&self, vocabulary: &Vocabulary) -> Snapshot {
        let revision = Revision::new(format!("pending:{}:{}", std::process::id(), self.number));
        let mut snapshot = Snapshot::new(self.header.clone(), revision, vocabulary);
        snapshot.state = SessionState::Pending;
        snapshot.event_count = Some(0);
        snapshot.activity = Snapshot::PENDING_ACTIVITY + self.number;
        snapshot
    }
}

impl<S: Storage> Claims<S> {
    pub(super) fn new() -> Self {
        Self { table: Mutex::new(Table { by_id: HashMap::new(), claimed: 0 }) }
    }

    /// The table, locked. A panic elsewhere cannot have left it half-changed: every change is one call on the map.
    pub(super) fn lock(&self) -> MutexGuard<'_, Table<S>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Storage> Table<S> {
    pub(super) fn is_claimed(&self, id: &SessionId) -> bool {
        self.by_id.contains_key(id)
    }

    /// Says who has the session, where somebody has it.
    pub(super) fn check_free(&self, id: &SessionId) -> Result<()> {
        match self.holder(id) {
            Some(holder) => Err(Error::AlreadyOwned { session: id.clone(), holder }),
            None => Ok(()),
        }
    }

    /// Claims a session, or says who has it.
    pub(super) fn claim(&mut self, id: &SessionId) -> Result<()> {
        self.check_free(id)?;
        let holder = Holder::this_process();
        self.claimed += 1;
        self.by_id.insert(id.clone(), Claim { number: self.claimed, holder, pending: None, core: Weak::new() });
        Ok(())
    }

    /// Claims a session that is created, visible from now on as not stored yet; gives the place of its key.
    pub(super) fn claim_pending(&mut self, header: &SessionHeader, inherited: u64) -> Result<Arc<OnceLock<S::Key>>> {
        self.claim(header.id())?;
        let stored = Arc::new(OnceLock::new());
        if let Some(claim) = self.by_id.get_mut(header.id()) {
            let (number, header) = (claim.number, header.clone());
            claim.pending = Some(Pending { number, header, inherited, stored: stored.clone() });
        }
        Ok(stored)
    }

    pub(super) fn set_stored(&mut self, id: &SessionId) {
        if let Some(claim) = self.by_id.get_mut(id) {
            claim.pending = None;
        }
    }

    pub(super) fn set_core(&mut self, id: &SessionId, core: &Arc<Core<S>>) {
        if let Some(claim) = self.by_id.get_mut(id) {
            claim.core = Arc::downgrade(core);
        }
    }

    pub(super) fn release(&mut self, id: &SessionId) {
        self.by_id.remove(id);
    }

    pub(super) fn pending(&self, id: &SessionId) -> Option<&Pending<S::Key>> {
        self.by_id.get(id)?.pending.as_ref()
    }

    pub(super) fn all_pending(&self) -> impl Iterator<Item = &Pending<S::Key>> {
        self.by_id.values().filter_map(|c| c.pending.as_ref())
    }

    pub(super) fn holder(&self, id: &SessionId) -> Option<Holder> {
        self.by_id.get(id).map(|c| c.holder.clone())
    }

    /// Tells what this store knows of the writer of a session; the storage may know of one elsewhere.
    pub(super) fn add_writer(&self, snapshot: &mut Snapshot) {
        if let Some(claim) = self.by_id.get(&snapshot.id) {
            snapshot.owner = Some(claim.holder.clone());
            snapshot.last_failure = claim.core.upgrade().and_then(|core| core.failure());
        }
    }

    /// Who has which session.
    pub(super) fn holders(&self) -> HashMap<SessionId, Holder> {
        self.by_id.iter().map(|(id, claim)| (id.clone(), claim.holder.clone())).collect()
    }

    /// The open write handles, in the order in which they were opened.
    pub(super) fn writers(&self) -> Vec<Arc<Core<S>>> {
        let mut claims: Vec<_> = self.by_id.values().collect();
        claims.sort_by_key(|claim| claim.number);
        claims.iter().filter_map(|claim| claim.core.upgrade()).collect()
    }
}
