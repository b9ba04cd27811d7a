//! Cases of [`close`](crate::SessionHandle::close): what it ends, what it keeps, what it takes with it.

use super::fixture::{Fixture, reopened};
use super::sample::{self, events, id};
use super::steps::{
    append, assert_absent, close, create, create_with, listed, log_of, open, read, reader, refused, store_session,
    told, writer,
};
use crate::seam::{Access, CreateOptions, ErrorKind, OpenOptions, SeqRange, SessionHandle, SessionState};

#[track_caller]
fn assert_closed(handle: &dyn SessionHandle) {
    let id = handle.id().as_str();
    refused(handle.read(SeqRange::ALL), id, ErrorKind::HandleClosed);
    refused(handle.read(SeqRange::new(9, Some(0))), id, ErrorKind::HandleClosed);
    refused(handle.append(&events(0..1)), id, ErrorKind::HandleClosed);
    refused(handle.append(&[]), id, ErrorKind::HandleClosed);
    refused(handle.flush(), id, ErrorKind::HandleClosed);
}

pub fn every_call_on_a_closed_writer_is_refused(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    append(&*handle, &events(0..2));
    close(&*handle);
    let before = listed(&*store);
    assert_closed(&*handle);
    assert_eq!(listed(&*store), before);
    assert_eq!(log_of(&*store, "s"), events(0..2));
}

pub fn every_call_on_a_closed_writer_of_a_pending_session_is_refused(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    close(&*handle);
    assert_closed(&*handle);
    assert_absent(&*store, "s");
}

pub fn that_a_handle_is_closed_outranks_its_access(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    for way in [OpenOptions::read(), OpenOptions::uninterpreted()] {
        let handle = open(&*store, "s", way);
        close(&*handle);
        assert_closed(&*handle);
    }
    assert_eq!(log_of(&*store, "s"), events(0..2));
}

pub fn that_a_handle_is_closed_outranks_the_content(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let handle = writer(&*store, "s");
    close(&*handle);
    refused(handle.append(&events(7..8)), "s", ErrorKind::HandleClosed);
    refused(handle.append(&events(2..3)), "s", ErrorKind::HandleClosed);
    assert_eq!(log_of(&*store, "s"), events(0..2));
}

pub fn that_a_handle_is_closed_outranks_the_next_owner(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let first = writer(&*store, "s");
    close(&*first);
    let second = writer(&*store, "s");
    assert_closed(&*first);
    append(&*second, &events(2..3));
    assert_eq!(log_of(&*store, "s"), events(0..3));
}

pub fn a_second_close_does_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let handles = super::steps::WAYS.map(|way| open(&*store, "s", way));
    for handle in &handles {
        close(&**handle);
        close(&**handle);
        assert_closed(&**handle);
    }
    let erased = create(&*store, "erased");
    close(&*erased);
    close(&*erased);
    assert_absent(&*store, "erased");
}

pub fn a_second_close_does_not_end_the_session_of_the_next_creator(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "s");
    close(&*first);
    let second = create(&*store, "s");
    close(&*first);
    drop(first);
    assert_eq!(told(&*store, "s").state, SessionState::Pending);
    refused(store.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned);
    append(&*second, &events(0..1));
    assert_eq!(log_of(&*store, "s"), events(0..1));
}

pub fn a_closed_handle_still_tells_what_it_was(fixture: &dyn Fixture) {
    let store = fixture.store();
    let header = sample::header("s").with_seed();
    let handle = create_with(&*store, &header, CreateOptions::inheriting(1));
    append(&*handle, &events(0..1));
    close(&*handle);
    assert_eq!(handle.id(), &id("s"));
    assert_eq!(handle.header(), &header);
    assert_eq!(handle.inherited_event_count(), 1);
    assert_eq!(handle.access(), Access::Write);
}

pub fn a_session_that_is_closed_before_anything_was_stored_never_existed(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "other", &events(0..1));
    let before = listed(&*store);
    let handle = create(&*store, "s");
    close(&*handle);
    assert_absent(&*store, "s");
    assert_eq!(listed(&*store), before);
    drop(handle);
    reopened(fixture, store, |store| assert_absent(store, "s"));
}

pub fn a_session_that_is_dropped_before_anything_was_stored_never_existed(fixture: &dyn Fixture) {
    let store = fixture.store();
    drop(create(&*store, "s"));
    assert_absent(&*store, "s");
    reopened(fixture, store, |store| assert_absent(store, "s"));
}

pub fn readers_of_a_session_that_never_existed_find_it_gone(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    let readers = [OpenOptions::read(), OpenOptions::uninterpreted()].map(|way| open(&*store, "s", way));
    for reader in &readers {
        assert_eq!(read(&**reader, ..), []);
    }
    close(&*handle);
    for reader in &readers {
        refused(reader.read(SeqRange::ALL), "s", ErrorKind::NotFound);
    }
}

pub fn readers_of_a_session_that_never_existed_do_not_take_its_successor_for_it(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    let reader = reader(&*store, "s");
    assert_eq!(read(&*reader, ..), []);
    close(&*handle);
    store_session(&*store, "s", &events(0..2));
    refused(reader.read(SeqRange::ALL), "s", ErrorKind::NotFound);
    assert_eq!(log_of(&*store, "s"), events(0..2));
}

pub fn the_id_of_a_session_that_never_existed_is_free(fixture: &dyn Fixture) {
    let store = fixture.store();
    close(&*create(&*store, "s"));
    drop(create(&*store, "s"));
    let successor = sample::header_created_at("s", 7);
    append(&*create_with(&*store, &successor, CreateOptions::default()), &events(0..2));
    assert_eq!(told(&*store, "s").header, Some(successor));
    assert_eq!(log_of(&*store, "s"), events(0..2));
}

pub fn closing_a_reader_disturbs_nobody(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    let pending = reader(&*store, "s");
    close(&*pending);
    append(&*handle, &events(0..1));
    let early = reader(&*store, "s");
    let other = reader(&*store, "s");
    close(&*early);
    drop(early);
    append(&*handle, &events(1..2));
    assert_eq!(read(&*other, ..), events(0..2));
    refused(store.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned);
}

pub fn readers_outlive_the_writer(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    append(&*handle, &events(0..2));
    let reader = reader(&*store, "s");
    close(&*handle);
    assert_eq!(read(&*reader, ..), events(0..2));
}

pub fn closing_keeps_all_that_was_acknowledged(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    append(&*handle, &events(0..2));
    append(&*handle, &events(2..3));
    close(&*handle);
    assert_eq!(log_of(&*store, "s"), events(0..3));
    drop(handle);
    reopened(fixture, store, |store| assert_eq!(log_of(store, "s"), events(0..3)));
}
