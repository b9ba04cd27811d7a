//! How an index keeps up with a store.

use std::thread;

use session_persistence::query::index::SearchIndex;
use session_persistence::{CreateOptions, SessionPersistence};

use crate::counting::Counting;
use crate::sample::{all_say, append, event, found, fresh, header, id, says, store_session};

#[test]
fn after_one_append_only_its_events_are_read_and_without_a_digest_only_its_session() {
    let store = Counting::default();
    for session in 0..20 {
        let texts: Vec<_> = (0..50).map(|n| format!("text {n} of {session}")).collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        store_session(&store, &format!("s{session}"), &all_say(0, &texts));
    }
    let (_folder, index) = fresh();
    assert_eq!(index.update(&store).unwrap().events, 1000);
    assert_eq!(store.counted(), (20, 1000));
    index.update(&store).unwrap();
    assert_eq!(store.counted(), (0, 0));
    append(&store, "s7", &[says(50, "brand new"), says(51, "brand new")]);
    let report = index.update(&store).unwrap();
    assert_eq!((report.changed, report.started, report.events), (1, 0, 2));
    assert_eq!(store.counted(), (1, 2));
    assert_eq!(found(&index, "brand new").len(), 2);
    assert_eq!(found(&index, "text 49").len(), 20);
    // A store that cannot tell a log that grew from another one is read where it changed, and nowhere else.
    let store = Counting { keeps_no_digest: true, ..store };
    append(&store, "s7", &[says(52, "brand new")]);
    let report = index.update(&store).unwrap();
    assert_eq!((report.changed, report.started, report.events, store.counted()), (1, 0, 1, (1, 53)));
}

#[test]
fn the_mark_behind_a_seed_is_looked_for_once() {
    let store = Counting::default();
    let writer = store.create(&header("s").with_seed(), CreateOptions::inheriting(0)).unwrap();
    let mark = event("session/end-seed", 20, &serde_json::json!({}));
    writer.append(&[all_say(0, &["seed"; 20]), vec![mark]].concat()).unwrap();
    writer.close().unwrap();
    let (_folder, index) = fresh();
    index.update(&store).unwrap();
    assert_eq!(index.facts(&id("s")).unwrap().unwrap().own.events, 21);
    store.counted();
    append(&store, "s", &[says(21, "more")]);
    index.update(&store).unwrap();
    assert_eq!(store.counted(), (1, 1));
    assert_eq!(index.facts(&id("s")).unwrap().unwrap().own.events, 22);
}

#[test]
fn another_log_with_the_same_last_event_is_indexed_anew() {
    for keeps_no_digest in [false, true] {
        for after in [3, 5] {
            let store = Counting { keeps_no_digest, ..Counting::default() };
            let log = |mark: &str, count: u64| {
                let mut log: Vec<_> = (0..count).map(|seq| says(seq, &format!("{mark} {seq}"))).collect();
                log[2] = says(2, "the same");
                log
            };
            store_session(&store, "s", &log("secret", 3));
            let (_folder, index) = fresh();
            index.update(&store).unwrap();
            store.remove(&id("s")).unwrap();
            store_session(&store, "s", &log("public", after));
            index.update(&store).unwrap();
            assert!(found(&index, "secret").is_empty(), "{keeps_no_digest} {after}");
            assert_eq!(found(&index, "public").len() as u64, after - 1);
        }
    }
}

#[test]
fn another_log_under_the_same_id_is_indexed_anew_and_a_removed_one_is_forgotten() {
    for (before, after) in [(3, 5), (5, 5), (5, 3), (1, 1)] {
        let store = Counting::default();
        let log =
            |mark: &str, count: u64| (0..count).map(|seq| says(seq, &format!("{mark} {seq}"))).collect::<Vec<_>>();
        store_session(&store, "s", &log("first", before));
        let (_folder, index) = fresh();
        index.update(&store).unwrap();
        store.remove(&id("s")).unwrap();
        store_session(&store, "s", &log("second", after));
        index.update(&store).unwrap();
        assert!(found(&index, "first").is_empty(), "{before} {after}");
        assert_eq!(found(&index, "second").len() as u64, after);
        assert_eq!(index.facts(&id("s")).unwrap().unwrap().own.events, after);
        store.remove(&id("s")).unwrap();
        assert_eq!(index.update(&store).unwrap().removed, 1);
        assert!(found(&index, "second").is_empty() && index.facts(&id("s")).unwrap().is_none());
    }
}

#[test]
fn one_that_listed_the_store_long_ago_takes_nothing_back_that_another_indexed() {
    let store = Counting::default();
    store_session(&store, "s", &all_say(0, &["needle", "needle"]));
    store_session(&store, "gone", &all_say(0, &["needle"]));
    let long_ago = store.list(&Default::default()).unwrap();
    append(&store, "s", &all_say(2, &["needle", "needle"]));
    store.remove(&id("gone")).unwrap();
    let (_folder, index) = fresh();
    index.update(&store).unwrap();
    store.counted();
    *store.listed.lock().unwrap() = Some(long_ago);
    let report = index.update(&store).unwrap();
    assert_eq!((report.started, report.events, store.counted().1), (0, 0, 0));
    assert_eq!(found(&index, "needle").len(), 4);
}

#[test]
fn several_who_update_one_file_at_once_index_each_event_once() {
    let store = Counting::default();
    for session in 0..8 {
        store_session(&store, &format!("s{session}"), &[says(0, "needle 0")]);
    }
    let (folder, _index) = fresh();
    let path = folder.path().join("s.index");
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let index = SearchIndex::open(&path).unwrap();
                (0..15).for_each(|_| assert!(index.update(&store).unwrap().failures.is_empty()));
            });
        }
        for seq in 1..30 {
            (0..8).for_each(|session| append(&store, &format!("s{session}"), &[says(seq, "needle")]));
        }
    });
    let index = SearchIndex::open(&path).unwrap();
    index.update(&store).unwrap();
    assert_eq!(found(&index, "needle").len(), 240);
    for session in 0..8 {
        assert_eq!(index.facts(&id(&format!("s{session}"))).unwrap().unwrap().own.events, 30);
    }
}

#[cfg(all(feature = "sqlite", feature = "jsonl"))]
#[test]
fn stores_of_every_kind_are_indexed_alike() {
    use session_persistence::{JsonlStore, SqliteStore};
    let folder = tempfile::tempdir().unwrap();
    let stores: [Box<dyn SessionPersistence>; 2] = [
        Box::new(SqliteStore::open(folder.path().join("s.db")).unwrap()),
        Box::new(JsonlStore::open(folder.path().join("logs")).unwrap()),
    ];
    for store in stores {
        store_session(&*store, "s", &all_say(0, &["one needle", "two"]));
        let (_folder, index) = fresh();
        index.update(&*store).unwrap();
        append(&*store, "s", &[says(2, "needle")]);
        assert_eq!(index.update(&*store).unwrap().events, 1);
        assert_eq!(found(&index, "needle").len(), 2);
        assert_eq!(index.update(&*store).unwrap().changed, 0);
    }
}
