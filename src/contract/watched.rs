//! [`Watched`]: the store under test behind a host that counts what it is asked for, and can make it fail or wait.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::log::{SessionEvent, SessionHeader, SessionId};
use crate::seam::{
    Access, CreateOptions, Error, Fault, ListQuery, OpenOptions, Page, Removal, Result, Revision, SeqRange,
    SessionHandle, SessionPersistence, Snapshot,
};

/// The store under test, watched.
#[derive(Clone)]
pub(super) struct Watched {
    store: Arc<dyn SessionPersistence>,
    watch: Arc<Watch>,
}

/// What was asked of the store, and what it is to refuse.
#[derive(Default)]
pub(super) struct Watch {
    batches: Mutex<Vec<(SessionId, Vec<u64>)>>,
    /// How many flushes of single sessions there were, and of the whole store.
    pub(super) flushes: AtomicUsize,
    pub(super) barriers: AtomicUsize,
    pub(super) closes: AtomicUsize,
    failing: Mutex<Option<SessionId>>,
    fails_close: AtomicBool,
    death: Mutex<Option<Death>>,
    gate: Mutex<Gate>,
    moved: Condvar,
}

#[derive(Default)]
struct Gate {
    is_shut: bool,
    waiting: Vec<SessionId>,
}

/// When the process that writes counts as dead.
struct Death {
    /// After so many batches.
    after: usize,
    /// Whether the next one is still stored, and nobody told.
    stores_one_more: bool,
}

impl Watched {
    pub(super) fn over(store: Arc<dyn SessionPersistence>) -> (Arc<dyn SessionPersistence>, Arc<Watch>) {
        let watch = Arc::new(Watch::default());
        (Arc::new(Self { store, watch: watch.clone() }), watch)
    }

    fn handle(&self, handle: Box<dyn SessionHandle>) -> Box<dyn SessionHandle> {
        Box::new(WatchedHandle { handle, watch: self.watch.clone() })
    }
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// The batches that were stored of a session, as the seqs of their events.
    pub(super) fn batches(&self, id: &str) -> Vec<Vec<u64>> {
        let batches = guard(&self.batches);
        batches.iter().filter(|(of, _)| of.as_str() == id).map(|(_, seqs)| seqs.clone()).collect()
    }

    /// Has every append to a session fail from now on.
    pub(super) fn fail(&self, id: &SessionId) {
        *guard(&self.failing) = Some(id.clone());
    }

    /// Has appends succeed again.
    pub(super) fn heal(&self) {
        *guard(&self.failing) = None;
    }

    /// Has every close report a failure, after it was done.
    pub(super) fn fail_closes(&self) {
        self.fails_close.store(true, Ordering::SeqCst);
    }

    /// Has the writing process die: after so many more batches no append is answered, and the first of these is stored or
    /// not.
    pub(super) fn die_after(&self, batches: usize, stores_one_more: bool) {
        *guard(&self.death) = Some(Death { after: batches, stores_one_more });
    }

    /// Whether it died; another one lives from now on.
    pub(super) fn has_died(&self) -> bool {
        guard(&self.death).take().is_some_and(|death| death.after == 0 && !death.stores_one_more)
    }

    /// Has every append wait.
    pub(super) fn shut(&self) {
        guard(&self.gate).is_shut = true;
    }

    /// Waits until so many appends wait; to which sessions.
    pub(super) fn wait_for_appends(&self, count: usize) -> Vec<SessionId> {
        let mut gate = guard(&self.gate);
        while gate.waiting.len() < count {
            gate = self.moved.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        gate.waiting.clone()
    }

    /// Lets appends go on.
    pub(super) fn open(&self) {
        guard(&self.gate).is_shut = false;
        self.moved.notify_all();
    }

    fn pass(&self, id: &SessionId) {
        let mut gate = guard(&self.gate);
        gate.waiting.push(id.clone());
        self.moved.notify_all();
        while gate.is_shut {
            gate = self.moved.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        gate.waiting.retain(|waiting| waiting != id);
    }

    /// Runs an append as a process does that may die before it or behind it.
    fn live(&self, id: &SessionId, append: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut death = guard(&self.death);
        match &mut *death {
            Some(Death { after: 0, stores_one_more }) => {
                if std::mem::take(stores_one_more) {
                    append()?;
                }
                Err(broken(id, "living"))
            }
            Some(death) => {
                death.after -= 1;
                append()
            }
            None => append(),
        }
    }
}

fn broken(session: &SessionId, operation: &str) -> Error {
    Error::Io { session: Some(session.clone()), operation: operation.to_owned(), source: "made to fail".into() }
}

impl SessionPersistence for Watched {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        self.store.create(header, options).map(|handle| self.handle(handle))
    }
    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        self.store.open(id, options).map(|handle| self.handle(handle))
    }
    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        self.store.stat(id)
    }
    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        self.store.list(query)
    }
    fn flush(&self) -> Result<()> {
        self.watch.barriers.fetch_add(1, Ordering::SeqCst);
        self.store.flush()
    }
    fn remove(&self, id: &SessionId) -> Result<bool> {
        self.store.remove(id)
    }
    fn remove_if_unchanged(&self, id: &SessionId, revision: &Revision) -> Result<Removal> {
        self.store.remove_if_unchanged(id, revision)
    }
    fn check_storage(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        self.store.check_storage(found)
    }
}

struct WatchedHandle {
    handle: Box<dyn SessionHandle>,
    watch: Arc<Watch>,
}

impl SessionHandle for WatchedHandle {
    fn id(&self) -> &SessionId {
        self.handle.id()
    }
    fn header(&self) -> &SessionHeader {
        self.handle.header()
    }
    fn inherited_event_count(&self) -> u64 {
        self.handle.inherited_event_count()
    }
    fn access(&self) -> Access {
        self.handle.access()
    }
    fn read(&self, range: SeqRange) -> Result<Vec<SessionEvent>> {
        self.handle.read(range)
    }
    fn append(&self, events: &[SessionEvent]) -> Result<()> {
        if events.is_empty() {
            return self.handle.append(events);
        }
        self.watch.pass(self.id());
        if guard(&self.watch.failing).as_ref() == Some(self.id()) {
            return Err(broken(self.id(), "appending"));
        }
        self.watch.live(self.id(), || self.handle.append(events))?;
        let seqs = events.iter().map(|event| event.seq().get()).collect();
        guard(&self.watch.batches).push((self.id().clone(), seqs));
        Ok(())
    }
    fn flush(&self) -> Result<()> {
        self.watch.flushes.fetch_add(1, Ordering::SeqCst);
        self.handle.flush()
    }
    fn close(&self) -> Result<()> {
        self.watch.closes.fetch_add(1, Ordering::SeqCst);
        self.handle.close()?;
        if self.watch.fails_close.load(Ordering::SeqCst) { Err(broken(self.id(), "closing")) } else { Ok(()) }
    }
}
