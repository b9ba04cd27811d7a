//! What is kept of stored sessions, and for how long.

use std::sync::Arc;

use session_persistence::query::{CacheStats, ColdCache, ReaderOptions, SessionReader};
use session_persistence::{MemoryStore, OpenOptions, SessionPersistence, payload};

use super::place::{Kind, Place, Store};
use super::sample::{events_of, id, kind, plain, plains, store_session, turn_start};
use super::watched::Watched;

/// What the estimate says of one event without sources.
fn estimate(event: &session_persistence::SessionEvent) -> u64 {
    (event.data().as_str().len() + event.event_type().len()) as u64 + 128
}

/// A reader of a store with sessions of the given names, each of which takes the number of bytes that is given back.
fn reader_of(names: &[&str], max_sessions: u64) -> (SessionReader, u64) {
    let store: Store = Arc::new(MemoryStore::new());
    for name in names {
        store_session(&*store, name, &plains(0..10, "x"));
    }
    let each = plains(0..10, "x").iter().map(estimate).sum::<u64>();
    (SessionReader::new(store).with_cache(&ColdCache::new(max_sessions * each)), each)
}

fn look(reader: &SessionReader, name: &str) -> CacheStats {
    reader.observe(&id(name)).unwrap();
    reader.cache().stats()
}

#[test]
fn a_session_is_read_once_and_looked_at_each_time() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let store = Watched::over(place.open());
        store_session(&*store, "s", &plains(0..3, "x"));
        let reader = SessionReader::new(store.clone());
        for round in 1..=5 {
            let session = reader.observe(&id("s")).unwrap();
            assert_eq!(events_of(&session), plains(0..3, "x"));
            assert_eq!(session.revision(), Some(&store.stat(&id("s")).unwrap().unwrap().revision));
            assert_eq!(store.opens(), 1, "{kind:?}");
            let stats = reader.cache().stats();
            assert_eq!((stats.hits, stats.misses, stats.loads), (round - 1, 1, 1), "{kind:?}");
        }
    }
}

#[test]
fn the_least_recently_used_goes_first() {
    let (reader, each) = reader_of(&["a", "b", "c", "d"], 3);
    for name in ["a", "b", "c"] {
        look(&reader, name);
    }
    assert_eq!(reader.cache().stats().bytes, 3 * each);
    assert_eq!(look(&reader, "a").hits, 1);
    // Not "a", which was asked for again.
    assert_eq!(look(&reader, "d").evictions, 1);
    assert_eq!(look(&reader, "a").hits, 2);
    assert_eq!(look(&reader, "c").hits, 3);
    let stats = look(&reader, "b");
    assert_eq!((stats.hits, stats.loads, stats.evictions), (3, 5, 2));
    assert_eq!((stats.sessions, stats.observed, stats.bytes), (3, 0, 3 * each));
}

#[test]
fn what_is_observed_stays_and_its_last_observation_lets_it_go() {
    let (reader, each) = reader_of(&["a", "b", "c"], 1);
    let first = reader.observe(&id("a")).unwrap();
    let clone = first.clone();
    let second = reader.observe(&id("a")).unwrap();
    assert_eq!(reader.cache().stats().observed, 1);
    // Everything that may be kept is taken.
    let stats = look(&reader, "b");
    assert_eq!((stats.sessions, stats.bytes, stats.evictions), (1, each, 1));
    drop(first);
    drop(second);
    look(&reader, "c");
    assert_eq!((reader.cache().stats().sessions, reader.cache().stats().evictions), (1, 2));
    assert_eq!(events_of(&clone), plains(0..10, "x"));
    assert_eq!(look(&reader, "a").hits, 2, "it stayed");
    drop(clone);
    assert_eq!((reader.cache().stats().observed, reader.cache().stats().sessions), (0, 1));
    assert_eq!(look(&reader, "b").evictions, 3, "it went when nobody observed it any more");
    assert_eq!(look(&reader, "a").loads, 5);
}

#[test]
fn what_is_observed_beyond_the_bound_counts_and_goes_as_soon_as_it_may() {
    let (reader, each) = reader_of(&["a", "b", "c"], 2);
    let all: Vec<_> = ["a", "b", "c"].map(|name| reader.observe(&id(name)).unwrap()).into();
    assert_eq!((reader.cache().stats().bytes, reader.cache().stats().evictions), (3 * each, 0));
    drop(all);
    let stats = reader.cache().stats();
    assert_eq!((stats.bytes, stats.sessions, stats.evictions), (2 * each, 2, 1));
}

#[test]
fn a_cache_of_nothing_keeps_nothing() {
    let (reader, each) = reader_of(&["a"], 0);
    let session = reader.observe(&id("a")).unwrap();
    assert_eq!(reader.cache().stats().bytes, each);
    drop(session);
    let stats = look(&reader, "a");
    assert_eq!((stats.bytes, stats.sessions, stats.loads, stats.hits), (0, 0, 2, 0));
}

#[test]
fn the_estimate_counts_what_events_carry() {
    let store: Store = Arc::new(MemoryStore::new());
    let big = plain(0, &"é".repeat(10_000));
    let citing = plain(1, "x").into_ignorable().with_source_event_seqs([0]).unwrap();
    store_session(&*store, "s", &[big.clone(), citing.clone()]);
    let reader = SessionReader::new(store);
    assert_eq!(look(&reader, "s").bytes, estimate(&big) + estimate(&citing) + 192 + 8);
}

#[test]
fn what_was_written_is_read_again_and_the_old_state_goes_with_its_last_observation() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let store = place.open();
        store_session(&*store, "s", &plains(0..3, "x"));
        let reader = SessionReader::new(store.clone());
        let before = reader.observe(&id("s")).unwrap();
        let writer = store.open(&id("s"), OpenOptions::write()).unwrap();
        writer.append(&[plain(3, "x")]).unwrap();
        let now = reader.observe(&id("s")).unwrap();
        assert_eq!((before.event_count(), now.event_count()), (3, 4), "{kind:?}");
        assert_eq!(reader.cache().stats().sessions, 2);
        drop(now);
        let clone = before.clone();
        drop(before);
        assert_eq!(reader.cache().stats().sessions, 2);
        drop(clone);
        let stats = reader.cache().stats();
        assert_eq!((stats.sessions, stats.evictions, stats.loads), (1, 0, 2), "{kind:?}");
        assert_eq!(look(&reader, "s").hits, 1);
    }
}

#[test]
fn the_end_of_an_interrupted_turn_is_in_memory_only() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let store = place.open();
        store_session(&*store, "s", &[turn_start(0), plain(1, "x")]);
        let revision = store.stat(&id("s")).unwrap().unwrap().revision;
        let bytes = place.bytes();
        let reader = SessionReader::new(store.clone());
        let session = reader.observe(&id("s")).unwrap();
        assert_eq!((session.event_count(), session.closers().len()), (3, 1));
        assert_eq!(events_of(&session)[2], session.closers()[0]);
        let end: payload::TurnEnd = session.closers()[0].data_as().unwrap();
        assert_eq!(end.reason, payload::TurnEndReason::Interrupted);
        drop(session);
        assert_eq!(store.stat(&id("s")).unwrap().unwrap().revision, revision);
        assert!(place.bytes() == bytes, "{kind:?}: something was written");
        let writer = store.open(&id("s"), OpenOptions::write()).unwrap();
        writer.append(&[plain(2, "goes on")]).unwrap();
        let session = reader.observe(&id("s")).unwrap();
        assert_eq!(events_of(&session)[2], plain(2, "goes on"));
        assert_eq!(session.closers()[0].seq().get(), 3, "{kind:?}");
    }
}

#[test]
fn stores_that_share_a_cache_share_no_session() {
    let cache = ColdCache::default();
    // Nothing but the store tells one session from the other.
    let stores = [Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())];
    let stores: Vec<Store> = stores.map(|store| Watched::with_numbered_revisions(store) as Store).into();
    let readers: Vec<_> = stores.iter().map(|store| SessionReader::new(store.clone()).with_cache(&cache)).collect();
    for ((store, reader), mark) in stores.iter().zip(&readers).zip(["one", "two"]) {
        store_session(&**store, "s", &plains(0..3, mark));
        assert_eq!(events_of(&reader.observe(&id("s")).unwrap()), plains(0..3, mark));
    }
    assert_eq!((cache.stats().loads, cache.stats().hits, cache.stats().sessions), (2, 0, 2));
    // Another reader of the same store finds what the first one read.
    let again = SessionReader::new(stores[0].clone()).with_cache(&cache);
    assert_eq!(events_of(&again.observe(&id("s")).unwrap()), plains(0..3, "one"));
    assert_eq!((cache.stats().loads, cache.stats().hits), (2, 1));
    cache.clear();
    assert_eq!((cache.stats().sessions, cache.stats().bytes, cache.stats().evictions), (0, 0, 0));
}

#[test]
fn a_store_that_is_gone_leaves_its_sessions_to_no_other_store() {
    let cache = ColdCache::default();
    // A new store would have the address of the one before.
    for round in 0..50 {
        let mark = format!("round {round}");
        let store = Watched::with_numbered_revisions(Arc::new(MemoryStore::new()));
        store_session(&*store, "s", &plains(0..2, &mark));
        let reader = SessionReader::new(store).with_cache(&cache);
        assert_eq!(events_of(&reader.observe(&id("s")).unwrap()), plains(0..2, &mark));
    }
    assert_eq!((cache.stats().loads, cache.stats().hits), (50, 0));
}

#[test]
fn a_session_that_is_gone_is_told_and_let_go_of() {
    for each in Kind::ALL {
        let place = Place::new(*each);
        let store = place.open();
        store_session(&*store, "s", &plains(0..3, "x"));
        let reader = SessionReader::new(store.clone());
        look(&reader, "s");
        assert!(store.remove(&id("s")).unwrap());
        let error = reader.observe(&id("s")).unwrap_err();
        assert_eq!((kind(&error).as_str(), error.session()), ("SessionNotFound", Some(&id("s"))), "{each:?}");
        assert_eq!(reader.cache().stats().sessions, 0);
    }
}

#[test]
fn a_session_larger_than_one_may_be_is_refused_and_nothing_of_it_stays() {
    let (reader, each) = reader_of(&["a"], 10);
    let reader = reader.with_options(ReaderOptions::default().with_max_session_bytes(each - 1));
    let error = reader.observe(&id("a")).unwrap_err();
    assert_eq!(kind(&error), "TooLarge");
    assert_eq!((reader.cache().stats().bytes, reader.cache().stats().sessions), (0, 0));
    let reader = reader.with_options(ReaderOptions::default().with_max_session_bytes(each));
    assert_eq!(reader.observe(&id("a")).unwrap().event_count(), 10);
}
