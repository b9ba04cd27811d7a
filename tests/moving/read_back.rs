//! A copy is compared with its source after it was written.

use std::sync::atomic::{AtomicBool, Ordering};

use session_persistence::export::{self, ImportError, ImportOptions};
use session_persistence::{
    CreateOptions, ListQuery, MemoryStore, OpenOptions, Page, Result, SessionHandle, SessionHeader, SessionId,
    SessionPersistence, Snapshot,
};

use crate::logs::{Reports, forked, id, import, plain};

/// A store that says that it stored a session, and has another log of it then.
struct Forgetful {
    taken: MemoryStore,
    given: MemoryStore,
    has_taken: AtomicBool,
}

impl SessionPersistence for Forgetful {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        self.has_taken.store(true, Ordering::Relaxed);
        self.taken.create(header, options)
    }
    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        self.given.open(id, options)
    }
    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        if self.has_taken.load(Ordering::Relaxed) { self.given.stat(id) } else { Ok(None) }
    }
    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        self.given.list(query)
    }
    fn flush(&self) -> Result<()> {
        self.taken.flush()
    }
    fn remove(&self, id: &SessionId) -> Result<bool> {
        self.given.remove(id)
    }
}

#[test]
fn a_copy_that_does_not_read_back_as_its_source_is_told_with_the_first_seq_that_differs() {
    let source = MemoryStore::new();
    import(&source, &plain("s", 5));
    let another = plain("s", 5).replacen(
        "{\"turn\":1}}\n{\"type\":\"turn/start\",\"seq\":4",
        "{}}\n{\"type\":\"turn/start\",\"seq\":4",
        1,
    );
    for (given, at) in [(None, 0), (Some(plain("s", 3)), 3), (Some(another), 3), (Some(forked("s", "p")), 0)] {
        let target = Forgetful { taken: MemoryStore::new(), given: MemoryStore::new(), has_taken: false.into() };
        given.iter().for_each(|log| drop(import(&target.given, log)));
        let mut reports = Reports::default();
        let options = ImportOptions::default();
        export::copy(&source, "a.db", &target, None, options, &mut reports.take()).unwrap();
        let error = reports.error();
        let ImportError::NotVerified { seq, session, .. } = &error else { panic!("{error}") };
        assert_eq!((*seq, session), (at, &id("s")), "{error}");
    }
}

#[test]
fn what_was_appended_to_a_copy_meanwhile_is_no_fault_of_it() {
    let source = MemoryStore::new();
    import(&source, &plain("s", 5));
    let target = Forgetful { taken: MemoryStore::new(), given: MemoryStore::new(), has_taken: false.into() };
    import(&target.given, &plain("s", 9));
    let mut reports = Reports::default();
    export::copy(&source, "a.db", &target, None, ImportOptions::default(), &mut reports.take()).unwrap();
    assert_eq!(reports.letters(), "C");
}
