//! Several writers of one SQLite store: what they queue is committed in groups, and each is told what became of its own.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use session_persistence::{
    CreateOptions, Durability, ErrorKind, OpenOptions, SeqRange, SessionEvent, SessionHandle, SessionHeader, SessionId,
    SessionPersistence, SqliteOptions, SqliteStore,
};

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn event(seq: u64) -> SessionEvent {
    SessionEvent::of("turn/start", seq, 1, &[seq]).unwrap()
}

fn create(store: &SqliteStore, name: &str) -> Box<dyn SessionHandle> {
    store.create(&SessionHeader::new(id(name), 1).unwrap(), CreateOptions::default()).unwrap()
}

fn log(store: &SqliteStore, name: &str) -> Vec<u64> {
    let reader = store.open(&id(name), OpenOptions::read()).unwrap();
    reader.read(SeqRange::ALL).unwrap().iter().map(|e| e.seq().get()).collect()
}

fn with(durability: Durability, path: &Path) -> SqliteStore {
    SqliteStore::open_with(path, SqliteOptions::default().with_durability(durability)).unwrap()
}

#[test]
fn many_threads_append_and_flush_and_every_event_is_there_once() {
    for durability in [Durability::OnFlush, Durability::EveryAppend] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let store = with(durability, &path);
        let start = Barrier::new(16);
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let (store, start) = (&store, &start);
                scope.spawn(move || {
                    let handle = create(store, &format!("s{thread}"));
                    start.wait();
                    for seq in 0..60 {
                        handle.append(&[event(seq)]).unwrap();
                        if seq % 10 == 9 {
                            handle.flush().unwrap();
                        }
                    }
                });
            }
        });
        drop(store);
        let store = SqliteStore::open(&path).unwrap();
        for thread in 0..16 {
            assert_eq!(log(&store, &format!("s{thread}")), (0..60).collect::<Vec<_>>());
        }
    }
}

#[test]
fn in_a_group_the_refused_are_told_so_and_the_others_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = with(Durability::EveryAppend, &folder.path().join("s.db"));
    let start = Barrier::new(12);
    std::thread::scope(|scope| {
        for thread in 0..12 {
            let (store, start) = (&store, &start);
            scope.spawn(move || {
                let handle = create(store, &format!("s{thread}"));
                start.wait();
                for seq in 0..40 {
                    if thread % 3 == 0 {
                        let refused = handle.append(&[event(seq + 1)]).unwrap_err();
                        assert_eq!(refused.kind(), ErrorKind::NotContiguous);
                        assert_eq!(refused.session(), Some(&id(&format!("s{thread}"))));
                    }
                    handle.append(&[event(seq)]).unwrap();
                }
            });
        }
    });
    for thread in 0..12 {
        assert_eq!(log(&store, &format!("s{thread}")), (0..40).collect::<Vec<_>>());
    }
}

#[test]
fn a_writer_whose_lock_was_taken_away_is_told_so_and_stores_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (first, second) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
    let old = create(&first, "s");
    old.append(&[event(0)]).unwrap();
    let revision = second.stat(&id("s")).unwrap().unwrap().revision;
    std::fs::remove_dir_all(folder.path().join("s.db-locks")).unwrap();
    old.append(&[event(1)]).unwrap();
    assert_ne!(second.stat(&id("s")).unwrap().unwrap().revision, revision, "as long as nobody else has it");

    let new = second.open(&id("s"), OpenOptions::write()).unwrap();
    let revision = second.stat(&id("s")).unwrap().unwrap().revision;
    assert_eq!(old.append(&[event(2)]).unwrap_err().kind(), ErrorKind::OwnershipLost);
    assert_eq!(second.stat(&id("s")).unwrap().unwrap().revision, revision);
    assert_eq!(log(&second, "s"), [0, 1]);
    new.append(&[event(2)]).unwrap();
    assert_eq!(old.append(&[event(3)]).unwrap_err().kind(), ErrorKind::OwnershipLost);
    let failure = first.stat(&id("s")).unwrap().unwrap().last_failure.unwrap();
    assert_eq!((failure.operation, failure.kind), ("append", ErrorKind::OwnershipLost));
    old.close().unwrap();
    let third = SqliteStore::open(&path).unwrap();
    let refused = third.open(&id("s"), OpenOptions::write()).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::AlreadyOwned, "the old writer gave up what was its own and nothing else");
    new.append(&[event(3)]).unwrap();
    assert_eq!(log(&third, "s"), [0, 1, 2, 3]);
}

#[test]
fn every_store_tells_who_writes_a_session_and_whoever_asks_is_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (writing, asking) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
    create(&writing, "other").append(&[event(0)]).unwrap();
    create(&writing, "s").append(&[event(0)]).unwrap();
    let owners = || {
        let page = asking.list(&Default::default()).unwrap();
        page.items.into_iter().map(|s| (s.id.to_string(), s.owner.map(|o| o.process))).collect::<Vec<_>>()
    };
    let nobody = [("s".to_owned(), None), ("other".to_owned(), None)];
    assert_eq!(owners(), nobody);
    let handle = writing.open(&id("s"), OpenOptions::write()).unwrap();
    assert_eq!(owners(), [("s".to_owned(), Some(std::process::id())), ("other".to_owned(), None)]);
    let owner = asking.stat(&id("s")).unwrap().unwrap().owner.unwrap();
    assert_eq!(owner.host, gethostname::gethostname().to_string_lossy());
    drop(handle);
    assert_eq!(owners(), nobody);
    // What a killed writer leaves: a file that nobody locks.
    std::fs::create_dir_all(folder.path().join("s.db-locks")).unwrap();
    std::fs::write(folder.path().join("s.db-locks/2.lock"), "{\"process\":1,\"since\":0}\n").unwrap();
    assert_eq!(owners(), nobody);

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (path, done) = (&path, &done);
            scope.spawn(move || {
                let asking = SqliteStore::open(path).unwrap();
                while !done.load(Ordering::Relaxed) {
                    asking.stat(&id("s")).unwrap();
                }
            });
        }
        for _ in 0..200 {
            drop(writing.open(&id("s"), OpenOptions::write()).unwrap());
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn one_transaction_of_another_program_that_is_held_for_a_while_is_waited_for_and_one_for_ever_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let options = SqliteOptions::default().with_busy_timeout(Duration::from_millis(300));
    let store = SqliteStore::open_with(&path, options).unwrap();
    let handle = create(&store, "s");
    handle.append(&[event(0)]).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let appending = scope.spawn(|| handle.append(&[event(1)]));
        std::thread::sleep(Duration::from_millis(30));
        other.execute_batch("COMMIT").unwrap();
        appending.join().unwrap().unwrap();
    });
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(handle.append(&[event(2)]).unwrap_err().kind(), ErrorKind::StoreBusy);
    assert_eq!(log(&store, "s"), [0, 1], "reading waits for nobody");
    let failure = store.stat(&id("s")).unwrap().unwrap().last_failure.unwrap();
    assert_eq!((failure.operation, failure.kind), ("append", ErrorKind::StoreBusy));
    other.execute_batch("COMMIT").unwrap();
    handle.append(&[event(2)]).unwrap();
    assert_eq!(store.stat(&id("s")).unwrap().unwrap().last_failure, None);
    assert_eq!(log(&store, "s"), [0, 1, 2]);
}
