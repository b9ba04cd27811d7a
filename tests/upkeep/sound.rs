//! Of a store in which everything is as it was stored a check says nothing, and changes nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use session_persistence::upkeep::{self, Progress};
use session_persistence::{
    CreateOptions, Encoding, ErrorKind, Fault, FaultKind, ListQuery, MemoryStore, OpenOptions, Page, Result,
    SessionEvent, SessionHandle, SessionHeader, SessionId, SessionPersistence, Snapshot, SqliteStore,
};

use crate::logs::{self, id, import};
use crate::place::{Database, ENCODINGS, Root, Stop, content, verify, verify_some, write_without_rest};

/// Logs of every kind, those included that this build cannot interpret.
fn logs_of_every_kind() -> Vec<String> {
    let mut logs = logs::all();
    logs.push(
        concat!(
            r#"{"type":"session","version":1,"id":"old","createdAt":0,"seedLength":1,"delegationDepth":0}"#,
            "\n",
            r#"{"type":"turn/start","seq":0,"time":1000,"data":{}}"#,
            "\n"
        )
        .to_owned(),
    );
    logs.push(
        concat!(
            r#"{"type":"session","version":9,"id":"newer","createdAt":0,"future":[1]}"#,
            "\n",
            r#"{"type":"turn/start","seq":0,"time":1000,"data":{}}"#,
            "\n"
        )
        .to_owned(),
    );
    logs.push(logs::header("unknown") + &logs::event("acme/pulse", 0, "{}"));
    let big = "x".repeat(3 << 19);
    logs.push(
        logs::header("big")
            + &(0..3).map(|seq| logs::event("todo/write", seq, &format!("\"{big}\""))).collect::<String>(),
    );
    let nested = "[".repeat(1500) + &"]".repeat(1500);
    logs.push(logs::header("deep") + &logs::event("todo/write", 0, &nested));
    logs
}

/// A seeded session whose seed is not complete yet.
fn begin_seed(store: &dyn SessionPersistence) {
    let header = SessionHeader::new(id("seeding"), 1).unwrap().with_parent_session("gone").with_seed();
    let handle = store.create(&header, CreateOptions::inheriting(7)).unwrap();
    handle.append(&[SessionEvent::of("turn/start", 0, 1, &[1]).unwrap()]).unwrap();
}

#[track_caller]
fn assert_sound(name: &str, store: &dyn SessionPersistence, sessions: u64) {
    let (report, faults) = verify(store);
    assert_eq!(faults, [], "{name}");
    let listed = store.list(&ListQuery::default()).unwrap().items;
    let events = listed.iter().map(|snapshot| snapshot.event_count.unwrap()).sum::<u64>();
    assert_eq!((report.sessions, report.events), (sessions, events), "{name}");
    assert!(report.is_sound());
}

#[test]
fn a_check_of_a_sound_store_says_nothing() {
    let logs = logs_of_every_kind();
    for (name, store) in logs::stores() {
        logs.iter().for_each(|log| drop(import(&*store, log)));
        begin_seed(&*store);
        assert_sound(name, &*store, logs.len() as u64 + 1);
        // Removed sessions leave gaps in the numbers.
        for removed in ["a", "long", "forked"] {
            assert!(store.remove(&id(removed)).unwrap());
        }
        assert_sound(name, &*store, logs.len() as u64 - 2);
        // One that was created and is not stored yet is none.
        let pending = store.create(&SessionHeader::new(id("pending"), 0).unwrap(), CreateOptions::default()).unwrap();
        let (report, faults) = verify(&*store);
        assert_eq!((report.sessions, faults), (logs.len() as u64 - 2, vec![]), "{name}");
        pending.close().unwrap();
    }
}

#[test]
fn a_check_of_a_closed_store_changes_no_byte() {
    let logs = logs_of_every_kind();
    let database = Database::of(&logs);
    let before = content(database.folder());
    assert_sound("sqlite", &database.open(), logs.len() as u64);
    assert!(content(database.folder()) == before);
    for encoding in ENCODINGS {
        let root = Root::of(encoding, &logs);
        let before = content(root.folder());
        assert_sound("files", &root.open(), logs.len() as u64);
        assert!(content(root.folder()) == before, "{encoding:?}");
    }
}

#[test]
fn a_store_of_the_first_version_is_sound_once_it_was_brought_to_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let earlier = rusqlite::Connection::open(&path).unwrap();
    earlier.execute_batch("PRAGMA journal_mode = wal").unwrap();
    earlier.execute_batch(include_str!("../schemas/1.sql")).unwrap();
    earlier.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    earlier.execute_batch("INSERT INTO store VALUES (1, 'x', 0, 0)").unwrap();
    earlier.close().unwrap();
    let store = SqliteStore::open(&path).unwrap();
    import(&store, &logs::plain("a", 3));
    assert_sound("migrated", &store, 1);
}

#[test]
fn only_the_sessions_that_are_named_are_read() {
    let database = Database::filled();
    database.change("UPDATE events SET time = 0 WHERE session = 1; DROP TRIGGER events_update");
    let store = database.open();
    let (report, faults) = verify_some(&store, Some(&[id("b")]));
    assert_eq!((report.sessions, report.events, faults), (1, 4, vec![]));
    let (report, faults) = verify_some(&store, Some(&[id("b"), id("a")]));
    assert_eq!((report.sessions, report.faults, faults.len()), (2, 1, 1));

    let mut told = 0;
    let refused = upkeep::verify(&store, Some(&[id("a"), id("absent")]), &mut |_| told += 1).unwrap_err();
    assert_eq!((refused.kind(), refused.session(), told), (ErrorKind::NotFound, Some(&id("absent")), 0));
}

#[test]
fn progress_goes_from_session_to_session_and_then_to_the_storage() {
    let store = MemoryStore::new();
    import(&store, &logs::plain("a", 9000));
    import(&store, &logs::plain("b", 2));
    let mut told = Vec::new();
    upkeep::verify(&store, None, &mut |progress| match progress {
        Progress::Reading { session, read, of } => told.push(format!("{session} {read} {of:?}")),
        Progress::Storage => told.push("storage".to_owned()),
        other => panic!("{other:?}"),
    })
    .unwrap();
    assert!(told.iter().any(|line| line == "a 9000 Some(9000)"), "{told:?}");
    assert!(told.iter().filter(|line| line.starts_with("a ")).count() > 2, "{told:?}");
    assert!(told.iter().any(|line| line == "b 2 Some(2)"), "{told:?}");
    assert_eq!(told.last().unwrap(), "storage");
}

#[test]
fn what_writers_do_meanwhile_is_no_fault() {
    let database = Database::of(&[logs::plain("grows", 100)]);
    type Shared = Arc<dyn SessionPersistence>;
    let mut stores: Vec<(&str, Shared, Shared)> =
        vec![("sqlite", Arc::new(database.open()), Arc::new(database.open())), {
            let store = Arc::new(MemoryStore::new());
            import(&*store, &logs::plain("grows", 100));
            ("memory", store.clone(), store)
        }];
    let roots = ENCODINGS.map(|encoding| Root::of(encoding, &[logs::plain("grows", 100)]));
    for root in &roots {
        stores.push(("files", Arc::new(root.open()), Arc::new(root.open())));
    }
    for (name, writing, reading) in stores {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            scope.spawn(|| write_without_rest(&*writing, &stop));
            for _ in 0..if std::env::var_os("SESSIONS_FULL").is_some() { 60 } else { 6 } {
                let (_, faults) = verify(&*reading);
                // Of a write that is under way elsewhere nobody can tell that it will be finished.
                let faults: Vec<_> = faults.into_iter().filter(|fault| !fault.kind.is_harmless()).collect();
                assert_eq!(faults, [], "{name}");
            }
        });
    }
}

#[test]
fn a_session_that_moves_in_the_list_while_others_are_read_is_checked_all_the_same() {
    let store = MemoryStore::new();
    for n in 0..1100 {
        import(&store, &logs::plain(&format!("s{n}"), 1));
    }
    // The least recently active, which is on the last page of a list by activity.
    let writer = store.open(&id("s0"), OpenOptions::write()).unwrap();
    let mut is_moved = false;
    let report = upkeep::verify(&store, None, &mut |_| {
        if !std::mem::replace(&mut is_moved, true) {
            writer.append(&[SessionEvent::of("x", 1, 0, &1).unwrap()]).unwrap();
        }
    });
    assert_eq!((report.unwrap().sessions, is_moved), (1100, true));
}

#[test]
fn what_the_user_adds_to_a_database_is_no_fault() {
    let database = Database::filled();
    database.change(
        "CREATE TABLE notes (session_id TEXT REFERENCES sessions (id), note TEXT);
         CREATE INDEX by_type ON events (type);
         INSERT INTO notes VALUES ('a', 'x');
         CREATE VIEW mine AS SELECT * FROM session_events;
         CREATE TRIGGER noted AFTER INSERT ON notes BEGIN SELECT 1; END;",
    );
    assert_eq!(verify(&database.open()).1, []);
    database.change("INSERT INTO notes VALUES ('absent', 'x')");
    let (_, faults) = verify(&database.open());
    assert_eq!(faults.len(), 1);
    assert!(faults[0].kind == FaultKind::Structure && faults[0].reason.contains("notes"), "{faults:?}");
}

/// A store that finds a fault of its own.
struct Finding(MemoryStore);

impl SessionPersistence for Finding {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        self.0.create(header, options)
    }
    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        self.0.open(id, options)
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
    fn check_storage(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        found(Fault::new(FaultKind::Structure, "a hole", "fill it"));
        Ok(())
    }
}

#[test]
fn a_boxed_and_a_shared_store_check_their_storage_too() {
    let boxed: Box<dyn SessionPersistence> = Box::new(Finding(MemoryStore::new()));
    let shared: Arc<dyn SessionPersistence> = Arc::new(Finding(MemoryStore::new()));
    assert_eq!(verify(&boxed).1.len(), 1);
    assert_eq!(verify(&shared).1.len(), 1);
    assert_eq!(verify(&MemoryStore::new()).1, [], "a backend need not implement it");
}

#[test]
fn an_encoding_of_its_own_is_no_fault_of_a_session() {
    let root = Root::of(Encoding::Raw, &[logs::plain("a", 3)]);
    let packed = Root::of(Encoding::Zstd, &[logs::plain("b", 3)]);
    std::fs::rename(packed.session("b"), root.session("b")).unwrap();
    assert_sound("both", &root.open(), 2);
}
