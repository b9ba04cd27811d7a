//! What a check of an index tells, and that it tells nothing of the store.

use std::fs;

use rusqlite::Connection;
use session_persistence::query::index::{SearchIndex, SearchQuery};
use session_persistence::{MemoryStore, SessionPersistence};

use crate::facts::{forked, turn};
use crate::sample::{all_say, append, faults, found, fresh, id, store_session};

fn sample() -> MemoryStore {
    let store = forked();
    store_session(&store, "texts", &all_say(0, &["one needle", "two\0 néedle", "\u{1f600}字字字", "x", "ab"]));
    store
}

#[test]
fn an_index_that_is_behind_or_beside_a_damaged_log_has_no_fault() {
    let store = sample();
    let (folder, index) = fresh();
    let path = folder.path().join("s.index");
    assert_eq!(faults(&folder.path().join("none"), &store), [""; 0]);
    assert!(!folder.path().join("none-lock").exists());
    assert_eq!(faults(&path, &store), [""; 0]);
    index.update(&store).unwrap();
    assert_eq!(faults(&path, &store), [""; 0]);
    append(&store, "a", &turn(7, "m", 1));
    store.remove(&id("d")).unwrap();
    store_session(&store, "new", &all_say(0, &["needle"]));
    assert_eq!(faults(&path, &store), [""; 0]);
    index.update(&store).unwrap();
    assert_eq!(faults(&path, &store), [""; 0]);
}

#[test]
fn every_row_that_is_not_what_was_indexed_is_told_with_its_session() {
    let store = sample();
    for (sql, told) in [
        ("UPDATE document SET text = text || ' more' WHERE session = 5", "session \"texts\""),
        ("UPDATE document SET checksum = checksum + 1 WHERE session = 5", "session \"texts\""),
        ("UPDATE document SET type = 'tool/call' WHERE seq = 1 AND session = 5", "session \"texts\""),
        ("UPDATE document SET time = time + 1 WHERE seq = 1 AND session = 5", "session \"texts\""),
        ("DELETE FROM document WHERE session = 1", "session \"a\""),
        ("UPDATE document SET session = 77 WHERE session = 5", "texts of no session"),
        ("UPDATE count SET input_tokens = input_tokens + 1 WHERE session = 2", "session \"b\""),
        ("DELETE FROM count WHERE session = 3", "session \"c\""),
        ("UPDATE count SET session = 77 WHERE session = 3", "counts of no session"),
        ("UPDATE session SET title = 'another' WHERE id = 'a'", "session \"a\""),
        ("UPDATE session SET is_open = 1 - is_open WHERE id = 'a'", "session \"a\""),
        ("UPDATE session SET last_time = last_time + 1 WHERE id = 'a'", "session \"a\""),
        ("UPDATE session SET digest = digest + 1 WHERE id = 'b'", "session \"b\""),
        ("UPDATE session SET inherited = inherited - 1 WHERE id = 'b'", "session \"b\""),
        ("UPDATE session SET events = events - 1 WHERE id = 'b'", "session \"b\""),
        ("UPDATE session SET id = char(0) WHERE id = 'b'", "which is no id"),
        (
            "DELETE FROM letters WHERE rowid = (SELECT number FROM document WHERE session = 5 LIMIT 1)",
            "leads to its texts",
        ),
        ("DROP TABLE count", "its tables"),
        ("CREATE TABLE another (a)", "its tables"),
    ] {
        let (folder, index) = fresh();
        let path = folder.path().join("s.index");
        index.update(&store).unwrap();
        drop(index);
        let other = Connection::open(&path).unwrap();
        other.execute_batch(sql).unwrap();
        other.close().unwrap();
        let before = fs::read(&path).unwrap();
        let told_of = faults(&path, &store);
        assert!(told_of.iter().any(|fault| fault.contains(told)), "{sql}: {told_of:?}");
        assert!(told_of.iter().all(|fault| fault.starts_with("index: ") && fault.contains("remove the file")));
        assert!(fs::read(&path).unwrap() == before, "{sql}");
    }
}

#[test]
fn a_text_that_is_not_what_was_indexed_is_no_hit() {
    let store = sample();
    let (folder, index) = fresh();
    let path = folder.path().join("s.index");
    index.update(&store).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("UPDATE document SET text = 'another needle' WHERE text = 'one needle'").unwrap();
    let error = index.search(&SearchQuery::new("needle")).unwrap_err();
    assert!(error.to_string().contains("is damaged") && error.to_string().contains("texts"), "{error}");
    drop(other);
    index.update(&store).unwrap();
    assert_eq!(found(&index, "one needle").len(), 1);
}

#[test]
fn an_index_without_one_of_its_tables_is_made_anew() {
    let store = sample();
    let (folder, index) = fresh();
    let path = folder.path().join("s.index");
    index.update(&store).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("DROP TABLE document").unwrap();
    other.close().unwrap();
    index.update(&store).unwrap();
    append(&store, "a", &turn(7, "m", 1));
    index.update(&store).unwrap();
    assert_eq!(found(&index, "needle").len(), 1);
    assert_eq!(faults(&path, &store), [""; 0]);
}

#[test]
fn what_is_no_index_or_a_newer_one_is_told() {
    let store = sample();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.index");
    fs::write(&path, "dear diary, ".repeat(100)).unwrap();
    assert!(faults(&path, &store)[0].contains("of another kind"));
    assert_eq!(fs::read(&path).unwrap().len(), 1200);
    fs::remove_file(&path).unwrap();
    SearchIndex::open(&path).unwrap().update(&store).unwrap();
    let other = Connection::open(&path).unwrap();
    other.pragma_update(None, "user_version", 2).unwrap();
    other.close().unwrap();
    assert!(faults(&path, &store)[0].contains("version 2"));
}
