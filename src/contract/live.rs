//! What a router stores of live sessions, and when.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Fixture;
use super::sample::header;
use super::steps::{assert_absent, log_of, refused, writer};
use super::watched::{Watch, Watched};
use crate::log::payload::TurnStart;
use crate::seam::{Error, ErrorKind, SessionPersistence};
use crate::session::{
    AppendOptions, LifecycleOptions, LiveError, RouterOptions, Seed, Session, SessionHub, SessionRouter,
};

/// Longer than any case runs: what is stored was asked for.
const NEVER: Duration = Duration::MAX;

/// Shorter than a case needs to look.
const SOON: Duration = Duration::from_millis(20);

struct Scene {
    store: Arc<dyn SessionPersistence>,
    watch: Arc<Watch>,
    hub: SessionHub,
    router: SessionRouter,
}

#[track_caller]
fn scene(fixture: &dyn Fixture, window: Duration) -> Scene {
    let (store, watch) = Watched::over(fixture.store());
    let hub = SessionHub::new();
    let options = RouterOptions::default().with_window(window);
    let router = SessionRouter::new_with(&hub, store.clone(), options).expect("a thread can be had");
    Scene { store, watch, hub, router }
}

impl Scene {
    #[track_caller]
    fn create(&self, name: &str) -> Session {
        self.router
            .create(header(name), Seed::None, LifecycleOptions::default(), |_| Ok(()))
            .unwrap_or_else(|e| panic!("creating {name:?}: {e}"))
    }

    #[track_caller]
    fn stored(&self, name: &str) -> u64 {
        log_of(&*self.store, name).len() as u64
    }
}

#[track_caller]
fn append(session: &Session, count: u64) {
    for _ in 0..count {
        let turn = TurnStart { turn: session.seq() + 1 };
        session.append("turn/start", &turn, AppendOptions::default()).expect("the events of the cases are valid");
    }
}

/// Checks that the stored log is the live one, event for event.
#[track_caller]
fn assert_stored(scene: &Scene, session: &Session) {
    assert_eq!(log_of(&*scene.store, session.id().as_str()), session.snapshot(0..u64::MAX));
}

/// Waits for what happens in the background; a case that waits in vain fails.
#[track_caller]
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(20), "{what} has to happen, and did not");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How many events were stored of a session, of which a write that failed would never be tried again.
#[track_caller]
fn stored_in_background(scene: &Scene, session: &Session) -> usize {
    let backlog = scene.router.backlog(session.id()).expect("a session that is live has its handle");
    assert!(!backlog.is_paused, "a batch could not be stored");
    scene.watch.batches(session.id().as_str()).concat().len()
}

#[track_caller]
fn failed(result: Result<(), LiveError>, name: &str) {
    match result {
        Err(LiveError::Store(e)) => drop(refused::<()>(Err(e), name, ErrorKind::Io)),
        other => panic!("a write that fails has to be told, and this was: {other:?}"),
    }
}

pub fn an_event_is_stored_in_the_background_once_its_window_has_passed(fixture: &dyn Fixture) {
    let scene = scene(fixture, SOON);
    let session = scene.create("s");
    append(&session, 1);
    eventually("the first event is stored", || stored_in_background(&scene, &session) == 1);
    append(&session, 2);
    eventually("the next ones are stored", || stored_in_background(&scene, &session) == 3);
    assert_stored(&scene, &session);
}

pub fn nothing_is_stored_before_the_window_has_passed(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let session = scene.create("s");
    append(&session, 5);
    assert_eq!(scene.watch.batches("s"), Vec::<Vec<u64>>::new());
    assert_eq!(scene.stored("s"), 0);
}

pub fn the_window_is_that_of_its_first_event_however_many_follow(fixture: &dyn Fixture) {
    let scene = scene(fixture, Duration::from_millis(50));
    let session = scene.create("s");
    // A window that began anew with each event would never pass.
    eventually("a batch is stored while events go on coming", || {
        append(&session, 1);
        stored_in_background(&scene, &session) > 0
    });
}

pub fn what_is_queued_together_is_stored_as_one_batch_in_order(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let session = scene.create("s");
    append(&session, 7);
    assert!(scene.hub.flush(session.id()).expect("a flush"));
    assert_eq!(scene.watch.batches("s"), [(0..7).collect::<Vec<_>>()]);
    assert_stored(&scene, &session);
}

pub fn what_comes_while_a_batch_is_written_is_the_next_batch(fixture: &dyn Fixture) {
    let scene = scene(fixture, SOON);
    let session = scene.create("s");
    scene.watch.shut();
    append(&session, 2);
    scene.watch.wait_for_appends(1);
    append(&session, 3);
    scene.watch.open();
    eventually("both batches are stored", || stored_in_background(&scene, &session) == 5);
    assert_eq!(scene.watch.batches("s"), [vec![0, 1], vec![2, 3, 4]]);
    assert_stored(&scene, &session);
}

pub fn a_background_write_that_fails_keeps_its_events_and_the_next_flush_stores_each_once(fixture: &dyn Fixture) {
    let scene = scene(fixture, SOON);
    let session = scene.create("s");
    append(&session, 1);
    eventually("the first event is stored", || stored_in_background(&scene, &session) == 1);
    scene.watch.fail(session.id());
    append(&session, 2);
    eventually("the window has passed", || scene.router.backlog(session.id()).is_some_and(|backlog| backlog.is_paused));
    append(&session, 2);
    assert_eq!(scene.stored("s"), 1);
    scene.watch.heal();
    assert!(scene.hub.flush(session.id()).expect("a flush"));
    assert_eq!(scene.watch.batches("s"), [vec![0], vec![1, 2, 3, 4]]);
    assert_stored(&scene, &session);
    append(&session, 1);
    eventually("the background goes on", || stored_in_background(&scene, &session) == 6);
}

pub fn a_flush_that_fails_tells_so_and_the_next_one_stores_each_event_once(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let session = scene.create("s");
    append(&session, 3);
    scene.watch.fail(session.id());
    failed(scene.hub.flush(session.id()).map(drop), "s");
    failed(scene.hub.flush(session.id()).map(drop), "s");
    append(&session, 1);
    scene.watch.heal();
    assert!(scene.hub.flush(session.id()).expect("a flush"));
    assert_eq!(scene.watch.batches("s"), [vec![0, 1, 2, 3]]);
    assert_stored(&scene, &session);
}

pub fn a_flush_is_a_barrier_for_all_that_was_appended_before(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let session = scene.create("s");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let before = session.append("todo/write", &1, AppendOptions::default()).expect("an event").seq();
                    scene.hub.flush(session.id()).expect("a flush");
                    assert!(scene.stored("s") > before.get());
                }
            });
        }
    });
    assert_eq!(session.seq(), 100);
    assert_stored(&scene, &session);
    assert_eq!(scene.watch.flushes.load(Ordering::SeqCst), 100);
}

pub fn a_session_that_is_disposed_is_stored_and_given_up(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let session = scene.create("s");
    append(&session, 4);
    scene.hub.dispose(session.id()).expect("it is live");
    assert_stored(&scene, &session);
    append(&session, 1);
    assert_eq!(scene.stored("s"), 4, "what is appended to a session without a life is told to nobody");
    writer(&*scene.store, "s");
}

pub fn closing_stores_what_is_queued_and_makes_it_durable(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let session = scene.create("s");
    append(&session, 4);
    scene.router.close(session.id()).expect("a close");
    assert_stored(&scene, &session);
    assert_eq!(scene.watch.flushes.load(Ordering::SeqCst), 1);
    assert!(scene.hub.get(session.id()).is_none());
    writer(&*scene.store, "s");
}

pub fn a_disposal_that_cannot_store_gives_the_session_up_and_its_failure_is_contained(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let session = scene.create("s");
    append(&session, 2);
    scene.hub.flush(session.id()).expect("a flush");
    append(&session, 2);
    scene.watch.fail(session.id());
    scene.hub.dispose(session.id()).expect("it is live");
    let (count, failure) = session.observer_failures();
    assert_eq!((count, failure.map(|failure| failure.observer)), (1, Some("the store".to_owned())));
    scene.watch.heal();
    assert_eq!(scene.stored("s"), 2);
    writer(&*scene.store, "s");
}

pub fn closing_a_session_without_events_stores_nothing(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let session = scene.create("s");
    scene.router.close(session.id()).expect("a close");
    assert_absent(&*scene.store, "s");
    scene.create("s");
}

pub fn a_close_behind_a_background_write_that_failed_stores_each_event_once(fixture: &dyn Fixture) {
    let scene = scene(fixture, SOON);
    let session = scene.create("s");
    scene.watch.fail(session.id());
    append(&session, 3);
    eventually("the window has passed", || scene.router.backlog(session.id()).is_some_and(|backlog| backlog.is_paused));
    append(&session, 2);
    scene.watch.heal();
    scene.router.close(session.id()).expect("a close");
    assert_eq!(scene.watch.batches("s"), [(0..5).collect::<Vec<_>>()]);
    assert_stored(&scene, &session);
}

pub fn closing_while_nothing_can_be_stored_gives_the_session_up_and_tells_why(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let session = scene.create("s");
    append(&session, 2);
    scene.hub.flush(session.id()).expect("a flush");
    append(&session, 2);
    scene.watch.fail(session.id());
    failed(scene.router.close(session.id()), "s");
    assert!(scene.hub.get(session.id()).is_none());
    assert_eq!(session.seq(), 4, "the session has its events all the same");
    scene.watch.heal();
    assert_eq!(scene.stored("s"), 2);
    writer(&*scene.store, "s");
}

pub fn a_close_whose_own_end_fails_tells_so(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let session = scene.create("s");
    append(&session, 2);
    scene.watch.fail_closes();
    failed(scene.router.close(session.id()), "s");
    assert_stored(&scene, &session);
}

pub fn a_close_that_can_neither_store_nor_end_tells_both(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let session = scene.create("s");
    append(&session, 2);
    scene.watch.fail(session.id());
    scene.watch.fail_closes();
    match scene.router.close(session.id()) {
        Err(LiveError::Store(Error::Several { failures })) => {
            let told: Vec<_> = failures.iter().map(ToString::to_string).collect();
            assert_eq!(told.len(), 2, "{told:?}");
            assert!(told[0].contains("appending") && told[1].contains("closing"), "{told:?}");
        }
        other => panic!("both failures have to be told, and this was: {other:?}"),
    }
    assert!(scene.hub.get(session.id()).is_none());
}

pub fn a_session_without_a_handle_is_not_stored_and_its_flush_succeeds(fixture: &dyn Fixture) {
    let scene = scene(fixture, SOON);
    let session = Session::new(header("s"), Seed::None, Default::default()).expect("an empty session");
    scene.hub.publish(&session).expect("nobody objects");
    append(&session, 3);
    assert!(!scene.hub.flush(session.id()).expect("a flush of nothing"));
    scene.router.flush().expect("a flush of nothing");
    assert_absent(&*scene.store, "s");
}

pub fn a_flush_of_the_router_stores_all_sessions_with_one_barrier(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let sessions: Vec<_> = (0..5).map(|n| scene.create(&format!("s{n}"))).collect();
    sessions.iter().for_each(|session| append(session, 3));
    scene.router.flush().expect("a flush");
    sessions.iter().for_each(|session| assert_stored(&scene, session));
    assert_eq!(scene.watch.barriers.load(Ordering::SeqCst), 1);
    assert_eq!(scene.watch.flushes.load(Ordering::SeqCst), 0);
}

pub fn a_flush_of_the_router_tells_which_session_failed_and_stores_the_others(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let sessions: Vec<_> = (0..3).map(|n| scene.create(&format!("s{n}"))).collect();
    sessions.iter().for_each(|session| append(session, 3));
    scene.watch.fail(sessions[1].id());
    failed(scene.router.flush(), "s1");
    assert_stored(&scene, &sessions[0]);
    assert_stored(&scene, &sessions[2]);
    scene.watch.heal();
    scene.router.flush().expect("a flush");
    assert_stored(&scene, &sessions[1]);
}

pub fn a_session_that_is_closed_while_the_router_flushes_counts_as_flushed(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let sessions = ["a", "b"].map(|name| scene.create(name));
    sessions.iter().for_each(|session| append(session, 2));
    scene.watch.shut();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| scene.router.flush());
        let first = scene.watch.wait_for_appends(1).remove(0);
        let [other] = sessions.iter().filter(|session| *session.id() != first).collect::<Vec<_>>()[..] else {
            panic!("a flush writes one session after another")
        };
        scene.watch.fail(other.id());
        let close = scope.spawn(|| scene.router.close(other.id()));
        scene.watch.wait_for_appends(2);
        scene.watch.open();
        failed(close.join().expect("no panic"), other.id().as_str());
        flush.join().expect("no panic").expect("what was closed meanwhile is nothing to flush");
    });
}

pub fn the_end_of_the_router_tells_what_failed_and_gives_all_sessions_up(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let sessions: Vec<_> = (0..3).map(|n| scene.create(&format!("s{n}"))).collect();
    sessions.iter().for_each(|session| append(session, 1));
    scene.router.flush().expect("a flush");
    sessions.iter().for_each(|session| append(session, 1));
    scene.watch.fail(sessions[1].id());
    let Scene { store, router, watch, .. } = scene;
    failed(router.close_all(), "s1");
    watch.heal();
    assert_eq!(["s0", "s1", "s2"].map(|name| log_of(&*store, name).len()), [2, 1, 2]);
    sessions.iter().for_each(|session| drop(writer(&*store, session.id().as_str())));
}

pub fn the_end_of_the_router_stores_what_is_queued_and_gives_all_sessions_up(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let sessions: Vec<_> = (0..3).map(|n| scene.create(&format!("s{n}"))).collect();
    sessions.iter().for_each(|session| append(session, 3));
    let Scene { store, router, hub, watch } = scene;
    router.close_all().expect("all can be stored");
    for session in &sessions {
        assert_eq!(log_of(&*store, session.id().as_str()), session.snapshot(0..u64::MAX));
        assert!(hub.get(session.id()).is_some());
        append(session, 1);
    }
    assert_eq!(watch.closes.load(Ordering::SeqCst), 3);
    assert_eq!(log_of(&*store, "s0").len(), 3, "nothing is stored behind the end");
}

pub fn a_router_that_is_dropped_stores_what_is_queued(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let session = scene.create("s");
    append(&session, 3);
    let Scene { store, router, .. } = scene;
    drop(router);
    assert_eq!(log_of(&*store, "s"), session.snapshot(0..u64::MAX));
    writer(&*store, "s");
}

pub fn a_live_session_that_lost_its_handle_is_attached_again_with_all_that_came_meanwhile(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    let session = scene.create("s");
    append(&session, 2);
    let options = RouterOptions::default().with_window(NEVER);
    let Scene { store, router, hub, .. } = scene;
    drop(router);
    append(&session, 2);
    let router = SessionRouter::new_with(&hub, store.clone(), options).expect("a thread can be had");
    router.attach(&session).expect("nobody else has it");
    assert_eq!(log_of(&*store, "s"), session.snapshot(0..u64::MAX));
    append(&session, 2);
    hub.flush(session.id()).expect("a flush");
    assert_eq!(log_of(&*store, "s"), session.snapshot(0..u64::MAX));
}

pub fn a_session_is_not_attached_to_a_log_that_is_not_its_own(fixture: &dyn Fixture) {
    let scene = scene(fixture, NEVER);
    super::steps::store_session(&*scene.store, "s", &super::sample::events(0..3));
    let session = Session::new(header("s"), Seed::None, Default::default()).expect("an empty session");
    scene.hub.publish(&session).expect("nobody objects");
    append(&session, 2);
    let refused = scene.router.attach(&session);
    assert!(matches!(&refused, Err(LiveError::Diverged { seq, .. }) if seq.get() == 0), "{refused:?}");
    assert_eq!(log_of(&*scene.store, "s"), super::sample::events(0..3));
    writer(&*scene.store, "s");
}
