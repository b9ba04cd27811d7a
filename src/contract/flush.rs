//! Cases of `flush`, of a handle and of a store: what is stored by it, and who counts as flushed.

use super::fixture::{Fixture, reopened};
use super::sample::events;
use super::steps::{
    append, assert_absent, assert_not_contiguous, close, create, done, flush, log_of, read, reader, store_session,
    told, writer,
};
use crate::seam::SessionState;

pub fn a_flush_stores_an_empty_session(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    flush(&*writer);
    let snapshot = told(&*store, "s");
    assert_eq!(snapshot.state, SessionState::Readable);
    assert!(snapshot.event_count.is_none_or(|count| count == 0));
    assert_eq!(snapshot.last_time, None);
    assert_eq!(read(&*writer, ..), []);
    close(&*writer);
    assert_eq!(log_of(&*store, "s"), []);
    drop(writer);
    reopened(fixture, store, |store| {
        assert_eq!(told(store, "s").state, SessionState::Readable);
        assert_eq!(log_of(store, "s"), []);
    });
}

pub fn a_flushed_empty_session_goes_on_like_any_other(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "s");
    flush(&*first);
    append(&*first, &events(0..2));
    close(&*first);
    append(&*writer(&*store, "s"), &events(2..3));
    assert_eq!(log_of(&*store, "s"), events(0..3));
}

pub fn a_flushed_empty_session_takes_its_first_batch_after_reopening(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "s");
    flush(&*first);
    assert_eq!(told(&*store, "s").state, SessionState::Readable);
    drop(first);
    reopened(fixture, store, |store| {
        let writer = writer(store, "s");
        assert_not_contiguous(&*writer, &events(1..2), 0, 0);
        append(&*writer, &events(0..2));
        assert_eq!(log_of(store, "s"), events(0..2));
    });
}

pub fn a_flush_leaves_the_log_as_it_is(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    append(&*writer, &events(0..2));
    let early = reader(&*store, "s");
    for _ in 0..3 {
        flush(&*writer);
        assert_eq!(read(&*early, ..), events(0..2));
        assert_eq!(log_of(&*store, "s"), events(0..2));
    }
    append(&*writer, &events(2..3));
    assert_eq!(read(&*early, ..), events(0..3));
}

pub fn a_reader_that_saw_a_pending_session_follows_it_through_a_flush(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    let early = reader(&*store, "s");
    flush(&*writer);
    assert_eq!(read(&*early, ..), []);
    append(&*writer, &events(0..1));
    assert_eq!(read(&*early, ..), events(0..1));
}

pub fn a_flush_of_the_store_stores_every_session_that_is_open_for_writing(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "old", &events(0..1));
    let old = writer(&*store, "old");
    append(&*old, &events(1..2));
    let empty: Vec<_> = ["a", "b", "c"].iter().map(|name| create(&*store, name)).collect();
    done(store.flush(), "flushing the store");
    for (name, writer) in ["a", "b", "c"].iter().zip(&empty) {
        assert_eq!(told(&*store, name).state, SessionState::Readable);
        close(&**writer);
        assert_eq!(log_of(&*store, name), []);
    }
    assert_eq!(log_of(&*store, "old"), events(0..2));
    drop((old, empty));
    reopened(fixture, store, |store| {
        for name in ["a", "b", "c"] {
            assert_eq!(log_of(store, name), []);
        }
        assert_eq!(log_of(store, "old"), events(0..2));
    });
}

pub fn a_closed_handle_counts_as_flushed(fixture: &dyn Fixture) {
    let store = fixture.store();
    let erased = create(&*store, "erased");
    let stored = create(&*store, "stored");
    append(&*stored, &events(0..1));
    let open = create(&*store, "open");
    close(&*erased);
    close(&*stored);
    done(store.flush(), "flushing the store");
    assert_absent(&*store, "erased");
    assert_eq!(log_of(&*store, "stored"), events(0..1));
    assert_eq!(told(&*store, "open").state, SessionState::Readable);
    close(&*open);
}

pub fn a_dropped_handle_counts_as_flushed(fixture: &dyn Fixture) {
    let store = fixture.store();
    drop(create(&*store, "erased"));
    let open = create(&*store, "open");
    done(store.flush(), "flushing the store");
    assert_absent(&*store, "erased");
    assert_eq!(told(&*store, "open").state, SessionState::Readable);
    close(&*open);
}

pub fn a_store_without_writers_can_be_flushed(fixture: &dyn Fixture) {
    let store = fixture.store();
    done(store.flush(), "flushing an empty store");
    store_session(&*store, "s", &events(0..1));
    let reader = reader(&*store, "s");
    done(store.flush(), "flushing a store with readers alone");
    assert_eq!(read(&*reader, ..), events(0..1));
}
