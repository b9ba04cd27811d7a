//! Live sessions win over stored ones, whenever they are found.

use std::sync::Arc;
use std::time::Duration;

use session_persistence::query::{EventFilter, SessionReader, SurfaceState, Window};
use session_persistence::session::{
    AppendOptions, Clock, LifecycleOptions, RouterOptions, Seed, Session, SessionHub, SessionRouter,
};
use session_persistence::{MemoryStore, SessionHeader};

use super::place::Store;
use super::sample::{TIME, events_of, header, id, kind, plains, store_session, turn_start};
use super::watched::Watched;

/// A live session that goes its own way: it has one event that is not stored.
fn live(hub: &SessionHub) -> Session {
    let session = Session::new(header("s"), Seed::None, Clock::of(|| TIME)).unwrap();
    session.append("todo/write", &"live", AppendOptions::default()).unwrap();
    hub.publish(&session).unwrap();
    session
}

fn stored() -> Arc<Watched> {
    let store = Watched::over(Arc::new(MemoryStore::new()));
    store_session(&*store, "s", &plains(0..3, "x"));
    store
}

#[test]
fn a_live_session_is_given_without_a_look_at_the_store() {
    let (hub, store) = (SessionHub::new(), stored());
    live(&hub);
    let reader = SessionReader::new(store.clone()).with_hub(&hub);
    let before = store.stats();
    let session = reader.observe(&id("s")).unwrap();
    assert!(session.is_live() && session.revision().is_none());
    assert_eq!((session.event_count(), store.stats(), store.opens()), (1, before, 0));
    hub.dispose(&id("s")).unwrap();
    assert!(session.is_live(), "as it was when it was asked for");
    let session = reader.observe(&id("s")).unwrap();
    assert!(!session.is_live());
    assert_eq!(session.event_count(), 3);
}

#[test]
fn one_that_becomes_live_behind_the_stat_or_the_reading_wins() {
    for becomes_live_at in ["stat", "reading", "stat behind the reading"] {
        let (hub, store) = (SessionHub::new(), stored());
        let reader = SessionReader::new(store.clone()).with_hub(&hub);
        let mut looks = 0;
        let its_hub = hub.clone();
        match becomes_live_at {
            "reading" => store.on_open(move |_| {
                live(&its_hub);
                Ok(())
            }),
            at => {
                let which = if at == "stat" { 1 } else { 2 };
                store.on_stat(move |_| {
                    looks += 1;
                    if looks == which {
                        live(&its_hub);
                    }
                    Ok(())
                });
            }
        }
        let session = reader.observe(&id("s")).unwrap();
        assert!(session.is_live(), "{becomes_live_at}");
        assert_eq!(store.opens(), usize::from(becomes_live_at != "stat"), "{becomes_live_at}");
        assert_eq!(reader.cache().stats().observed, 0, "{becomes_live_at}: the stored one is let go of");
    }
}

#[test]
fn one_that_becomes_live_where_none_is_stored_is_found() {
    let (hub, store) = (SessionHub::new(), Watched::over(Arc::new(MemoryStore::new())));
    let reader = SessionReader::new(store.clone()).with_hub(&hub);
    assert_eq!(kind(&reader.observe(&id("s")).unwrap_err()), "SessionNotFound");
    let its_hub = hub.clone();
    store.on_stat(move |_| {
        live(&its_hub);
        Ok(())
    });
    assert!(reader.observe(&id("s")).unwrap().is_live());
}

#[test]
fn an_observation_of_a_live_session_does_not_grow() {
    let hub = SessionHub::new();
    let session = live(&hub);
    let reader = SessionReader::new(Arc::new(MemoryStore::new())).with_hub(&hub);
    let before = reader.observe(&id("s")).unwrap();
    let message = serde_json::json!({ "content": [], "source": { "kind": "user" }, "role": "user", "id": "m" });
    session.append("user/message", &message, AppendOptions::surface()).unwrap();
    assert_eq!((events_of(&before).len(), before.event_count(), before.event_at(1)), (1, 1, None));
    assert!(before.surface().unwrap().is_empty());
    assert_eq!(kind(&before.window(1, Window::default()).unwrap_err()), "EventNotFound");
    assert!(before.window(0, Window::new(0, 5)).unwrap().after.is_empty());
    let now = reader.observe(&id("s")).unwrap();
    assert_eq!((now.event_count(), now.surface().unwrap().len()), (2, 1));
    let current = EventFilter::new().in_states([SurfaceState::Current]);
    assert_eq!(now.filter(&current).unwrap().count(), 1);
    assert_eq!(before.filter(&current).unwrap().count(), 0);
}

#[test]
fn a_live_session_has_its_turn_open_and_what_waits_to_be_stored() {
    let (hub, store): (_, Store) = (SessionHub::new(), Arc::new(MemoryStore::new()));
    let options = RouterOptions::default().with_window(Duration::MAX);
    let router = SessionRouter::new_with(&hub, store.clone(), options).unwrap();
    let session = router.create(header("s"), Seed::None, LifecycleOptions::default(), |_| Ok(())).unwrap();
    session.append_json("turn/start", turn_start(0).data().clone(), AppendOptions::default()).unwrap();
    let reader = SessionReader::new(store).with_hub(&hub);
    let observed = reader.observe(&id("s")).unwrap();
    assert_eq!((observed.event_count(), observed.closers().len()), (1, 0));
    router.close(&id("s")).unwrap();
    let observed = reader.observe(&id("s")).unwrap();
    assert_eq!((observed.event_count(), observed.closers().len(), observed.is_live()), (2, 1, false));
}

#[test]
fn a_record_says_where_a_session_is_and_refuses_two_that_are_not_one() {
    let (hub, store) = (SessionHub::new(), stored());
    let reader = SessionReader::new(store.clone()).with_hub(&hub);
    let at = || reader.record(&id("s")).map(|record| (record.live, record.persisted));
    assert_eq!(at().unwrap(), (false, true));
    live(&hub);
    assert_eq!(at().unwrap(), (true, true));
    hub.dispose(&id("s")).unwrap();
    let other = |header: SessionHeader| {
        let session = Session::new(header, Seed::None, Clock::system()).unwrap();
        hub.publish(&session).unwrap();
        let error = at().unwrap_err();
        hub.dispose(&id("s")).unwrap();
        error.to_string()
    };
    assert!(other(header("s").with_cwd("/elsewhere")).contains("cwd differs"));
    assert!(other(header("s").with_parent_session("p")).contains("parentSession differs"));
    assert!(other(SessionHeader::new(id("s"), 7).unwrap()).contains("createdAt differs"));
    // What a live session is stored as is no part of it.
    assert_eq!(at().unwrap(), (false, true));
    assert_eq!(kind(&reader.record(&id("none")).unwrap_err()), "SessionNotFound");
    let pending = store_pending(&*store);
    let record = reader.record(&id("pending")).unwrap();
    assert_eq!((record.live, record.persisted), (false, false));
    drop(pending);
}

fn store_pending(store: &dyn session_persistence::SessionPersistence) -> Box<dyn session_persistence::SessionHandle> {
    store.create(&header("pending"), session_persistence::CreateOptions::default()).unwrap()
}
