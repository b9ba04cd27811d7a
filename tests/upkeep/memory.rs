//! A check and a salvage hold a bounded part of a log, however long it is.

use std::sync::Mutex;

use session_persistence::upkeep::{salvage, verify};
use session_persistence::{
    Access, CreateOptions, Json, ListQuery, MemoryStore, OpenOptions, Page, Result, SeqRange, SessionEvent,
    SessionHandle, SessionHeader, SessionId, SessionPersistence, Snapshot, SqliteStore,
};

use crate::logs::{self, id};

/// The largest numbers of events, and of bytes of their data, that went through one call.
#[derive(Debug, Default, Clone, Copy)]
struct Most {
    read: (usize, usize),
    appended: (usize, usize),
}

type Shared = std::sync::Arc<Mutex<Most>>;

fn note(most: &mut (usize, usize), events: &[SessionEvent]) {
    let bytes = events.iter().map(|event| event.data().as_str().len()).sum();
    *most = (most.0.max(events.len()), most.1.max(bytes));
}

/// A store that looks at what goes through it.
struct Watched<S> {
    store: S,
    most: Shared,
}

struct WatchedHandle {
    handle: Box<dyn SessionHandle>,
    most: Shared,
}

impl<S> Watched<S> {
    fn handle(&self, handle: Box<dyn SessionHandle>) -> Box<dyn SessionHandle> {
        Box::new(WatchedHandle { handle, most: self.most.clone() })
    }
}

impl<S: SessionPersistence> SessionPersistence for Watched<S> {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        Ok(self.handle(self.store.create(header, options)?))
    }
    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        Ok(self.handle(self.store.open(id, options)?))
    }
    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        self.store.stat(id)
    }
    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        assert!(query.limit.is_some_and(|limit| limit <= 1000), "sessions come in pages too");
        self.store.list(query)
    }
    fn flush(&self) -> Result<()> {
        self.store.flush()
    }
    fn remove(&self, id: &SessionId) -> Result<bool> {
        self.store.remove(id)
    }
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
        let events = self.handle.read(range)?;
        note(&mut self.most.lock().unwrap().read, &events);
        Ok(events)
    }
    fn append(&self, events: &[SessionEvent]) -> Result<()> {
        note(&mut self.most.lock().unwrap().appended, events);
        self.handle.append(events)
    }
    fn flush(&self) -> Result<()> {
        self.handle.flush()
    }
    fn close(&self) -> Result<()> {
        self.handle.close()
    }
}

/// Stores a log of small events, then large ones, then small ones.
fn fill(store: &dyn SessionPersistence) -> u64 {
    let writer = store.create(&SessionHeader::new(id("a"), 0).unwrap(), CreateOptions::default()).unwrap();
    let large = Json::parse(&format!("\"{}\"", "x".repeat(1 << 20))).unwrap();
    let small = Json::parse("1").unwrap();
    let mut seq = 0;
    for (count, data) in [(9000, &small), (24, &large), (9000, &small)] {
        let events: Vec<_> =
            (seq..seq + count).map(|seq| SessionEvent::new("todo/write", seq, 0, data.clone()).unwrap()).collect();
        writer.append(&events).unwrap();
        seq += count;
    }
    seq
}

#[test]
fn a_page_has_a_few_thousand_events_or_a_few_megabytes() {
    let stores: [Box<dyn SessionPersistence>; 2] =
        [Box::new(MemoryStore::new()), Box::new(SqliteStore::in_memory().unwrap())];
    for store in stores {
        let count = fill(&store);
        let most = Shared::default();
        let watched = Watched { store, most: most.clone() };
        let report = verify(&watched, None, &mut |_| {}).unwrap();
        assert_eq!((report.events, report.faults), (count, 0));
        let salvaged = salvage(&watched, &id("a"), &id("saved")).unwrap();
        assert_eq!((salvaged.events, salvaged.stopped), (count, None));
        let most = *most.lock().unwrap();
        // The first page behind a jump in size holds what was thought to be small: that jump is all of it.
        assert!(most.read.0 <= 4096 && most.appended.0 <= 4096, "{most:?}");
        assert!(most.read.1 <= 32 << 20 && most.appended.1 <= 32 << 20, "{most:?}");
        assert_eq!(logs::text(&watched, &id("saved")).len(), logs::text(&watched, &id("a")).len() + 4);
    }
}
