//! Cases of [`read`](crate::SessionHandle::read): which slice is given, and how fresh it is.

use super::fixture::{Fixture, reopened};
use super::sample::events;
use super::steps::{append, create, listed, log_of, open, read, reader, store_session, uninterpreted_log_of, writer};
use crate::log::SessionEvent;
use crate::seam::{OpenOptions, SeqRange, SessionHandle, SessionPersistence};

/// Checks every window that starts and ends at one of `edges` against the same slice of `log`.
#[track_caller]
fn assert_windows(handle: &dyn SessionHandle, log: &[SessionEvent], edges: &[u64]) {
    let count = log.len() as u64;
    for &start in edges {
        for length in edges.iter().copied().map(Some).chain([None]) {
            let end = length.map_or(count, |length| (start + length).min(count));
            let expected = if start < end { &log[start as usize..end as usize] } else { &[] };
            assert_eq!(read(handle, SeqRange::new(start, length)), expected, "{length:?} events from {start} on");
        }
    }
}

fn store_five(store: &dyn SessionPersistence) -> Vec<SessionEvent> {
    let writer = create(store, "s");
    append(&*writer, &events(0..2));
    append(&*writer, &events(2..5));
    events(0..5)
}

pub fn the_whole_log_is_given_by_default(fixture: &dyn Fixture) {
    let store = fixture.store();
    let log = store_five(&*store);
    let reader = reader(&*store, "s");
    assert_eq!(read(&*reader, SeqRange::ALL), log);
    assert_eq!(read(&*reader, ..), log);
    assert_eq!(read(&*reader, SeqRange::new(0, None)), log);
}

pub fn a_start_without_a_length_gives_the_rest(fixture: &dyn Fixture) {
    let store = fixture.store();
    let log = store_five(&*store);
    let reader = reader(&*store, "s");
    for start in 0..5 {
        assert_eq!(read(&*reader, start as u64..), log[start..]);
    }
}

pub fn a_length_without_a_start_gives_the_beginning(fixture: &dyn Fixture) {
    let store = fixture.store();
    let log = store_five(&*store);
    let reader = reader(&*store, "s");
    for length in 0..=5 {
        assert_eq!(read(&*reader, ..length as u64), log[..length]);
    }
}

pub fn every_window_inside_the_log_is_that_slice(fixture: &dyn Fixture) {
    let store = fixture.store();
    let log = store_five(&*store);
    assert_windows(&*reader(&*store, "s"), &log, &[0, 1, 2, 3, 4, 5]);
}

pub fn past_the_end_there_is_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_five(&*store);
    let reader = reader(&*store, "s");
    let far = [5, 6, 1 << 31, 1 << 32, (1 << 53) - 1, 1 << 53, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX];
    for start in far {
        for length in [Some(0), Some(1), Some(u64::MAX), None] {
            assert_eq!(read(&*reader, SeqRange::new(start, length)), [], "{length:?} events from {start} on");
        }
    }
    assert_eq!(read(&*reader, ..), events(0..5), "the handle is still good");
}

pub fn a_window_over_the_end_is_cut_there(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_five(&*store);
    let reader = reader(&*store, "s");
    for length in [3, 1 << 32, i64::MAX as u64, u64::MAX] {
        assert_eq!(read(&*reader, SeqRange::new(3, Some(length))), events(3..5));
    }
}

pub fn an_empty_log_gives_nothing_for_any_window(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    assert_windows(&*writer, &[], &[0, 1, 5]);
    writer.flush().expect("an empty session can be stored");
    assert_windows(&*writer, &[], &[0, 1, 5]);
    assert_windows(&*reader(&*store, "s"), &[], &[0, 1, 5]);
}

pub fn a_long_log_comes_back_whole_and_in_windows(fixture: &dyn Fixture) {
    const COUNT: u64 = 2500;
    let store = fixture.store();
    let writer = create(&*store, "s");
    append(&*writer, &events(0..1100));
    append(&*writer, &events(1100..1101));
    append(&*writer, &events(1101..COUNT));
    let log = events(0..COUNT);
    let edges = [0, 1, 255, 256, 999, 1000, 1024, 1100, 1101, 2048, COUNT];
    assert_windows(&*writer, &log, &edges);
    drop(writer);
    reopened(fixture, store, |store| assert_windows(&*reader(store, "s"), &log, &edges));
}

pub fn handles_that_were_open_before_an_append_see_it(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    let while_pending = reader(&*store, "s");
    assert_eq!(read(&*while_pending, ..), []);
    append(&*writer, &events(0..1));
    let while_stored = reader(&*store, "s");
    let uninterpreted = open(&*store, "s", OpenOptions::uninterpreted());
    for end in 2..5 {
        append(&*writer, &events(end - 1..end));
        for handle in [&writer, &while_pending, &while_stored, &uninterpreted] {
            assert_eq!(read(&**handle, ..), events(0..end));
        }
    }
}

pub fn handles_that_are_opened_after_an_append_see_it(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    for end in 1..5 {
        append(&*writer, &events(end - 1..end));
        assert_eq!(log_of(&*store, "s"), events(0..end));
        assert_eq!(uninterpreted_log_of(&*store, "s"), events(0..end));
    }
}

pub fn a_reader_follows_the_log_from_one_writer_to_the_next(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..1));
    let reader = reader(&*store, "s");
    for end in 2..5 {
        append(&*writer(&*store, "s"), &events(end - 1..end));
        assert_eq!(read(&*reader, ..), events(0..end));
    }
}

pub fn reading_changes_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    for name in ["a", "b", "c"] {
        store_session(&*store, name, &events(0..3));
    }
    let before = listed(&*store);
    for name in ["b", "a", "c"] {
        assert_eq!(log_of(&*store, name), events(0..3));
        assert_eq!(uninterpreted_log_of(&*store, name), events(0..3));
        assert_eq!(read(&*reader(&*store, name), 1..2), events(1..2));
    }
    assert_eq!(listed(&*store), before);
}

pub fn what_was_read_does_not_change_afterwards(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    append(&*writer, &events(0..2));
    let earlier = read(&*writer, ..);
    append(&*writer, &events(2..4));
    assert_eq!(earlier, events(0..2));
    assert_eq!(read(&*writer, ..), events(0..4));
}
