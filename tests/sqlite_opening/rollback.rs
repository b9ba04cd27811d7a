//! Stores in rollback mode, and stores that change from one mode to the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use session_persistence::{
    Durability, ErrorKind, Journal, ListQuery, OpenOptions, SessionPersistence as _, SqliteOptions, SqliteStore,
};

use super::place::{beside, content, counts, create, event, events, id, mode, names, of, open, put, refused, rollback};

#[test]
fn a_new_store_has_the_mode_that_is_asked_for_and_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    for (journal, name) in [(None, "wal"), (Some(Journal::Wal), "wal"), (Some(Journal::Rollback), "delete")] {
        let path = folder.path().join(format!("{journal:?}.db"));
        let mut options = SqliteOptions::default();
        options.journal = journal;
        let store = SqliteStore::open_with(&path, options).unwrap();
        put(&store, "s", 3, 100);
        assert_eq!(beside(&path, "-wal").exists(), name == "wal");
        drop(store);
        assert_eq!(mode(&path), name);
        // Whoever asks for nothing leaves it as it is.
        let store = open(&path);
        put(&store, "t", 2, 100);
        drop(store);
        assert_eq!(mode(&path), name);
        assert_eq!(counts(&open(&path)).unwrap(), of(&[("s", 3), ("t", 2)]));
    }
    assert_eq!(names(folder.path()), ["None.db", "Some(Rollback).db", "Some(Wal).db"]);
}

#[test]
fn an_existing_store_changes_its_mode_when_it_is_written_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    put(&SqliteStore::open(&path).unwrap(), "s", 300, 1000);
    for (number, (journal, from, to)) in
        [(Journal::Rollback, "wal", "delete"), (Journal::Wal, "delete", "wal"), (Journal::Wal, "wal", "wal")]
            .into_iter()
            .enumerate()
    {
        let before = content(folder.path());
        let store = SqliteStore::open_with(&path, SqliteOptions::default().with_journal(journal)).unwrap();
        let number = number as u64;
        assert_eq!(counts(&store).unwrap(), of(&[("s", 300 + number)]));
        drop(store);
        assert!(content(folder.path()) == before, "{journal:?}: a visit that only reads");
        assert_eq!(mode(&path), from);

        // Its own readers are in nobody's way.
        let store = SqliteStore::open_with(&path, SqliteOptions::default().with_journal(journal)).unwrap();
        assert_eq!(counts(&store).unwrap(), of(&[("s", 300 + number)]));
        let handle = store.open(&id("s"), OpenOptions::write()).unwrap();
        handle.append(&[event(300 + number, 10)]).unwrap();
        handle.flush().unwrap();
        assert_eq!(counts(&store).unwrap(), of(&[("s", 301 + number)]));
        drop((handle, store));
        assert_eq!(mode(&path), to);
        assert_eq!(names(folder.path()), ["s.db"]);
    }
}

#[test]
fn a_writer_in_rollback_mode_goes_by_the_mode_that_another_one_switches_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open_with(&path, rollback()).unwrap();
    put(&store, "s", 3, 10);
    let handle = store.open(&id("s"), OpenOptions::write()).unwrap();
    handle.append(&[event(3, 10)]).unwrap();
    let other = SqliteStore::open_with(&path, SqliteOptions::default().with_journal(Journal::Wal)).unwrap();
    put(&other, "t", 2, 10);
    assert_eq!(mode(&path), "wal");
    handle.append(&[event(4, 10)]).unwrap();
    handle.flush().unwrap();
    assert_eq!(counts(&other).unwrap(), of(&[("s", 5), ("t", 2)]));
    // As long as a WAL that nobody shortens.
    for seq in 5..505 {
        handle.append(&[event(seq, 40_000)]).unwrap();
    }
    let wal = std::fs::metadata(beside(&path, "-wal")).unwrap().len();
    assert!(wal > 0 && wal < 16 << 20, "{wal} bytes");
    drop((handle, store, other));
    assert_eq!(counts(&open(&path)).unwrap(), of(&[("s", 505), ("t", 2)]));
}

#[test]
fn a_store_that_others_have_open_stays_in_wal_mode_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    put(&SqliteStore::open(&path).unwrap(), "s", 3, 100);
    let other = open(&path);
    assert_eq!(counts(&other).unwrap(), of(&[("s", 3)]));
    let store = SqliteStore::open_with(&path, rollback().with_busy_timeout(Duration::from_millis(30))).unwrap();
    let handle = create(&store, "t");
    let busy = handle.append(&[event(0, 10)]).unwrap_err();
    assert_eq!((busy.kind(), busy.is_retryable()), (ErrorKind::StoreBusy, true));
    assert!(format!("{busy:?}").contains("rollback mode"), "{busy:?}");
    assert_eq!(counts(&other).unwrap(), of(&[("s", 3)]));
    drop(other);
    // The same call on the same handle.
    handle.append(&[event(0, 10)]).unwrap();
    assert_eq!(counts(&store).unwrap(), of(&[("s", 3), ("t", 1)]));
    drop((handle, store));
    assert_eq!(mode(&path), "delete");
}

#[test]
fn readers_and_the_writer_wait_for_each_other_and_none_sees_half_a_batch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open_with(&path, rollback()).unwrap();
    put(&store, "s", 10, 100);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for own in [true, false] {
            let (store, path, is_done) = (&store, &path, &is_done);
            scope.spawn(move || {
                let other = open(path);
                let store = if own { store } else { &other };
                let mut last = 0;
                while !is_done.load(Ordering::Acquire) {
                    let count = counts(store).unwrap()["s"];
                    assert!(count >= last && count.is_multiple_of(10), "{count} after {last}");
                    last = count;
                }
            });
        }
        let handle = store.open(&id("s"), OpenOptions::write()).unwrap();
        for batch in 1..30 {
            handle.append(&events(batch * 10..batch * 10 + 10, 3000)).unwrap();
        }
        is_done.store(true, Ordering::Release);
    });
    assert_eq!(counts(&store).unwrap(), of(&[("s", 300)]));
}

#[test]
fn what_another_program_locks_is_waited_for_and_then_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open_with(&path, rollback().with_busy_timeout(Duration::from_millis(30))).unwrap();
    put(&store, "s", 3, 100);
    let other = Connection::open(&path).unwrap();
    // One that is about to write keeps nobody from reading.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(counts(&store).unwrap(), of(&[("s", 3)]));
    let handle =
        store.create(&session_persistence::SessionHeader::new(id("t"), 1).unwrap(), Default::default()).unwrap();
    assert_eq!(handle.append(&[event(0, 1)]).unwrap_err().kind(), ErrorKind::StoreBusy);
    other.execute_batch("ROLLBACK; BEGIN EXCLUSIVE").unwrap();
    assert_eq!(store.list(&ListQuery::default()).unwrap_err().kind(), ErrorKind::StoreBusy);
    other.execute_batch("ROLLBACK; BEGIN; SELECT count(*) FROM events").unwrap();
    // One that reads keeps a commit from being written.
    assert_eq!(handle.append(&[event(0, 1)]).unwrap_err().kind(), ErrorKind::StoreBusy);
    assert_eq!(counts(&store).unwrap(), of(&[("s", 3), ("t", 0)]));
    other.execute_batch("ROLLBACK").unwrap();
    handle.append(&[event(0, 1)]).unwrap();
    assert_eq!(counts(&store).unwrap(), of(&[("s", 3), ("t", 1)]));
}

/// Sessions that a flush stores are durable with it, and one more flush has nothing left to do.
#[test]
fn every_commit_waits_for_the_disk_so_that_a_flush_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    for durability in [Durability::OnFlush, Durability::EveryAppend] {
        let store = SqliteStore::open_with(&path, rollback().with_durability(durability)).unwrap();
        let handle = create(&store, &format!("{durability:?}"));
        handle.append(&[event(0, 10)]).unwrap();
        let before = std::fs::read(&path).unwrap();
        handle.flush().unwrap();
        store.flush().unwrap();
        assert!(std::fs::read(&path).unwrap() == before, "{durability:?}");
    }
}

#[test]
fn a_change_that_a_killed_process_did_not_finish_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open_with(&path, rollback()).unwrap();
    put(&store, "s", 50, 1000);
    let whole = std::fs::read(&path).unwrap();
    let pages = whole.len() / 8192;
    // What stood in the pages before stands in the journal, and the pages are half written.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA cache_size = 1; CREATE TABLE mine (x)").unwrap();
    other.execute_batch("BEGIN").unwrap();
    for _ in 0..200 {
        other.execute("INSERT INTO mine VALUES (zeroblob(3000))", []).unwrap();
    }
    let killed = folder.path().join("killed.db");
    super::place::copy(&path, &killed, &["-journal"]);
    other.execute_batch("ROLLBACK").unwrap();
    assert!(std::fs::read(&killed).unwrap().len() > (pages + 50) * 8192, "the change was on its way into the file");
    assert!(std::fs::read(beside(&killed, "-journal")).unwrap().starts_with(&[0xd9, 0xd5, 0x05, 0xf9]));
    assert_eq!(counts(&open(&killed)).unwrap(), of(&[("s", 50)]));
    assert!(!beside(&killed, "-journal").exists());
    let mine: i64 =
        Connection::open(&killed).unwrap().query_row("SELECT count(*) FROM mine", [], |r| r.get(0)).unwrap();
    assert_eq!(mine, 0);
}

#[test]
fn what_is_no_store_is_refused_in_rollback_mode_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    put(&SqliteStore::open_with(&path, rollback()).unwrap(), "s", 30, 1000);
    let whole = std::fs::read(&path).unwrap();
    let random: Vec<u8> = (0..8192_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let broken = [
        ("header", [&random[..], &whole[8192..]].concat(), "not a SQLite database"),
        ("one page", whole[..8192].to_vec(), "malformed"),
        ("half", whole[..whole.len() / 8192 / 2 * 8192].to_vec(), "malformed"),
        ("empty", Vec::new(), "empty"),
        ("text", b"Notes of last week, which are long enough to be a page of a database. ".repeat(200), "not a SQLite"),
    ];
    for (what, bytes, reason) in broken {
        std::fs::write(&path, &bytes).unwrap();
        for open in [SqliteStore::open_existing_with, SqliteStore::open_with] {
            for options in [SqliteOptions::default(), rollback(), SqliteOptions::default().with_journal(Journal::Wal)] {
                let error = open(&path, options).map(drop).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UnsupportedStore, "{what}: {error}");
                assert!(error.to_string().contains(reason) && error.to_string().contains("s.db"), "{what}: {error}");
            }
        }
        assert_eq!(names(folder.path()), ["s.db"], "{what}");
        assert!(std::fs::read(&path).unwrap() == bytes, "{what}");
    }
    assert_eq!(refused(&folder.path().join("absent.db")).kind(), ErrorKind::UnsupportedStore);
}

#[test]
fn a_backup_has_the_mode_of_its_store() {
    let folder = tempfile::tempdir().unwrap();
    for (options, name) in [(SqliteOptions::default(), "wal"), (rollback(), "delete")] {
        let path = folder.path().join(format!("{name}.db"));
        let to = folder.path().join(format!("backup-{name}.db"));
        let store = SqliteStore::open_with(&path, options).unwrap();
        put(&store, "s", 300, 1000);
        store.backup(&to).unwrap();
        assert_eq!(mode(&to), name);
        assert_eq!(counts(&open(&to)).unwrap(), of(&[("s", 300)]));
        // All of it is in the file once the store is closed.
        drop(store);
        let room = std::fs::metadata(&path).unwrap().len();
        let store = open(&path);
        assert!(store.remove(&id("s")).unwrap());
        store.compact().unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < room);
        drop(store);
        assert_eq!(mode(&path), name);
    }
    assert_eq!(names(folder.path()), ["backup-delete.db", "backup-wal.db", "delete.db", "wal.db"]);
}
