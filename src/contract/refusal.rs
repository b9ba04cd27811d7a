//! Cases of logs that a store must not interpret: stored as they come, refused by name, told and read as they are.

use super::fixture::{Fixture, reopened};
use super::sample::{self, UNKNOWN, events, id, typed};
use super::steps::{
    append, assert_problem, assert_unknown, close, create, create_with, done, listed, listed_ids, log_of, open, read,
    reader, store_session, store_with, told, uninterpreted_log_of, writer,
};
use crate::log::SessionEvent;
use crate::seam::{
    CreateOptions, FormatProblem, OpenOptions, SeqRange, SessionHandle, SessionPersistence, SessionState,
};

const INTERPRETED: [OpenOptions; 2] = [OpenOptions::read(), OpenOptions::write()];

/// Five events of which the third is of unknown type.
fn unknown_inside() -> Vec<SessionEvent> {
    let mut log = events(0..5);
    log[2] = typed(UNKNOWN, 2);
    log
}

/// Checks that both interpreted ways to open a log are refused because of one event, every time, and leave no owner.
#[track_caller]
fn assert_refused(store: &dyn SessionPersistence, name: &str, seq: u64, event_type: &str) {
    for way in INTERPRETED {
        for _ in 0..2 {
            assert_unknown(store.open(&id(name), way), name, seq, event_type);
            assert_eq!(told(store, name).owner, None);
        }
    }
}

#[track_caller]
fn assert_read_refused(handle: &dyn SessionHandle, seq: u64, event_type: &str) {
    for range in [SeqRange::ALL, SeqRange::new(0, Some(1)), SeqRange::new(seq, Some(1)), SeqRange::new(seq + 1, None)] {
        assert_unknown(handle.read(range), handle.id().as_str(), seq, event_type);
    }
}

pub fn an_event_of_unknown_type_is_stored_and_refused_by_seq_and_type(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &unknown_inside());
    assert_refused(&*store, "s", 2, UNKNOWN);
    assert_eq!(uninterpreted_log_of(&*store, "s"), unknown_inside());
    reopened(fixture, store, |store| {
        assert_refused(store, "s", 2, UNKNOWN);
        assert_eq!(uninterpreted_log_of(store, "s"), unknown_inside());
    });
}

pub fn handles_that_were_open_before_refuse_to_read_an_unknown_type_wherever_it_stands(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    append(&*writer, &events(0..2));
    let early = reader(&*store, "s");
    assert_eq!(read(&*early, ..), events(0..2));
    append(&*writer, &unknown_inside()[2..]);
    assert_read_refused(&*early, 2, UNKNOWN);
    assert_read_refused(&*writer, 2, UNKNOWN);
}

pub fn a_writer_goes_on_behind_an_event_that_it_does_not_know(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    append(&*writer, &unknown_inside()[..3]);
    append(&*writer, &unknown_inside()[3..]);
    close(&*writer);
    assert_eq!(uninterpreted_log_of(&*store, "s"), unknown_inside());
}

pub fn a_refused_write_opening_releases_its_claim(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &unknown_inside());
    assert_unknown(store.open(&id("s"), OpenOptions::write()), "s", 2, UNKNOWN);
    assert_eq!(told(&*store, "s").owner, None);
    assert_eq!(uninterpreted_log_of(&*store, "s"), unknown_inside());
    assert!(done(store.remove(&id("s")), "removing a session whose writer was refused"));
}

pub fn a_refused_opening_changes_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &unknown_inside());
    store_session(&*store, "t", &events(0..2));
    let before = listed(&*store);
    assert_refused(&*store, "s", 2, UNKNOWN);
    assert_eq!(uninterpreted_log_of(&*store, "s"), unknown_inside());
    assert_eq!(listed(&*store), before);
}

pub fn an_unknown_type_as_the_last_event_is_refused(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut log = events(0..4);
    log.push(typed(UNKNOWN, 4));
    store_session(&*store, "s", &log);
    assert_refused(&*store, "s", 4, UNKNOWN);
    assert_eq!(uninterpreted_log_of(&*store, "s"), log);
}

pub fn an_unknown_type_as_the_only_event_is_refused(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &[typed(UNKNOWN, 0)]);
    assert_refused(&*store, "s", 0, UNKNOWN);
}

pub fn known_events_after_an_unknown_one_do_not_hide_it(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    append(&*handle, &[typed(UNKNOWN, 0)]);
    append(&*handle, &events(1..300));
    close(&*handle);
    assert_refused(&*store, "s", 0, UNKNOWN);
}

pub fn of_several_unknown_types_the_first_event_is_named(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    append(&*handle, &[sample::event(0), typed("zeta/first", 1), typed("acme/second", 2)]);
    append(&*handle, &[typed("acme/third", 3), typed("zeta/first", 4)]);
    close(&*handle);
    assert_refused(&*store, "s", 1, "zeta/first");
}

pub fn a_type_that_differs_from_a_known_one_in_case_or_by_a_space_is_unknown(fixture: &dyn Fixture) {
    let store = fixture.store();
    for (name, event_type) in [("a", "Turn/start"), ("b", "turn/start "), ("c", "turn"), ("d", "")] {
        store_session(&*store, name, &[sample::event(0), typed(event_type, 1)]);
        assert_refused(&*store, name, 1, event_type);
    }
}

pub fn an_unknown_type_that_is_marked_ignorable_is_read(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut log = unknown_inside();
    log[2] = log[2].clone().into_ignorable();
    store_session(&*store, "s", &log);
    for way in super::steps::WAYS {
        assert_eq!(read(&*open(&*store, "s", way), ..), log);
    }
    append(&*writer(&*store, "s"), &events(5..6));
    reopened(fixture, store, |store| assert_eq!(log_of(store, "s").len(), 6));
}

pub fn a_mark_on_one_event_does_not_excuse_another_of_its_type(fixture: &dyn Fixture) {
    let store = fixture.store();
    let marked = |seq| typed(UNKNOWN, seq).into_ignorable();
    store_session(&*store, "before", &[marked(0), typed(UNKNOWN, 1)]);
    assert_refused(&*store, "before", 1, UNKNOWN);
    store_session(&*store, "after", &[typed(UNKNOWN, 0), marked(1)]);
    assert_refused(&*store, "after", 0, UNKNOWN);
    let handle = create(&*store, "later");
    append(&*handle, &[marked(0)]);
    append(&*handle, &[marked(1)]);
    assert_eq!(log_of(&*store, "later"), [marked(0), marked(1)]);
    append(&*handle, &[typed(UNKNOWN, 2)]);
    close(&*handle);
    assert_refused(&*store, "later", 2, UNKNOWN);
}

pub fn a_log_that_is_read_uninterpreted_can_be_read_in_windows(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &unknown_inside());
    let handle = open(&*store, "s", OpenOptions::uninterpreted());
    assert_eq!(read(&*handle, ..), unknown_inside());
    assert_eq!(read(&*handle, 1..4), unknown_inside()[1..4]);
    assert_eq!(read(&*handle, 5..), []);
}

pub fn a_log_of_unknown_types_is_told_like_any_other(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "known", &events(0..5));
    store_session(&*store, "s", &unknown_inside());
    assert_refused(&*store, "s", 2, UNKNOWN);
    assert_eq!(listed_ids(&*store), ["s", "known"]);
    let snapshot = told(&*store, "s");
    assert_eq!(snapshot.header, Some(sample::header("s")));
    assert_eq!(snapshot.state, SessionState::Readable, "a state follows from the header alone");
    assert_eq!(snapshot.event_count, told(&*store, "known").event_count);
}

pub fn other_sessions_are_read_beside_a_refused_one(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "a", &events(0..2));
    store_session(&*store, "s", &unknown_inside());
    store_with(&*store, &sample::header("v").with_version(4), CreateOptions::default(), &events(0..1));
    store_session(&*store, "z", &events(0..3));
    assert_refused(&*store, "s", 2, UNKNOWN);
    append(&*writer(&*store, "a"), &events(2..3));
    assert_eq!(log_of(&*store, "a"), events(0..3));
    assert_eq!(log_of(&*store, "z"), events(0..3));
}

/// Stores a log of another format and checks that it is told with `state`, refused because of `problem`, and read as it
/// is.
#[track_caller]
fn is_refused_by_version(
    fixture: &dyn Fixture,
    version: u32,
    log: &[SessionEvent],
    state: SessionState,
    problem: FormatProblem,
) {
    let check = |store: &dyn SessionPersistence| {
        for way in INTERPRETED {
            for _ in 0..2 {
                assert_problem(store.open(&id("s"), way), "s", |found| *found == problem);
                let snapshot = told(store, "s");
                assert_eq!((&snapshot.state, snapshot.owner), (&state, None));
                assert_eq!(snapshot.header.map(|header| header.version()), Some(version));
            }
        }
        assert_eq!(listed_ids(store), ["s"]);
        assert_eq!(uninterpreted_log_of(store, "s"), log);
    };
    let store = fixture.store();
    let handle = create_with(&*store, &sample::header("s").with_version(version), CreateOptions::default());
    append(&*handle, log);
    super::steps::flush(&*handle);
    close(&*handle);
    drop(handle);
    check(&*store);
    reopened(fixture, store, check);
}

pub fn a_log_of_a_newer_format_is_stored_and_refused_as_newer(fixture: &dyn Fixture) {
    let problem = FormatProblem::NewerFormat { found: 4, known: 3 };
    is_refused_by_version(fixture, 4, &events(0..3), SessionState::NewerFormat { version: 4 }, problem);
}

pub fn a_log_of_an_older_format_is_stored_and_refused_as_older(fixture: &dyn Fixture) {
    let problem = FormatProblem::OlderFormat { found: 2, known: 3 };
    is_refused_by_version(fixture, 2, &events(0..3), SessionState::OlderFormat { version: 2 }, problem);
}

pub fn a_log_of_the_first_format_is_stored_and_refused_as_older(fixture: &dyn Fixture) {
    let problem = FormatProblem::OlderFormat { found: 0, known: 3 };
    is_refused_by_version(fixture, 0, &events(0..3), SessionState::OlderFormat { version: 0 }, problem);
}

pub fn an_empty_log_of_another_format_is_refused_too(fixture: &dyn Fixture) {
    let problem = FormatProblem::NewerFormat { found: 4, known: 3 };
    is_refused_by_version(fixture, 4, &[], SessionState::NewerFormat { version: 4 }, problem);
}

pub fn the_version_is_refused_before_the_types(fixture: &dyn Fixture) {
    let problem = FormatProblem::NewerFormat { found: 4, known: 3 };
    is_refused_by_version(fixture, 4, &unknown_inside(), SessionState::NewerFormat { version: 4 }, problem);
}

pub fn a_refused_session_can_be_removed(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &unknown_inside());
    store_with(&*store, &sample::header("v").with_version(4), CreateOptions::default(), &events(0..1));
    for name in ["s", "v"] {
        assert!(done(store.remove(&id(name)), format_args!("removing {name:?}")));
    }
    assert_eq!(listed_ids(&*store), [""; 0]);
}
