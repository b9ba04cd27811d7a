//! What a backend of another crate has to write: the two traits, a fixture, and one line for the suite.

use std::sync::Arc;

use session_persistence::contract::{Capabilities, Fixture, Unsupported};
use session_persistence::{
    Access, CreateOptions, ListQuery, MemoryStore, OpenOptions, Page, Result, SeqRange, SessionEvent, SessionHandle,
    SessionHeader, SessionId, SessionPersistence, Snapshot,
};

/// A store that hands every call on to another one.
struct Forwarding<S>(S);

impl<S: SessionPersistence> SessionPersistence for Forwarding<S> {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        Ok(Box::new(ForwardingHandle(self.0.create(header, options)?)))
    }

    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        Ok(Box::new(ForwardingHandle(self.0.open(id, options)?)))
    }

    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        self.0.stat(id)
    }

    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        self.0.list(query)
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }

    fn remove(&self, id: &SessionId) -> Result<bool> {
        self.0.remove(id)
    }
}

struct ForwardingHandle(Box<dyn SessionHandle>);

impl SessionHandle for ForwardingHandle {
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
        self.0.read(range)
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

/// A backend whose sessions live as long as the value of the store.
struct MyFixture;

impl MyFixture {
    fn new() -> Self {
        Self
    }
}

impl Fixture for MyFixture {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn store(&self) -> Arc<dyn SessionPersistence> {
        Arc::new(Forwarding(MemoryStore::new()))
    }

    fn elsewhere(&self) -> Arc<dyn SessionPersistence> {
        self.store()
    }

    fn reopen(&self) -> Result<Arc<dyn SessionPersistence>, Unsupported> {
        Err(Unsupported)
    }

    fn beside(&self) -> Result<Arc<dyn SessionPersistence>, Unsupported> {
        Err(Unsupported)
    }

    fn tear_tail(&self, _: &SessionId) -> Result<(), Unsupported> {
        Err(Unsupported)
    }
}

session_persistence::contract_tests!(MyFixture::new());
