//! What an index knows of many sessions, and which it does not know as a whole.

use session_persistence::query::index::{GroupBy, IndexError, SearchIndex, SearchQuery, known_facts};
use session_persistence::{ListQuery, MemoryStore, SessionPersistence, Snapshot};

use crate::counting::Counting;
use crate::sample::{all_say, append, event, fresh, header, id, says, store_session};

fn listed(store: &dyn SessionPersistence) -> Vec<Snapshot> {
    store.list(&ListQuery::default()).unwrap().items
}

#[test]
fn of_each_session_as_it_is_it_tells_what_the_index_would() {
    let store = Counting::default();
    for session in 0..30 {
        store_session(&store, &format!("s{session}"), &all_say(0, &["hello", "there"]));
    }
    store_session(&store, "empty", &[]);
    let (_folder, index) = fresh();
    index.update(&store).unwrap();
    store.counted();
    let sessions = listed(&store);
    let known = known_facts(index.path(), &sessions).unwrap();
    assert_eq!((known.len(), store.counted()), (31, (0, 0)));
    for session in &sessions {
        assert_eq!(known.get(&session.id), index.facts(&session.id).unwrap().as_ref());
    }
    assert!(known[&id("empty")].is_blank && !known[&id("s1")].is_blank);

    append(&store, "s7", &[says(2, "more")]);
    store.remove(&id("s8")).unwrap();
    store_session(&store, "s8", &all_say(0, &["hello", "there"]));
    store_session(&store, "new", &[says(0, "x")]);
    let known = known_facts(index.path(), &listed(&store)).unwrap();
    assert_eq!(known.len(), 29);
    assert!(["s7", "s8", "new"].iter().all(|changed| !known.contains_key(&id(changed))));
    assert!(known_facts(index.path(), &[]).unwrap().is_empty());
}

#[test]
fn nothing_is_made_and_nobody_is_waited_for() {
    let store = MemoryStore::new();
    store_session(&store, "s", &[says(0, "x")]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.index");
    assert!(known_facts(&path, &listed(&store)).unwrap().is_empty());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    SearchIndex::open(&path).unwrap().update(&store).unwrap();
    let lock = std::fs::File::open(folder.path().join("x.index-lock")).unwrap();
    lock.lock().unwrap();
    assert!(matches!(known_facts(&path, &listed(&store)), Err(IndexError::Busy { .. })));
    lock.unlock().unwrap();
    assert_eq!(known_facts(&path, &listed(&store)).unwrap().len(), 1);
    for content in [vec![b'x'; 9000], b"SQLite format 3\0".to_vec()] {
        std::fs::write(&path, &content).unwrap();
        known_facts(&path, &listed(&store)).unwrap_err();
        assert!(std::fs::read(&path).unwrap() == content);
    }
}

#[test]
fn sessions_without_events_count_in_the_total_and_what_is_not_indexed_is_told() {
    let store = MemoryStore::new();
    store_session(&store, "a", &[says(0, "x"), event("turn/start", 1, &serde_json::json!({ "turn": 1 }))]);
    store_session(&store, "empty", &[]);
    let newer = header("newer").with_version(9);
    store.create(&newer, session_persistence::CreateOptions::default()).unwrap().append(&[says(0, "x")]).unwrap();
    let (_folder, index) = fresh();
    assert!(matches!(index.total(), Err(IndexError::NotFilled { .. })));
    index.update(&store).unwrap();
    let total = index.total().unwrap();
    assert_eq!((total.sessions, total.counts.events, total.counts.turns), (2, 2, 1));
    let rows: u64 = index.statistics(GroupBy::Session).unwrap().iter().map(|row| row.sessions).sum();
    assert_eq!(rows, total.sessions, "one that is empty has a row, one that is not indexed has none");
    let problems = index.problems().unwrap();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].0 == id("newer") && problems[0].1.contains("format 9"), "{problems:?}");
    assert_eq!(known_facts(index.path(), &listed(&store)).unwrap().len(), 2);
}

#[test]
fn a_search_is_narrowed_by_types_folder_and_time() {
    let store = MemoryStore::new();
    store_session(&store, "a", &all_say(0, &["x", "x", "x"]));
    let call = event("tool/call", 3, &serde_json::json!({ "callId": "c", "name": "x", "arguments": "{}" }));
    append(&store, "a", &[call]);
    let there = header("b").with_cwd("/w");
    store.create(&there, session_persistence::CreateOptions::default()).unwrap().append(&[says(0, "x")]).unwrap();
    let (_folder, index) = fresh();
    index.update(&store).unwrap();
    let count = |query: SearchQuery| index.search(&query).unwrap().total;
    let query = || SearchQuery::new("x");
    let time = crate::sample::TIME;
    assert_eq!(count(query()), 5);
    assert_eq!(count(query().of_types(["tool/call"])), 1);
    assert_eq!(count(query().of_types(["tool/call", "user/message"])), 5);
    assert_eq!(count(query().in_cwd("/w")), 1);
    assert_eq!(count(query().in_cwd("/w").of_types(["tool/call"])), 0);
    assert_eq!(count(query().since(time + 1)), 3);
    assert_eq!(count(query().since(time + 1).until(time + 2)), 2);
    assert_eq!(count(query().until(time).in_session(id("a"))), 1);
    // Short texts are looked for in another way than long ones.
    append(&store, "a", &all_say(4, &["needle", "needle"]));
    index.update(&store).unwrap();
    let long = || SearchQuery::new("needle");
    assert_eq!(count(long()), 2);
    assert_eq!(count(long().of_types(["user/message"]).since(time + 5)), 1);
    assert_eq!(count(long().until(time + 4).in_session(id("a"))), 1);
    assert_eq!((count(long().in_cwd("/w")), count(long().of_types(["tool/call"]))), (0, 0));
    let page = index.search(&query().with_limit(1)).unwrap();
    let next = page.next.unwrap();
    for other in [query().of_types(["x"]), query().in_cwd("/w"), query().since(0), query().until(time)] {
        let refused = index.search(&other.with_cursor(next.clone()));
        assert!(matches!(refused, Err(IndexError::InvalidCursor { .. })));
    }
}
