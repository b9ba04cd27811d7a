//! Cases of [`remove`](crate::SessionPersistence::remove): all of a session or nothing of it, and never under a writer.

use super::fixture::{Fixture, reopened};
use super::sample::{self, events, id};
use super::steps::{
    append, assert_absent, assert_not_contiguous, close, create, create_with, done, listed, log_of, open, read, reader,
    refused, store_session, told, writer,
};
use crate::seam::{CreateOptions, ErrorKind, OpenOptions, Removal, SeqRange, SessionPersistence, SessionState};

#[track_caller]
fn remove(store: &dyn SessionPersistence, name: &str) -> bool {
    done(store.remove(&id(name)), format_args!("removing {name:?}"))
}

pub fn a_removed_session_is_gone(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..3));
    assert!(remove(&*store, "s"));
    assert_absent(&*store, "s");
    reopened(fixture, store, |store| assert_absent(store, "s"));
}

pub fn a_session_that_was_written_since_is_not_removed_at_an_earlier_revision(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let earlier = told(&*store, "s").revision;
    let handle = writer(&*store, "s");
    append(&*handle, &events(2..3));
    close(&*handle);
    let remove = |revision| done(store.remove_if_unchanged(&id("s"), revision), "removing at a revision");
    assert_eq!(remove(&earlier), Removal::Changed);
    assert_eq!(log_of(&*store, "s"), events(0..3));
    let now = told(&*store, "s").revision;
    assert_eq!(remove(&now), Removal::Removed);
    assert_absent(&*store, "s");
    assert_eq!(remove(&now), Removal::Absent);
    // Made anew, as long as it was.
    store_session(&*store, "s", &events(0..3));
    assert_eq!(remove(&now), Removal::Changed);
    assert_eq!(log_of(&*store, "s"), events(0..3));
}

pub fn only_the_first_removal_finds_a_session(fixture: &dyn Fixture) {
    let store = fixture.store();
    assert!(!remove(&*store, "s"));
    store_session(&*store, "s", &events(0..3));
    assert!(remove(&*store, "s"));
    assert!(!remove(&*store, "s"));
    assert_absent(&*store, "s");
}

pub fn an_empty_stored_session_can_be_removed(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &[]);
    assert!(remove(&*store, "s"));
    assert_absent(&*store, "s");
}

pub fn a_session_with_a_writer_is_not_removed(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let handle = writer(&*store, "s");
    let before = listed(&*store);
    assert!(refused(store.remove(&id("s")), "s", ErrorKind::AlreadyOwned).is_retryable());
    assert_eq!(listed(&*store), before);
    append(&*handle, &events(2..3));
    assert_eq!(log_of(&*store, "s"), events(0..3));
    close(&*handle);
    assert!(remove(&*store, "s"));
    assert_absent(&*store, "s");
}

pub fn a_pending_session_has_a_writer_and_is_not_removed(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    refused(store.remove(&id("s")), "s", ErrorKind::AlreadyOwned);
    assert_eq!(told(&*store, "s").state, SessionState::Pending);
    append(&*handle, &events(0..1));
    assert_eq!(log_of(&*store, "s"), events(0..1));
}

pub fn a_removal_that_found_nothing_leaves_the_id_free(fixture: &dyn Fixture) {
    let store = fixture.store();
    assert!(!remove(&*store, "s"));
    append(&*create(&*store, "s"), &events(0..1));
    assert_eq!(log_of(&*store, "s"), events(0..1));
}

pub fn a_refused_removal_takes_no_ownership(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let first = writer(&*store, "s");
    refused(store.remove(&id("s")), "s", ErrorKind::AlreadyOwned);
    refused(store.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned);
    close(&*first);
    append(&*writer(&*store, "s"), &events(2..3));
}

pub fn a_session_that_is_created_anew_starts_empty(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..3));
    assert!(remove(&*store, "s"));
    let header = sample::header_created_at("s", 7).with_cwd("/w");
    let handle = create_with(&*store, &header, CreateOptions::default());
    assert_eq!(told(&*store, "s").state, SessionState::Pending);
    assert_eq!(read(&*handle, ..), []);
    assert_not_contiguous(&*handle, &events(3..4), 0, 0);
    append(&*handle, &[sample::signed(0, 9)]);
    close(&*handle);
    assert_eq!(told(&*store, "s").header.as_ref(), Some(&header));
    assert_eq!(log_of(&*store, "s"), [sample::signed(0, 9)]);
    drop(handle);
    reopened(fixture, store, |store| {
        assert_eq!(told(store, "s").header.as_ref(), Some(&header));
        assert_eq!(log_of(store, "s"), [sample::signed(0, 9)]);
    });
}

pub fn a_reader_of_a_removed_session_finds_it_gone(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..3));
    let readers = [OpenOptions::read(), OpenOptions::uninterpreted()].map(|way| open(&*store, "s", way));
    let idle = reader(&*store, "s");
    for reader in &readers {
        assert_eq!(read(&**reader, ..), events(0..3));
    }
    assert!(remove(&*store, "s"));
    for reader in readers.iter().chain([&idle]) {
        refused(reader.read(SeqRange::ALL), "s", ErrorKind::NotFound);
        refused(reader.read(SeqRange::new(9, None)), "s", ErrorKind::NotFound);
        close(&**reader);
    }
}

pub fn a_reader_of_a_removed_session_does_not_take_its_successor_for_it(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let old = reader(&*store, "s");
    assert_eq!(read(&*old, ..), events(0..2));
    assert!(remove(&*store, "s"));
    store_session(&*store, "s", &events(0..4));
    refused(old.read(SeqRange::ALL), "s", ErrorKind::NotFound);
    assert_eq!(log_of(&*store, "s"), events(0..4));
}

pub fn other_sessions_stay_as_they_are(fixture: &dyn Fixture) {
    let store = fixture.store();
    for name in ["a", "s", "ss", "S", "s/s"] {
        store_session(&*store, name, &events(0..2));
    }
    let busy = writer(&*store, "a");
    let mut before = listed(&*store);
    assert!(remove(&*store, "s"));
    before.retain(|snapshot| snapshot.id != id("s"));
    assert_eq!(listed(&*store), before);
    append(&*busy, &events(2..3));
    assert_eq!(log_of(&*store, "a"), events(0..3));
    for name in ["ss", "S", "s/s"] {
        assert_eq!(log_of(&*store, name), events(0..2));
    }
}
