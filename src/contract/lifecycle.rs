//! How sessions are made, resumed and forked over a store.

use std::sync::Arc;

use super::Fixture;
use super::fixture::{reopened, torn};
use super::sample::{header, id, parsed};
use super::steps::{
    append, assert_absent, create, listed, log_of, refused, snapshot, store_session, uninterpreted_log_of, writer,
};
use super::watched::Watched;
use crate::log::payload::{TurnEnd, TurnEndReason, TurnStart};
use crate::log::{Seq, SessionEvent, SurfaceOp, interrupted_turn_closers};
use crate::seam::{Error, ErrorKind, SessionPersistence};
use crate::session::{AppendOptions, LifecycleOptions, LiveError, Resumed, Seed, Session, SessionHub, SessionRouter};

#[track_caller]
fn router(store: &Arc<dyn SessionPersistence>) -> SessionRouter {
    SessionRouter::new(&SessionHub::new(), store.clone()).expect("a thread can be had")
}

#[track_caller]
fn made(result: Result<Session, LiveError>) -> Session {
    result.unwrap_or_else(|e| panic!("the session has to be made: {e}"))
}

#[track_caller]
fn resumed(store: &Arc<dyn SessionPersistence>, name: &str) -> Resumed {
    let router = router(store);
    let resumed = router.resume(&id(name), LifecycleOptions::default(), |_| Ok(()));
    let resumed = resumed.unwrap_or_else(|e| panic!("{name:?} has to be resumed: {e}"));
    router.close(&id(name)).unwrap_or_else(|e| panic!("{name:?} has to be closed: {e}"));
    resumed
}

/// A log that ends in the middle of a turn, with one call that was started and one that was not.
fn interrupted() -> Vec<SessionEvent> {
    let call = |id: &str| format!(r#"{{"type":"tool-call","id":"{id}","name":"t","arguments":"{{}}"}}"#);
    [
        r#"{"type":"turn/start","seq":0,"time":10,"data":{"turn":1}}"#.to_owned(),
        r#"{"type":"user/message","seq":1,"time":11,"data":{"content":[{"type":"text","text":"go"}],"source":{"kind":"user"},"role":"user","id":"u"},"surfaceOp":"append"}"#.to_owned(),
        r#"{"type":"step/start","seq":2,"time":12,"data":{"turn":1,"step":1}}"#.to_owned(),
        format!(
            r#"{{"type":"assistant/message","seq":3,"time":13,"data":{{"turn":1,"step":1,"message":{{"role":"assistant","content":[{},{}],"source":{{"kind":"model","provider":"p","model":"m"}},"id":"a"}},"stream":[]}},"surfaceOp":"append"}}"#,
            call("a"),
            call("b")
        ),
        r#"{"type":"tool/call","seq":4,"time":14,"data":{"turn":1,"step":1,"callId":"a","name":"t","arguments":"{}"}}"#.to_owned(),
    ]
    .iter()
    .map(|line| parsed(line))
    .collect()
}

fn finished(turn: u64, first: u64) -> [SessionEvent; 2] {
    let end = TurnEnd { turn, reason: TurnEndReason::Completed };
    [
        SessionEvent::of("turn/start", first, 1, &TurnStart { turn }).expect("an event"),
        SessionEvent::of("turn/end", first + 1, 2, &end).expect("an event"),
    ]
}

pub fn a_created_session_without_events_is_not_stored(fixture: &dyn Fixture) {
    let store = fixture.store();
    let router = router(&store);
    made(router.create(header("s"), Seed::None, LifecycleOptions::default(), |_| Ok(())));
    drop(router);
    assert_absent(&*store, "s");
}

pub fn a_set_up_is_stored_before_the_session_is_published(fixture: &dyn Fixture) {
    let store = fixture.store();
    let router = router(&store);
    let set_up = |session: &Session| {
        session.append("todo/write", &[1], AppendOptions::default())?;
        Ok(())
    };
    let session = made(router.create(header("s"), Seed::None, LifecycleOptions::default(), set_up));
    assert_eq!(log_of(&*store, "s"), session.snapshot(0..u64::MAX));
    assert_eq!(session.seq(), 1);
}

pub fn a_set_up_that_fails_leaves_nothing_stored_and_the_id_free(fixture: &dyn Fixture) {
    let store = fixture.store();
    let router = router(&store);
    let set_up = |session: &Session| {
        session.append("todo/write", &[1], AppendOptions::default())?;
        Err("the tools are missing".into())
    };
    let seed = Seed::Own(finished(1, 0).to_vec());
    let failed = router.create(header("s"), seed, LifecycleOptions::default(), set_up);
    assert!(matches!(failed, Err(LiveError::SetUp { .. })), "{failed:?}");
    assert_absent(&*store, "s");
    assert!(router.hub().get(&id("s")).is_none());
    create(&*store, "s");
}

pub fn the_id_of_a_stored_session_is_not_made_again(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &finished(1, 0));
    let router = router(&store);
    match router.create(header("s"), Seed::None, LifecycleOptions::default(), |_| Ok(())) {
        Err(LiveError::Store(e)) => drop(refused::<()>(Err(e), "s", ErrorKind::AlreadyExists)),
        other => panic!("{other:?}"),
    }
}

pub fn a_seed_is_stored_with_its_mark(fixture: &dyn Fixture) {
    let store = fixture.store();
    let router = router(&store);
    let seed = Seed::Own(finished(1, 0).to_vec());
    let session = made(router.create(header("s"), seed, LifecycleOptions::default(), |_| Ok(())));
    let stored = log_of(&*store, "s");
    assert_eq!(stored, session.snapshot(0..u64::MAX));
    assert_eq!(stored.len(), 3);
    assert_eq!((stored[2].event_type(), stored[2].data().as_str()), ("session/end-seed", "{}"));
    assert_eq!(session.first_live_seq(), 2);
}

pub fn resuming_ends_an_interrupted_turn_with_stored_events(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &interrupted());
    let Resumed { session, closers, .. } = resumed(&store, "s");
    let expected = interrupted_turn_closers(&interrupted(), &Default::default()).expect("closers");
    assert_eq!(closers, expected);
    assert_eq!(closers.len(), 4);
    let stored = log_of(&*store, "s");
    assert_eq!(stored[..5], interrupted());
    assert_eq!(stored[5..9], expected);
    assert_eq!(stored[9].event_type(), "session/end-seed");
    assert_eq!(stored, session.snapshot(0..u64::MAX));
    assert_eq!(session.derive_messages().len(), 4, "a question, an answer with two calls, and a result for each");
}

pub fn resuming_five_times_stores_the_closers_once(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &interrupted());
    assert_eq!(resumed(&store, "s").closers.len(), 4);
    let (log, revision) = (log_of(&*store, "s"), snapshot(&*store, "s").revision);
    for _ in 0..4 {
        assert_eq!(resumed(&store, "s").closers, []);
        assert_eq!(snapshot(&*store, "s").revision, revision);
    }
    assert_eq!(log_of(&*store, "s"), log);
}

pub fn a_death_at_any_step_of_a_resumption_leaves_each_batch_whole_or_none_and_the_next_goes_on(fixture: &dyn Fixture) {
    let (store, watch) = Watched::over(fixture.store());
    let (log, closers) =
        (interrupted(), interrupted_turn_closers(&interrupted(), &Default::default()).expect("closers"));
    // The closers are one batch and the mark behind them is another; each may be stored when the process dies, or not.
    for (step, stores_one_more, stored) in [(0, false, 5), (0, true, 9), (1, false, 9), (1, true, 10)] {
        let name = &*format!("s{step}{stores_one_more}");
        store_session(&*store, name, &log);
        watch.die_after(step, stores_one_more);
        let failed = router(&store).resume(&id(name), LifecycleOptions::default(), |_| Ok(()));
        assert!(matches!(&failed, Err(LiveError::Store(Error::Io { .. }))), "{failed:?}");
        assert!(watch.has_died());
        let left = log_of(&*store, name);
        assert_eq!(left.len(), stored, "{name}");
        let Resumed { closers: ended, .. } = resumed(&store, name);
        assert_eq!(ended, if stored == 5 { &closers[..] } else { &[] });
        let after = log_of(&*store, name);
        assert_eq!(after[..stored], left);
        assert_eq!((&after[..5], &after[5..9]), (&log[..], &closers[..]));
        assert_eq!((after.len(), after[9].event_type()), (10, "session/end-seed"));
    }
}

pub fn a_turn_whose_last_event_was_torn_is_ended_behind_what_is_whole(fixture: &dyn Fixture) {
    let store = fixture.store();
    let (whole, torn_event) = (&interrupted()[..4], &interrupted()[4..]);
    store_session(&*store, "s", whole);
    append(&*writer(&*store, "s"), torn_event);
    torn(fixture, store, &id("s"), |store| {
        let Resumed { closers, .. } = resumed(&store, "s");
        assert_eq!(closers, interrupted_turn_closers(whole, &Default::default()).expect("closers"));
        assert_eq!(log_of(&*store, "s")[..8], [whole, &closers[..]].concat());
        assert_eq!(resumed(&store, "s").closers, []);
    });
}

pub fn a_resumed_session_can_be_resumed_after_reopening(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &interrupted());
    resumed(&store, "s");
    let log = log_of(&*store, "s");
    reopened(fixture, store, |store| assert_eq!(log_of(store, "s"), log));
}

pub fn looking_at_an_interrupted_session_stores_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &interrupted());
    let before = snapshot(&*store, "s");
    assert_eq!(log_of(&*store, "s"), interrupted());
    assert_eq!(uninterpreted_log_of(&*store, "s"), interrupted());
    assert_eq!(listed(&*store), std::slice::from_ref(&before));
    crate::export::jsonl(&*store, &id("s"), &mut Vec::new()).expect("an export");
    assert_eq!(snapshot(&*store, "s"), before);
    assert_eq!(log_of(&*store, "s"), interrupted());
}

pub fn a_finished_session_is_marked_once_when_it_is_resumed(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &finished(1, 0));
    let first = resumed(&store, "s");
    assert_eq!((first.closers.len(), first.session.seq()), (0, 3));
    assert_eq!(resumed(&store, "s").session.seq(), 3);
}

pub fn a_compaction_leaves_the_export_of_what_was_before_as_it_was(fixture: &dyn Fixture) {
    let store = fixture.store();
    let router = router(&store);
    let session = made(router.create(header("s"), Seed::None, LifecycleOptions::default(), |_| Ok(())));
    let say = |text: &str, source: serde_json::Value, options| {
        let content = [serde_json::json!({ "type": "text", "text": text })];
        let message = serde_json::json!({ "content": content, "source": source, "role": "user", "id": text });
        session.append("user/message", &message, options).expect("a message").seq().get()
    };
    let note = |event_type: &str, data: serde_json::Value| {
        session.append(event_type, &data, AppendOptions::default()).expect("an event").seq().get()
    };
    for n in 0..1_000 {
        say(&n.to_string(), serde_json::json!({ "kind": "user" }), AppendOptions::surface());
    }
    let export = || {
        router.flush().expect("a flush");
        let mut text = Vec::new();
        crate::export::jsonl(&*store, &id("s"), &mut text).expect("an export");
        text
    };
    let before = export();
    let start = note("compaction/start", serde_json::json!({ "compactionId": "c", "startSeq": 10, "endSeq": 900 }));
    let summary = note("compaction/summary", serde_json::json!({ "compactionId": "c", "summary": "much was said" }));
    let [first, last] = [10, 900].map(|seq| Seq::new(seq).expect("a seq"));
    let span = AppendOptions::replacing(SurfaceOp::Replace { start_seq: first, end_seq: last });
    let source = serde_json::json!({ "kind": "plugin", "plugin": "compact", "compactionId": "c" });
    let stand_in = say("much was said", source, span.citing([start, summary].into_iter().chain(10..=900)));
    note("compaction/end", serde_json::json!({ "compactionId": "c" }));
    let after = export();
    assert!(after.starts_with(&before), "what was exported before is not the beginning of what is exported now");
    assert_eq!(after[before.len()..].iter().filter(|byte| **byte == b'\n').count(), 4);
    let visible: Vec<_> = (0..10).chain([stand_in]).chain(901..1_000).collect();
    let seen = |session: &Session| session.derive_messages().iter().map(|m| m.seq().get()).collect::<Vec<_>>();
    assert_eq!(seen(&session), visible);
    router.close(session.id()).expect("a close");
    assert_eq!(seen(&resumed(&store, "s").session), visible, "and so it is when it is resumed");
}

pub fn a_session_with_a_writer_is_not_resumed(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &interrupted());
    let owner = writer(&*store, "s");
    let router = router(&store);
    match router.resume(&id("s"), LifecycleOptions::default(), |_| Ok(())) {
        Err(LiveError::Store(e)) => drop(refused::<()>(Err(e), "s", ErrorKind::AlreadyOwned)),
        other => panic!("{other:?}"),
    }
    assert_eq!(log_of(&*store, "s"), interrupted());
    drop(owner);
}

pub fn an_absent_session_is_not_resumed(fixture: &dyn Fixture) {
    let store = fixture.store();
    match router(&store).resume(&id("s"), LifecycleOptions::default(), |_| Ok(())) {
        Err(LiveError::Store(Error::NotFound { session })) => assert_eq!(session, id("s")),
        other => panic!("{other:?}"),
    }
}

pub fn a_log_that_breaks_a_rule_of_live_sessions_is_not_resumed_and_stays_as_it_is(fixture: &dyn Fixture) {
    let store = fixture.store();
    let bad = parsed(r#"{"type":"user/message","seq":0,"time":1,"data":{"role":"user"},"surfaceOp":"append"}"#);
    store_session(&*store, "s", std::slice::from_ref(&bad));
    let before = snapshot(&*store, "s");
    let failed = router(&store).resume(&id("s"), LifecycleOptions::default(), |_| Ok(()));
    assert!(matches!(&failed, Err(LiveError::Seed { index: Some(0), .. })), "{failed:?}");
    assert_eq!(snapshot(&*store, "s"), before);
    assert_eq!(log_of(&*store, "s"), [bad]);
    writer(&*store, "s");
}

pub fn a_fork_inherits_the_events_up_to_its_boundary(fixture: &dyn Fixture) {
    let store = fixture.store();
    let router = router(&store);
    let seed = Seed::Own([finished(1, 0), finished(2, 2)].concat());
    let parent = made(router.create(header("p").with_cwd("/w"), seed, LifecycleOptions::default(), |_| Ok(())));
    let child = made(router.fork(parent.id(), Some(1), id("c"), LifecycleOptions::default()));
    assert_eq!(child.inherited_event_count(), 2);
    let stored = log_of(&*store, "c");
    assert_eq!(stored[..2], finished(1, 0));
    assert_eq!(stored[2].data().as_str(), r#"{"inherited":true}"#);
    assert_eq!(child.own_events(), stored[2..]);
    let header = snapshot(&*store, "c").header.expect("a header");
    assert_eq!((header.cwd(), header.parent_session(), header.is_seeded()), (Some("/w"), Some("p"), true));
    router.close_all().expect("a close");
    let reader = super::steps::reader(&*store, "c");
    assert_eq!(reader.inherited_event_count(), 2);
}

pub fn a_fork_behind_the_end_or_inside_a_turn_is_refused_and_creates_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    let router = router(&store);
    let seed = Seed::Own(finished(1, 0).to_vec());
    let parent = made(router.create(header("p"), seed, LifecycleOptions::default(), |_| Ok(())));
    let fork = |boundary| router.fork(parent.id(), Some(boundary), id("c"), LifecycleOptions::default());
    assert!(matches!(fork(0), Err(LiveError::OpenTurn { turn: 1, .. })));
    assert!(matches!(fork(9), Err(LiveError::Boundary { boundary: 9, .. })));
    let absent = router.fork(&id("x"), None, id("c"), LifecycleOptions::default());
    assert!(matches!(absent, Err(LiveError::NotLive { .. })));
    assert_absent(&*store, "c");
    let taken = router.fork(parent.id(), None, id("p"), LifecycleOptions::default());
    assert!(matches!(taken, Err(LiveError::Store(Error::AlreadyExists { .. }))), "{taken:?}");
}
