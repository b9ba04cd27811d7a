//! Cases of [`create`](crate::SessionPersistence::create): what is visible at once, whose an id is, what a seed needs.

use std::sync::Barrier;
use std::thread;

use super::fixture::{Fixture, reopened};
use super::sample::{self, end_of_inherited, events};
use super::steps::{
    append, assert_absent, close, create, create_with, done, log_of, open, read, reader, refused, store_session,
    store_with, told, uninterpreted_log_of, writer,
};
use crate::seam::{Access, CreateOptions, ErrorKind, OpenOptions, SessionState};

pub fn an_empty_place_has_no_sessions(fixture: &dyn Fixture) {
    assert_absent(&*fixture.store(), "s");
}

pub fn a_created_session_is_visible_in_its_store_at_once(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    assert_eq!(writer.access(), Access::Write);
    let snapshot = told(&*store, "s");
    assert_eq!(snapshot.state, SessionState::Pending);
    assert_eq!(snapshot.header, Some(sample::header("s")));
    for way in [OpenOptions::read(), OpenOptions::uninterpreted()] {
        let reader = open(&*store, "s", way);
        assert_eq!(reader.header(), &sample::header("s"));
        assert_eq!(read(&*reader, ..), []);
    }
    assert_eq!(read(&*writer, ..), []);
}

pub fn a_created_session_is_no_longer_pending_once_its_first_batch_is_stored(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    append(&*writer, &events(0..1));
    assert_eq!(told(&*store, "s").state, SessionState::Readable);
}

pub fn the_id_of_a_pending_session_is_taken(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "s");
    refused(store.create(&sample::header("s"), CreateOptions::default()), "s", ErrorKind::AlreadyExists);
    append(&*first, &events(0..2));
    assert_eq!(log_of(&*store, "s"), events(0..2));
}

pub fn the_id_of_a_stored_session_is_taken_with_a_writer_and_without(fixture: &dyn Fixture) {
    let store = fixture.store();
    let other = sample::header_created_at("s", 7);
    let first = create(&*store, "s");
    append(&*first, &events(0..2));
    refused(store.create(&other, CreateOptions::default()), "s", ErrorKind::AlreadyExists);
    close(&*first);
    refused(store.create(&other, CreateOptions::default()), "s", ErrorKind::AlreadyExists);
    assert_eq!(told(&*store, "s").header, Some(sample::header("s")));
    assert_eq!(log_of(&*store, "s"), events(0..2));
}

pub fn a_refused_creation_takes_no_ownership(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..1));
    refused(store.create(&sample::header("s"), CreateOptions::default()), "s", ErrorKind::AlreadyExists);
    append(&*writer(&*store, "s"), &events(1..2));
}

pub fn the_id_of_a_stored_session_is_taken_after_reopening(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    refused(store.create(&sample::header("s"), CreateOptions::default()), "s", ErrorKind::AlreadyExists);
    reopened(fixture, store, |store| {
        refused(store.create(&sample::header("s"), CreateOptions::default()), "s", ErrorKind::AlreadyExists);
        assert_eq!(log_of(store, "s"), events(0..2));
    });
}

pub fn of_many_simultaneous_creations_of_one_id_exactly_one_wins(fixture: &dyn Fixture) {
    const CREATORS: usize = 8;
    let store = fixture.store();
    for round in 0..10 {
        let id = format!("s{round}");
        let start = Barrier::new(CREATORS);
        let results: Vec<_> = thread::scope(|scope| {
            let creator = || {
                start.wait();
                store.create(&sample::header(&id), CreateOptions::default())
            };
            let creators: Vec<_> = (0..CREATORS).map(|_| scope.spawn(creator)).collect();
            creators.into_iter().map(|c| c.join().expect("no creator panics")).collect()
        });
        let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1, "one creation wins");
        for result in lost {
            refused(result, &id, ErrorKind::AlreadyExists);
        }
        for winner in won {
            append(&*done(winner, "the creation that won"), &events(0..1));
        }
        assert_eq!(log_of(&*store, &id), events(0..1));
    }
}

pub fn a_seeded_session_tells_how_much_it_inherited_from_the_start(fixture: &dyn Fixture) {
    let store = fixture.store();
    let header = sample::header("s").with_seed();
    let writer = create_with(&*store, &header, CreateOptions::inheriting(2));
    assert_eq!(writer.inherited_event_count(), 2);
    assert_eq!(reader(&*store, "s").inherited_event_count(), 2);
}

pub fn a_stored_seed_tells_how_much_was_inherited(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut seed = events(0..2);
    seed.push(end_of_inherited(2));
    seed.extend(events(3..5));
    store_with(&*store, &sample::header("s").with_seed(), CreateOptions::inheriting(2), &seed);
    for way in super::steps::WAYS {
        assert_eq!(open(&*store, "s", way).inherited_event_count(), 2);
    }
    reopened(fixture, store, |store| {
        assert_eq!(reader(store, "s").inherited_event_count(), 2);
        assert_eq!(log_of(store, "s"), seed);
    });
}

pub fn of_a_seed_within_a_seed_the_last_mark_counts(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut seed = events(0..1);
    seed.push(end_of_inherited(1));
    seed.extend(events(2..4));
    seed.push(end_of_inherited(4));
    store_with(&*store, &sample::header("s").with_seed(), CreateOptions::inheriting(4), &seed);
    assert_eq!(reader(&*store, "s").inherited_event_count(), 4);
    reopened(fixture, store, |store| assert_eq!(reader(store, "s").inherited_event_count(), 4));
}

pub fn a_seed_may_be_empty(fixture: &dyn Fixture) {
    let store = fixture.store();
    let header = sample::header("s").with_seed();
    store_with(&*store, &header, CreateOptions::inheriting(0), &[end_of_inherited(0)]);
    let reader = reader(&*store, "s");
    assert_eq!(reader.inherited_event_count(), 0);
    assert!(reader.header().is_seeded());
}

pub fn the_seed_length_of_an_old_header_is_its_inherited_count(fixture: &dyn Fixture) {
    let store = fixture.store();
    let line = r#"{"type":"session","version":1,"id":"s","createdAt":1,"seedLength":2}"#;
    let writer = create_with(&*store, &sample::parsed_header(line), CreateOptions::default());
    assert_eq!(writer.inherited_event_count(), 2);
    append(&*writer, &events(0..3));
    close(&*writer);
    assert_eq!(open(&*store, "s", OpenOptions::uninterpreted()).inherited_event_count(), 2);
    assert_eq!(uninterpreted_log_of(&*store, "s"), events(0..3));
}

pub fn a_mark_in_a_log_whose_header_tells_of_no_seed_counts_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    let log = [sample::event(0), end_of_inherited(1), sample::event(2)];
    store_session(&*store, "s", &log);
    assert_eq!(reader(&*store, "s").inherited_event_count(), 0);
    reopened(fixture, store, |store| {
        assert_eq!(reader(store, "s").inherited_event_count(), 0);
        assert_eq!(log_of(store, "s"), log);
    });
}

pub fn a_mark_in_a_log_whose_header_has_a_seed_length_counts_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    let line = r#"{"type":"session","version":1,"id":"s","createdAt":1,"seedLength":1}"#;
    let log = [sample::event(0), sample::event(1), end_of_inherited(2)];
    store_with(&*store, &sample::parsed_header(line), CreateOptions::default(), &log);
    assert_eq!(open(&*store, "s", OpenOptions::uninterpreted()).inherited_event_count(), 1);
    reopened(fixture, store, |store| {
        assert_eq!(open(store, "s", OpenOptions::uninterpreted()).inherited_event_count(), 1);
    });
}

pub fn a_session_without_a_seed_inherited_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create_with(&*store, &sample::header("s"), CreateOptions::inheriting(0));
    assert_eq!(writer.inherited_event_count(), 0);
    append(&*writer, &events(0..3));
    close(&*writer);
    assert_eq!(reader(&*store, "s").inherited_event_count(), 0);
}

pub fn a_seeded_header_without_a_count_is_refused_and_creates_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    let seeded = sample::header("s").with_seed();
    refused(store.create(&seeded, CreateOptions::default()), "s", ErrorKind::InvalidArgument);
    assert_absent(&*store, "s");
    append(&*create(&*store, "s"), &events(0..1));
}

pub fn a_count_without_a_seeded_header_is_refused_and_creates_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    refused(store.create(&sample::header("s"), CreateOptions::inheriting(1)), "s", ErrorKind::InvalidArgument);
    assert_absent(&*store, "s");
    append(&*create(&*store, "s"), &events(0..1));
}

pub fn a_refused_argument_outranks_an_id_that_is_taken(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..1));
    refused(store.create(&sample::header("s"), CreateOptions::inheriting(1)), "s", ErrorKind::InvalidArgument);
    assert_eq!(log_of(&*store, "s"), events(0..1));
}
