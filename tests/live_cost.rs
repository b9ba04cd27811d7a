//! What an append to a live session costs, counted in what it allocates and in what it asks of the store, which no busy
//! machine changes.

#![allow(unsafe_code, reason = "an allocator that counts can only be made of unsafe calls")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use session_persistence::session::{
    AppendOptions, LifecycleOptions, RouterOptions, Seed, Session, SessionHub, SessionRouter,
};
use session_persistence::{
    Access, CreateOptions, ListQuery, MemoryStore, OpenOptions, Page, Result, SeqRange, SessionEvent, SessionHandle,
    SessionHeader, SessionId, SessionPersistence, Snapshot,
};

/// How often memory was asked for, and for how many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    times: u64,
    bytes: u64,
}

thread_local! {
    static ASKED: Cell<Asked> = const { Cell::new(Asked { times: 0, bytes: 0 }) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: usize) {
    let asked = ASKED.get();
    ASKED.set(Asked { times: asked.times + 1, bytes: asked.bytes + bytes as u64 });
}

// SAFETY: every call is handed on to the allocator of the system as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the rules of this very call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// What `work` asked for on this thread.
fn asked_by(work: impl FnOnce()) -> Asked {
    let before = ASKED.get();
    work();
    let after = ASKED.get();
    Asked { times: after.times - before.times, bytes: after.bytes - before.bytes }
}

/// What was asked of a store: how large each batch was, how many reads and flushes there were.
#[derive(Debug, Default)]
struct Calls {
    batches: Mutex<Vec<usize>>,
    reads: AtomicUsize,
    flushes: AtomicUsize,
    others: AtomicUsize,
}

struct Watched(MemoryStore, Arc<Calls>);

struct WatchedHandle(Box<dyn SessionHandle>, Arc<Calls>);

impl SessionPersistence for Watched {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        Ok(Box::new(WatchedHandle(self.0.create(header, options)?, self.1.clone())))
    }
    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        self.1.others.fetch_add(1, Ordering::SeqCst);
        self.0.open(id, options)
    }
    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        self.1.others.fetch_add(1, Ordering::SeqCst);
        self.0.stat(id)
    }
    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        self.1.others.fetch_add(1, Ordering::SeqCst);
        self.0.list(query)
    }
    fn flush(&self) -> Result<()> {
        self.1.others.fetch_add(1, Ordering::SeqCst);
        self.0.flush()
    }
    fn remove(&self, id: &SessionId) -> Result<bool> {
        self.1.others.fetch_add(1, Ordering::SeqCst);
        self.0.remove(id)
    }
}

impl SessionHandle for WatchedHandle {
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
        self.1.reads.fetch_add(1, Ordering::SeqCst);
        self.0.read(range)
    }
    fn append(&self, events: &[SessionEvent]) -> Result<()> {
        self.1.batches.lock().unwrap().push(events.len());
        self.0.append(events)
    }
    fn flush(&self) -> Result<()> {
        self.1.flushes.fetch_add(1, Ordering::SeqCst);
        self.0.flush()
    }
    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

/// A live session over a store that is watched.
struct Scene {
    session: Session,
    router: SessionRouter,
    calls: Arc<Calls>,
}

impl Scene {
    fn new() -> Self {
        let calls = Arc::new(Calls::default());
        let store = Arc::new(Watched(MemoryStore::new(), calls.clone()));
        // Nothing is stored but by a flush, so that each run stores the same batches.
        let options = RouterOptions::default().with_window(Duration::from_secs(3600));
        let router = SessionRouter::new_with(&SessionHub::new(), store, options).unwrap();
        let header = SessionHeader::new(SessionId::new("s").unwrap(), 0).unwrap();
        let session = router.create(header, Seed::None, LifecycleOptions::default(), |_| Ok(())).unwrap();
        Self { session, router, calls }
    }

    /// Appends until the log has so many events; every fourth is one that the model sees.
    fn grow(&self, length: u64) {
        for seq in self.session.seq()..length {
            let appended = if seq % 4 == 0 {
                // As wide for every seq, so that the bytes are too.
                let id = format!("m{seq:09}");
                let message = json!({ "content": [], "source": { "kind": "user" }, "role": "user", "id": id });
                self.session.append("user/message", &message, AppendOptions::surface())
            } else {
                self.session.append("todo/write", &[0; 8], AppendOptions::default())
            };
            appended.unwrap();
        }
    }

    /// What `count` appends ask for, in memory and of the store, where each hundred is flushed.
    fn cost_of(&self, count: u64) -> (Asked, (Vec<usize>, usize, usize, usize)) {
        self.flush();
        self.calls.batches.lock().unwrap().clear();
        let flushes = self.calls.flushes.load(Ordering::SeqCst);
        let mut asked = Asked { times: 0, bytes: 0 };
        for _ in 0..count / 100 {
            let hundred = asked_by(|| self.grow(self.session.seq() + 100));
            asked = Asked { times: asked.times + hundred.times, bytes: asked.bytes + hundred.bytes };
            self.flush();
        }
        let calls = &self.calls;
        let told = (
            calls.batches.lock().unwrap().clone(),
            calls.flushes.load(Ordering::SeqCst) - flushes,
            calls.reads.load(Ordering::SeqCst),
            calls.others.load(Ordering::SeqCst),
        );
        (asked, told)
    }

    fn flush(&self) {
        assert!(self.router.hub().flush(self.session.id()).unwrap());
    }
}

#[test]
fn an_append_to_a_session_of_a_hundred_thousand_events_costs_what_one_to_a_session_of_a_hundred_does() {
    let scene = Scene::new();
    scene.grow(100);
    let (short, short_calls) = scene.cost_of(1_000);
    let growth = asked_by(|| scene.grow(100_000));
    let (long, long_calls) = scene.cost_of(1_000);
    assert_eq!(long_calls, short_calls, "of the store the same is asked");
    assert_eq!(long_calls, (vec![100; 10], 10, 0, 0), "a batch and a flush for each hundred, and nothing else");
    // What grows doubles now and then: seldom, and the seldomer the longer it is.
    assert!(long.times.abs_diff(short.times) <= 50, "{long:?} at 100,000 events, {short:?} at 100");
    assert!(long.bytes <= short.bytes + short.bytes / 20, "{long:?} at 100,000 events, {short:?} at 100");
    // And over all: no append paid for the length of the log, at whatever length.
    let each = growth.bytes / 98_900;
    assert!(each <= 2 * short.bytes / 1_000, "{each} bytes for an append, {short:?} for 1,000 at the start");
}

#[test]
fn the_messages_after_an_append_are_had_without_a_copy_however_many_there_are() {
    let scene = Scene::new();
    for length in [100, 20_000] {
        scene.grow(length);
        let before = scene.session.derive_messages().len();
        scene.grow(length + 4);
        let asked = asked_by(|| assert_eq!(scene.session.derive_messages().len(), before + 1));
        assert_eq!(asked, Asked { times: 0, bytes: 0 }, "at {length} events");
    }
}
