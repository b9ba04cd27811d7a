//! Cases of [`stat`](crate::SessionPersistence::stat): what is known of a session without reading it.

use super::fixture::{Fixture, reopened};
use super::sample::{self, at_time, events, id};
use super::steps::{append, close, create, done, log_of, reader, store_session, told, writer};
use crate::seam::{SessionPersistence, SessionState, Snapshot};

pub fn of_an_absent_session_nothing_is_told(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "ss", &events(0..1));
    for absent in ["s", "S", "sss", "SS"] {
        assert_eq!(done(store.stat(&id(absent)), "stat of an absent session"), None, "{absent:?}");
    }
}

pub fn a_stored_session_is_told_with_header_and_state(fixture: &dyn Fixture) {
    let check = |store: &dyn SessionPersistence| {
        let snapshot = told(store, "s");
        assert_eq!(snapshot.header, Some(sample::header("s")));
        assert_eq!(snapshot.state, SessionState::Readable);
        assert_eq!(snapshot.owner, None);
    };
    let store = fixture.store();
    store_session(&*store, "s", &events(0..3));
    check(&*store);
    reopened(fixture, store, check);
}

/// Checks what a snapshot tells of the log against the log itself.
#[track_caller]
fn assert_true(store: &dyn SessionPersistence, count: u64) -> Snapshot {
    let snapshot = told(store, "s");
    let log = log_of(store, "s");
    assert_eq!(log.len() as u64, count);
    assert!(snapshot.event_count.is_none_or(|told| told == count), "{snapshot:?} of {count} events");
    let last = log.last().map(|event| event.time());
    assert!(snapshot.last_time.is_none() || snapshot.last_time == last, "{snapshot:?} with a last time of {last:?}");
    snapshot
}

pub fn the_count_and_the_last_time_follow_every_append(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    assert_true(&*store, 0);
    let mut count = 0;
    for (size, time) in [(1, 500), (2, 400), (0, 0), (300, -7), (1, 600)] {
        let batch: Vec<_> = (count..count + size).map(|seq| at_time(seq, time)).collect();
        append(&*writer, &batch);
        count += size;
        assert_true(&*store, count);
    }
    close(&*writer);
    assert_true(&*store, count);
    drop(writer);
    reopened(fixture, store, |store| {
        assert_true(store, count);
    });
}

pub fn what_is_told_once_of_a_stored_log_is_told_always(fixture: &dyn Fixture) {
    let facts = |s: Snapshot| [s.event_count.is_some(), s.size_bytes.is_some(), s.last_time.is_some()];
    let store = fixture.store();
    let writer = create(&*store, "s");
    append(&*writer, &events(0..1));
    let first = facts(assert_true(&*store, 1));
    append(&*writer, &events(1..4));
    assert_eq!(facts(assert_true(&*store, 4)), first);
    close(&*writer);
    assert_eq!(facts(assert_true(&*store, 4)), first);
    drop(writer);
    reopened(fixture, store, |store| assert_eq!(facts(assert_true(store, 4)), first));
}

pub fn the_size_grows_with_what_is_stored(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    append(&*writer, &events(0..1));
    let mut before = told(&*store, "s").size_bytes;
    for next in 1..4 {
        let long = format!(r#"{{"turn":1,"note":"{}"}}"#, pseudo_random_text(next));
        append(&*writer, &[sample::with_data("turn/start", next, 0, &long)]);
        let after = told(&*store, "s").size_bytes;
        assert_eq!(before.is_some(), after.is_some());
        assert!(before.is_none_or(|before| Some(before) < after), "{before:?} before and {after:?} after");
        before = after;
    }
}

/// Text that a backend which compresses cannot make vanish.
fn pseudo_random_text(seed: u64) -> String {
    let mut state = seed;
    let mut text = String::new();
    while text.len() < 16 * 1024 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:08x}", state >> 32));
    }
    text
}

pub fn a_writer_is_told_as_owner_and_a_reader_is_not(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..1));
    let _reader = reader(&*store, "s");
    assert_eq!(told(&*store, "s").owner, None);
    let first = writer(&*store, "s");
    let owner = told(&*store, "s").owner;
    assert!(owner.is_none_or(|owner| owner.process == std::process::id()));
    close(&*first);
    assert_eq!(told(&*store, "s").owner, None);
    drop(writer(&*store, "s"));
    assert_eq!(told(&*store, "s").owner, None);
}

pub fn the_activity_of_a_session_passes_all_others_with_every_append(fixture: &dyn Fixture) {
    let store = fixture.store();
    let names = ["a", "b", "c"];
    let writers = names.map(|name| create(&*store, name));
    for round in 0..3 {
        for (name, writer) in names.iter().zip(&writers) {
            append(&**writer, &[at_time(round, -(round as i64))]);
            if round == 0 {
                continue;
            }
            let activity = told(&*store, name).activity;
            for other in names.iter().filter(|other| *other != name) {
                assert!(told(&*store, other).activity < activity, "{name} was written after {other}");
            }
        }
    }
}
