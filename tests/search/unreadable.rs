//! Logs of which not all can be read: the rest is found, and what is missing is told.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use session_persistence::query::index::SearchIndex;
use session_persistence::{CreateOptions, Encoding, JsonlOptions, JsonlStore, SessionPersistence, Vocabulary};

use crate::facts::turn;
use crate::sample::{all_say, append, event, faults, found, fresh, header, id, store_session};

fn root(folder: &Path) -> JsonlStore {
    JsonlStore::open_with(folder, JsonlOptions::default().with_encoding(Encoding::Raw)).unwrap()
}

/// The only log below a folder.
fn log_of(folder: &Path, name: &str) -> PathBuf {
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            match path.is_dir() {
                true => waiting.push(path),
                false
                    if path.extension().is_some_and(|end| end == "jsonl") && path.to_str().unwrap().contains(name) =>
                {
                    return path;
                }
                false => {}
            }
        }
    }
    panic!("no log of {name}");
}

fn problems(index: &SearchIndex) -> Vec<String> {
    index.problems().unwrap().into_iter().map(|(id, problem)| format!("{id}: {problem}")).collect()
}

#[test]
fn of_a_damaged_log_what_stands_before_the_damage_is_found_and_the_rest_is_told_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = root(folder.path());
    store_session(&store, "sound", &all_say(0, &["needle", "needle"]));
    let mut events = all_say(0, &["needle", "needle", "needle", "needle"]);
    // Without the end of a turn behind it, a gap would be the end of the log.
    events.push(event("turn/end", 4, &json!({ "turn": 1, "reason": { "kind": "completed" } })));
    store_session(&store, "broken", &events);
    let log = log_of(folder.path(), "broken");
    let whole = fs::read_to_string(&log).unwrap();
    let place = whole.match_indices("\"seq\":2").next().unwrap().0;
    let mut bytes = whole.clone().into_bytes();
    bytes[place + 6] = b'7';
    fs::write(&log, &bytes).unwrap();

    let (_folder, index) = fresh();
    let report = index.update(&store).unwrap();
    assert_eq!(report.failures.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["broken"]);
    assert_eq!(found(&index, "needle").len(), 4);
    // It did not change since, so it is not read again, and it is told all the same.
    assert_eq!(index.update(&store).unwrap().changed, 0);
    assert!(problems(&index)[0].starts_with("broken: "), "{:?}", problems(&index));
    fs::write(&log, whole).unwrap();
    index.update(&store).unwrap();
    assert_eq!((found(&index, "needle").len(), problems(&index).len()), (6, 0));
}

#[test]
fn logs_of_an_older_format_are_found_and_those_of_a_newer_one_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = root(folder.path());
    for name in ["newer", "older", "sound"] {
        store_session(&store, name, &all_say(0, &["needle"]));
    }
    drop(store);
    for (name, version) in [("newer", 4), ("older", 2)] {
        let log = log_of(folder.path(), name);
        let text = fs::read_to_string(&log).unwrap().replace("\"version\":3", &format!("\"version\":{version}"));
        fs::write(
            log.with_file_name(log.file_name().unwrap().to_str().unwrap().replace("v3", &format!("v{version}"))),
            text,
        )
        .unwrap();
        fs::remove_file(log).unwrap();
    }
    let store = root(folder.path());
    let states: Vec<_> =
        store.list(&Default::default()).unwrap().items.iter().map(|s| format!("{}: {}", s.id, s.state)).collect();
    let (_folder, index) = fresh();
    let report = index.update(&store).unwrap();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    let mut names: Vec<_> = found(&index, "needle").into_iter().map(|(session, _)| session).collect();
    names.sort();
    assert_eq!(names, ["older", "sound"], "{states:?}");
    assert_eq!(problems(&index), ["newer: format 4, needs a newer program"]);
    append(&store, "sound", &all_say(1, &["needle"]));
    assert_eq!(index.update(&store).unwrap().changed, 1);
    assert!(index.facts(&id("newer")).unwrap().unwrap().problem.is_some());
}

#[test]
fn a_log_of_a_newer_format_is_indexed_once_a_build_knows_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = root(folder.path());
    store_session(&store, "s", &all_say(0, &["needle"]));
    let (_folder, index) = fresh();
    let older = Vocabulary::new(2, ["user/message"]);
    let reads_2 =
        || JsonlStore::open_with(folder.path(), JsonlOptions::default().with_vocabulary(older.clone())).unwrap();
    for _ in 0..2 {
        index.update(&reads_2()).unwrap();
        assert_eq!((found(&index, "needle").len(), problems(&index).len()), (0, 1));
    }
    index.update(&store).unwrap();
    assert_eq!((found(&index, "needle").len(), problems(&index).len()), (1, 0));
}

#[test]
fn of_a_log_that_is_damaged_before_what_was_indexed_no_more_is_told_than_an_index_made_now_would() {
    let folder = tempfile::tempdir().unwrap();
    let store = root(folder.path());
    let mut events = all_say(0, &["needle", "needle", "needle"]);
    events.push(event("turn/end", 3, &json!({ "turn": 1, "reason": { "kind": "completed" } })));
    store_session(&store, "s", &events);
    let (_folder, index) = fresh();
    index.update(&store).unwrap();
    let log = log_of(folder.path(), "s");
    let damaged = fs::read_to_string(&log).unwrap().replacen("\"seq\":1", "\"seq\":7", 1);
    fs::write(&log, damaged).unwrap();
    let (_folder, anew) = fresh();
    for index in [&index, &anew] {
        assert_eq!(index.update(&store).unwrap().failures.len(), 1);
        assert_eq!((found(index, "needle").len(), problems(index).len()), (1, 1));
    }
    assert_eq!(index.total().unwrap(), anew.total().unwrap());
}

#[test]
fn a_log_that_was_cut_is_told_by_a_check_and_by_the_update_that_forgets_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let store = root(folder.path());
    store_session(&store, "s", &all_say(0, &["needle", "needle", "needle"]));
    let (place, index) = fresh();
    index.update(&store).unwrap();
    let log = log_of(folder.path(), "s");
    let cut: String = fs::read_to_string(&log).unwrap().split_inclusive('\n').take(2).collect();
    fs::write(&log, cut).unwrap();
    let told = faults(&place.path().join("s.index"), &store);
    assert!(told.len() == 1 && told[0].contains("session \"s\"") && told[0].contains("ends before"), "{told:?}");
    assert_eq!(index.update(&store).unwrap().shortened, [(id("s"), 3)]);
    assert!(index.update(&store).unwrap().shortened.is_empty());
    assert_eq!(found(&index, "needle").len(), 1);
}

#[test]
fn what_a_fork_copied_is_not_its_own_where_the_mark_behind_it_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let store = root(folder.path());
    store_session(&store, "parent", &turn(0, "m", 110));
    let inherited = turn(0, "m", 110);
    let header = header("fork").with_parent_session("parent").with_seed();
    let writer = store.create(&header, CreateOptions::inheriting(6)).unwrap();
    let mark = event("session/end-seed", 6, &json!({ "inherited": true }));
    writer.append(&[inherited, vec![mark], turn(7, "m", 55)].concat()).unwrap();
    writer.close().unwrap();
    let (_folder, index) = fresh();
    let tokens = || index.total().unwrap().counts.input_tokens;
    index.update(&store).unwrap();
    assert_eq!(tokens(), 165);
    let log = log_of(folder.path(), "fork");
    let cut: String = fs::read_to_string(&log).unwrap().split_inclusive('\n').take(6).collect();
    fs::write(&log, cut).unwrap();
    index.update(&store).unwrap();
    assert_eq!(tokens(), 110);
    let (_folder, anew) = fresh();
    anew.update(&store).unwrap();
    assert_eq!(anew.total().unwrap(), index.total().unwrap());
}
