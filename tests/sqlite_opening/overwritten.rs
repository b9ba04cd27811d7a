//! A file that is written over while its store is open, as `cp` does it: SQLite would mix what it remembers, what is in its
//! WAL and what is in the file now.

use std::fs;
use std::path::Path;

use session_persistence::{ErrorKind, OpenOptions, SeqRange, SessionPersistence as _, SqliteStore};

use super::place::{beside, content, counts, event, events, id, of, open, put, rollback};

/// Writes other bytes into the same file.
fn overwrite(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

/// What is at hand to be written over a store, by what it is.
fn others(folder: &Path, backup: Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
    let other = folder.join("other.db");
    put(&SqliteStore::open(&other).unwrap(), "of another store", 200, 1000);
    let another_store = fs::read(&other).unwrap();
    vec![
        ("an older state", backup.clone()),
        ("another store", another_store.clone()),
        ("another store of the same size", [&another_store[..], &vec![0; 1 << 20]].concat()),
        ("text", b"Notes of last week. ".repeat(50_000)),
        ("half of it", backup[..backup.len() / 2].to_vec()),
        ("half a page", backup[..4096].to_vec()),
        ("nothing", Vec::new()),
    ]
}

#[test]
fn a_store_that_is_written_over_while_it_is_open_says_so_and_writes_nothing() {
    let kinds = others(tempfile::tempdir().unwrap().path(), vec![0; 8192]).len();
    for kind in 0..kinds {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        put(&SqliteStore::open(&path).unwrap(), "s", 20, 1000);
        let backup = fs::read(&path).unwrap();
        put(&open(&path), "t", 20, 1000);
        let (what, bytes) = others(folder.path(), backup).swap_remove(kind);

        let store = open(&path);
        let handle = store.open(&id("s"), OpenOptions::write()).unwrap();
        handle.append(&events(20..25, 1000)).unwrap();
        assert_eq!(counts(&store).unwrap(), of(&[("s", 25), ("t", 20)]));
        let wal = fs::read(beside(&path, "-wal")).unwrap();
        overwrite(&path, &bytes);
        for _ in 0..2 {
            for told in [
                handle.append(&[event(25, 10)]),
                handle.flush(),
                handle.read(SeqRange::ALL).map(drop),
                store.stat(&id("s")).map(drop),
                counts(&store).map(drop),
                store.remove(&id("t")).map(drop),
            ] {
                let error = told.expect_err(what);
                assert_eq!(error.kind(), ErrorKind::UnsupportedStore, "{what}: {error}");
                assert!(error.to_string().contains("written over"), "{what}: {error}");
            }
        }
        drop((handle, store));
        assert!(fs::read(&path).unwrap() == bytes, "{what}: nothing is copied into it");
        assert!(fs::read(beside(&path, "-wal")).unwrap() == wal, "{what}: and nothing is lost");
        // What the error says to do.
        fs::rename(beside(&path, "-wal"), folder.path().join("put away")).unwrap();
        if what == "an older state" {
            assert_eq!(counts(&open(&path)).unwrap(), of(&[("s", 20)]));
        }
    }
}

/// In rollback mode nothing is remembered that is not in the file: what stands there now is read.
#[test]
fn a_store_in_rollback_mode_that_is_written_over_by_an_older_state_reads_that() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    put(&SqliteStore::open_with(&path, rollback()).unwrap(), "s", 20, 1000);
    let backup = fs::read(&path).unwrap();
    let store = open(&path);
    let handle = store.open(&id("s"), OpenOptions::write()).unwrap();
    handle.append(&events(20..45, 1000)).unwrap();
    assert_eq!(counts(&store).unwrap(), of(&[("s", 45)]));
    overwrite(&path, &backup);
    assert_eq!(counts(&open(&path)).unwrap(), of(&[("s", 20)]));
    assert_eq!(counts(&store).unwrap(), of(&[("s", 20)]));
    // Its writer does not go on behind a log that is not there.
    assert!(handle.append(&events(45..46, 10)).is_err());
    drop((handle, store));
    assert_eq!(counts(&open(&path)).unwrap(), of(&[("s", 20)]));
}

/// Pages that SQLite itself copies into the file are no reason to stop, whoever has it done and however often.
#[test]
fn copying_the_wal_into_the_file_is_never_taken_for_that() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).unwrap();
    put(&store, "s", 1, 10);
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let other = rusqlite::Connection::open(&path).unwrap();
            let mut number = 0;
            while !is_done.load(std::sync::atomic::Ordering::Acquire) {
                number += 1;
                let how = if number % 10 == 0 { "VACUUM" } else { "PRAGMA wal_checkpoint(TRUNCATE)" };
                if let Err(e) = other.execute_batch(how) {
                    assert_eq!(e.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy), "{how}: {e}");
                }
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Acquire) {
                    counts(&store).unwrap();
                }
            });
        }
        let handle = store.open(&id("s"), OpenOptions::write()).unwrap();
        for seq in 1..200 {
            handle.append(&[event(seq, 2000)]).unwrap();
            if seq % 5 == 0 {
                handle.flush().unwrap();
            }
        }
        is_done.store(true, std::sync::atomic::Ordering::Release);
    });
    assert_eq!(counts(&store).unwrap(), of(&[("s", 200)]));
}

#[cfg(unix)]
#[test]
fn a_store_with_a_second_name_is_not_written_until_it_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("s.db"), folder.path().join("t.db"));
    put(&SqliteStore::open(&path).unwrap(), "s", 3, 10);
    std::fs::hard_link(&path, &other).unwrap();
    let before = content(folder.path());
    for name in [&path, &other] {
        let store = open(name);
        assert_eq!(counts(&store).unwrap(), of(&[("s", 3)]), "it can be read");
        let refused = store.open(&id("s"), OpenOptions::write()).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::UnsupportedStore);
        assert!(refused.to_string().contains("2 names"), "{refused}");
    }
    assert!(content(folder.path()) == before);
    std::fs::remove_file(&other).unwrap();
    put(&open(&path), "t", 2, 10);
    assert_eq!(counts(&open(&path)).unwrap(), of(&[("s", 3), ("t", 2)]));
}
