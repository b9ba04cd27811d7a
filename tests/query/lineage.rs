//! Which sessions descend from which.

use std::sync::Arc;

use session_persistence::query::{QueryError, SessionReader};
use session_persistence::session::{Clock, Seed, Session, SessionHub};
use session_persistence::{MemoryStore, SessionHeader};

use super::place::{Kind, Place, Store};
use super::sample::{id, kind, plains, store_under};

fn child(name: &str, created_at: u64, parent: &str) -> SessionHeader {
    let header = SessionHeader::new(id(name), created_at).unwrap();
    if parent.is_empty() { header } else { header.with_parent_session(parent) }
}

fn store_of(store: &Store, sessions: &[(&str, u64, &str)]) {
    for (name, created_at, parent) in sessions {
        store_under(&**store, &child(name, *created_at, parent), &plains(0..1, "x"));
    }
}

fn ancestors(reader: &SessionReader, name: &str) -> (Vec<String>, Option<String>) {
    let ancestry = reader.ancestry(&id(name)).unwrap();
    assert_eq!(ancestry.is_complete(), ancestry.unresolved_parent.is_none());
    let names = ancestry.ancestors.iter().map(|record| record.id().to_string()).collect();
    (names, ancestry.unresolved_parent)
}

fn descendants(reader: &SessionReader, name: &str) -> Vec<(String, usize)> {
    let found = reader.descendants(&id(name)).unwrap();
    found.iter().map(|one| (one.record.id().to_string(), one.depth)).collect()
}

fn told(found: &[(&str, usize)]) -> Vec<(String, usize)> {
    found.iter().map(|(name, depth)| ((*name).to_owned(), *depth)).collect()
}

#[test]
fn ancestors_go_outward_to_a_session_without_a_parent_or_one_that_is_not_here() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let store = place.open();
        store_of(&store, &[("root", 1, ""), ("a", 2, "root"), ("b", 3, "a"), ("lost", 4, "gone"), ("c", 5, "lost")]);
        let reader = SessionReader::new(store);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(ancestors(&reader, "b"), (names(&["a", "root"]), None), "{kind:?}");
        assert_eq!(ancestors(&reader, "root"), (names(&[]), None));
        assert_eq!(ancestors(&reader, "c"), (names(&["lost"]), Some("gone".to_owned())));
        assert_eq!(ancestors(&reader, "lost"), (names(&[]), Some("gone".to_owned())));
    }
}

#[test]
fn descendants_come_depth_first_and_siblings_by_creation_and_then_by_id() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let store = place.open();
        store_of(
            &store,
            &[
                ("root", 9, ""),
                ("late", 8, "root"),
                ("b", 5, "root"),
                ("a", 5, "root"),
                ("B", 5, "root"),
                ("early", 1, "late"),
                ("under a", 2, "a"),
                ("deeper", 0, "under a"),
                ("other", 1, ""),
                ("under other", 1, "other"),
            ],
        );
        let reader = SessionReader::new(store);
        let all = [("B", 1), ("a", 1), ("under a", 2), ("deeper", 3), ("b", 1), ("late", 1), ("early", 2)];
        assert_eq!(descendants(&reader, "root"), told(&all), "{kind:?}");
        assert_eq!(descendants(&reader, "a"), told(&[("under a", 1), ("deeper", 2)]));
        assert_eq!(descendants(&reader, "deeper"), told(&[]));
    }
}

#[test]
fn sessions_that_descend_from_themselves_are_refused() {
    let store: Store = Arc::new(MemoryStore::new());
    let sessions =
        [("a", 1, "c"), ("b", 2, "a"), ("c", 3, "b"), ("below", 4, "b"), ("own", 5, "own"), ("leaf", 6, "below")];
    store_of(&store, &sessions);
    let reader = SessionReader::new(store);
    for (name, expected) in [
        ("a", vec!["a", "c", "b"]),
        ("c", vec!["c", "b", "a"]),
        ("below", vec!["b", "a", "c"]),
        ("leaf", vec!["b", "a", "c"]),
        ("own", vec!["own"]),
    ] {
        let error = reader.ancestry(&id(name)).unwrap_err();
        let QueryError::InvalidLineage { session, circle } = &error else { panic!("{error:?}") };
        assert_eq!((session, circle), (&id(name), &expected.iter().map(|name| id(name)).collect::<Vec<_>>()));
    }
    for (name, expected) in [("a", vec!["a", "c", "b"]), ("b", vec!["b", "a", "c"]), ("own", vec!["own"])] {
        let error = reader.descendants(&id(name)).unwrap_err();
        let QueryError::InvalidLineage { circle, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*circle, expected.iter().map(|name| id(name)).collect::<Vec<_>>());
        assert!(error.to_string().contains("circle"), "{error}");
    }
    // What hangs below a circle has descendants like any other.
    assert_eq!(descendants(&reader, "below"), told(&[("leaf", 1)]));
}

#[test]
fn live_sessions_are_among_ancestors_and_descendants_once() {
    let store: Store = Arc::new(MemoryStore::new());
    store_of(&store, &[("root", 1, ""), ("stored", 3, "live")]);
    let hub = SessionHub::new();
    for header in [child("live", 2, "root"), child("stored", 3, "live"), child("new", 4, "stored")] {
        hub.publish(&Session::new(header, Seed::None, Clock::system()).unwrap()).unwrap();
    }
    let reader = SessionReader::new(store).with_hub(&hub);
    assert_eq!(descendants(&reader, "root"), told(&[("live", 1), ("stored", 2), ("new", 3)]));
    let found = reader.descendants(&id("root")).unwrap();
    let places: Vec<_> = found.iter().map(|one| (one.record.live, one.record.persisted)).collect();
    assert_eq!(places, [(true, false), (true, true), (true, false)]);
    assert_eq!(ancestors(&reader, "new").0, ["stored", "live", "root"]);
}

#[test]
fn a_session_that_is_not_here_has_no_lineage() {
    let reader = SessionReader::new(Arc::new(MemoryStore::new()));
    assert_eq!(kind(&reader.ancestry(&id("none")).unwrap_err()), "SessionNotFound");
    assert_eq!(kind(&reader.descendants(&id("none")).unwrap_err()), "SessionNotFound");
}

#[cfg(feature = "jsonl")]
#[test]
fn a_parent_whose_header_cannot_be_read_is_one_that_is_not_resolved() {
    let place = Place::new(Kind::Raw);
    store_of(&place.open(), &[("root", 1, ""), ("damaged", 2, "root"), ("leaf", 3, "damaged")]);
    let (log, mut bytes) = place.bytes().into_iter().find(|(_, bytes)| bytes.starts_with(DAMAGED)).unwrap();
    bytes[0] = b'x';
    std::fs::write(log, bytes).unwrap();
    let reader = SessionReader::new(place.open());
    assert_eq!(ancestors(&reader, "leaf"), (Vec::new(), Some("damaged".to_owned())));
    assert_eq!(descendants(&reader, "root"), told(&[]));
    assert_eq!(kind(&reader.record(&id("damaged")).unwrap_err()), "Corruption");
    assert_eq!(kind(&reader.ancestry(&id("damaged")).unwrap_err()), "Corruption");
    assert_eq!(kind(&reader.observe(&id("damaged")).unwrap_err()), "Corruption");
}

/// How the log of the session that is damaged begins.
#[cfg(feature = "jsonl")]
const DAMAGED: &[u8] = br#"{"type":"session","version":3,"id":"damaged""#;
