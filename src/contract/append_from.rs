//! Cases of [`append_from`](crate::SessionHandle::append_from): a batch that is given event by event is a batch.

use std::iter;

use super::fixture::{Fixture, reopened};
use super::sample::{self, TIME, end_of_inherited, event, events, with_data};
use super::steps::{
    append, assert_absent, close, create, create_with, done, log_of, read, refused, snapshot, store_session, told,
    writer,
};
use crate::log::SessionEvent;
use crate::seam::{CreateOptions, Error, ErrorKind, OpenOptions, Result, SessionHandle, SessionState};

/// Events that no backend holds all at once, about 4 MB: some large, and many small ones behind them.
fn many(from: u64) -> Vec<SessionEvent> {
    let text = "x".repeat(300_000);
    let large = (from..from + 12).map(|seq| with_data("turn/start", seq, TIME as i64, &format!(r#"{{"t":"{text}"}}"#)));
    large.chain(events(from + 12..from + 3000)).collect()
}

fn given(events: &[SessionEvent]) -> impl Iterator<Item = Result<SessionEvent>> + Send {
    events.iter().cloned().map(Ok)
}

#[track_caller]
fn append_given(handle: &dyn SessionHandle, events: &[SessionEvent]) {
    done(handle.append_from(&mut given(events)), format_args!("appending {} given events", events.len()));
}

pub fn a_batch_that_is_given_makes_a_log(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    let batch = many(0);
    append_given(&*writer, &batch);
    let told = told(&*store, "s");
    assert_eq!((told.state, told.event_count.unwrap_or(3000)), (SessionState::Readable, 3000));
    append(&*writer, &events(3000..3002));
    close(&*writer);
    reopened(fixture, store, |store| {
        assert!(log_of(store, "s") == [&batch[..], &events(3000..3002)].concat());
    });
}

pub fn a_batch_that_is_given_continues_a_log(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..3));
    let writer = writer(&*store, "s");
    append_given(&*writer, &events(3..5));
    assert_eq!(read(&*writer, ..), events(0..5));
    append_given(&*writer, &many(5));
    close(&*writer);
    reopened(fixture, store, |store| assert!(log_of(store, "s") == [events(0..5), many(5)].concat()));
}

pub fn of_a_given_seed_the_last_mark_counts(fixture: &dyn Fixture) {
    let store = fixture.store();
    let header = sample::header("s").with_seed();
    let writer = create_with(&*store, &header, CreateOptions::inheriting(2));
    let log = [event(0), end_of_inherited(1), end_of_inherited(2), event(3)];
    append_given(&*writer, &log);
    close(&*writer);
    reopened(fixture, store, |store| {
        let reader = done(store.open(&sample::id("s"), OpenOptions::read()), "opening a seeded session");
        assert_eq!((reader.inherited_event_count(), read(&*reader, ..)), (2, log.to_vec()));
    });
}

pub fn a_given_batch_without_events_does_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    let pending = create(&*store, "pending");
    append_given(&*pending, &[]);
    assert_eq!(told(&*store, "pending").state, SessionState::Pending);
    close(&*pending);
    assert_absent(&*store, "pending");
    store_session(&*store, "s", &events(0..2));
    let before = snapshot(&*store, "s");
    let writer = writer(&*store, "s");
    append_given(&*writer, &[]);
    close(&*writer);
    assert_eq!(snapshot(&*store, "s"), before);
}

/// Checks that a batch which fails with `is_failure` leaves a pending session and a stored one as they are, and that both go
/// on afterwards. The batch begins with seq 0 or 2.
fn assert_stored_whole_or_not(
    fixture: &dyn Fixture,
    batch: impl Fn(u64) -> Vec<Result<SessionEvent>>,
    is_failure: impl Fn(u64, &Error) -> bool,
) {
    let store = fixture.store();
    let pending = create(&*store, "pending");
    store_session(&*store, "stored", &events(0..2));
    let stored = writer(&*store, "stored");
    let before = snapshot(&*store, "stored");
    for _ in 0..2 {
        for (handle, next) in [(&pending, 0), (&stored, 2)] {
            match handle.append_from(&mut batch(next).into_iter()) {
                Ok(()) => panic!("a batch that fails has to be refused"),
                Err(e) => assert!(is_failure(next, &e), "another failure: {e}"),
            }
            assert_eq!(read(&**handle, ..), events(0..next));
        }
        assert_eq!(told(&*store, "pending").state, SessionState::Pending);
        assert_eq!(snapshot(&*store, "stored"), before);
    }
    append_given(&*pending, &events(0..2));
    append_given(&*stored, &events(2..4));
    drop((pending, stored));
    reopened(fixture, store, |store| {
        assert_eq!(log_of(store, "pending"), events(0..2));
        assert_eq!(log_of(store, "stored"), events(0..4));
    });
}

pub fn a_batch_whose_source_fails_is_refused_whole_with_that_failure(fixture: &dyn Fixture) {
    let failure = || Error::Io { session: None, operation: "giving".to_owned(), source: "no more".into() };
    let is_failure = |_, e: &Error| matches!(e, Error::Io { operation, .. } if operation == "giving");
    let behind_few = |next| events(next..next + 3).into_iter().map(Ok).chain(iter::once(Err(failure()))).collect();
    assert_stored_whole_or_not(fixture, behind_few, is_failure);
}

pub fn a_large_batch_whose_source_fails_late_is_refused_whole(fixture: &dyn Fixture) {
    let failure = || Error::Io { session: None, operation: "giving".to_owned(), source: "no more".into() };
    let is_failure = |_, e: &Error| matches!(e, Error::Io { operation, .. } if operation == "giving");
    let behind_many = |next| many(next).into_iter().map(Ok).chain(iter::once(Err(failure()))).collect();
    assert_stored_whole_or_not(fixture, behind_many, is_failure);
}

pub fn a_given_batch_with_a_gap_is_refused_whole(fixture: &dyn Fixture) {
    let batch = |next| many(next).into_iter().chain([event(next + 3001)]).map(Ok).collect();
    assert_stored_whole_or_not(fixture, batch, |next, e| {
        matches!(e, Error::NotContiguous { index: 3000, expected, found, .. }
            if (*expected, *found) == (next + 3000, next + 3001))
    });
}

pub fn nothing_is_taken_from_a_batch_that_may_not_be_stored(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let closed = writer(&*store, "s");
    close(&*closed);
    let reader = done(store.open(&sample::id("s"), OpenOptions::read()), "opening a session");
    for (handle, kind) in [(&closed, ErrorKind::HandleClosed), (&reader, ErrorKind::ReadOnly)] {
        let (mut taken, events) = (0, events(2..4));
        let mut batch = given(&events).inspect(|_| taken += 1);
        refused(handle.append_from(&mut batch), "s", kind);
        drop(batch);
        assert_eq!(taken, 0);
    }
    assert_eq!(log_of(&*store, "s"), events(0..2));
}
