//! What is and what is not a store: a typed error each, and not one byte changed.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use session_persistence::{
    CreateOptions, ErrorKind, ListQuery, OpenOptions, SeqRange, SessionEvent, SessionHeader, SessionId,
    SessionPersistence, SqliteOptions, SqliteStore,
};

fn put(store: &SqliteStore, name: &str) {
    let header = SessionHeader::new(SessionId::new(name).unwrap(), 1).unwrap();
    let handle = store.create(&header, CreateOptions::default()).unwrap();
    handle.append(&[SessionEvent::of("turn/start", 0, 1, &[1]).unwrap()]).unwrap();
}

/// Every file of a folder with its bytes.
fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap())
        .map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap_or_default()))
        .collect();
    files.sort();
    files
}

fn refused(path: &Path, reason: &str) {
    let folder = path.parent().unwrap();
    let before = content(folder);
    for open in [SqliteStore::open, SqliteStore::open_existing] {
        let error = open(path).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedStore, "{error}");
        assert!(error.to_string().contains(reason) && error.to_string().contains("store"), "{error}");
    }
    assert!(content(folder) == before, "{reason}: something beside the refusal");
}

#[test]
fn what_is_not_a_store_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let inner = folder.path().join(name);
        fs::create_dir(&inner).unwrap();
        inner.join("sessions.db")
    };

    let path = place("text");
    fs::write(&path, "just some text, long enough to be more than a header of a database\n".repeat(9)).unwrap();
    refused(&path, "not a SQLite database");

    let path = place("empty");
    fs::write(&path, "").unwrap();
    refused(&path, "empty");

    let path = place("folder");
    fs::create_dir(&path).unwrap();
    refused(&path, "folder");

    let path = place("foreign");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE events (x); INSERT INTO events VALUES (1)").unwrap();
    refused(&path, "another program");

    let path = place("foreign-wal");
    Connection::open(&path).unwrap().execute_batch("PRAGMA journal_mode = wal; CREATE TABLE events (x)").unwrap();
    refused(&path, "another program");

    let path = place("dsh");
    Connection::open(&path)
        .unwrap()
        .execute_batch("PRAGMA application_id = 0x44534850; PRAGMA user_version = 17")
        .unwrap();
    refused(&path, "DeepSeek Harness");

    let path = place("newer");
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 4").unwrap();
    refused(&path, "version 3");

    let path = place("random-header");
    put(&SqliteStore::open(&path).unwrap(), "s");
    let mut bytes = fs::read(&path).unwrap();
    bytes[..100].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    refused(&path, "not a SQLite database");

    let path = place("one-page");
    put(&SqliteStore::open(&path).unwrap(), "s");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..8192]).unwrap();
    refused(&path, "malformed");

    let path = place("absent").with_file_name("other.db");
    let error = SqliteStore::open_existing(&path).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedStore);
    assert!(!path.exists());
}

#[test]
fn a_new_store_is_private_and_leaves_nothing_beside_it_when_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folder/a ?#%é.db");
    let store = SqliteStore::open(&path).unwrap();
    put(&store, "s");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
        for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        }
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(mode(&folder.path().join("new")), 0o700);
    }
    drop(store);
    let reading = SqliteStore::open_existing(&path).unwrap();
    assert_eq!(reading.list(&ListQuery::default()).unwrap().items.len(), 1);
    drop(reading);
    let left: Vec<_> = content(path.parent().unwrap()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, ["a ?#%é.db"]);
}

#[test]
fn reading_changes_no_byte_and_needs_no_lock_for_writing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    put(&SqliteStore::open(&path).unwrap(), "s");
    let before = content(folder.path());
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let listed = store.list(&ListQuery::default()).unwrap().items;
    assert_eq!(store.stat(&listed[0].id).unwrap().as_ref(), Some(&listed[0]));
    other.execute_batch("ROLLBACK").unwrap();
    drop((store, other));
    assert!(content(folder.path()) == before, "no byte changes");
}

#[test]
fn a_store_that_stays_locked_is_busy_and_the_same_call_works_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    drop(SqliteStore::open(&path).unwrap());
    let mut options = SqliteOptions::default();
    options.busy_timeout = std::time::Duration::from_millis(10);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let store = SqliteStore::open_with(&path, options).unwrap();
    let header = SessionHeader::new(SessionId::new("s").unwrap(), 1).unwrap();
    let handle = store.create(&header, CreateOptions::default()).unwrap();
    let batch = [SessionEvent::of("turn/start", 0, 1, &[1]).unwrap()];
    let busy = handle.append(&batch).unwrap_err();
    assert_eq!((busy.kind(), busy.is_retryable(), busy.session()), (ErrorKind::StoreBusy, true, Some(header.id())));
    other.execute_batch("ROLLBACK").unwrap();
    handle.append(&batch).unwrap();
    assert_eq!(store.stat(header.id()).unwrap().unwrap().event_count, Some(1));
}

#[test]
fn an_event_over_the_limit_is_refused_before_anything_is_written() {
    let mut options = SqliteOptions::default();
    options.max_event_bytes = 10_000;
    let store = SqliteStore::in_memory_with(options).unwrap();
    let header = SessionHeader::new(SessionId::new("s").unwrap(), 1).unwrap();
    let handle = store.create(&header, CreateOptions::default()).unwrap();
    let of_size = |seq, bytes: usize| {
        let around = SessionEvent::of("x", seq, 1, "").unwrap().to_line().len();
        SessionEvent::of("x", seq, 1, &"a".repeat(bytes - around)).unwrap()
    };
    let refused = handle.append(&[of_size(0, 9_000), of_size(1, 10_001)]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("seq 1") && refused.to_string().contains("10001 bytes"), "{refused}");
    assert_eq!(store.stat(header.id()).unwrap().unwrap().event_count, Some(0));
    handle.append(&[of_size(0, 9_000), of_size(1, 10_000)]).unwrap();
}

#[test]
fn sqlite_is_newer_than_its_wal_reset_race() {
    // Before 3.51.3 two connections could reset the WAL at once and leave the database malformed.
    assert!(rusqlite::version_number() >= 3_051_003, "SQLite {}", rusqlite::version());
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_is_told_and_nothing_is_made() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let probe = fs::write(folder.path().join("probe"), "");
    if probe.is_ok() {
        // The superuser writes everywhere, so ask for a place where nobody can.
        let error = SqliteStore::open("/proc/sessions.db").map(|_| ()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::StorageReadOnly), "{error}");
    } else {
        let error = SqliteStore::open(&path).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageReadOnly, "{error}");
        assert!(!path.exists());
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_database_whose_newest_pages_are_in_its_wal_is_no_malformed_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    let header = SessionHeader::new(SessionId::new("s").unwrap(), 1).unwrap();
    let handle = store.create(&header, CreateOptions::default()).unwrap();
    let events = (0..100).map(|seq| SessionEvent::of("todo/write", seq, 1, &"x".repeat(3_000)).unwrap());
    handle.append(&events.collect::<Vec<_>>()).unwrap();
    // As a process that is killed leaves them, in the middle of bringing the WAL into the database: the first page counts
    // pages that the file does not have yet.
    let copy = folder.path().join("copy.db");
    for part in ["", "-wal"] {
        fs::copy(format!("{}{part}", path.display()), format!("{}{part}", copy.display())).unwrap();
    }
    let pages: u32 = Connection::open(&path).unwrap().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    let mut bytes = fs::read(&copy).unwrap();
    assert!(u64::from(pages) * 8192 > bytes.len() as u64, "the newest pages are in the WAL");
    bytes[28..32].copy_from_slice(&pages.to_be_bytes());
    fs::write(&copy, bytes).unwrap();
    let opened = SqliteStore::open_existing(&copy).unwrap();
    assert_eq!(opened.list(&ListQuery::default()).unwrap().items.len(), 1);
}

#[test]
fn a_wal_without_its_database_is_never_given_to_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let wal = folder.path().join("sessions.db-wal");
    fs::write(&wal, "what was written last").unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(error.kind() == ErrorKind::UnsupportedStore && error.to_string().contains("-wal"), "{error}");
    assert!(!path.exists() && fs::read(&wal).unwrap() == b"what was written last");
}

#[test]
fn names_that_sqlite_would_take_for_something_else_are_refused_and_make_no_file() {
    for name in ["", ":memory:", "file:other.db", "file:x?mode=memory"] {
        let error = SqliteStore::open(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedStore, "{name}: {error}");
        assert!(name.is_empty() || !Path::new(name).exists(), "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    let doubled = format!("/{}", folder.path().join("sessions.db").display());
    put(&SqliteStore::open(&doubled).unwrap(), "s");
    assert_eq!(SqliteStore::open_existing(&doubled).unwrap().list(&ListQuery::default()).unwrap().items.len(), 1);
}

#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_or_removed_under_an_open_store_is_told_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let other = folder.path().join("other.db");
    put(&SqliteStore::open(&other).unwrap(), "other");
    let before = fs::read(&other).unwrap();
    for replace in [true, false] {
        let store = SqliteStore::open(&path).unwrap();
        let header = SessionHeader::new(SessionId::new("s").unwrap(), 1).unwrap();
        let handle = store.create(&header, CreateOptions::default()).unwrap();
        handle.append(&[SessionEvent::of("turn/start", 0, 1, &[1]).unwrap()]).unwrap();
        if replace {
            fs::rename(&other, &path).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        let batch = [SessionEvent::of("turn/end", 1, 1, &[1]).unwrap()];
        for told in [
            handle.append(&batch),
            handle.flush(),
            handle.read(SeqRange::ALL).map(drop),
            store.stat(header.id()).map(drop),
        ] {
            assert_eq!(told.unwrap_err().kind(), ErrorKind::UnsupportedStore);
        }
        drop((handle, store));
        if replace {
            assert!(fs::read(&path).unwrap() == before, "the file that took its place is as it was");
            fs::remove_file(&path).unwrap();
            for side in ["-wal", "-shm"] {
                let _absent = fs::remove_file(format!("{}{side}", path.display()));
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn a_store_that_is_opened_through_a_link_has_the_same_owners() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    fs::create_dir(folder.path().join("elsewhere")).unwrap();
    let link = folder.path().join("elsewhere/link.db");
    put(&SqliteStore::open(&path).unwrap(), "s");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let (named, linked) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&link).unwrap());
    let id = SessionId::new("s").unwrap();
    let writer = named.open(&id, OpenOptions::write()).unwrap();
    assert_eq!(linked.open(&id, OpenOptions::write()).unwrap_err().kind(), ErrorKind::AlreadyOwned);
    assert_eq!(linked.remove(&id).unwrap_err().kind(), ErrorKind::AlreadyOwned);
    writer.close().unwrap();
    assert!(linked.remove(&id).unwrap());
    assert_eq!(content(&folder.path().join("elsewhere")).len(), 1, "nothing stands beside the link");
}

#[test]
fn the_order_of_activity_never_goes_back_when_the_newest_session_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("sessions.db")).unwrap();
    put(&store, "a");
    put(&store, "b");
    let activity = |name: &str| store.stat(&SessionId::new(name).unwrap()).unwrap().unwrap().activity;
    let newest = activity("b");
    assert!(store.remove(&SessionId::new("b").unwrap()).unwrap());
    put(&store, "c");
    assert!(activity("c") > newest);
}
