//! Which sessions are found.

use std::sync::Arc;

use session_persistence::query::{Availability, SessionFilter, SessionReader};
use session_persistence::session::{Clock, Seed, Session, SessionHub};
use session_persistence::{MemoryStore, SessionHeader};

use super::place::{Kind, Place, Store};
use super::sample::{header, id, kind, plains, store_under};

fn made(name: &str, created_at: u64) -> SessionHeader {
    SessionHeader::new(id(name), created_at).unwrap()
}

fn found(reader: &SessionReader, filter: SessionFilter) -> Vec<String> {
    reader.sessions(&filter).unwrap().iter().map(|record| record.id().to_string()).collect()
}

fn no_names() -> [Option<String>; 0] {
    []
}

#[test]
fn sessions_are_found_by_what_their_headers_say_over_every_store() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let store = place.open();
        for header in [
            made("a", 5).with_cwd("/w"),
            made("b", 5).with_cwd("/w/x").with_parent_session("a"),
            made("c", 7).with_parent_session("a"),
            made("d", 3).with_cwd("/w").with_parent_session("c"),
        ] {
            store_under(&*store, &header, &plains(0..1, "x"));
        }
        let reader = SessionReader::new(store);
        let all = SessionFilter::new;
        assert_eq!(found(&reader, all()), ["c", "a", "b", "d"], "{kind:?}: the newest first, then by id");
        assert_eq!(found(&reader, all().with_ids([id("d"), id("a"), id("none")])), ["a", "d"]);
        assert_eq!(found(&reader, all().in_cwds([Some("/w")])), ["a", "d"]);
        assert_eq!(found(&reader, all().in_cwds([None, Some("/w/x")])), ["c", "b"]);
        assert_eq!(found(&reader, all().with_parents([None::<String>])), ["a"]);
        assert_eq!(found(&reader, all().with_parents([Some("a"), Some("c")])), ["c", "b", "d"]);
        assert_eq!(found(&reader, all().created_in([3..=3, 6..=7]).unwrap()), ["c", "d"]);
        assert_eq!(found(&reader, all().in_cwds([Some("/w")]).with_parents([Some("c")])), ["d"]);
        for nothing in [
            all().with_ids([]),
            all().in_cwds(no_names()),
            all().with_parents(no_names()),
            all().created_in([]).unwrap(),
            all().available([]),
        ] {
            assert!(found(&reader, nothing).is_empty(), "{kind:?}");
        }
    }
}

#[test]
fn a_session_that_is_live_and_stored_is_found_once_and_as_both() {
    let store: Store = Arc::new(MemoryStore::new());
    let hub = SessionHub::new();
    for name in ["both", "stored"] {
        store_under(&*store, &header(name), &plains(0..1, "x"));
    }
    for name in ["both", "live"] {
        hub.publish(&Session::new(header(name), Seed::None, Clock::system()).unwrap()).unwrap();
    }
    let reader = SessionReader::new(store).with_hub(&hub);
    let at = |places: &[Availability]| found(&reader, SessionFilter::new().available(places.iter().copied()));
    assert_eq!(at(&[Availability::Live]), ["both", "live"]);
    assert_eq!(at(&[Availability::Persisted]), ["both", "stored"]);
    assert_eq!(at(&[Availability::Live, Availability::Persisted]), ["both", "live", "stored"]);
    hub.publish(&Session::new(header("stored").with_cwd("/else"), Seed::None, Clock::system()).unwrap()).unwrap();
    assert_eq!(kind(&reader.sessions(&SessionFilter::new()).unwrap_err()), "SourceConflict");
}

#[test]
fn a_range_that_ends_before_it_starts_is_refused() {
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    let error = SessionFilter::new().created_in([2..=1]).unwrap_err();
    assert_eq!(kind(&error), "InvalidFilter");
}
