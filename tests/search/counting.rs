//! [`Counting`]: a store that counts what is read of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use session_persistence::{
    Access, CreateOptions, ListQuery, MemoryStore, OpenOptions, Page, Result, SeqRange, SessionEvent, SessionHandle,
    SessionHeader, SessionId, SessionPersistence, Snapshot,
};

#[derive(Default)]
pub(crate) struct Counting {
    pub(crate) store: MemoryStore,
    pub(crate) opens: Arc<AtomicU64>,
    pub(crate) events: Arc<AtomicU64>,
    /// What it lists, where that is not what it holds now.
    pub(crate) listed: Mutex<Option<Page<Snapshot>>>,
    /// Whether it tells no digests of its logs.
    pub(crate) keeps_no_digest: bool,
}

impl Counting {
    fn told(&self, mut session: Snapshot) -> Snapshot {
        session.digest = session.digest.filter(|_| !self.keeps_no_digest);
        session
    }

    /// How many sessions were opened and how many events read since the last time.
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.opens.swap(0, Ordering::SeqCst), self.events.swap(0, Ordering::SeqCst))
    }
}

struct Counted(Box<dyn SessionHandle>, Arc<AtomicU64>);

impl SessionHandle for Counted {
    fn id(&self) -> &SessionId {
        self.0.id()
    }
    fn header(&self) -> &SessionHeader {
        self.0.header()
    }
    fn inherited_event_count(&self) -> u64 {
        self.0.inherited_event_count()
    }
    fn access(&self) -> Access {
        self.0.access()
    }
    fn read(&self, range: SeqRange) -> Result<Vec<SessionEvent>> {
        let events = self.0.read(range)?;
        self.1.fetch_add(events.len() as u64, Ordering::SeqCst);
        Ok(events)
    }
    fn append(&self, events: &[SessionEvent]) -> Result<()> {
        self.0.append(events)
    }
    fn flush(&self) -> Result<()> {
        self.0.flush()
    }
    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

impl SessionPersistence for Counting {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        self.store.create(header, options)
    }
    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        let handle = self.store.open(id, options)?;
        if options.access() == Access::Write {
            return Ok(handle);
        }
        self.opens.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Counted(handle, self.events.clone())))
    }
    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        Ok(self.store.stat(id)?.map(|session| self.told(session)))
    }
    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        let listed = self.listed.lock().unwrap().clone();
        let page = listed.map_or_else(|| self.store.list(query), Ok)?;
        Ok(Page::new(page.items.into_iter().map(|session| self.told(session)).collect(), page.next))
    }
    fn flush(&self) -> Result<()> {
        self.store.flush()
    }
    fn remove(&self, id: &SessionId) -> Result<bool> {
        self.store.remove(id)
    }
}
