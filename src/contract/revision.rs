//! Cases of [`Revision`]: equal as long as the stored log is the same, and different afterwards.

use std::collections::HashSet;

use super::fixture::{Fixture, reopened};
use super::sample::{self, event, events, id};
use super::steps::{
    append, assert_not_contiguous, close, create, done, listed, listed_ids, log_of, open, read, reader, refused,
    store_session, told, uninterpreted_log_of, writer,
};
use crate::seam::{CreateOptions, ErrorKind, ListOrder, ListQuery, OpenOptions, Revision, SessionPersistence};

/// The revision of the session `s`, the same from stat and from list.
#[track_caller]
fn revision(store: &dyn SessionPersistence) -> Revision {
    told(store, "s").revision
}

pub fn a_revision_stays_while_nothing_happens(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let first = revision(&*store);
    assert_eq!(revision(&*store), first);
    reopened(fixture, store, |store| assert_eq!(revision(store), first));
}

pub fn a_pending_session_has_a_revision_that_stays(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    let first = revision(&*store);
    let _reader = reader(&*store, "s");
    assert_eq!(revision(&*store), first);
    append(&*writer, &events(0..1));
    assert_ne!(revision(&*store), first);
}

pub fn every_append_changes_the_revision(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    let mut seen = HashSet::from([revision(&*store)]);
    for next in 0..20 {
        append(&*writer, &events(next..next + 1));
        assert!(seen.insert(revision(&*store)), "the revision of {} events was there before", next + 1);
    }
}

pub fn an_append_changes_the_revision_of_its_own_session_alone(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let before = told(&*store, "s");
    store_session(&*store, "other", &events(0..2));
    append(&*writer(&*store, "other"), &events(2..3));
    assert_eq!(told(&*store, "s"), before);
    assert_ne!(told(&*store, "other").revision, before.revision);
}

pub fn opening_reading_and_closing_leave_the_revision(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let first = revision(&*store);
    for way in super::steps::WAYS {
        let handle = open(&*store, "s", way);
        assert_eq!(revision(&*store), first);
        assert_eq!(read(&*handle, ..), events(0..2));
        assert_eq!(revision(&*store), first);
        close(&*handle);
        assert_eq!(revision(&*store), first);
        drop(open(&*store, "s", way));
        assert_eq!(revision(&*store), first);
    }
}

pub fn a_change_of_ownership_leaves_the_revision(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "s");
    append(&*first, &events(0..2));
    let owned = revision(&*store);
    close(&*first);
    assert_eq!(revision(&*store), owned);
    let second = writer(&*store, "s");
    assert_eq!(revision(&*store), owned);
    refused(store.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned);
    assert_eq!(revision(&*store), owned);
    drop(second);
    assert_eq!(revision(&*store), owned);
}

pub fn refused_calls_leave_all_revisions_and_the_order(fixture: &dyn Fixture) {
    let store = fixture.store();
    for name in ["a", "b", "c"] {
        store_session(&*store, name, &events(0..2));
    }
    let first = writer(&*store, "a");
    let before = listed(&*store);
    assert_not_contiguous(&*first, &events(5..6), 0, 2);
    assert_not_contiguous(&*first, &[event(2), event(4)], 1, 3);
    refused(store.open(&id("a"), OpenOptions::write()), "a", ErrorKind::AlreadyOwned);
    refused(store.create(&sample::header("b"), CreateOptions::default()), "b", ErrorKind::AlreadyExists);
    refused(store.create(&sample::header("x").with_seed(), CreateOptions::default()), "x", ErrorKind::InvalidArgument);
    refused(store.open(&id("x"), OpenOptions::write()), "x", ErrorKind::NotFound);
    refused(reader(&*store, "b").append(&events(2..3)), "b", ErrorKind::ReadOnly);
    refused(store.remove(&id("a")), "a", ErrorKind::AlreadyOwned);
    assert!(store.list(&ListQuery::default().with_limit(0)).is_err());
    assert_eq!(listed(&*store), before);
}

pub fn asking_changes_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    for name in ["a", "s", "c"] {
        store_session(&*store, name, &events(0..2));
    }
    let before = listed(&*store);
    done(store.list(&ListQuery::default().with_limit(1).with_order(ListOrder::Created)), "listing");
    assert_eq!(log_of(&*store, "s"), events(0..2));
    assert_eq!(uninterpreted_log_of(&*store, "a"), events(0..2));
    assert!(!done(store.remove(&id("x")), "removing an absent session"));
    assert_eq!(listed_ids(&*store), ["c", "s", "a"]);
    assert_eq!(listed(&*store), before);
}

pub fn removal_and_creation_anew_with_equal_events_change_the_revision(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut seen = HashSet::new();
    for _ in 0..5 {
        store_session(&*store, "s", &events(0..2));
        assert!(seen.insert(revision(&*store)), "an earlier session of the same name had this revision");
        assert!(done(store.remove(&id("s")), "removing a session"));
    }
}

pub fn equal_logs_in_different_stores_have_different_revisions(fixture: &dyn Fixture) {
    let mut seen = HashSet::new();
    for store in [fixture.store(), fixture.elsewhere(), fixture.elsewhere()] {
        assert_eq!(listed_ids(&*store), [""; 0], "every store of a fixture has a place of its own");
        store_session(&*store, "s", &events(0..2));
        assert!(seen.insert(revision(&*store)), "another store has this revision");
    }
}

pub fn equal_logs_of_different_sessions_can_be_told_apart_by_id_and_revision(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    store_session(&*store, "t", &events(0..2));
    assert_ne!(told(&*store, "s").revision, told(&*store, "t").revision);
}
