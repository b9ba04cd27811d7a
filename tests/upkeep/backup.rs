//! A backup is the store as it was at one moment, whole under its name or not there at all.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use rusqlite::Connection;
use session_persistence::{
    CreateOptions, Encoding, ErrorKind, JsonlStore, ListQuery, OpenOptions, SessionEvent, SessionHeader,
    SessionPersistence, Snapshot, SqliteStore,
};

use crate::logs::{self, id, import};
use crate::place::{Database, ENCODINGS, Root, Stop, content, short_logs, verify, write_without_rest};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// How the entries of a folder look from outside: a file of an open database is not to be opened.
fn looks(folder: &Path) -> Vec<(String, u64, SystemTime)> {
    let look = |name: String| {
        let found = fs::symlink_metadata(folder.join(&name)).unwrap();
        (name, if found.is_file() { found.len() } else { 0 }, found.modified().unwrap())
    };
    names(folder).into_iter().map(look).collect()
}

fn list(store: &dyn SessionPersistence) -> Vec<Snapshot> {
    store.list(&ListQuery::default()).unwrap().items
}

#[test]
fn what_a_killed_backup_left_is_removed_by_the_next_one() {
    let database = Database::of(&[logs::plain("a", 1)]);
    for name in [".sessions-x.lock", ".sessions-x.new", ".sessions-x.new-wal"] {
        fs::write(database.folder().join(name), "half").unwrap();
    }
    let store = database.open();
    store.backup(database.folder().join("backup.db")).unwrap();
    assert!(names(database.folder()).iter().all(|n| !n.starts_with(".sessions-")), "{:?}", names(database.folder()));
}

#[test]
fn a_backup_of_a_database_is_the_same_store_with_the_same_revisions() {
    let database = Database::of(&logs::all());
    let store = database.open();
    store.remove(&id("long")).unwrap();
    let to = database.folder().join("backup ?#%é.db");
    let report = store.backup(&to).unwrap();
    let listed = list(&store);
    assert_eq!(report.sessions, listed.len() as u64);
    assert_eq!(report.events, listed.iter().map(|told| told.event_count.unwrap()).sum::<u64>());
    assert_eq!(report.bytes, fs::metadata(&to).unwrap().len());
    assert!(names(database.folder()).iter().all(|n| !n.starts_with(".sessions-")), "{:?}", names(database.folder()));

    assert_eq!(&fs::read(&to).unwrap()[18..20], [2, 2], "it is in WAL mode");
    let copy = SqliteStore::open_existing(&to).unwrap();
    assert_eq!(list(&copy), listed, "revisions, counts, order and all");
    assert_eq!(logs::content(&copy), logs::content(&store));
    assert_eq!(verify(&copy).1, []);
    // It is a store like any other, and one of its own.
    copy.open(&id("a"), OpenOptions::write()).unwrap().append(&[SessionEvent::of("x", 3, 0, &1).unwrap()]).unwrap();
    assert_ne!(copy.stat(&id("a")).unwrap().unwrap().revision, store.stat(&id("a")).unwrap().unwrap().revision);
    import(&copy, &logs::plain("new", 1));
    assert!(store.stat(&id("new")).unwrap().is_none());
}

#[test]
fn a_backup_of_a_database_in_memory_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::in_memory().unwrap();
    import(&store, &logs::forked("a", "gone"));
    store.backup(folder.path().join("b.db")).unwrap();
    let copy = SqliteStore::open(folder.path().join("b.db")).unwrap();
    assert_eq!((list(&copy), logs::content(&copy)), (list(&store), logs::content(&store)));
}

#[test]
fn backups_are_whole_while_others_write() {
    let database = Database::of(&[logs::plain("grows", 10)]);
    let (writing, store) = (database.open(), database.open());
    let stop = AtomicBool::new(false);
    let full = std::env::var_os("SESSIONS_FULL").is_some();
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| write_without_rest(&writing, &stop));
        let mut before = 0;
        for n in 0..if full { 50 } else { 5 } {
            let to = database.folder().join(format!("{n}.db"));
            let report = store.backup(&to).unwrap();
            let copy = SqliteStore::open_existing(&to).unwrap();
            let (checked, faults) = verify(&copy);
            assert_eq!((faults, checked.sessions, checked.events), (vec![], report.sessions, report.events));
            let grown = copy.stat(&id("grows")).unwrap().unwrap().event_count.unwrap();
            assert!((grown - 10).is_multiple_of(7) && grown >= before, "whole batches only: {grown}");
            before = grown;
        }
    });
}

#[test]
fn a_name_that_is_taken_or_a_part_of_the_store_is_refused_and_left_as_it_is() {
    let database = Database::filled();
    let store = database.open();
    store.list(&ListQuery::default()).unwrap();
    let folder = database.folder();
    fs::write(folder.join("file"), "of somebody").unwrap();
    fs::create_dir(folder.join("folder")).unwrap();
    fs::write(folder.join("other.db-wal"), "newest pages of somebody").unwrap();
    fs::write(folder.join("more.db-journal"), "pages of somebody").unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("nowhere", folder.join("link")).unwrap();
        std::os::unix::fs::symlink(".", folder.join("here")).unwrap();
    }
    let before = looks(folder);
    let mut taken = vec![
        "file",
        "folder",
        "other.db",
        "more.db",
        "sessions.db",
        "sessions.db-wal",
        "sessions.db-shm",
        "sessions.db-journal",
        "sessions.db-locks",
    ];
    if cfg!(unix) {
        taken.extend(["link", "here/sessions.db", "here/sessions.db-journal"]);
    }
    for name in taken {
        let refused = store.backup(folder.join(name)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{name}: {refused}");
        assert!(refused.to_string().contains("cannot be the backup"), "{name}: {refused}");
        assert_eq!(looks(folder), before, "{name}");
    }
    store.backup(folder.join("absent/b.db")).unwrap_err();
    assert!(!folder.join("absent").exists(), "folders are not made");
    let relative = store.backup("").unwrap_err();
    assert_eq!(relative.kind(), ErrorKind::UnsupportedStore);
    assert_eq!(looks(folder), before);
    // A name whose side files would be the store's own.
    drop(store);
    for name in ["x-wal", "x-shm"] {
        fs::rename(database.path(), folder.join(name)).unwrap();
        let store = SqliteStore::open(folder.join(name)).unwrap();
        assert_eq!(store.backup(folder.join("x")).unwrap_err().kind(), ErrorKind::InvalidArgument);
        drop(store);
        fs::rename(folder.join(name), database.path()).unwrap();
    }
}

#[test]
fn of_a_store_that_holds_other_events_than_it_counts_no_backup_is_made() {
    for change in ["DELETE FROM events WHERE session = 2 AND seq = 1", "DELETE FROM sessions WHERE id = 'b'"] {
        let database = Database::filled();
        database.change(change);
        let store = database.open();
        let refused = store.backup(database.folder().join("b.db")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::UnsupportedStore, "{refused}");
        assert!(refused.to_string().contains("verify"), "{refused}");
        drop(store);
        assert_eq!(names(database.folder()), ["sessions.db"], "{change}");
    }
    // Of a page that is no page either.
    let database = Database::of(&[logs::plain("a", 2000)]);
    database.overwrite(|bytes| {
        let page = bytes.len() / 8192 / 2 * 8192;
        bytes[page..page + 8192].fill(0xa5);
    });
    let store = database.open();
    assert_eq!(store.backup(database.folder().join("b.db")).unwrap_err().kind(), ErrorKind::UnsupportedStore);
    drop(store);
    assert_eq!(names(database.folder()), ["sessions.db"]);
}

#[cfg(unix)]
#[test]
fn a_backup_is_private_and_its_folder_must_be_one_to_write_in() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let database = Database::filled();
    fs::set_permissions(database.path(), fs::Permissions::from_mode(0o644)).unwrap();
    let store = database.open();
    store.backup(database.folder().join("b.db")).unwrap();
    assert_eq!(mode(&database.folder().join("b.db")), 0o600, "whatever mode the store has");
    assert_eq!(mode(&database.path()), 0o644);
    let locked = database.folder().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o500)).unwrap();
    let refused = store.backup(locked.join("b.db"));
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
    match refused {
        Err(refused) => {
            assert_eq!(refused.kind(), ErrorKind::StorageReadOnly);
            assert!(names(&locked).is_empty());
        }
        Ok(_) => eprintln!("this user may write anywhere: a folder without the right to was not tested"),
    }
}

#[test]
fn another_program_may_hold_the_store_for_reading_and_for_writing() {
    let database = Database::filled();
    let store = database.open();
    let reader = Connection::open(database.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM events").unwrap();
    let writer = Connection::open(database.path()).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE; CREATE TABLE mine (x)").unwrap();
    store.backup(database.folder().join("b.db")).unwrap();
    let copy = Connection::open(database.folder().join("b.db")).unwrap();
    assert!(copy.prepare("SELECT * FROM mine").is_err(), "what is not committed is no part of it");
}

#[test]
fn a_backup_of_a_root_holds_every_session_as_it_is() {
    for encoding in ENCODINGS {
        let root = Root::of(encoding, &short_logs());
        let store = root.open();
        let pending = store.create(&SessionHeader::new(id("pending"), 0).unwrap(), CreateOptions::default()).unwrap();
        let to = root.folder().join("backup");
        let report = store.backup(&to).unwrap();
        pending.close().unwrap();
        let listed = list(&store);
        assert_eq!(report.sessions, listed.len() as u64);
        assert_eq!(report.events, listed.iter().map(|told| told.event_count.unwrap()).sum::<u64>());
        let copy = JsonlStore::open_existing(&to).unwrap();
        assert_eq!(logs::content(&copy), logs::content(&store));
        let ids = |listed: &[Snapshot]| listed.iter().map(|told| told.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&list(&copy)), ids(&listed), "in the same order");
        let is_raw = content(&to).iter().any(|(path, _)| path.ends_with("session.v3.jsonl"));
        assert_eq!(is_raw, encoding == Encoding::Raw);
        assert_eq!(verify(&copy).1, []);
        assert_eq!(names(root.folder()), ["backup", "root"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            for (path, _) in content(&to) {
                let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
                assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
            }
        }
    }
}

#[test]
fn a_backup_of_a_root_that_fails_leaves_nothing() {
    for encoding in ENCODINGS {
        let root = Root::of(encoding, &[logs::plain("a", 3), logs::plain("b", 3)]);
        let store = root.open();
        fs::write(root.folder().join("file"), "x").unwrap();
        fs::create_dir(root.folder().join("folder")).unwrap();
        let inside = root.path().join("_no-cwd/backup");
        for taken in
            [root.folder().join("file"), root.folder().join("folder"), root.path(), inside, root.path().join("b")]
        {
            let refused = store.backup(&taken).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{}: {refused}", taken.display());
        }
        root.change("a", |bytes| bytes[20] ^= 0x80);
        let failed = store.backup(root.folder().join("backup")).unwrap_err();
        assert_eq!((failed.kind(), failed.session()), (ErrorKind::Corruption, Some(&id("a"))));
        assert_eq!(names(root.folder()), ["file", "folder", "root"]);
        assert_eq!(names(&root.path().join("_no-cwd")), ["a", "b"]);
    }
}
