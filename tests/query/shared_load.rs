//! One reading for all who ask at once, and what is told to them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use session_persistence::query::{ColdCache, ObservedSession, QueryError, ReaderOptions, SessionReader};
use session_persistence::{Error, OpenOptions, SessionPersistence};

use super::place::{Kind, Place};
use super::sample::{events_of, header, id, kind, plain, plains, store_session, store_under};
use super::watched::{Watched, broken};

/// How long all may take to ask before the test counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Has `count` threads ask for the session `s` at once; what each was told.
fn ask(reader: &SessionReader, count: usize) -> Vec<Result<ObservedSession, QueryError>> {
    let start = Barrier::new(count);
    std::thread::scope(|scope| {
        let asker = || {
            start.wait();
            reader.observe(&id("s"))
        };
        let askers: Vec<_> = (0..count)
            .map(|_| std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, asker).unwrap())
            .collect();
        askers.into_iter().map(|asker| asker.join().unwrap()).collect()
    })
}

/// Waits until so many asked for what is not kept.
fn wait_for(cache: &ColdCache, misses: u64) {
    let start = Instant::now();
    while cache.stats().misses < misses {
        assert!(start.elapsed() < PATIENCE, "{:?}", cache.stats());
        std::thread::yield_now();
    }
}

#[test]
fn a_thousand_who_ask_for_one_session_cause_one_reading() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let store = Watched::over(place.open());
        store_session(&*store, "s", &plains(0..100, "x"));
        // What is kept is not what answers them: nothing is.
        let cache = ColdCache::new(0);
        let reader = SessionReader::new(store.clone()).with_cache(&cache);
        let all_ask = cache.clone();
        // The reading begins when all have asked.
        store.on_open(move |_| {
            wait_for(&all_ask, 1000);
            Ok(())
        });
        let answers = ask(&reader, 1000);
        assert_eq!((store.opens(), cache.stats().loads), (1, 1), "{kind:?}");
        assert_eq!((cache.stats().misses, cache.stats().observed), (1000, 1));
        let first = answers[0].as_ref().unwrap();
        for answer in &answers {
            assert_eq!(answer.as_ref().unwrap().revision(), first.revision());
            assert_eq!(answer.as_ref().unwrap().event_count(), 100);
        }
        // Each who waited observes it for himself.
        let mut answers = answers;
        while answers.len() > 1 {
            drop(answers.pop());
            assert_eq!((cache.stats().sessions, cache.stats().observed), (1, 1), "{kind:?} {}", answers.len());
        }
        drop(answers);
        assert_eq!((cache.stats().sessions, cache.stats().bytes, cache.stats().observed), (0, 0, 0), "{kind:?}");
    }
}

#[test]
fn a_failure_is_told_to_all_who_wait_and_is_not_kept() {
    let place = Place::new(Kind::Memory);
    let store = Watched::over(place.open());
    store_session(&*store, "s", &plains(0..3, "x"));
    let reader = SessionReader::new(store.clone());
    let all_ask = reader.cache().clone();
    store.on_open(move |session| {
        wait_for(&all_ask, 20);
        Err(broken(session))
    });
    for answer in ask(&reader, 20) {
        let error = answer.unwrap_err();
        assert_eq!((kind(&error).as_str(), error.session()), ("Io", Some(&id("s"))));
    }
    assert_eq!((store.opens(), reader.cache().stats().sessions), (1, 0));
    store.heal();
    assert_eq!(events_of(&reader.observe(&id("s")).unwrap()), plains(0..3, "x"));
    assert_eq!(store.opens(), 2);
}

#[test]
fn of_two_failures_the_one_of_the_reading_is_told() {
    let place = Place::new(Kind::Memory);
    let store = Watched::over(place.open());
    store_session(&*store, "s", &plains(0..3, "x"));
    let reader = SessionReader::new(store.clone());
    let fail_second_look = || {
        let mut looks = 0;
        store.on_stat(move |_| {
            looks += 1;
            let reason = "made to fail".to_owned();
            if looks == 2 { Err(Error::InvalidArgument { session: None, reason }) } else { Ok(()) }
        });
    };
    fail_second_look();
    assert_eq!(kind(&reader.observe(&id("s")).unwrap_err()), "InvalidArgument", "what was read may be of two states");
    fail_second_look();
    store.on_open(|session| Err(broken(session)));
    assert_eq!(kind(&reader.observe(&id("s")).unwrap_err()), "Io");
    assert_eq!(reader.cache().stats().sessions, 0);
}

#[test]
fn a_reading_that_panics_leaves_nobody_waiting() {
    let place = Place::new(Kind::Memory);
    let store = Watched::over(place.open());
    store_session(&*store, "s", &plains(0..3, "x"));
    let reader = SessionReader::new(store.clone());
    let (all_ask, once) = (reader.cache().clone(), AtomicUsize::new(0));
    store.on_open(move |_| {
        if once.fetch_add(1, Ordering::SeqCst) == 0 {
            wait_for(&all_ask, 2);
            panic!("on purpose");
        }
        Ok(())
    });
    std::thread::scope(|scope| {
        let askers = [scope.spawn(|| reader.observe(&id("s"))), scope.spawn(|| reader.observe(&id("s")))];
        let answers = askers.map(|asker| asker.join());
        assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 1, "one panicked");
        for session in answers.into_iter().flatten() {
            assert_eq!(events_of(&session.unwrap()), plains(0..3, "x"));
        }
    });
}

#[test]
fn a_session_that_changes_while_it_is_read_is_read_again() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let inner = place.open();
        store_session(&*inner, "s", &plains(0..3, "x"));
        let writer = inner.open(&id("s"), OpenOptions::write()).unwrap();
        let store = Watched::over(inner);
        let reader = SessionReader::new(store.clone());
        // Between the look at it and its opening, three times.
        let mut next = 3;
        store.on_open(move |_| {
            if next < 6 {
                writer.append(&[plain(next, "x")])?;
                next += 1;
            }
            Ok(())
        });
        assert_eq!(events_of(&reader.observe(&id("s")).unwrap()), plains(0..6, "x"), "{kind:?}");
        assert_eq!((store.opens(), reader.cache().stats().loads), (4, 4), "{kind:?}");
        assert_eq!(reader.cache().stats().sessions, 1, "only what was of one state");
    }
}

#[test]
fn a_session_that_always_changes_is_given_up_with_an_error_that_says_so() {
    let place = Place::new(Kind::Memory);
    let inner = place.open();
    store_session(&*inner, "s", &plains(0..3, "x"));
    let writer = inner.open(&id("s"), OpenOptions::write()).unwrap();
    let store = Watched::over(inner);
    let reader = SessionReader::new(store.clone()).with_options(ReaderOptions::default().with_max_attempts(5));
    let mut next = 3;
    store.on_open(move |_| {
        next += 1;
        writer.append(&[plain(next - 1, "x")])
    });
    let error = reader.observe(&id("s")).unwrap_err();
    assert!(matches!(error, QueryError::KeepsChanging { attempts: 5, .. }), "{error:?}");
    assert!(error.to_string().contains("changed each of the 5 times"), "{error}");
    assert_eq!((store.opens(), reader.cache().stats().sessions), (5, 0));
}

#[test]
fn what_goes_wrong_because_it_changes_is_no_failure() {
    let place = Place::new(Kind::Memory);
    let inner = place.open();
    store_session(&*inner, "s", &plains(0..3, "x"));
    let store = Watched::over(inner.clone());
    let reader = SessionReader::new(store.clone());
    let mut is_first = true;
    // Made anew while it is opened: the first opening fails as one in between does.
    store.on_open(move |session| {
        if !std::mem::take(&mut is_first) {
            return Ok(());
        }
        inner.remove(session)?;
        store_session(&*inner, "s", &plains(0..3, "anew"));
        Err(broken(session))
    });
    assert_eq!(events_of(&reader.observe(&id("s")).unwrap()), plains(0..3, "anew"));
    // One that goes meanwhile is gone, not damaged.
    let place = Place::new(Kind::Memory);
    let inner = place.open();
    store_session(&*inner, "s", &plains(0..3, "x"));
    let store = Watched::over(inner.clone());
    store.on_open(move |session| inner.remove(session).map(drop));
    assert_eq!(kind(&SessionReader::new(store).observe(&id("s")).unwrap_err()), "SessionNotFound");
}

#[test]
fn no_more_than_four_sessions_are_read_at_once() {
    let place = Place::new(Kind::Memory);
    let store = Watched::over(place.open());
    let names: Vec<_> = (0..20).map(|number| format!("s{number}")).collect();
    names.iter().for_each(|name| store_session(&*store, name, &plains(0..3, name)));
    let reader = SessionReader::new(store.clone());
    let all_ask = reader.cache().clone();
    store.on_open(move |_| {
        wait_for(&all_ask, 20);
        std::thread::sleep(Duration::from_millis(5));
        Ok(())
    });
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| assert_eq!(events_of(&reader.observe(&id(name)).unwrap()), plains(0..3, name)));
        }
    });
    assert_eq!((store.opens(), reader.cache().stats().sessions), (20, 20));
    let most = store.most_opening.load(Ordering::SeqCst);
    assert!(most <= 4, "{most} at once");
}

#[test]
fn a_log_that_must_not_be_interpreted_is_refused_each_time() {
    let place = Place::new(Kind::Memory);
    let store = Watched::over(place.open());
    store_under(&*store, &header("s").with_version(2), &plains(0..3, "x"));
    let reader = SessionReader::new(store.clone());
    for opens in 1..=2 {
        let error = reader.observe(&id("s")).unwrap_err();
        assert_eq!((kind(&error).as_str(), error.session()), ("FormatUnsupported", Some(&id("s"))));
        assert_eq!((store.opens(), reader.cache().stats().sessions), (opens, 0));
    }
}

#[test]
fn observations_may_go_to_any_thread() {
    fn check<T: Send + Sync + Clone>() {}
    check::<ObservedSession>();
    check::<SessionReader>();
    check::<ColdCache>();
    check::<QueryError>();
}
