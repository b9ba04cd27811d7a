//! Cases of many threads at one store: nothing is lost, nothing is doubled, and no view goes back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use super::fixture::{Fixture, reopened};
use super::sample::{events, header_created_at, id, signed};
use super::steps::{
    append, assert_absent, close, create, create_with, done, ids, log_of, read, reader, snapshot, store_session, writer,
};
use crate::log::SessionEvent;
use crate::seam::{CreateOptions, ErrorKind, ListOrder, ListQuery, OpenOptions, Result, SeqRange, SessionHandle};

/// Tells the other threads of a case that one is done, even if it panics.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Reads until `done`, and once more then; checks that every view is dense and none is shorter than the one before.
#[track_caller]
fn watch(handle: &dyn SessionHandle, done: &AtomicBool) -> usize {
    let mut seen = 0;
    loop {
        let last = done.load(Ordering::SeqCst);
        let log = read(handle, ..);
        assert!(log.len() >= seen, "{} events were read after {seen}", log.len());
        assert!(log.iter().zip(0..).all(|(event, seq)| event.seq().get() == seq), "the log is not dense: {log:?}");
        seen = log.len();
        if last {
            return seen;
        }
    }
}

pub fn eight_threads_append_to_eight_sessions_while_others_read(fixture: &dyn Fixture) {
    const SESSIONS: usize = 8;
    const EVENTS: u64 = 25;
    let store = fixture.store();
    let names: Vec<_> = (0..SESSIONS).map(|n| format!("s{n}")).collect();
    let writers: Vec<_> = names.iter().map(|name| create(&*store, name)).collect();
    let finished: Vec<_> = names.iter().map(|_| AtomicBool::new(false)).collect();
    thread::scope(|scope| {
        for ((number, handle), finished) in writers.iter().enumerate().zip(&finished) {
            scope.spawn(move || {
                let _done = Done(finished);
                for next in 0..EVENTS {
                    append(&**handle, &[signed(next, number)]);
                }
            });
        }
        for (name, finished) in names.iter().zip(&finished).step_by(3) {
            let store = &store;
            scope.spawn(move || {
                assert_eq!(watch(&*reader(&**store, name), finished), EVENTS as usize);
            });
        }
    });
    drop(writers);
    let expected = |number| (0..EVENTS).map(|next| signed(next, number)).collect::<Vec<_>>();
    for (number, name) in names.iter().enumerate() {
        assert_eq!(log_of(&*store, name), expected(number));
    }
    reopened(fixture, store, |store| {
        for (number, name) in names.iter().enumerate() {
            assert_eq!(log_of(store, name), expected(number));
        }
    });
}

pub fn the_calls_of_a_shared_handle_take_effect_one_after_another(fixture: &dyn Fixture) {
    const THREADS: usize = 6;
    const EACH: usize = 15;
    const ATTEMPTS: usize = 100_000;
    let store = fixture.store();
    let handle = create(&*store, "s");
    thread::scope(|scope| {
        for number in 0..THREADS {
            let handle = &handle;
            scope.spawn(move || {
                let mut stored = 0;
                for _ in 0..ATTEMPTS {
                    let next = read(&**handle, ..).len() as u64;
                    match handle.append(&[signed(next, number)]) {
                        Ok(()) => stored += 1,
                        Err(e) => assert_eq!(e.kind(), ErrorKind::NotContiguous, "{e}"),
                    }
                    if stored == EACH {
                        return;
                    }
                }
                panic!("{stored} of {EACH} appends went through in {ATTEMPTS} attempts");
            });
        }
    });
    let log = log_of(&*store, "s");
    assert!(log.iter().zip(0..).all(|(event, seq)| event.seq().get() == seq), "the log is not dense: {log:?}");
    let mut by_writer = BTreeMap::new();
    for event in &log {
        *by_writer.entry(event.data().as_str().to_owned()).or_insert(0) += 1;
    }
    assert_eq!(by_writer.into_values().collect::<Vec<_>>(), [EACH; THREADS]);
}

pub fn no_view_of_a_handle_is_shorter_than_the_one_before(fixture: &dyn Fixture) {
    const EVENTS: u64 = 60;
    let store = fixture.store();
    let handle = create(&*store, "s");
    let shared = reader(&*store, "s");
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _done = Done(&finished);
            for next in 0..EVENTS {
                append(&*handle, &events(next..next + 1));
            }
        });
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(watch(&*shared, &finished), EVENTS as usize));
        }
        scope.spawn(|| assert_eq!(watch(&*handle, &finished), EVENTS as usize));
    });
}

pub fn an_append_that_returned_is_seen_by_every_read_that_starts_later(fixture: &dyn Fixture) {
    const EVENTS: u64 = 40;
    let store = fixture.store();
    let handle = create(&*store, "s");
    let early = reader(&*store, "s");
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let sender = sender;
            for next in 0..EVENTS {
                append(&*handle, &events(next..next + 1));
                if sender.send(next as usize + 1).is_err() {
                    return;
                }
            }
        });
        for stored in receiver {
            assert!(read(&*early, ..).len() >= stored);
            assert!(log_of(&*store, "s").len() >= stored);
            assert!(snapshot(&*store, "s").event_count.is_none_or(|count| count >= stored as u64));
        }
    });
    assert_eq!(read(&*early, ..), events(0..EVENTS));
}

pub fn a_batch_is_seen_whole_or_not_at_all(fixture: &dyn Fixture) {
    const BATCHES: u64 = 20;
    const SIZE: u64 = 7;
    let store = fixture.store();
    let handle = create(&*store, "s");
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _done = Done(&finished);
            for batch in 0..BATCHES {
                append(&*handle, &events(batch * SIZE..(batch + 1) * SIZE));
            }
        });
        scope.spawn(|| {
            let early = reader(&*store, "s");
            loop {
                let last = finished.load(Ordering::SeqCst);
                let count = read(&*early, ..).len() as u64;
                assert_eq!(count % SIZE, 0, "{count} events are no whole number of batches of {SIZE}");
                if last {
                    return assert_eq!(count, BATCHES * SIZE);
                }
            }
        });
    });
}

pub fn what_was_acknowledged_while_the_handle_closed_is_stored(fixture: &dyn Fixture) {
    let store = fixture.store();
    for round in 0..5 {
        let name = format!("s{round}");
        let handle = create(&*store, &name);
        let closed = AtomicBool::new(false);
        let (sender, receiver) = mpsc::channel();
        let acknowledged = thread::scope(|scope| {
            let appending = scope.spawn(|| {
                let sender = sender;
                let mut next = 0;
                loop {
                    let too_late = closed.load(Ordering::SeqCst);
                    match handle.append(&events(next..next + 1)) {
                        Ok(()) => assert!(!too_late, "an append that started after the close went through"),
                        Err(e) => {
                            assert_eq!(e.kind(), ErrorKind::HandleClosed, "{e}");
                            return next;
                        }
                    }
                    next += 1;
                    // Nobody listens any more once the first few have come.
                    sender.send(()).unwrap_or_default();
                }
            });
            let done = Done(&closed);
            for _ in 0..3 {
                receiver.recv().expect("the other thread appends until the handle is closed");
            }
            close(&*handle);
            drop(done);
            appending.join().expect("the appending thread does not panic")
        });
        assert!(acknowledged >= 3);
        assert_eq!(log_of(&*store, &name), events(0..acknowledged));
    }
}

pub fn a_store_can_be_flushed_while_handles_come_and_go(fixture: &dyn Fixture) {
    const SESSIONS: usize = 12;
    let store = fixture.store();
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _done = Done(&finished);
            for number in 0..SESSIONS {
                let handle = create(&*store, &format!("s{number}"));
                append(&*handle, &events(0..2));
                close(&*handle);
                drop(writer(&*store, &format!("s{number}")));
            }
        });
        while !finished.load(Ordering::SeqCst) {
            done(store.flush(), "flushing a store whose handles come and go");
        }
    });
    for number in 0..SESSIONS {
        assert_eq!(log_of(&*store, &format!("s{number}")), events(0..2));
    }
}

pub fn a_list_by_creation_is_whole_while_other_threads_append(fixture: &dyn Fixture) {
    let store = fixture.store();
    let names: Vec<_> = (0..6).map(|n| format!("s{n}")).collect();
    let writers: Vec<_> = (0..)
        .zip(&names)
        .map(|(n, name)| create_with(&*store, &header_created_at(name, 100 - n), CreateOptions::default()))
        .collect();
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _done = Done(&finished);
            for next in 0..10 {
                for handle in &writers {
                    append(&**handle, &events(next..next + 1));
                }
            }
        });
        while !finished.load(Ordering::SeqCst) {
            let mut query = ListQuery::default().with_order(ListOrder::Created).with_limit(2);
            let mut pages = Vec::new();
            loop {
                let page = done(store.list(&query), "listing");
                pages.push(ids(&page.items));
                assert!(pages.len() <= names.len(), "the pages do not end: {pages:?}");
                match page.next {
                    Some(next) => query = query.with_cursor(next),
                    None => break,
                }
            }
            assert_eq!(pages.concat(), names);
        }
    });
    for name in &names {
        assert_eq!(log_of(&*store, name), events(0..10));
    }
}

pub fn a_session_that_is_removed_under_its_readers_is_whole_or_gone(fixture: &dyn Fixture) {
    let store = fixture.store();
    let watch = |removed: &AtomicBool, read: &dyn Fn() -> Result<Vec<SessionEvent>>| {
        loop {
            let is_gone = removed.load(Ordering::SeqCst);
            match read() {
                Ok(log) => {
                    assert!(!is_gone, "a read that started after the removal gave {} events", log.len());
                    assert_eq!(log, events(0..50));
                }
                Err(e) => return assert_eq!(e.kind(), ErrorKind::NotFound, "{e}"),
            }
        }
    };
    for _ in 0..5 {
        store_session(&*store, "s", &events(0..50));
        let early = reader(&*store, "s");
        let removed = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| watch(&removed, &|| early.read(SeqRange::ALL)));
            scope.spawn(|| watch(&removed, &|| store.open(&id("s"), OpenOptions::read())?.read(SeqRange::ALL)));
            let _done = Done(&removed);
            assert!(done(store.remove(&id("s")), "removing a session"));
        });
        assert_absent(&*store, "s");
    }
}
