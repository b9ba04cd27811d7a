//! A first opening that meets the lock of another program, and a WAL that has grown large.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use session_persistence::{
    Error, ErrorKind, Journal, OpenOptions, SessionPersistence as _, SqliteOptions, SqliteStore,
};

use super::place::{counts, create, events, id, names, of, open, put, rollback};

fn briefly() -> SqliteOptions {
    SqliteOptions::default().with_busy_timeout(Duration::from_millis(30))
}

/// The system tells who holds a lock: here the test itself, by a connection of its own.
fn tells_this_process(busy: &Error) {
    let holder = cfg!(target_os = "linux").then(std::process::id);
    assert!(matches!(busy, Error::StoreBusy { holder: told, .. } if *told == holder), "{busy:?}");
    assert!(holder.is_none_or(|process| busy.to_string().contains(&format!("process {process}"))), "{busy}");
}

#[test]
fn a_first_opening_that_meets_a_lock_is_busy_and_works_later() {
    for journal in [Journal::Wal, Journal::Rollback] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        put(&SqliteStore::open_with(&path, SqliteOptions::default().with_journal(journal)).unwrap(), "s", 3, 100);
        let other = Connection::open(&path).unwrap();
        other
            .execute_batch(
                "PRAGMA locking_mode = exclusive; BEGIN EXCLUSIVE; CREATE TABLE mine (x); COMMIT; BEGIN EXCLUSIVE",
            )
            .unwrap();
        for open in [SqliteStore::open_with, SqliteStore::open_existing_with] {
            let busy = open(&path, briefly()).map(drop).unwrap_err();
            assert!(busy.is_retryable(), "{journal:?}: {busy:?}");
            tells_this_process(&busy);
        }
        // It is waited for.
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| counts(&open(&path)).unwrap());
            std::thread::sleep(Duration::from_millis(50));
            drop(other);
            assert_eq!(waiting.join().unwrap(), of(&[("s", 3)]), "{journal:?}");
        });
        assert_eq!(counts(&SqliteStore::open_existing_with(&path, briefly()).unwrap()).unwrap(), of(&[("s", 3)]));
        assert_eq!(names(folder.path()), ["s.db"]);
    }
}

#[test]
fn a_store_value_whose_first_write_met_a_lock_writes_later() {
    for options in [briefly(), rollback().with_busy_timeout(Duration::from_millis(30))] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let store = SqliteStore::open_with(&path, options).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let handle = create(&store, "s");
        for _ in 0..2 {
            tells_this_process(&handle.append(&events(0..3, 10)).unwrap_err());
            assert_eq!(handle.flush().unwrap_err().kind(), ErrorKind::StoreBusy);
            assert_eq!(counts(&store).unwrap(), of(&[("s", 0)]), "reading needs no lock for writing");
            assert!(counts(&open(&path)).unwrap().is_empty());
        }
        drop(other);
        handle.append(&events(0..3, 10)).unwrap();
        handle.flush().unwrap();
        assert_eq!(counts(&open(&path)).unwrap(), of(&[("s", 3)]));
    }
}

#[test]
fn a_store_with_a_large_wal_is_opened_and_put_in_order() {
    let megabytes = if std::env::var_os("SESSIONS_FULL").is_some() { 64 } else { 8 };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).unwrap();
    put(&store, "s", 10, 1000);
    // A reader that stays keeps the WAL growing.
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM events").unwrap();
    put(&store, "t", megabytes * 10, 100_000);
    store.flush().unwrap();
    let wal = super::place::beside(&path, "-wal").metadata().unwrap().len();
    assert!(wal > megabytes * 1_000_000, "{wal}");
    for suffixes in [&["-wal"][..], &["-wal", "-shm"]] {
        let copied = tempfile::tempdir().unwrap();
        let to = copied.path().join("s.db");
        super::place::copy(&path, &to, suffixes);
        let started = std::time::Instant::now();
        let opened = open(&to);
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        assert_eq!(counts(&opened).unwrap(), of(&[("s", 10), ("t", megabytes * 10)]));
        drop(opened);
        assert_eq!(names(copied.path()), ["s.db"]);
    }
}

/// What SQLite does to a file while it commits or copies its WAL is never taken for damage by who opens it meanwhile.
#[test]
fn a_store_is_opened_at_any_moment_of_anothers_writing() {
    let rounds = if std::env::var_os("SESSIONS_FULL").is_some() { 60 } else { 15 };
    for journal in [Journal::Wal, Journal::Rollback] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        put(&SqliteStore::open_with(&path, SqliteOptions::default().with_journal(journal)).unwrap(), "s", 1, 10);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while !is_done.load(Ordering::Acquire) {
                        let count = counts(&open(&path)).unwrap()["s"];
                        assert!(count >= last, "{journal:?}: {count} after {last}");
                        last = count;
                    }
                });
            }
            for round in 0..rounds {
                let store = open(&path);
                let handle = store.open(&id("s"), OpenOptions::write()).unwrap();
                for batch in 0..4 {
                    let next = 1 + (round * 4 + batch) * 5;
                    handle.append(&events(next..next + 5, 9000)).unwrap();
                }
            }
            is_done.store(true, Ordering::Release);
        });
        assert_eq!(counts(&open(&path)).unwrap(), of(&[("s", 1 + rounds * 20)]));
        assert_eq!(names(folder.path()), ["s.db"]);
    }
}
