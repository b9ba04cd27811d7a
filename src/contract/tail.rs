//! Cases of a log whose end was torn by the death of a writer: never given, cut by the next append, whole afterwards.

use std::sync::Arc;

use super::fixture::{Fixture, reopened, torn};
use super::sample::{events, id, signed};
use super::steps::{
    append, assert_not_contiguous, close, log_of, open, read, reader, snapshot, store_session, told,
    uninterpreted_log_of, writer,
};
use crate::seam::SessionPersistence;

/// Three events and a fourth that is torn; runs `then` over what is left.
#[track_caller]
fn after_tearing(fixture: &dyn Fixture, then: impl FnOnce(Arc<dyn SessionPersistence>)) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..3));
    append(&*writer(&*store, "s"), &events(3..4));
    store_session(&*store, "whole", &events(0..2));
    assert_eq!(log_of(&*store, "s"), events(0..4));
    torn(fixture, store, &id("s"), then);
}

pub fn a_torn_tail_is_never_given(fixture: &dyn Fixture) {
    after_tearing(fixture, |store| {
        for way in super::steps::WAYS {
            let handle = open(&*store, "s", way);
            assert_eq!(read(&*handle, ..), events(0..3));
            assert_eq!(read(&*handle, 2..4), events(2..3));
            assert_eq!(read(&*handle, 3..), []);
        }
        let told = told(&*store, "s");
        assert!(told.event_count.is_none_or(|count| count == 3), "{told:?}");
        assert_eq!(log_of(&*store, "whole"), events(0..2));
    });
}

pub fn opening_and_reading_leave_a_torn_tail_where_it_is(fixture: &dyn Fixture) {
    after_tearing(fixture, |store| {
        let before = snapshot(&*store, "s").revision;
        assert_eq!(log_of(&*store, "s"), events(0..3));
        assert_eq!(uninterpreted_log_of(&*store, "s"), events(0..3));
        let handle = writer(&*store, "s");
        assert_eq!(read(&*handle, ..), events(0..3));
        close(&*handle);
        assert_eq!(snapshot(&*store, "s").revision, before);
        reopened(fixture, store, |store| assert_eq!(snapshot(store, "s").revision, before));
    });
}

pub fn the_first_append_cuts_a_torn_tail(fixture: &dyn Fixture) {
    after_tearing(fixture, |store| {
        let early = reader(&*store, "s");
        let before = snapshot(&*store, "s").revision;
        let handle = writer(&*store, "s");
        assert_not_contiguous(&*handle, &events(4..5), 0, 3);
        append(&*handle, &[signed(3, 9), signed(4, 9)]);
        let log = [&events(0..3)[..], &[signed(3, 9), signed(4, 9)]].concat();
        assert_eq!(read(&*handle, ..), log);
        assert_eq!(read(&*early, ..), log);
        assert_ne!(snapshot(&*store, "s").revision, before);
        drop((handle, early));
        reopened(fixture, store, |store| {
            assert_eq!(log_of(store, "s"), log);
            assert_eq!(uninterpreted_log_of(store, "s"), log);
            append(&*writer(store, "s"), &events(5..6));
            assert_eq!(log_of(store, "s").len(), 6);
        });
    });
}

pub fn a_torn_tail_takes_no_other_session_with_it(fixture: &dyn Fixture) {
    after_tearing(fixture, |store| {
        append(&*writer(&*store, "s"), &events(3..4));
        append(&*writer(&*store, "whole"), &events(2..3));
        assert_eq!(log_of(&*store, "s"), events(0..4));
        assert_eq!(log_of(&*store, "whole"), events(0..3));
    });
}
