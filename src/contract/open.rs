//! Cases of [`open`](crate::SessionPersistence::open): who may write, what a reader may do, what is absent.

use std::sync::Barrier;
use std::thread;

use super::fixture::{Fixture, reopened};
use super::sample::{self, events, id};
use super::steps::{
    append, assert_absent, close, create, done, listed, log_of, open, read, reader, refused, store_session, told,
    writer,
};
use crate::seam::{Access, Error, ErrorKind, OpenOptions};

pub fn an_absent_session_is_not_found_and_stays_absent(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "other", &events(0..1));
    for way in super::steps::WAYS {
        refused(store.open(&id("s"), way), "s", ErrorKind::NotFound);
        assert_absent(&*store, "s");
    }
    append(&*create(&*store, "s"), &events(0..1));
    assert_eq!(log_of(&*store, "s"), events(0..1));
}

pub fn a_handle_tells_what_it_was_opened_for(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..1));
    for (way, access) in super::steps::WAYS.into_iter().zip([Access::Read, Access::Write, Access::Read]) {
        let handle = open(&*store, "s", way);
        assert_eq!(handle.access(), access);
        assert_eq!(handle.id(), &id("s"));
        assert_eq!(handle.header(), &sample::header("s"));
        assert_eq!(handle.inherited_event_count(), 0);
    }
}

pub fn a_writer_keeps_others_out_before_its_session_is_stored(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "s");
    refused(store.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned);
    append(&*first, &events(0..1));
    assert_eq!(log_of(&*store, "s"), events(0..1));
}

pub fn a_writer_keeps_others_out_after_its_session_is_stored(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "s");
    append(&*first, &events(0..1));
    refused(store.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned);
    append(&*first, &events(1..2));
    assert_eq!(log_of(&*store, "s"), events(0..2));
}

pub fn a_writer_of_a_stored_session_keeps_others_out(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..1));
    let first = writer(&*store, "s");
    let error = refused(store.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned);
    assert!(error.is_retryable());
    append(&*first, &events(1..2));
    assert_eq!(log_of(&*store, "s"), events(0..2));
}

pub fn a_refusal_names_the_process_that_writes(fixture: &dyn Fixture) {
    let store = fixture.store();
    let _first = create(&*store, "s");
    match refused(store.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned) {
        Error::AlreadyOwned { holder, .. } => assert_eq!(holder.process, std::process::id()),
        other => panic!("an error of another kind than it tells: {other}"),
    }
}

pub fn closing_the_writer_makes_room_for_the_next(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "s");
    append(&*first, &events(0..1));
    close(&*first);
    for next in 1..4 {
        let writer = writer(&*store, "s");
        append(&*writer, &events(next..next + 1));
        close(&*writer);
    }
    assert_eq!(log_of(&*store, "s"), events(0..4));
}

pub fn dropping_the_writer_makes_room_for_the_next(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "s");
    append(&*first, &events(0..1));
    drop(first);
    drop(writer(&*store, "s"));
    append(&*writer(&*store, "s"), &events(1..2));
    assert_eq!(log_of(&*store, "s"), events(0..2));
}

pub fn a_closed_writer_that_is_dropped_later_leaves_the_next_one_alone(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "s");
    append(&*first, &events(0..1));
    close(&*first);
    let second = writer(&*store, "s");
    close(&*first);
    drop(first);
    refused(store.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned);
    append(&*second, &events(1..2));
}

pub fn writers_of_different_sessions_do_not_meet(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writers: Vec<_> = ["a", "b", "c"].iter().map(|name| create(&*store, name)).collect();
    for writer in &writers {
        append(&**writer, &events(0..2));
    }
    close(&*writers[0]);
    append(&*writers[1], &events(2..3));
    append(&*writer(&*store, "a"), &events(2..4));
    assert_eq!([4, 3, 2], ["a", "b", "c"].map(|name| log_of(&*store, name).len()));
}

pub fn readers_need_no_ownership_and_take_none(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..1));
    let early: Vec<_> = (0..3).map(|_| reader(&*store, "s")).collect();
    let writer = writer(&*store, "s");
    let late: Vec<_> = (0..3).map(|_| reader(&*store, "s")).collect();
    append(&*writer, &events(1..2));
    for reader in early.iter().chain(&late) {
        assert_eq!(read(&**reader, ..), events(0..2));
        close(&**reader);
    }
    refused(store.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned);
}

pub fn a_reader_can_neither_append_nor_flush_and_changes_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let before = listed(&*store);
    for way in [OpenOptions::read(), OpenOptions::uninterpreted()] {
        let reader = open(&*store, "s", way);
        refused(reader.append(&events(2..3)), "s", ErrorKind::ReadOnly);
        refused(reader.append(&[]), "s", ErrorKind::ReadOnly);
        refused(reader.flush(), "s", ErrorKind::ReadOnly);
        assert_eq!(read(&*reader, ..), events(0..2));
    }
    assert_eq!(listed(&*store), before);
}

pub fn the_access_outranks_the_content(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    refused(reader(&*store, "s").append(&events(7..8)), "s", ErrorKind::ReadOnly);
    assert_eq!(log_of(&*store, "s"), events(0..2));
}

pub fn a_reader_of_a_pending_session_does_not_store_it(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    let reader = reader(&*store, "s");
    refused(reader.append(&events(0..1)), "s", ErrorKind::ReadOnly);
    refused(reader.flush(), "s", ErrorKind::ReadOnly);
    close(&*reader);
    assert_eq!(told(&*store, "s").state, crate::SessionState::Pending);
    close(&*writer);
    assert_absent(&*store, "s");
}

pub fn of_many_simultaneous_writers_exactly_one_wins(fixture: &dyn Fixture) {
    const WRITERS: usize = 8;
    let store = fixture.store();
    store_session(&*store, "s", &[]);
    for round in 0..10 {
        let start = Barrier::new(WRITERS);
        let results: Vec<_> = thread::scope(|scope| {
            let opener = || {
                start.wait();
                store.open(&id("s"), OpenOptions::write())
            };
            let openers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(opener)).collect();
            openers.into_iter().map(|o| o.join().expect("no opener panics")).collect()
        });
        let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1, "one writer wins");
        for result in lost {
            refused(result, "s", ErrorKind::AlreadyOwned);
        }
        for winner in won {
            append(&*done(winner, "the opening that won"), &events(round..round + 1));
        }
    }
    assert_eq!(log_of(&*store, "s"), events(0..10));
}

pub fn a_reopened_store_has_no_owners(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "s");
    append(&*first, &events(0..1));
    refused(store.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned);
    drop(first);
    reopened(fixture, store, |store| {
        assert_eq!(told(store, "s").owner, None);
        append(&*writer(store, "s"), &events(1..2));
        assert_eq!(log_of(store, "s"), events(0..2));
    });
}
