//! What is stored in SQLite stays as it is: no other program can change it, and what is changed behind SQLite's back is
//! found at its place.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use session_persistence::{
    CreateOptions, Error, ErrorKind, Json, ListOrder, ListQuery, OpenOptions, SeqRange, SessionEvent, SessionHeader,
    SessionId, SessionPersistence, SessionState, SqliteStore, text,
};
use tempfile::TempDir;

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn event(seq: u64) -> SessionEvent {
    SessionEvent::new("todo/write", seq, 1, Json::parse(&format!(r#"{{"mark":"MARK-{seq:03}"}}"#)).unwrap()).unwrap()
}

/// A closed store with the sessions `a` and `b` of three events each.
fn filled() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    for name in ["a", "b"] {
        let header = SessionHeader::new(id(name), 1).unwrap();
        let handle = store.create(&header, CreateOptions::default()).unwrap();
        handle.append(&[event(0), event(1), event(2)]).unwrap();
    }
    (folder, path)
}

fn lines(store: &SqliteStore, name: &str) -> Result<Vec<String>, Error> {
    let events = store.open(&id(name), OpenOptions::uninterpreted())?.read(SeqRange::ALL)?;
    Ok(events.iter().map(SessionEvent::to_line).collect())
}

/// Changes rows as no other program can without switching the triggers off.
fn change(path: &Path, statements: &str) {
    let other = Connection::open(path).unwrap();
    other.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    other.execute_batch(statements).unwrap();
}

/// Changes the file itself: the first place of `from` behind `after` becomes `to`, which is as long.
fn overwrite(path: &Path, after: &[u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    let mut bytes = std::fs::read(path).unwrap();
    let find = |needle: &[u8], from: usize| {
        bytes[from..].windows(needle.len()).position(|w| w == needle).map(|at| at + from).expect("it is in the file")
    };
    let at = find(from, find(after, 0));
    bytes[at..at + to.len()].copy_from_slice(to);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn no_statement_of_another_program_changes_a_row() {
    let (_folder, path) = filled();
    let before = {
        let store = SqliteStore::open(&path).unwrap();
        (lines(&store, "a").unwrap(), store.list(&ListQuery::default()).unwrap())
    };
    let other = Connection::open(&path).unwrap();
    let columns = "(key, type, time, data, checksum)";
    let tables = ["events", "sessions", "session_types", "store"];
    let statements = [
        "UPDATE events SET data = '{}'".to_owned(),
        "UPDATE events SET data = '{}' WHERE key = 4294967296".to_owned(),
        "DELETE FROM events".to_owned(),
        "DELETE FROM events WHERE key = 4294967298".to_owned(),
        format!("INSERT OR REPLACE INTO events {columns} VALUES (4294967296, 'x', 0, '{{}}', 0)"),
        format!("REPLACE INTO events {columns} VALUES (4294967298, 'x', 0, '{{}}', 0)"),
        format!("INSERT OR IGNORE INTO events {columns} VALUES (4294967298, 'x', 0, '{{}}', 0)"),
        format!("INSERT INTO events {columns} VALUES (4294967296, 'x', 0, '{{}}', 0) ON CONFLICT DO UPDATE SET data = ''"),
        format!("INSERT INTO events {columns} VALUES (4294967300, 'x', 0, '{{}}', 0)"),
        format!("INSERT INTO events {columns} VALUES (4294967299, 'x', 0, '{{}}', 0)"),
        format!("INSERT INTO events {columns} VALUES (99999999999, 'x', 0, '{{}}', 0)"),
        "UPDATE sessions SET event_count = 2 WHERE id = 'a'".to_owned(),
        "UPDATE sessions SET header = '{}'".to_owned(),
        "DELETE FROM sessions".to_owned(),
        "INSERT OR REPLACE INTO sessions (number, id, incarnation, header, header_checksum, inherited_count, event_count, \
         size_bytes, revision, chain, activity) VALUES (1, 'a', 0, '{}', 0, 0, 0, 0, 0, 0, 99)"
            .to_owned(),
        "DELETE FROM session_types".to_owned(),
        "UPDATE store SET store_id = 'x'".to_owned(),
        "DELETE FROM store".to_owned(),
    ];
    for statement in &statements {
        let refused = other.execute_batch(statement).expect_err(statement);
        assert_eq!(
            refused.sqlite_error_code(),
            Some(rusqlite::ErrorCode::ConstraintViolation),
            "{statement}: {refused}"
        );
    }
    for recursive in ["PRAGMA recursive_triggers = ON", "PRAGMA foreign_keys = OFF"] {
        other.execute_batch(recursive).unwrap();
        statements.iter().for_each(|s| drop(other.execute_batch(s).expect_err(s)));
    }
    for table in tables {
        let triggers: u32 = other
            .query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1", [table], |r| {
                r.get(0)
            })
            .unwrap();
        assert_eq!(triggers, 3, "{table} is guarded against INSERT, UPDATE and DELETE");
    }
    drop(other);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!((lines(&store, "a").unwrap(), store.list(&ListQuery::default()).unwrap()), before);
}

#[test]
fn a_user_may_add_tables_views_indexes_and_triggers() {
    let (_folder, path) = filled();
    let other = Connection::open(&path).unwrap();
    other
        .execute_batch(
            "CREATE TABLE notes (session_id TEXT, note TEXT); CREATE INDEX by_type ON events (type);
             CREATE VIEW mine AS SELECT * FROM session_events;
             CREATE TRIGGER broken AFTER INSERT ON events BEGIN INSERT INTO nowhere VALUES (1); END;",
        )
        .unwrap();
    drop(other);
    let store = SqliteStore::open(&path).unwrap();
    store.open(&id("a"), OpenOptions::write()).unwrap().append(&[event(3)]).unwrap();
    assert_eq!(lines(&store, "a").unwrap().len(), 4);
}

#[test]
fn a_changed_byte_is_corruption_at_its_seq_and_harms_no_other_session() {
    let changes: [(&[u8], &[u8], &[u8]); 3] = [
        (b"MARK-001", b"MARK-001", b"MARK-0O1"),
        (b"MARK-000", b"todo/write", b"todo/wrote"),
        (b"MARK-001", b"001", b"0\xff1"),
    ];
    for (after, from, to) in changes {
        let (_folder, path) = filled();
        overwrite(&path, after, from, to);
        let store = SqliteStore::open(&path).unwrap();
        let damaged: Vec<_> = ["a", "b"].into_iter().filter_map(|name| lines(&store, name).err()).collect();
        let [Error::Corruption { session, seq: Some(seq), .. }] = &damaged[..] else {
            panic!("one damaged session with its seq: {damaged:?}")
        };
        assert!(damaged[0].to_string().contains(&format!("session {session:?} is damaged at seq {seq}")));
        let whole = store.open(session, OpenOptions::read()).unwrap().read((..seq.get()).into()).unwrap();
        assert_eq!(whole.len() as u64, seq.get(), "what lies before the damage can be read");
        assert_eq!(store.list(&ListQuery::default()).unwrap().items.len(), 2);
    }
}

#[test]
fn a_changed_header_keeps_its_session_in_the_list_with_the_reason() {
    let (_folder, path) = filled();
    overwrite(&path, b"\"id\":\"a\"", b"createdAt", b"createdat");
    let store = SqliteStore::open(&path).unwrap();
    let states: Vec<_> = store
        .list(&ListQuery::default())
        .unwrap()
        .items
        .into_iter()
        .map(|s| (s.id.to_string(), s.header.is_some(), s.state.to_string()))
        .collect();
    assert_eq!(states[0], ("b".to_owned(), true, "readable".to_owned()));
    assert_eq!((states[1].0.as_str(), states[1].1), ("a", false));
    assert!(states[1].2.contains("checksum"), "{states:?}");
    for options in [OpenOptions::read(), OpenOptions::write(), OpenOptions::uninterpreted()] {
        let refused = store.open(&id("a"), options).map(|_| ()).unwrap_err();
        assert_eq!((refused.kind(), refused.session()), (ErrorKind::Corruption, Some(&id("a"))));
    }
    lines(&store, "b").unwrap();
}

#[test]
fn rows_that_vanish_move_or_swap_are_corruption_and_never_a_shorter_log() {
    let edits = [
        ("DELETE FROM events WHERE key = (1 << 32) + 1", 1),
        ("DELETE FROM events WHERE key = (1 << 32) + 2", 2),
        ("UPDATE events SET key = key + 100 WHERE key = (1 << 32)", 0),
        (
            "UPDATE events SET key = 7 WHERE key = (1 << 32); UPDATE events SET key = 1 << 32 WHERE key = (1 << 32) + 1;
             UPDATE events SET key = (1 << 32) + 1 WHERE key = 7",
            0,
        ),
        (
            "DELETE FROM events WHERE key = (1 << 32) + 1;
             INSERT INTO events (key, type, time, data, checksum)
             SELECT (1 << 32) + 1, type, time, data, checksum FROM events WHERE key = (2 << 32) + 1",
            1,
        ),
        ("UPDATE events SET ignorable = 1 WHERE key = (1 << 32) + 2", 2),
        ("UPDATE events SET envelope = 'stmd' WHERE key = (1 << 32) + 2", 2),
        ("UPDATE events SET time = 2 WHERE key = (1 << 32) + 2", 2),
        ("UPDATE events SET checksum = checksum + 1 WHERE key = (1 << 32)", 0),
    ];
    for (edit, at) in edits {
        let (_folder, path) = filled();
        change(&path, edit);
        let store = SqliteStore::open(&path).unwrap();
        match lines(&store, "a") {
            Err(Error::Corruption { seq: Some(seq), .. }) => assert_eq!(seq.get(), at, "{edit}"),
            other => panic!("{edit}: {other:?}"),
        }
        lines(&store, "b").unwrap();
        assert_eq!(store.stat(&id("a")).unwrap().unwrap().event_count, Some(3), "{edit}");
        if at == 2 && edit.starts_with("DELETE") {
            let writer = store.open(&id("a"), OpenOptions::write()).unwrap();
            assert_eq!(
                writer.append(&[event(3)]).unwrap_err().kind(),
                ErrorKind::Corruption,
                "no row without the one before"
            );
        }
    }
}

#[test]
fn what_is_counted_of_a_session_is_checked_too() {
    let edits = [
        "UPDATE sessions SET event_count = 2 WHERE id = 'a'",
        "UPDATE sessions SET event_count = -1 WHERE id = 'a'",
        "UPDATE sessions SET inherited_count = 1 WHERE id = 'a'",
        "UPDATE sessions SET size_bytes = 9 WHERE id = 'a'",
        "UPDATE sessions SET last_time = 0 WHERE id = 'a'",
        "UPDATE sessions SET last_time = NULL WHERE id = 'a'",
        "UPDATE sessions SET revision = revision + 1 WHERE id = 'a'",
        "UPDATE sessions SET chain = 0 WHERE id = 'a'",
        "UPDATE sessions SET activity = 99 WHERE id = 'a'",
        "UPDATE sessions SET created_at = 0 WHERE id = 'a'",
        "UPDATE sessions SET types_checksum = 0 WHERE id = 'a'",
        "UPDATE sessions SET header = cast(x'ff' AS TEXT) WHERE id = 'a'",
    ];
    for edit in edits {
        let (_folder, path) = filled();
        change(&path, edit);
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(lines(&store, "a").unwrap_err().kind(), ErrorKind::Corruption, "{edit}");
        let told = store.stat(&id("a")).unwrap().unwrap();
        assert!(matches!(told.state, SessionState::Damaged { .. }), "{edit}: {told:?}");
        let states: Vec<_> = store.list(&ListQuery::default()).unwrap().items.into_iter().map(|s| s.state).collect();
        assert_eq!(states.iter().filter(|s| **s == SessionState::Readable).count(), 1, "{edit}: {states:?}");
        lines(&store, "b").unwrap();
    }
}

#[test]
fn an_id_that_is_no_longer_one_keeps_its_row_in_the_list() {
    for damaged in ["cast(x'ff' AS TEXT)", "''"] {
        let (_folder, path) = filled();
        change(&path, &format!("UPDATE sessions SET id = {damaged} WHERE id = 'a'"));
        let store = SqliteStore::open(&path).unwrap();
        let listed = store.list(&ListQuery::default()).unwrap().items;
        assert_eq!(listed.len(), 2);
        assert!(matches!(listed[1].state, SessionState::Damaged { .. }), "{listed:?}");
    }
}

#[test]
fn the_types_that_a_reader_must_know_cannot_be_taken_away() {
    let edits = [
        "DELETE FROM session_types WHERE session = 1",
        "UPDATE session_types SET first_seq = 1 WHERE session = 1",
        "UPDATE session_types SET type = 'turn/end' WHERE session = 1",
        "INSERT INTO session_types VALUES (1, 'turn/end', 0)",
        "UPDATE session_types SET type = cast(x'ff' AS TEXT) WHERE session = 1",
    ];
    for edit in edits {
        let (_folder, path) = filled();
        change(&path, edit);
        let store = SqliteStore::open(&path).unwrap();
        for options in [OpenOptions::read(), OpenOptions::write()] {
            assert_eq!(store.open(&id("a"), options).unwrap_err().kind(), ErrorKind::Corruption, "{edit}");
        }
        lines(&store, "a").expect("what is stored can still be read as it is");
    }
}

#[test]
fn the_values_of_a_line_with_a_spelling_of_its_own_are_those_of_the_line() {
    let line = br#"{ "type":"todo/write", "seq":0, "time":5, "data":{}, "sourceEventSeqs":[] }"#;
    let edits = [
        "UPDATE events SET type = 'tool/call'",
        "UPDATE events SET time = 99",
        "UPDATE events SET source_event_seqs = NULL",
        "UPDATE events SET surface_op = '\"append\"'",
        "UPDATE events SET ignorable = 1",
    ];
    for edit in edits {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.db");
        let store = SqliteStore::open(&path).unwrap();
        let handle = store.create(&SessionHeader::new(id("a"), 1).unwrap(), CreateOptions::default()).unwrap();
        handle.append(&[text::parse_event(line).unwrap()]).unwrap();
        assert_eq!(lines(&store, "a").unwrap()[0].as_bytes(), line);
        drop((handle, store));
        change(&path, edit);
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(lines(&store, "a").unwrap_err().kind(), ErrorKind::Corruption, "{edit}");
    }
}

#[test]
fn json_that_is_nested_deeper_than_sqlite_reads_is_stored_and_breaks_no_view() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    let deep = format!("{}{}", "[".repeat(1200), "]".repeat(1200));
    let header = format!(r#"{{"type":"session","version":9,"id":"deep","createdAt":1,"future":{deep}}}"#);
    let header = SessionHeader::parse(header.as_bytes()).unwrap();
    let handle = store.create(&header, CreateOptions::default()).unwrap();
    let types = ["turn/start", "tool/call", "tool/result", "user/message", "turn/end"];
    for (event_type, seq) in types.iter().zip(0..) {
        handle.append(&[SessionEvent::new(event_type, seq, 1, Json::parse(&deep).unwrap()).unwrap()]).unwrap();
    }
    assert_eq!(store.list(&ListQuery::default().with_order(ListOrder::Created)).unwrap().items[0].header, Some(header));
    let other = Connection::open(&path).unwrap();
    for view in ["session_events", "session_turns", "session_tool_calls", "session_messages", "session_overview"] {
        other
            .query_row(&format!("SELECT count(*) FROM (SELECT * FROM {view})"), [], |row| row.get::<_, u32>(0))
            .expect(view);
    }
}

#[test]
fn a_row_behind_the_counted_end_stops_an_append_and_is_not_read() {
    let (_folder, path) = filled();
    change(&path, "INSERT INTO events (key, type, time, data, checksum) VALUES ((1 << 32) + 3, 'x', 0, '{}', 0)");
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(lines(&store, "a").unwrap().len(), 3);
    let writer = store.open(&id("a"), OpenOptions::write()).unwrap();
    assert_eq!(writer.append(&[event(3)]).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(lines(&store, "a").unwrap().len(), 3);
}

#[test]
fn the_counter_is_the_last_rows_seq_plus_one_after_every_call() {
    let (_folder, path) = filled();
    let store = SqliteStore::open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    let agree = || {
        let differing: u32 = other
            .query_row(
                "SELECT count(*) FROM sessions AS s WHERE s.event_count IS NOT
                 (SELECT ifnull(max(seq) + 1, 0) FROM events WHERE session = s.number)
                 OR s.event_count IS NOT (SELECT count(*) FROM events WHERE session = s.number)",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(differing, 0);
    };
    agree();
    let writer = store.open(&id("a"), OpenOptions::write()).unwrap();
    for batch in [vec![event(3)], vec![event(4), event(5)], vec![event(9)], vec![event(6), event(8)], vec![]] {
        let _either = writer.append(&batch);
        agree();
    }
    let empty = store.create(&SessionHeader::new(id("c"), 1).unwrap(), CreateOptions::default()).unwrap();
    empty.flush().unwrap();
    agree();
    drop((writer, empty));
    store.remove(&id("a")).unwrap();
    agree();
    let left: u32 = other
        .query_row("SELECT (SELECT count(*) FROM events WHERE session = 1) + (SELECT count(*) FROM session_types WHERE session = 1)", [], |r| r.get(0))
        .unwrap();
    assert_eq!(left, 0, "a removed session leaves no row in any table");
}

#[test]
fn the_size_is_that_of_the_exported_text() {
    let (_folder, path) = filled();
    let store = SqliteStore::open(&path).unwrap();
    let header = store.open(&id("a"), OpenOptions::read()).unwrap().header().to_line();
    let text = lines(&store, "a").unwrap().iter().fold(header + "\n", |text, line| text + line + "\n");
    assert_eq!(store.stat(&id("a")).unwrap().unwrap().size_bytes, Some(text.len() as u64));
}

#[test]
fn a_long_log_is_the_same_read_as_a_whole_and_in_pages_and_the_first_damage_in_it_is_told() {
    const COUNT: u64 = 20_001;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    let header = SessionHeader::new(id("long"), 1).unwrap();
    let handle = store.create(&header, CreateOptions::default()).unwrap();
    handle.append(&(0..COUNT).map(event).collect::<Vec<_>>()).unwrap();
    for start in [0, 1, 7_000] {
        let whole = handle.read(SeqRange::from(start..)).unwrap();
        let pages = (start..COUNT).step_by(1000);
        let pages = pages.flat_map(|at| handle.read(SeqRange::from(at..COUNT.min(at + 1000))).unwrap());
        assert!(whole.iter().map(|event| event.seq().get()).eq(start..COUNT));
        assert!(whole.into_iter().eq(pages), "from {start}");
    }
    for (damage, seq) in [
        ("UPDATE events SET time = 2 WHERE key & 0xffffffff = 19000", 19_000),
        ("DELETE FROM events WHERE key & 0xffffffff = 15000", 15_000),
        ("UPDATE events SET time = 2 WHERE key & 0xffffffff = 3", 3),
    ] {
        change(&path, damage);
        let told = handle.read(SeqRange::ALL).unwrap_err();
        assert!(matches!(told, Error::Corruption { seq: Some(at), .. } if at.get() == seq), "{damage}: {told}");
    }
    handle.read(SeqRange::from(4..15_000)).unwrap();
}
