//! A removed session leaves nothing behind, in no table and in no folder.

use std::fs;

use session_persistence::{CreateOptions, ErrorKind, OpenOptions, SessionHeader, SessionPersistence};

use crate::logs::{self, id};
use crate::place::{Database, ENCODINGS, Root, content, short_logs, verify};

#[test]
fn no_table_keeps_a_row_of_a_removed_session() {
    let logs = short_logs();
    let database = Database::of(&logs);
    let store = database.open();
    let other = database.intruder();
    let mut listed = other.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let tables: Vec<String> = listed.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    drop(listed);
    other.close().unwrap();
    let rows = |table: &str| database.one::<i64>(&format!("SELECT count(*) FROM {table}"));
    let orphans = || {
        database.one::<i64>(
            "SELECT (SELECT count(*) FROM events WHERE session NOT IN (SELECT number FROM sessions))
                  + (SELECT count(*) FROM session_types WHERE session NOT IN (SELECT number FROM sessions))",
        )
    };
    for log in &logs {
        assert!(store.remove(&logs::id_of(log)).unwrap());
        assert_eq!(orphans(), 0);
    }
    assert_eq!(verify(&store).1, []);
    for table in tables {
        // The identity of the store, and the number that is never given again.
        let left = i64::from(table == "store" || table == "sqlite_sequence");
        assert_eq!(rows(&table), left, "{table}");
    }
    drop(store);
    assert_eq!(fs::read_dir(database.folder()).unwrap().count(), 1, "no lock stays");
}

#[test]
fn no_folder_keeps_a_file_of_a_removed_session() {
    for encoding in ENCODINGS {
        let root = Root::of(encoding, &short_logs());
        let store = root.open();
        let with_cwd = SessionHeader::new(id("elsewhere"), 0).unwrap().with_cwd("/srv/app");
        store.create(&with_cwd, CreateOptions::default()).unwrap().flush().unwrap();
        for log in short_logs() {
            assert!(store.remove(&logs::id_of(&log)).unwrap());
        }
        assert!(store.remove(&id("elsewhere")).unwrap());
        let left = content(root.folder());
        assert!(
            left.iter()
                .all(|(path, _)| path.is_dir() && fs::read_dir(path).unwrap().all(|e| e.unwrap().path().is_dir())),
            "{left:?}"
        );
        assert!(
            left.iter().all(|(path, _)| path.strip_prefix(root.path()).unwrap().components().count() < 2),
            "{left:?}"
        );
        assert_eq!(verify(&store).1, []);
    }
}

#[test]
fn rows_whose_session_was_deleted_by_another_program_are_found() {
    let database = Database::filled();
    // As a program does whose connection has no foreign keys: they are off unless they are switched on.
    database.change("DELETE FROM sessions WHERE id = 'a'");
    let (report, faults) = verify(&database.open());
    assert_eq!(report.faults, 2, "{faults:#?}");
    // The store's own connections have them on, so that its removals name every table.
    let store = database.open();
    assert!(store.remove(&id("b")).unwrap());
    assert_eq!(verify(&store).0.faults, 2);
}

#[test]
fn a_session_that_is_being_written_stays_whole() {
    for (name, store) in logs::stores() {
        logs::import(&*store, &logs::plain("a", 3));
        let writer = store.open(&id("a"), OpenOptions::write()).unwrap();
        assert_eq!(store.remove(&id("a")).unwrap_err().kind(), ErrorKind::AlreadyOwned, "{name}");
        drop(writer);
        assert_eq!(logs::text(&*store, &id("a")), logs::plain("a", 3));
        assert!(store.remove(&id("a")).unwrap() && !store.remove(&id("a")).unwrap());
    }
}
