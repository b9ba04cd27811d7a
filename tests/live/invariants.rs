//! The invariants as an observer.

use std::sync::Arc;

use serde_json::json;
use session_persistence::SessionEvent;
use session_persistence::session::{AppendOptions, InvariantObserver, LiveError, Session, SessionHub};

use super::scene::fresh;

fn start(session: &Session, turn: u64) -> Result<(), LiveError> {
    session.append("turn/start", &json!({ "turn": turn }), AppendOptions::default()).map(drop)
}

fn end(session: &Session, turn: u64) -> Result<(), LiveError> {
    let data = json!({ "turn": turn, "reason": { "kind": "completed" } });
    session.append("turn/end", &data, AppendOptions::default()).map(drop)
}

#[test]
fn an_event_that_breaks_a_rule_is_vetoed_and_the_log_is_as_without_the_observer() {
    let (watched, free) = (fresh(), fresh());
    let _rules = watched.observe(Arc::new(InvariantObserver::new())).unwrap();
    for session in [&watched, &free] {
        start(session, 1).unwrap();
        end(session, 1).unwrap();
    }
    assert!(matches!(start(&watched, 3), Err(LiveError::Vetoed { .. })));
    start(&watched, 2).unwrap();
    start(&free, 2).unwrap();
    let log = |session: &Session| {
        let told = |e: &SessionEvent| (e.event_type().to_owned(), e.seq(), e.data().as_str().to_owned());
        session.snapshot(0..9).iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(log(&watched), log(&free));
}

#[test]
fn it_comes_in_the_middle_of_a_session_and_goes_again() {
    let session = fresh();
    start(&session, 1).unwrap();
    let rules = session.observe(Arc::new(InvariantObserver::new())).unwrap();
    assert!(start(&session, 2).is_err(), "turn 1 is open, which it knows from the log");
    end(&session, 1).unwrap();
    drop(rules);
    start(&session, 7).unwrap();
    assert!(session.observe(Arc::new(InvariantObserver::new())).is_err(), "that log breaks a rule");
}

#[test]
fn it_observes_one_session_through_its_life() {
    let hub = SessionHub::new();
    let session = fresh();
    let observer = Arc::new(InvariantObserver::new());
    let _rules = session.observe(observer.clone()).unwrap();
    assert!(fresh().observe(observer.clone()).is_err());
    hub.publish(&session).unwrap();
    start(&session, 1).unwrap();
    end(&session, 1).unwrap();
    hub.dispose(session.id()).unwrap();
    assert_eq!(session.observer_failures().0, 0, "{:?}", session.observer_failures());
}
