//! What is found in a session: windows, filters, the surface, and traces of events.

use std::sync::Arc;

use session_persistence::query::{
    EventFilter, LiteralText, ObservedSession, QueryError, ReaderOptions, SessionReader, SurfaceState, Window,
};
use session_persistence::{MemoryStore, Seq, SessionEvent, SurfaceOp, searchable_text};

use super::place::{Kind, Place, Store};
use super::sample::{TIME, header, id, kind, plain, plains, says, shown, store_session, store_under};

fn observed(events: &[SessionEvent]) -> ObservedSession {
    let store: Store = Arc::new(MemoryStore::new());
    store_session(&*store, "s", events);
    SessionReader::new(store).observe(&id("s")).unwrap()
}

fn seqs(events: &[SessionEvent]) -> Vec<u64> {
    events.iter().map(|event| event.seq().get()).collect()
}

fn found(session: &ObservedSession, filter: &EventFilter) -> Vec<u64> {
    session.filter(filter).unwrap().map(|event| event.seq().get()).collect()
}

fn replacing(event: SessionEvent, start: u64, end: u64, sources: &[u64]) -> SessionEvent {
    let op = SurfaceOp::Replace { start_seq: Seq::new(start).unwrap(), end_seq: Seq::new(end).unwrap() };
    event.with_source_event_seqs(sources.iter().copied()).unwrap().with_surface_op(op).unwrap()
}

/// A log whose messages were replaced twice: 0 and 2 by 4, then 4 and 3 by 6.
fn replaced_twice() -> Vec<SessionEvent> {
    vec![
        shown(0, "zero"),
        plain(1, "one"),
        shown(2, "two"),
        shown(3, "three"),
        replacing(says(4, "four"), 0, 2, &[2, 0]),
        plain(5, "five"),
        replacing(says(6, "six"), 4, 3, &[1, 4, 3]),
        shown(7, "seven"),
    ]
}

#[test]
fn a_window_ends_where_the_log_does() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let store = place.open();
        store_session(&*store, "s", &plains(0..10, "x"));
        let reader = SessionReader::new(store);
        for (seq, before, after, left, right) in [
            (5, 2, 3, vec![3, 4], vec![6, 7, 8]),
            (0, 5, 1, vec![], vec![1]),
            (9, 1, 50, vec![8], vec![]),
            (4, 0, 0, vec![], vec![]),
            (4, 50, 50, vec![0, 1, 2, 3], vec![5, 6, 7, 8, 9]),
        ] {
            let window = reader.read_event(&id("s"), seq, Window::new(before, after)).unwrap();
            assert_eq!((seqs(&window.before), seqs(&window.after)), (left, right), "{kind:?} {seq}");
            assert_eq!(window.event, plain(seq, "x"));
        }
    }
}

#[test]
fn a_window_is_as_wide_as_the_reader_allows_and_no_wider() {
    let store: Store = Arc::new(MemoryStore::new());
    store_session(&*store, "s", &plains(0..200, "x"));
    let reader = SessionReader::new(store);
    let window = reader.read_event(&id("s"), 100, Window::new(50, 50)).unwrap();
    assert_eq!((window.before.len(), window.after.len()), (50, 50));
    for window in [Window::new(51, 0), Window::new(0, 51)] {
        let error = reader.read_event(&id("s"), 100, window).unwrap_err();
        assert!(matches!(error, QueryError::InvalidWindow { max: 50, .. }), "{error}");
    }
    let reader = reader.with_options(ReaderOptions::default().with_max_window(2));
    reader.read_event(&id("s"), 100, Window::new(2, 2)).unwrap();
    assert_eq!(kind(&reader.read_event(&id("s"), 100, Window::new(3, 0)).unwrap_err()), "InvalidWindow");
    for seq in [200, u64::MAX] {
        let error = reader.read_event(&id("s"), seq, Window::new(1, 1)).unwrap_err();
        assert!(matches!(error, QueryError::EventNotFound { count: 200, .. }), "{error}");
    }
}

#[test]
fn filters_find_by_type_seq_and_time_over_every_store() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let store = place.open();
        store_session(&*store, "s", &replaced_twice());
        let session = SessionReader::new(store).observe(&id("s")).unwrap();
        let all = EventFilter::new();
        assert_eq!(found(&session, &all), [0, 1, 2, 3, 4, 5, 6, 7], "{kind:?}");
        assert_eq!(found(&session, &all.clone().of_types(["todo/write"])), [1, 5]);
        assert_eq!(found(&session, &all.clone().of_types(["todo/write", "none"])), [1, 5]);
        assert_eq!(found(&session, &all.clone().in_seqs([1..=2, 6..=u64::MAX]).unwrap()), [1, 2, 6, 7]);
        assert_eq!(found(&session, &all.clone().in_seqs([2..=2, 90..=99]).unwrap()), [2]);
        assert!(found(&session, &all.clone().in_seqs([]).unwrap()).is_empty());
        let times = all.clone().in_times([TIME + 3..=TIME + 5]).unwrap();
        assert_eq!(found(&session, &times), [3, 4, 5]);
        assert_eq!(found(&session, &times.of_types(["user/message"]).in_seqs([4..=9]).unwrap()), [4]);
    }
}

#[test]
fn filters_find_by_what_became_of_an_event_on_the_surface() {
    let session = observed(&replaced_twice());
    let states = |states: &[SurfaceState]| found(&session, &EventFilter::new().in_states(states.iter().copied()));
    assert_eq!(states(&[SurfaceState::Current]), [6, 7]);
    assert_eq!(states(&[SurfaceState::Shadowed]), [0, 2, 3, 4]);
    assert_eq!(states(&[SurfaceState::LogOnly]), [1, 5]);
    assert_eq!(states(&[SurfaceState::Current, SurfaceState::LogOnly]), [1, 5, 6, 7]);
    assert!(states(&[]).is_empty());
    assert_eq!(seqs(&session.surface().unwrap()), [6, 7]);
    assert_eq!(session.surface_state(4).unwrap(), SurfaceState::Shadowed);
    assert_eq!(kind(&session.surface_state(8).unwrap_err()), "EventNotFound");
}

#[test]
fn the_surface_keeps_its_own_order() {
    let session = observed(&[shown(0, "a"), shown(1, "b"), replacing(says(2, "c"), 0, 0, &[0])]);
    assert_eq!(seqs(&session.surface().unwrap()), [2, 1]);
}

#[test]
fn filters_find_by_what_an_event_says() {
    let session = observed(&[shown(0, "The  QUICK\nfox"), plain(1, "quick foxes"), shown(2, "quick"), plain(3, "m0")]);
    let texts = |texts: &[&str]| {
        let texts = texts.iter().map(|text| LiteralText::new(text).unwrap());
        found(&session, &EventFilter::new().with_texts(texts))
    };
    assert_eq!(texts(&["quick fox"]), [0, 1]);
    assert_eq!(texts(&["quick foxes", "the quick"]), [0, 1]);
    assert_eq!(texts(&["quick"]), [0, 1, 2]);
    assert_eq!(texts(&["m0"]), [3], "an id of a message is not what it says");
    assert!(texts(&[]).is_empty());
    assert_eq!(searchable_text(&session.event_at(1).unwrap()), "pending\nquick foxes");
}

#[test]
fn what_is_read_has_the_end_of_an_interrupted_turn() {
    let session = observed(&[super::sample::turn_start(0)]);
    let texts = [LiteralText::new("interrupted").unwrap()];
    assert_eq!(found(&session, &EventFilter::new().with_texts(texts)), [1]);
    assert_eq!(seqs(&session.window(0, Window::new(0, 1)).unwrap().after), [1]);
}

#[test]
fn a_trace_follows_what_stands_for_an_event_to_the_surface() {
    let session = observed(&replaced_twice());
    let trace = |seq| session.trace_event(seq).unwrap();
    let numbers = |seqs: &[Seq]| seqs.iter().map(|seq| seq.get()).collect::<Vec<_>>();

    let zero = trace(0);
    assert_eq!((zero.state, zero.replaced_by.map(Seq::get)), (SurfaceState::Shadowed, Some(4)));
    assert_eq!(numbers(&zero.replacement_chain), [4, 6]);
    assert_eq!((numbers(&zero.replaced), numbers(&zero.cited), numbers(&zero.cited_by)), (vec![], vec![], vec![4]));

    let four = trace(4);
    assert_eq!((numbers(&four.replacement_chain), numbers(&four.replaced)), (vec![6], vec![0, 2]));
    assert_eq!((numbers(&four.cited), numbers(&four.cited_by)), (vec![2, 0], vec![6]));

    let six = trace(6);
    assert_eq!((six.state, six.replaced_by), (SurfaceState::Current, None));
    assert_eq!((numbers(&six.replacement_chain), numbers(&six.replaced)), (vec![], vec![4, 3]));
    assert_eq!((numbers(&six.cited), numbers(&six.cited_by)), (vec![1, 4, 3], vec![]));
    assert_eq!(six.event, replaced_twice()[6]);

    let one = trace(1);
    assert_eq!((one.state, numbers(&one.cited_by)), (SurfaceState::LogOnly, vec![6]));
    assert_eq!(kind(&session.trace_event(8).unwrap_err()), "EventNotFound");
}

#[test]
fn a_log_that_breaks_a_rule_of_surfaces_is_read_and_its_surface_refused() {
    let store: Store = Arc::new(MemoryStore::new());
    // A message without an operation.
    store_under(&*store, &header("s"), &[shown(0, "a"), says(1, "b")]);
    let session = SessionReader::new(store).observe(&id("s")).unwrap();
    assert_eq!(session.event_count(), 2);
    let texts = EventFilter::new().with_texts([LiteralText::new("b").unwrap()]);
    assert_eq!(found(&session, &texts), [1]);
    session.window(1, Window::new(1, 1)).unwrap();
    let current = EventFilter::new().in_states([SurfaceState::Current]);
    for error in [
        session.surface().unwrap_err(),
        session.trace_event(0).unwrap_err(),
        session.filter(&current).map(Iterator::count).unwrap_err(),
    ] {
        assert!(matches!(&error, QueryError::InvalidSurface { session, .. } if *session == id("s")), "{error}");
    }
}
