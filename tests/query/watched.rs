//! [`Watched`]: a store that counts what it is asked for, and does as it is told when it is read.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use session_persistence::{
    CreateOptions, Error, ListQuery, OpenOptions, Page, Result, Revision, SessionHandle, SessionHeader, SessionId,
    SessionPersistence, Snapshot,
};

use super::place::Store;

type Act = Box<dyn FnMut(&SessionId) -> Result<()> + Send>;

/// A store that is watched.
pub(crate) struct Watched {
    store: Store,
    pub(crate) stats: AtomicUsize,
    pub(crate) opens: AtomicUsize,
    /// How many sessions are being opened, and how many were at most.
    opening: AtomicUsize,
    pub(crate) most_opening: AtomicUsize,
    /// What is done before a session is opened, and whether it can be.
    on_open: Mutex<Option<Act>>,
    on_stat: Mutex<Option<Act>>,
    /// Whether its revisions tell one state of a session from another in this store alone.
    numbers_revisions: bool,
}

impl Watched {
    pub(crate) fn over(store: Store) -> Arc<Self> {
        Arc::new(Self::of(store, false))
    }

    /// A store whose revisions are the numbers of events: those of two stores are the same.
    pub(crate) fn with_numbered_revisions(store: Store) -> Arc<Self> {
        Arc::new(Self::of(store, true))
    }

    fn of(store: Store, numbers_revisions: bool) -> Self {
        Self {
            store,
            numbers_revisions,
            stats: AtomicUsize::new(0),
            opens: AtomicUsize::new(0),
            opening: AtomicUsize::new(0),
            most_opening: AtomicUsize::new(0),
            on_open: Mutex::new(None),
            on_stat: Mutex::new(None),
        }
    }

    pub(crate) fn on_open(&self, act: impl FnMut(&SessionId) -> Result<()> + Send + 'static) {
        *guard(&self.on_open) = Some(Box::new(act));
    }

    /// Has something done behind each look at a session.
    pub(crate) fn on_stat(&self, act: impl FnMut(&SessionId) -> Result<()> + Send + 'static) {
        *guard(&self.on_stat) = Some(Box::new(act));
    }

    pub(crate) fn heal(&self) {
        *guard(&self.on_open) = None;
        *guard(&self.on_stat) = None;
    }

    pub(crate) fn opens(&self) -> usize {
        self.opens.load(Ordering::SeqCst)
    }

    pub(crate) fn stats(&self) -> usize {
        self.stats.load(Ordering::SeqCst)
    }
}

/// What is done may panic.
fn guard(act: &Mutex<Option<Act>>) -> MutexGuard<'_, Option<Act>> {
    act.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A failure of a disk.
pub(crate) fn broken(session: &SessionId) -> Error {
    Error::Io { session: Some(session.clone()), operation: "reading".to_owned(), source: "made to fail".into() }
}

impl SessionPersistence for Watched {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        self.store.create(header, options)
    }
    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        self.opens.fetch_add(1, Ordering::SeqCst);
        self.most_opening.fetch_max(self.opening.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let acted = guard(&self.on_open).as_mut().map_or(Ok(()), |act| act(id));
        self.opening.fetch_sub(1, Ordering::SeqCst);
        acted?;
        self.store.open(id, options)
    }
    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        self.stats.fetch_add(1, Ordering::SeqCst);
        let mut told = self.store.stat(id)?;
        if let Some(told) = told.as_mut().filter(|_| self.numbers_revisions) {
            told.revision = Revision::new(format!("{:?}", told.event_count));
        }
        if let Some(act) = &mut *guard(&self.on_stat) {
            act(id)?;
        }
        Ok(told)
    }
    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        self.store.list(query)
    }
    fn flush(&self) -> Result<()> {
        self.store.flush()
    }
    fn remove(&self, id: &SessionId) -> Result<bool> {
        self.store.remove(id)
    }
}
