//! Room that removed sessions took is given back on request, and nothing else changes.

use std::fs;
use std::time::Duration;

use rusqlite::Connection;
use session_persistence::{
    ErrorKind, Journal, ListQuery, OpenOptions, SessionEvent, SessionPersistence, SqliteOptions, SqliteStore,
};

use crate::logs::{self, id, import};
use crate::place::{Database, verify};

#[test]
fn the_file_shrinks_and_nothing_that_is_stored_changes() {
    let database = Database::of(&logs::all());
    let store = database.open();
    let open_since_before = store.open(&id("forked"), OpenOptions::write()).unwrap();
    store.remove(&id("long")).unwrap();
    let (listed, logs_before) = (store.list(&ListQuery::default()).unwrap(), logs::content(&store));
    let report = store.compact().unwrap();
    assert!(report.after < report.before / 2, "{report:?}");
    assert_eq!(fs::metadata(database.path()).unwrap().len(), report.after);
    assert_eq!(store.list(&ListQuery::default()).unwrap(), listed, "revisions and all");
    assert_eq!(logs::content(&store), logs_before);
    open_since_before.append(&[SessionEvent::of("x", 5, 0, &1).unwrap()]).unwrap();
    drop(open_since_before);
    assert_eq!(verify(&store).1, []);
    let again = store.compact().unwrap();
    assert_eq!(again.before, again.after);
    // Numbers are never given again.
    import(&store, &logs::plain("new", 1));
    assert!(database.one::<i64>("SELECT max(number) FROM sessions") > logs::all().len() as i64);
}

#[test]
fn a_store_in_rollback_mode_is_checked_backed_up_and_compacted_too() {
    let folder = tempfile::tempdir().unwrap();
    let options = || SqliteOptions::default().with_journal(Journal::Rollback);
    let store = SqliteStore::open_with(folder.path().join("s.db"), options()).unwrap();
    import(&store, &logs::plain("long", 3000));
    import(&store, &logs::forked("a", "gone"));
    store.remove(&id("long")).unwrap();
    let listed = store.list(&ListQuery::default()).unwrap();
    assert_eq!(verify(&store).1, []);
    store.backup(folder.path().join("b.db")).unwrap();
    let report = store.compact().unwrap();
    assert!(report.after < report.before / 2, "{report:?}");
    assert_eq!(fs::metadata(folder.path().join("s.db")).unwrap().len(), report.after);
    assert_eq!(store.list(&ListQuery::default()).unwrap(), listed);
    assert_eq!(verify(&store).1, []);
    assert_eq!(&fs::read(folder.path().join("b.db")).unwrap()[18..20], [1, 1], "its backup is in that mode too");
    let copy = SqliteStore::open(folder.path().join("b.db")).unwrap();
    assert_eq!(copy.list(&ListQuery::default()).unwrap(), listed);
    assert_eq!(logs::content(&copy), logs::content(&store));
}

#[test]
fn a_store_in_memory_is_compacted_too() {
    let store = SqliteStore::in_memory().unwrap();
    import(&store, &logs::plain("long", 9000));
    import(&store, &logs::plain("a", 3));
    store.remove(&id("long")).unwrap();
    let report = store.compact().unwrap();
    assert!(report.after < report.before, "{report:?}");
    assert_eq!(logs::text(&store, &id("a")), logs::plain("a", 3));
}

#[test]
fn others_that_finish_in_time_are_waited_for() {
    let database = Database::of(&[logs::plain("a", 3)]);
    let store = database.open();
    for held in ["BEGIN IMMEDIATE", "BEGIN; SELECT count(*) FROM events"] {
        let other = Connection::open(database.path()).unwrap();
        other.execute_batch(held).unwrap();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            other.execute_batch("ROLLBACK").unwrap();
        });
        store.compact().unwrap_or_else(|e| panic!("{held}: {e}"));
        thread.join().unwrap();
    }
}

#[test]
fn a_store_that_another_program_holds_is_busy() {
    let database = Database::of(&[logs::plain("long", 3000), logs::plain("a", 3)]);
    let options = SqliteOptions::default().with_busy_timeout(Duration::from_millis(50));
    let store = SqliteStore::open_with(database.path(), options).unwrap();
    store.remove(&id("long")).unwrap();
    let other = Connection::open(database.path()).unwrap();
    for held in ["BEGIN IMMEDIATE", "BEGIN; SELECT count(*) FROM events"] {
        other.execute_batch(held).unwrap();
        let refused = store.compact().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::StoreBusy, "{held}: {refused}");
        assert!(refused.is_retryable());
        assert_eq!(logs::text(&store, &id("a")), logs::plain("a", 3));
        other.execute_batch("ROLLBACK").unwrap();
    }
    let report = store.compact().unwrap();
    assert_eq!(fs::metadata(database.path()).unwrap().len(), report.after);
    assert!(report.after < 30 * 8192, "{report:?}");
}
