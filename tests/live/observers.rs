//! Who is told of what, and what becomes of those who fail.

use std::sync::Arc;

use session_persistence::session::{AppendOptions, LiveError, Seed, Session, SessionHub};

use super::scene::{Witness, clock, fresh, header, plain};

#[test]
fn an_append_from_inside_an_observer_is_refused_and_the_log_goes_on() {
    let session = fresh();
    let reentering = Witness::reacting(|session, _| {
        let refused = session.append("todo/write", &1, AppendOptions::default());
        assert!(matches!(refused, Err(LiveError::Reentrant { .. })), "{refused:?}");
        Ok(())
    });
    let _observation = session.observe(reentering.clone()).unwrap();
    plain(&session);
    plain(&session);
    assert_eq!((session.seq(), reentering.seqs()), (2, vec![0, 1]));
    assert_eq!(session.observer_failures().0, 0);
}

#[test]
fn the_data_outranks_a_reentering_append_and_that_the_rules_of_the_type() {
    let session = fresh();
    let reentering = Witness::reacting(|session, _| {
        let refused = session.append("todo/write", &f64::NAN, AppendOptions::default());
        assert!(matches!(&refused, Err(LiveError::Refused { reason, .. }) if reason.contains("data")), "{refused:?}");
        let refused = session.append("user/message", &1, AppendOptions::default());
        assert!(matches!(refused, Err(LiveError::Reentrant { .. })), "{refused:?}");
        Ok(())
    });
    let _observation = session.observe(reentering).unwrap();
    plain(&session);
    assert_eq!(session.observer_failures().0, 0, "{:?}", session.observer_failures());
}

#[test]
fn a_veto_comes_before_the_event_is_a_part_of_the_log() {
    let session = fresh();
    let judge = Witness::judging(|session, event| {
        assert_eq!((session.seq(), event.seq().get()), (0, 0), "it is asked about what is not there yet");
        Err("no".to_owned())
    });
    let vetoing = session.observe(judge).unwrap();
    let vetoed = session.append("todo/write", &1, AppendOptions::default());
    assert!(matches!(&vetoed, Err(LiveError::Vetoed { reason, .. }) if reason == "no"), "{vetoed:?}");
    drop(vetoing);
    assert_eq!(plain(&session).seq().get(), 0, "its seq is that of the next event");
}

#[test]
fn a_failing_and_a_panicking_observer_undo_nothing_and_keep_nobody_from_being_told() {
    let session = fresh();
    let failing = Witness::reacting(|_, _| Err("no room".into()));
    let panicking = Witness::reacting(|_, _| panic!("out of luck"));
    let last = Witness::new();
    let _observations = [failing, panicking, last.clone()].map(|observer| session.observe(observer).unwrap());
    plain(&session);
    assert_eq!((session.seq(), last.seqs()), (1, vec![0]));
    let (count, failure) = session.observer_failures();
    let failure = failure.unwrap();
    assert_eq!((count, &*failure.observer), (2, "the witness"));
    assert!(failure.message.contains("out of luck") && failure.told.contains("seq 0"), "{failure:?}");
    plain(&session);
    assert_eq!(last.seqs(), [0, 1]);
}

#[test]
fn a_veto_and_a_panic_of_who_may_veto_append_nothing_and_tell_nobody() {
    let session = fresh();
    let witness = Witness::new();
    let _observation = session.observe(witness.clone()).unwrap();
    for judge in [Witness::judging(|_, _| Err("no".to_owned())), Witness::judging(|_, _| panic!("no"))] {
        let vetoing = session.observe(judge).unwrap();
        let vetoed = session.append("todo/write", &1, AppendOptions::default()).unwrap_err();
        assert!(matches!(&vetoed, LiveError::Vetoed { observer, .. } if observer == "the witness"), "{vetoed}");
        drop(vetoing);
    }
    assert_eq!((session.seq(), witness.seqs()), (0, vec![]));
    plain(&session);
}

#[test]
fn an_observer_that_is_dropped_is_told_nothing_any_more() {
    let session = fresh();
    let witness = Witness::new();
    let observation = session.observe(witness.clone()).unwrap();
    plain(&session);
    drop(observation);
    plain(&session);
    assert_eq!(witness.seqs(), [0]);
}

#[test]
fn an_observer_of_one_session_gets_the_events_of_no_other() {
    let hub = SessionHub::new();
    let sessions = ["a", "b"].map(|name| Session::new(header(name), Seed::None, clock()).unwrap());
    let (scoped, all) = (Witness::new(), Witness::new());
    let _scoped = sessions[0].observe(scoped.clone()).unwrap();
    let _all = hub.observe(all.clone());
    sessions.iter().for_each(|session| hub.publish(session).unwrap());
    plain(&sessions[0]);
    plain(&sessions[1]);
    hub.dispose(sessions[1].id()).unwrap();
    plain(&sessions[1]);
    hub.dispose(sessions[0].id()).unwrap();
    assert_eq!(scoped.told(), ["published a", "appended 0 a", "disposed a"]);
    assert_eq!(all.told(), ["published a", "published b", "appended 0 a", "appended 0 b", "disposed b", "disposed a"]);
}

#[test]
fn a_session_is_published_once_and_its_id_is_taken_until_it_is_disposed() {
    let hub = SessionHub::new();
    let session = fresh();
    hub.publish(&session).unwrap();
    assert!(matches!(hub.publish(&session), Err(LiveError::AlreadyLive { .. })));
    assert!(matches!(SessionHub::new().publish(&session), Err(LiveError::AlreadyLive { .. })));
    assert!(matches!(hub.publish(&fresh()), Err(LiveError::AlreadyLive { .. })));
    assert!(hub.get(session.id()).is_some());
    hub.dispose(session.id()).unwrap();
    assert!(matches!(hub.dispose(session.id()), Err(LiveError::NotLive { .. })));
    hub.publish(&fresh()).unwrap();
}

#[test]
fn a_vetoed_publication_leaves_no_trace() {
    let hub = SessionHub::new();
    let witness = Arc::new(Witness { objects_to_publication: true, ..Witness::default() });
    let observation = hub.observe(witness.clone());
    let session = fresh();
    assert!(matches!(hub.publish(&session), Err(LiveError::Vetoed { .. })));
    assert!(hub.get(session.id()).is_none() && !session.is_published());
    drop(observation);
    hub.publish(&session).unwrap();
    assert_eq!(witness.told(), [""; 0]);
}

#[test]
fn a_disposal_from_inside_an_observer_waits_for_the_end_of_the_append() {
    let hub = SessionHub::new();
    let session = fresh();
    let disposing = {
        let hub = hub.clone();
        Witness::reacting(move |session, _| Ok(hub.dispose(session.id())?))
    };
    let after = Witness::new();
    let _observations = [disposing, after.clone()].map(|observer| session.observe(observer).unwrap());
    hub.publish(&session).unwrap();
    plain(&session);
    assert_eq!(after.told(), ["published s", "appended 0 s", "disposed s"]);
    assert!(hub.get(session.id()).is_none());
}

#[test]
fn a_flush_asks_every_observer_and_tells_whether_one_stores_or_the_first_failure() {
    let hub = SessionHub::new();
    let session = fresh();
    assert!(matches!(hub.flush(session.id()), Err(LiveError::NotLive { .. })));
    hub.publish(&session).unwrap();
    assert!(!hub.flush(session.id()).unwrap());
    let saying = |flush| Arc::new(Witness { flush: Some(flush), ..Witness::default() });
    let _storing = session.observe(saying(Ok(true))).unwrap();
    assert!(hub.flush(session.id()).unwrap());
    let [first, second, last] = [Err("the first"), Err("the second"), Ok(false)].map(saying);
    let _failing = [first, second, last.clone()].map(|observer| hub.observe(observer));
    let failed = hub.flush(session.id()).unwrap_err();
    assert_eq!(failed.to_string(), "the first");
    assert_eq!(last.told(), ["flushed s"], "it is asked all the same");
}

#[test]
fn a_disposal_from_inside_a_publication_waits_for_its_end() {
    let hub = SessionHub::new();
    let session = fresh();
    let disposing = Arc::new(Witness { disposes_in: Some(hub.clone()), ..Witness::default() });
    let after = Witness::new();
    let _observations = [disposing, after.clone()].map(|observer| session.observe(observer).unwrap());
    hub.publish(&session).unwrap();
    assert_eq!(after.told(), ["published s", "disposed s"]);
    assert!(hub.get(session.id()).is_none() && !session.is_published());
}
