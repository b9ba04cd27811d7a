//! Damage in each place of a database where it can live is told with its kind and its session.

use rusqlite::Connection;
use session_persistence::FaultKind::{Count, Damage, Orphan, Structure};
use session_persistence::{Fault, FaultKind, ListQuery, SessionPersistence};

use crate::logs;
use crate::place::{Database, places, verify};

/// What a check finds after a change behind the store's back.
#[track_caller]
fn found_after(change: &str) -> Vec<Fault> {
    let database = Database::filled();
    database.change(change);
    verify(&database.open()).1
}

#[track_caller]
fn assert_found(change: &str, expected: &[(FaultKind, Option<&str>, Option<u64>)]) {
    let faults = found_after(change);
    assert_eq!(places(&faults), expected, "{change}: {faults:#?}");
}

#[test]
fn a_changed_byte_of_an_event_is_damage_at_its_seq() {
    for change in [
        "UPDATE events SET data = '{\"turn\":2}' WHERE session = 1 AND seq = 2",
        "UPDATE events SET type = 'turn/End' WHERE session = 1 AND seq = 2",
        "UPDATE events SET time = time + 1 WHERE session = 1 AND seq = 2",
        "UPDATE events SET checksum = checksum + 1 WHERE session = 1 AND seq = 2",
        "UPDATE events SET data = cast(x'ff' AS TEXT) WHERE session = 1 AND seq = 2",
        "UPDATE events SET envelope = '?' WHERE session = 1 AND seq = 2",
        "DELETE FROM events WHERE session = 1 AND seq = 2",
    ] {
        assert_found(change, &[(Damage, Some("a"), Some(2))]);
    }
    let database = Database::filled();
    database.overwrite(|bytes| {
        let at = bytes.windows(9).position(|w| w == b"completed").unwrap();
        bytes[at] ^= 1;
    });
    let faults = verify(&database.open()).1;
    assert_eq!(places(&faults), [(Damage, Some("a"), Some(2))], "{faults:?}");
    assert!(faults[0].advice.contains("salvage the 2 events"), "{faults:?}");
}

#[test]
fn every_damaged_event_is_told_and_those_in_a_row_together() {
    let faults = found_after("UPDATE events SET time = 7 WHERE session = 2 AND seq IN (0, 2, 3)");
    assert_eq!(places(&faults), [(Damage, Some("b"), Some(0)), (Damage, Some("b"), Some(2))]);
    assert!(faults[1].reason.ends_with("; the event behind it as well"), "{faults:?}");

    let database = Database::of(&[logs::plain("a", 9000)]);
    database.change("DELETE FROM events WHERE seq BETWEEN 100 AND 8899; UPDATE events SET time = 7 WHERE seq = 8990");
    let (report, faults) = verify(&database.open());
    assert_eq!(places(&faults), [(Damage, Some("a"), Some(100)), (Damage, Some("a"), Some(8990))]);
    assert!(faults[0].reason.contains("the 8799 events behind it as well"), "{faults:?}");
    assert_eq!(report.events, 9000 - 8800 - 1, "the others are checked");
}

#[test]
fn of_a_log_that_is_gone_not_every_row_is_looked_for() {
    let database = Database::of(&[logs::plain("a", 11_000), logs::plain("b", 2)]);
    database.change("DELETE FROM events WHERE session = 1");
    let (report, faults) = verify(&database.open());
    assert_eq!(places(&faults), [(Damage, Some("a"), Some(0))]);
    assert!(faults[0].reason.contains("the rest of the log was not checked"), "{faults:?}");
    assert_eq!((report.sessions, report.events), (2, 2));
}

#[test]
fn rows_that_are_swapped_are_damage_where_they_stand() {
    assert_found(
        "UPDATE events SET key = 7 WHERE session = 2 AND seq = 1;
         UPDATE events SET key = (2 << 32) + 1 WHERE session = 2 AND seq = 2;
         UPDATE events SET key = (2 << 32) + 2 WHERE key = 7",
        &[(Damage, Some("b"), Some(1))],
    );
}

#[test]
fn a_changed_header_is_damage_of_its_session() {
    assert_found("UPDATE sessions SET header = replace(header, '5', '6') WHERE id = 'b'", &[(Damage, Some("b"), None)]);
    assert_found("UPDATE sessions SET header = cast(x'ff' AS TEXT) WHERE id = 'b'", &[(Damage, Some("b"), None)]);
    assert_found("UPDATE sessions SET incarnation = 5 WHERE id = 'b'", &[(Damage, Some("b"), None)]);
    let faults = found_after("UPDATE sessions SET id = 'c' WHERE id = 'b'");
    assert_eq!(places(&faults), [(Damage, Some("c"), None)]);
    let faults = found_after("UPDATE sessions SET id = '' WHERE id = 'b'");
    assert_eq!(places(&faults), [(Damage, Some("damaged-session-2"), None)]);
}

#[test]
fn a_changed_counter_is_told_by_its_name() {
    for (column, value) in [
        ("event_count", "3"),
        ("event_count", "99"),
        ("inherited_count", "1"),
        ("size_bytes", "9"),
        ("last_time", "9"),
        ("last_time", "NULL"),
        ("chain", "0"),
    ] {
        let faults = found_after(&format!("UPDATE sessions SET {column} = {value} WHERE id = 'b'"));
        // Its row is damaged, so that it cannot be opened; the second tells what of it.
        assert_eq!(places(&faults), [(Damage, Some("b"), None), (Count, Some("b"), None)], "{column}: {faults:#?}");
        assert!(faults[1].reason.starts_with(column) && faults[1].advice.contains("SQL"), "{faults:#?}");
    }
    // Nothing else tells these, so that only the checksum of the row finds them.
    for column in ["revision", "written_at", "created_at"] {
        assert_found(
            &format!("UPDATE sessions SET {column} = {column} + 1 WHERE id = 'b'"),
            &[(Damage, Some("b"), None)],
        );
    }
}

/// The checksum of a session's row, made anew by whoever changes a counter.
fn sealed(database: &Database, change: &str) {
    let other = database.intruder();
    other.execute_batch(change).unwrap();
    let columns = "created_at, header_checksum, inherited_count, event_count, size_bytes, last_time IS NOT NULL, \
                   ifnull(last_time, 0), revision, chain, activity, types_checksum";
    let (numbers, incarnation, written): (Vec<i64>, i64, Option<i64>) = other
        .query_row(&format!("SELECT {columns}, incarnation, written_at FROM sessions WHERE id = 'b'"), [], |row| {
            let numbers: rusqlite::Result<_> = (0..11).map(|at| row.get(at)).collect();
            Ok((numbers?, row.get(11)?, row.get(12)?))
        })
        .unwrap();
    let bytes: Vec<u8> = numbers.into_iter().chain(written).flat_map(i64::to_le_bytes).collect();
    let checksum = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, incarnation as u64) as i64;
    other.execute("UPDATE sessions SET checksum = ?1 WHERE id = 'b'", [checksum]).unwrap();
}

#[test]
fn a_counter_that_was_forged_with_its_checksum_differs_from_the_log() {
    for (change, expected) in [
        ("event_count = 3", vec![(Count, None), (Count, None), (Count, None), (Count, None), (Count, Some(3))]),
        ("size_bytes = size_bytes + 1", vec![(Count, None)]),
        ("last_time = 9", vec![(Count, None), (Count, None)]),
        ("chain = 5", vec![(Count, None)]),
        ("types_checksum = 5", vec![(Count, None), (Count, None)]),
        ("inherited_count = 1", vec![(Count, None), (Count, None)]),
    ] {
        let database = Database::filled();
        sealed(&database, &format!("UPDATE sessions SET {change} WHERE id = 'b'"));
        let store = database.open();
        assert!(store.list(&ListQuery::default()).unwrap().items.iter().all(|told| told.header.is_some()), "{change}");
        let faults = verify(&store).1;
        let expected: Vec<_> = expected.into_iter().map(|(kind, seq)| (kind, Some("b"), seq)).collect();
        assert_eq!(places(&faults), expected, "{change}: {faults:#?}");
    }
}

#[test]
fn two_sessions_of_one_activity_are_told_where_nothing_keeps_them_apart() {
    let database = Database::filled();
    database.change(
        "PRAGMA writable_schema = ON;
         DELETE FROM sqlite_schema WHERE name = 'sqlite_autoindex_sessions_2';
         UPDATE sqlite_schema SET sql = replace(sql, 'activity         INTEGER NOT NULL UNIQUE', 'activity INTEGER NOT NULL')
         WHERE name = 'sessions'",
    );
    sealed(&database, "UPDATE sessions SET activity = (SELECT activity FROM sessions WHERE id = 'a') WHERE id = 'b'");
    let faults = verify(&database.open()).1;
    let told: Vec<_> = faults.iter().filter(|fault| fault.kind == Count).collect();
    assert!(told.len() == 2 && told.iter().all(|fault| fault.reason.starts_with("activity")), "{faults:#?}");
}

#[test]
fn noted_types_that_differ_from_the_log_are_told_apart_from_damage_of_it() {
    for (change, seq) in [
        ("DELETE FROM session_types WHERE session = 2", 0),
        ("UPDATE session_types SET first_seq = 1 WHERE session = 2", 0),
        ("INSERT INTO session_types VALUES (2, 'turn/end', 3)", 3),
    ] {
        let faults = found_after(change);
        assert_eq!(places(&faults), [(Count, Some("b"), None), (Count, Some("b"), Some(seq))], "{change}: {faults:#?}");
        assert!(faults.iter().all(|fault| fault.to_string().contains("log is sound")), "{faults:#?}");
    }
    let faults = found_after("UPDATE session_types SET type = cast(x'ff' AS TEXT) WHERE session = 2");
    assert_eq!(faults.iter().filter(|fault| fault.kind == Count).count(), 2, "{faults:#?}");
}

#[test]
fn rows_without_a_session_are_orphans() {
    let faults = found_after("DELETE FROM sessions WHERE id = 'a'");
    assert_eq!(places(&faults), [(Orphan, None, None), (Orphan, None, None)], "{faults:#?}");
    assert!(faults[0].reason.contains("number 1 ") && faults[0].reason.contains("seq 0 to 4"), "{faults:#?}");
    let insert = "INSERT INTO events (key, type, time, data, checksum) VALUES";
    for key in ["(77 << 32) + 5", "5", "-1", "(2147483647 << 32) + 9"] {
        assert_found(&format!("{insert} ({key}, 'x', 0, '1', 0)"), &[(Orphan, None, None)]);
    }
    assert_found("INSERT INTO session_types VALUES (9, 'x', 0), (9, 'y', 0)", &[(Orphan, None, None)]);
    // A row behind the last is no orphan, and none that a reader would meet.
    assert_found(&format!("{insert} ((2 << 32) + 4, 'x', 0, '1', 0)"), &[(Count, Some("b"), Some(4))]);
}

#[test]
fn triggers_indexes_and_views_that_are_missing_or_changed_are_told() {
    for (change, name) in [
        ("DROP TRIGGER events_update", "events_update"),
        (
            "DROP TRIGGER store_insert; CREATE TRIGGER store_insert BEFORE INSERT ON store BEGIN SELECT 1; END",
            "store_insert",
        ),
        ("DROP INDEX sessions_by_creation", "sessions_by_creation"),
        ("DROP VIEW session_turns", "session_turns"),
        ("DROP VIEW session_events; CREATE VIEW session_events AS SELECT 1", "session_events"),
    ] {
        let faults = found_after(change);
        assert_eq!(places(&faults), [(Structure, None, None)], "{change}: {faults:#?}");
        assert!(faults[0].reason.contains(name) && faults[0].advice.contains("schema.sql"), "{faults:#?}");
    }
}

/// The page that the tree of a table or index starts at.
fn root(database: &Database, name: &str) -> usize {
    database.one::<u64>(&format!("SELECT rootpage FROM sqlite_schema WHERE name = '{name}'")) as usize
}

const PAGE: usize = 8192;

#[test]
fn an_overwritten_page_is_told_with_what_it_held() {
    let logs: Vec<_> = (0..40).map(|n| logs::plain(&format!("s{n:02}"), 300)).collect();
    let database = Database::of(&logs);
    let is_leaf = |bytes: &[u8], page: usize| bytes[(page - 1) * PAGE] == 13;
    // A leaf of the events in the middle of the file.
    let damaged = {
        let bytes = std::fs::read(database.path()).unwrap();
        let holds_events =
            |page: usize| bytes[(page - 1) * PAGE..page * PAGE].windows(10).any(|window| window == b"turn/start");
        (bytes.len() / PAGE / 2..).find(|page| is_leaf(&bytes, *page) && holds_events(*page)).unwrap()
    };
    database.overwrite(|bytes| bytes[(damaged - 1) * PAGE..damaged * PAGE].fill(0xa5));
    let (report, faults) = verify(&database.open());
    let damage: Vec<_> = faults.iter().filter(|fault| fault.kind == Damage).collect();
    assert!(!damage.is_empty() && damage.len() <= 4, "{faults:#?}");
    assert!(damage.iter().all(|fault| fault.session.is_some() && fault.seq.is_some()), "{faults:#?}");
    let structure: Vec<_> = faults.iter().filter(|fault| fault.kind == Structure).collect();
    assert!(structure.iter().any(|fault| fault.reason.contains("(in the events)")), "{faults:#?}");
    assert_eq!(report.sessions, 40);
    assert!(report.events > 39 * 300 - 600, "all else is checked: {report:?}");
}

#[test]
fn a_damaged_index_is_told_apart_from_damage_of_the_events() {
    let logs: Vec<_> = (0..40).map(|n| logs::plain(&format!("s{n:02}"), 3)).collect();
    let database = Database::of(&logs);
    let page = root(&database, "sessions_by_creation");
    database.overwrite(|bytes| {
        // The number of the row in one entry, which stands behind the id: that of another one.
        let page = &mut bytes[(page - 1) * PAGE..page * PAGE];
        let at = page.windows(3).rposition(|window| window == b"s07").unwrap();
        page[at + 3] += 1;
    });
    let (_, faults) = verify(&database.open());
    let structure: Vec<_> = faults.iter().filter(|fault| fault.kind == Structure).collect();
    assert!(!structure.is_empty(), "{faults:#?}");
    for fault in structure {
        assert!(fault.reason.contains("sessions_by_creation") && fault.reason.contains("derived"), "{faults:#?}");
    }

    let database = Database::of(&logs);
    let types = root(&database, "session_types");
    database.overwrite(|bytes| bytes[(types - 1) * PAGE..types * PAGE].fill(0));
    let (report, faults) = verify(&database.open());
    assert!(faults.iter().all(|fault| fault.kind != Damage), "{faults:#?}");
    assert_eq!(report.events, 120, "the logs are read all the same");
}

#[test]
fn a_page_of_sessions_that_is_no_page_does_not_end_the_check() {
    let database = Database::filled();
    let page = root(&database, "sessions");
    database.overwrite(|bytes| bytes[(page - 1) * PAGE..page * PAGE].fill(0));
    let (report, faults) = verify(&database.open());
    assert!(
        faults.iter().any(|fault| fault.kind == Structure && fault.reason.contains("(in the sessions)")),
        "{faults:#?}"
    );
    assert_eq!(report.sessions, 0);
}

#[test]
fn the_last_page_zeroed_is_found() {
    let database = Database::of(&[logs::plain("a", 2000)]);
    database.overwrite(|bytes| {
        let start = bytes.len() - PAGE;
        bytes[start..].fill(0);
    });
    assert!(!verify(&database.open()).0.is_sound());
}

#[test]
fn a_wal_that_a_reader_holds_is_told_and_harmless() {
    let database = Database::filled();
    let store = database.open();
    let reader = Connection::open(database.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM events").unwrap();
    // A table of the user's own fills it as well as any.
    let writer = Connection::open(database.path()).unwrap();
    writer.execute_batch("CREATE TABLE mine (x); INSERT INTO mine VALUES (zeroblob(70 << 20))").unwrap();
    let (report, faults) = verify(&store);
    assert!(report.is_sound());
    assert_eq!(places(&faults), [(FaultKind::Leftover, None, None)], "{faults:#?}");
    assert!(faults[0].reason.contains("-wal"), "{faults:#?}");
}

#[test]
fn a_check_holds_no_view_while_it_tells() {
    let database = Database::of(&[logs::plain("a", 9000)]);
    database.change(
        "UPDATE sessions SET activity = 1000 WHERE id = 'a'; DROP TRIGGER events_insert; DELETE FROM session_types",
    );
    let store = database.open();
    let other = database.open();
    logs::import(&other, &logs::plain("b", 1));
    let checkpoint = Connection::open(database.path()).unwrap();
    let mut told = 0;
    store
        .check_storage(&mut |_| {
            told += 1;
            logs::import(&other, &logs::plain(&format!("n{told}"), 2));
            let is_busy: bool = checkpoint.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
            assert!(!is_busy, "a reader holds the WAL");
        })
        .unwrap();
    assert!(told >= 2, "{told}");
}
