//! Cases of [`append`](crate::SessionHandle::append): all of a batch or nothing of it, in its place or nowhere.

use super::fixture::{Fixture, reopened};
use super::sample::{self, event, events};
use super::steps::{
    append, assert_absent, assert_not_contiguous, close, create, log_of, read, snapshot, store_session, told, writer,
};
use crate::log::Seq;
use crate::seam::{ErrorKind, SessionState};

pub fn a_handle_reads_what_it_appended(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    append(&*writer, &events(0..3));
    assert_eq!(read(&*writer, ..), events(0..3));
    append(&*writer, &events(3..4));
    assert_eq!(read(&*writer, ..), events(0..4));
}

pub fn batches_of_every_size_make_one_log(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    let mut next = 0;
    for size in [1, 2, 0, 3, 300, 1, 7] {
        append(&*writer, &events(next..next + size));
        next += size;
    }
    close(&*writer);
    assert_eq!(log_of(&*store, "s"), events(0..next));
}

pub fn an_empty_batch_does_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let before = snapshot(&*store, "s");
    let writer = writer(&*store, "s");
    append(&*writer, &[]);
    assert_eq!(read(&*writer, ..), events(0..2));
    close(&*writer);
    assert_eq!(snapshot(&*store, "s"), before);
}

pub fn an_empty_batch_does_not_store_a_pending_session(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    append(&*writer, &[]);
    assert_eq!(told(&*store, "s").state, SessionState::Pending);
    close(&*writer);
    assert_absent(&*store, "s");
}

/// Checks that `batch` is refused whole by a log of three events, and that the right batch works afterwards.
#[track_caller]
fn assert_refused_whole(fixture: &dyn Fixture, batch: &[crate::SessionEvent], at_index: usize, expected_seq: u64) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    append(&*writer, &events(0..3));
    let before = snapshot(&*store, "s");
    for _ in 0..2 {
        assert_not_contiguous(&*writer, batch, at_index, expected_seq);
        assert_eq!(read(&*writer, ..), events(0..3));
        assert_eq!(log_of(&*store, "s"), events(0..3));
        assert_eq!(snapshot(&*store, "s"), before);
    }
    append(&*writer, &events(3..5));
    assert_eq!(read(&*writer, ..), events(0..5));
    drop(writer);
    reopened(fixture, store, |store| assert_eq!(log_of(store, "s"), events(0..5)));
}

pub fn a_batch_that_starts_too_early_is_refused_whole(fixture: &dyn Fixture) {
    assert_refused_whole(fixture, &events(2..6), 0, 3);
}

pub fn a_batch_that_repeats_the_whole_log_is_refused_whole(fixture: &dyn Fixture) {
    assert_refused_whole(fixture, &events(0..3), 0, 3);
}

pub fn a_batch_that_starts_too_late_is_refused_whole(fixture: &dyn Fixture) {
    assert_refused_whole(fixture, &events(4..6), 0, 3);
}

pub fn a_batch_with_a_gap_inside_is_refused_whole(fixture: &dyn Fixture) {
    assert_refused_whole(fixture, &[event(3), event(4), event(6), event(7)], 2, 5);
}

pub fn a_batch_that_repeats_a_seq_is_refused_whole(fixture: &dyn Fixture) {
    assert_refused_whole(fixture, &[event(3), event(3), event(4)], 1, 4);
}

pub fn a_batch_that_goes_backwards_is_refused_whole(fixture: &dyn Fixture) {
    assert_refused_whole(fixture, &[event(3), event(4), event(2)], 2, 5);
}

pub fn a_batch_far_behind_the_end_is_refused_whole(fixture: &dyn Fixture) {
    assert_refused_whole(fixture, &[event(1 << 31)], 0, 3);
}

pub fn a_batch_at_the_end_of_all_seqs_stores_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    append(&*writer, &events(0..3));
    let before = snapshot(&*store, "s");
    match writer.append(&[sample::at_time(Seq::MAX.get(), 0)]) {
        // A backend may hold fewer events than there are seqs, and arguments are checked before the content.
        Err(e) => assert!(matches!(e.kind(), ErrorKind::NotContiguous | ErrorKind::InvalidArgument), "{e}"),
        Ok(()) => panic!("the last of all seqs does not continue a log of three events"),
    }
    assert_eq!(snapshot(&*store, "s"), before);
    append(&*writer, &events(3..4));
    assert_eq!(log_of(&*store, "s"), events(0..4));
}

pub fn a_first_batch_that_does_not_start_at_zero_leaves_the_session_pending(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    assert_not_contiguous(&*writer, &events(1..3), 0, 0);
    assert_not_contiguous(&*writer, &[event(0), event(2)], 1, 1);
    assert_eq!(told(&*store, "s").state, SessionState::Pending);
    assert_eq!(read(&*writer, ..), []);
    append(&*writer, &events(0..2));
    assert_eq!(told(&*store, "s").state, SessionState::Readable);
    assert_eq!(log_of(&*store, "s"), events(0..2));
}

pub fn a_session_whose_only_batch_was_refused_never_existed(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    assert_not_contiguous(&*writer, &events(1..3), 0, 0);
    close(&*writer);
    assert_absent(&*store, "s");
}

pub fn the_next_writer_continues_at_the_stored_next_seq(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..3));
    let writer = writer(&*store, "s");
    assert_not_contiguous(&*writer, &events(0..1), 0, 3);
    assert_not_contiguous(&*writer, &events(4..5), 0, 3);
    append(&*writer, &events(3..5));
    assert_eq!(log_of(&*store, "s"), events(0..5));
}

pub fn a_reopened_store_continues_at_the_stored_next_seq(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..3));
    assert_eq!(log_of(&*store, "s"), events(0..3));
    reopened(fixture, store, |store| {
        let writer = writer(store, "s");
        assert_not_contiguous(&*writer, &events(0..1), 0, 3);
        assert_not_contiguous(&*writer, &events(4..5), 0, 3);
        append(&*writer, &events(3..5));
        assert_eq!(log_of(store, "s"), events(0..5));
    });
}

pub fn what_was_acknowledged_is_there_after_reopening(fixture: &dyn Fixture) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    append(&*writer, &events(0..3));
    append(&*writer, &events(3..4));
    assert_eq!(log_of(&*store, "s"), events(0..4));
    drop(writer);
    reopened(fixture, store, |store| assert_eq!(log_of(store, "s"), events(0..4)));
}

pub fn a_batch_goes_to_the_session_of_its_handle_alone(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "a");
    let second = create(&*store, "b");
    append(&*first, &[sample::signed(0, 1)]);
    append(&*second, &[sample::signed(0, 2)]);
    append(&*first, &[sample::signed(1, 1)]);
    append(&*second, &[sample::signed(1, 2), sample::signed(2, 2)]);
    assert_eq!(log_of(&*store, "a"), [sample::signed(0, 1), sample::signed(1, 1)]);
    assert_eq!(log_of(&*store, "b"), [sample::signed(0, 2), sample::signed(1, 2), sample::signed(2, 2)]);
}
