//! Files beside a database that are not its own: SQLite would take them for that and write what is in them into it.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use session_persistence::{ErrorKind, OpenOptions, SessionPersistence as _, SqliteStore};
use tempfile::TempDir;

use super::place::{beside, content, copy, counts, event, events, id, names, of, open, put, refused, rollback};

/// A store, open, whose newest writes are in its WAL: what is in the file alone, and a copy of all as a killed process
/// leaves it.
struct Writing {
    folder: TempDir,
    store: SqliteStore,
}

impl Writing {
    /// `before` events are in the file and `after` more in the WAL.
    fn new(before: u64, after: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.db");
        put(&SqliteStore::open(&path).unwrap(), "s", before, 1000);
        let store = open(&path);
        let handle = store.open(&id("s"), OpenOptions::write()).unwrap();
        handle.append(&events(before..before + after, 1000)).unwrap();
        drop(handle);
        assert!(beside(&path, "-wal").metadata().unwrap().len() > 1000 * after);
        Self { folder, store }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("live.db")
    }

    /// A copy of the database with these files beside it, in a folder of its own.
    fn copied(&self, suffixes: &[&str]) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("s.db");
        copy(&self.path(), &to, suffixes);
        (folder, to)
    }
}

/// Checks that a store is refused for the reason, whoever asks, and that nothing is written.
fn refuses(folder: &Path, path: &Path, reason: &str) {
    let before = content(folder);
    for _ in 0..2 {
        let error = refused(path);
        assert_eq!(error.kind(), ErrorKind::UnsupportedStore, "{error}");
        for part in [reason, "s.db", "nothing was changed", "move the -wal or -journal away"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
    let after = content(folder);
    assert!(after.keys().eq(before.keys()), "{reason}: {:?}", after.keys());
    // The index of a WAL is nobody's data: SQLite makes it anew.
    let is_index = |path: &PathBuf| path.to_string_lossy().ends_with("-shm");
    assert!(before.iter().all(|(path, bytes)| is_index(path) || after[path] == *bytes), "{reason}");
}

#[test]
fn what_a_killed_process_leaves_is_opened_with_the_newest_writes() {
    let writing = Writing::new(20, 30);
    for suffixes in [&["-wal"][..], &["-wal", "-shm"]] {
        let (folder, path) = writing.copied(suffixes);
        assert_eq!(counts(&open(&path)).unwrap(), of(&[("s", 50)]));
        assert_eq!(names(folder.path()), ["s.db"], "what was left is put away");
    }
    let (_folder, path) = writing.copied(&[]);
    assert_eq!(counts(&open(&path)).unwrap(), of(&[("s", 20)]), "without its WAL it is an older state");
}

#[test]
fn the_wal_of_another_store_is_told() {
    let writing = Writing::new(20, 30);
    writing.store.flush().unwrap();
    for suffixes in [&["-wal"][..], &["-wal", "-shm"]] {
        let (folder, path) = writing.copied(suffixes);
        std::fs::remove_file(&path).unwrap();
        let other = folder.path().join("other.db");
        put(&SqliteStore::open(&other).unwrap(), "of another store", 40, 1000);
        std::fs::rename(&other, &path).unwrap();
        refuses(folder.path(), &path, "its -wal is of another store");
        // What it says to do.
        std::fs::rename(beside(&path, "-wal"), folder.path().join("put away")).unwrap();
        assert_eq!(counts(&open(&path)).unwrap(), of(&[("of another store", 40)]));
    }
}

#[test]
fn a_wal_that_goes_on_from_a_later_state_of_the_file_is_told() {
    let writing = Writing::new(100, 30);
    let backup = writing.folder.path().join("backup.db");
    put(&SqliteStore::open(&backup).unwrap(), "s", 3, 1000);
    for suffixes in [&["-wal"][..], &["-wal", "-shm"]] {
        let (folder, path) = writing.copied(suffixes);
        // An earlier state of the same store, as far as its rows and its size tell.
        std::fs::copy(&backup, &path).unwrap();
        refuses(folder.path(), &path, "its -wal continues a longer file");
    }
}

#[test]
fn a_wal_that_is_older_than_the_file_is_told() {
    let writing = Writing::new(20, 30);
    let (folder, path) = writing.copied(&["-wal"]);
    let handle = writing.store.open(&id("s"), OpenOptions::write()).unwrap();
    handle.append(&events(50..55, 1000)).unwrap();
    drop(handle);
    let live = writing.path();
    drop(writing.store);
    std::fs::copy(&live, &path).unwrap();
    refuses(folder.path(), &path, "its -wal is older than the file");
}

#[test]
fn a_wal_of_another_kind_of_database_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let stored = of(&[("s", 20)]);
    put(&SqliteStore::open(&path).unwrap(), "s", 20, 1000);
    let wal = beside(&path, "-wal");

    let other = folder.path().join("other.db");
    let connection = Connection::open(&other).unwrap();
    connection.execute_batch("PRAGMA page_size = 4096; PRAGMA journal_mode = wal; CREATE TABLE t (x)").unwrap();
    std::fs::copy(beside(&other, "-wal"), &wal).unwrap();
    refuses(folder.path(), &path, "another size");
    drop(connection);
    std::fs::remove_file(&other).unwrap();

    let connection = Connection::open(&other).unwrap();
    connection.execute_batch("PRAGMA page_size = 8192; PRAGMA journal_mode = wal; CREATE TABLE t (x)").unwrap();
    std::fs::copy(beside(&other, "-wal"), &wal).unwrap();
    refuses(folder.path(), &path, "another program");
    drop(connection);

    std::fs::write(&wal, "some text that somebody put there").unwrap();
    refuses(folder.path(), &path, "no WAL of SQLite");

    // What was never written whole SQLite ignores: the header of a WAL is written behind its frames.
    let valid = {
        let writing = Writing::new(5, 5);
        std::fs::read(beside(&writing.path(), "-wal")).unwrap()
    };
    let torn = [&valid[..24], &[0; 8], &valid[32..]].concat();
    for ignored in [vec![], valid[..32].to_vec(), vec![0; 10_000], torn] {
        std::fs::write(&wal, ignored).unwrap();
        assert_eq!(counts(&open(&path)).unwrap(), stored);
        assert!(!wal.exists());
    }
}

#[test]
fn a_journal_of_another_database_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let stored = of(&[("s", 20)]);
    let journal = beside(&path, "-journal");
    // As a process leaves it that is killed when a change is half written.
    let hot = |setup: &str| {
        let other = tempfile::tempdir().unwrap();
        let name = other.path().join("other.db");
        let connection = Connection::open(&name).unwrap();
        connection.execute_batch(setup).unwrap();
        connection.execute_batch("CREATE TABLE big (x); PRAGMA cache_size = 1; BEGIN; CREATE TABLE t (x)").unwrap();
        for _ in 0..100 {
            connection.execute("INSERT INTO big VALUES (zeroblob(3000))", []).unwrap();
        }
        let bytes = std::fs::read(beside(&name, "-journal")).unwrap();
        assert_eq!(bytes[..4], [0xd9, 0xd5, 0x05, 0xf9]);
        bytes
    };
    for is_wal in [true, false] {
        let options = if is_wal { Default::default() } else { rollback() };
        put(&SqliteStore::open_with(&path, options).unwrap(), "s", 20, 1000);

        std::fs::write(&journal, hot("PRAGMA page_size = 4096")).unwrap();
        refuses(folder.path(), &path, "another size");
        std::fs::write(&journal, hot("PRAGMA page_size = 8192; PRAGMA application_id = 7")).unwrap();
        refuses(folder.path(), &path, "another program");
        std::fs::write(&journal, "Dear diary").unwrap();
        refuses(folder.path(), &path, "no journal of SQLite");

        // In what was never synced there is nothing to take back.
        for ignored in [vec![], vec![0; 10_000]] {
            std::fs::write(&journal, ignored).unwrap();
            assert_eq!(counts(&open(&path)).unwrap(), stored);
        }
        std::fs::remove_file(&path).unwrap();
        for side in ["-wal", "-shm", "-journal"] {
            assert!(!beside(&path, side).exists() || std::fs::remove_file(beside(&path, side)).is_ok());
        }
    }

    let (folder, path) = Writing::new(5, 5).copied(&["-wal"]);
    std::fs::write(beside(&path, "-journal"), hot("PRAGMA page_size = 8192")).unwrap();
    refuses(folder.path(), &path, "a -wal and a -journal lie beside it");
}

#[test]
fn a_journal_without_its_database_is_never_given_to_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    std::fs::write(beside(&path, "-journal"), "what was not finished").unwrap();
    let error = SqliteStore::open(&path).map(drop).unwrap_err();
    assert!(error.kind() == ErrorKind::UnsupportedStore && error.to_string().contains("-journal"), "{error}");
    assert_eq!(names(folder.path()), ["s.db-journal"]);
}

/// A generator of numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Whatever a store goes through, what a killed process leaves of it is never taken for somebody else's.
#[test]
fn no_state_of_a_store_is_taken_for_a_misfit() {
    let rounds = if std::env::var_os("SESSIONS_FULL").is_some() { 100 } else { 2 };
    for seed in 0..rounds {
        let mut numbers = Numbers(seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.db");
        let store = SqliteStore::open(&path).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE mine (x)").unwrap();
        let mut expected = std::collections::BTreeMap::new();
        for step in 0..25 {
            let name = format!("s{}", numbers.below(4));
            let did = numbers.below(10);
            match did {
                0..4 => {
                    let next = expected.get(&name).copied().unwrap_or(0);
                    let handle = match next {
                        0 => super::place::create(&store, &name),
                        _ => store.open(&id(&name), OpenOptions::write()).unwrap(),
                    };
                    let count = 1 + numbers.below(40);
                    let bytes = usize::try_from(numbers.below(6000)).unwrap();
                    handle.append(&(next..next + count).map(|seq| event(seq, bytes)).collect::<Vec<_>>()).unwrap();
                    expected.insert(name, next + count);
                }
                4 => assert_eq!(store.remove(&id(&name)).unwrap(), expected.remove(&name).is_some()),
                5 => store.flush().unwrap(),
                6 => other.execute_batch("INSERT INTO mine VALUES (zeroblob(50000))").unwrap(),
                7 => other.execute_batch("DELETE FROM mine; VACUUM").unwrap(),
                8 => other.execute_batch("PRAGMA wal_checkpoint(PASSIVE)").unwrap(),
                _ => other.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap(),
            }
            for suffixes in [&["-wal"][..], &["-wal", "-shm"]] {
                let copied = tempfile::tempdir().unwrap();
                let to = copied.path().join("s.db");
                copy(&path, &to, suffixes);
                let found = SqliteStore::open_existing(&to).and_then(|store| counts(&store));
                assert_eq!(found.unwrap(), expected, "seed {seed}, step {step}, did {did}");
            }
            assert_eq!(counts(&open(&path)).unwrap(), expected, "seed {seed}, step {step}, did {did}");
        }
    }
}
