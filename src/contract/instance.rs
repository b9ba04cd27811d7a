//! Cases of two stores over one place, as two processes have them: who sees what, who owns what, who wins.

use std::thread;

use super::fixture::{Fixture, beside, reopened};
use super::sample::{self, events, id, signed};
use super::steps::{
    append, assert_absent, assert_not_contiguous, close, create, create_with, done, flush, listed, listed_ids, log_of,
    read, reader, refused, store_session, told, writer,
};
use crate::seam::{CreateOptions, ErrorKind, OpenOptions, SeqRange, SessionPersistence, SessionState};

pub fn a_capability_that_is_absent_is_refused(fixture: &dyn Fixture) {
    let capabilities = fixture.capabilities();
    assert!(capabilities.reopen || !capabilities.tear_tail, "a torn tail is seen by the next store alone");
    let store = fixture.store();
    store_session(&*store, "s", &events(0..1));
    beside(fixture, |second| assert_eq!(listed_ids(second), ["s"]));
    reopened(fixture, store, |store| assert_eq!(listed_ids(store), ["s"]));
    if !capabilities.tear_tail {
        assert!(fixture.tear_tail(&id("s")).is_err(), "the fixture cannot tear the tail of a log, and did");
    }
}

pub fn a_created_session_is_invisible_to_other_stores_until_its_first_batch_is_stored(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    assert_eq!(told(&*store, "s").state, SessionState::Pending);
    beside(fixture, |second| {
        assert_absent(second, "s");
        append(&*handle, &events(0..2));
        assert_eq!(told(second, "s").state, SessionState::Readable);
        assert_eq!(told(second, "s").header, Some(sample::header("s")));
        assert_eq!(log_of(second, "s"), events(0..2));
    });
}

pub fn a_created_session_is_invisible_to_other_stores_until_it_is_flushed(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    assert_eq!(told(&*store, "s").state, SessionState::Pending);
    beside(fixture, |second| {
        assert_absent(second, "s");
        flush(&*handle);
        assert_eq!(told(second, "s").state, SessionState::Readable);
        assert_eq!(log_of(second, "s"), []);
    });
}

pub fn a_session_that_never_existed_leaves_no_trace_in_other_stores(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    beside(fixture, |second| assert_absent(second, "s"));
    close(&*handle);
    assert_absent(&*store, "s");
    beside(fixture, |second| assert_absent(second, "s"));
}

pub fn a_pending_session_of_another_store_is_none_that_could_be_removed(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    beside(fixture, |second| assert!(!done(second.remove(&id("s")), "removing what another store created")));
    append(&*handle, &events(0..1));
    assert_eq!(log_of(&*store, "s"), events(0..1));
}

pub fn an_append_is_seen_in_other_stores_by_handles_old_and_new(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..1));
    let handle = writer(&*store, "s");
    beside(fixture, |second| {
        let early = reader(second, "s");
        assert_eq!(read(&*early, ..), events(0..1));
        append(&*handle, &events(1..3));
        assert_eq!(read(&*early, ..), events(0..3));
        assert_eq!(log_of(second, "s"), events(0..3));
    });
    assert_eq!(read(&*handle, 0..1), events(0..1));
}

pub fn a_writer_keeps_the_writers_of_other_stores_out(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "s");
    append(&*first, &events(0..1));
    beside(fixture, |second| {
        refused(second.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned);
        assert_eq!(log_of(second, "s"), events(0..1));
        close(&*first);
        let next = writer(second, "s");
        refused(store.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned);
        append(&*next, &events(1..2));
        drop(next);
        append(&*writer(&*store, "s"), &events(2..3));
        assert_eq!(log_of(second, "s"), events(0..3));
    });
    assert_eq!(log_of(&*store, "s")[..1], events(0..1));
}

pub fn a_session_with_a_writer_in_another_store_is_not_removed(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..1));
    let handle = writer(&*store, "s");
    beside(fixture, |second| {
        refused(second.remove(&id("s")), "s", ErrorKind::AlreadyOwned);
    });
    append(&*handle, &events(1..2));
    assert_eq!(log_of(&*store, "s"), events(0..2));
}

pub fn a_removal_is_seen_in_other_stores(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    let early = reader(&*store, "s");
    assert_eq!(read(&*early, ..), events(0..2));
    beside(fixture, |second| {
        assert!(done(second.remove(&id("s")), "removing a session"));
        assert_absent(&*store, "s");
        refused(early.read(SeqRange::ALL), "s", ErrorKind::NotFound);
        store_session(second, "s", &events(0..4));
        refused(early.read(SeqRange::ALL), "s", ErrorKind::NotFound);
        assert_eq!(log_of(&*store, "s"), events(0..4));
    });
}

pub fn writers_of_two_stores_take_turns_at_one_log(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "s", &events(0..2));
    beside(fixture, |second| {
        for (turn, own) in [second, &*store, second, &*store].into_iter().enumerate() {
            let next = turn as u64 + 2;
            let handle = writer(own, "s");
            assert_not_contiguous(&*handle, &events(next + 1..next + 2), 0, next);
            append(&*handle, &events(next..next + 1));
            close(&*handle);
        }
        assert_eq!(log_of(second, "s"), events(0..6));
    });
    reopened(fixture, store, |store| assert_eq!(log_of(store, "s")[..2], events(0..2)));
}

pub fn two_stores_tell_the_same_of_what_is_stored(fixture: &dyn Fixture) {
    let store = fixture.store();
    for name in ["a", "b", "c"] {
        store_session(&*store, name, &events(0..2));
    }
    append(&*writer(&*store, "b"), &events(2..3));
    assert_eq!(listed_ids(&*store), ["b", "c", "a"]);
    beside(fixture, |second| {
        assert_eq!(listed(second), listed(&*store));
        append(&*writer(second, "a"), &events(2..3));
        assert_eq!(listed_ids(&*store), ["a", "b", "c"]);
        assert_eq!(listed(second), listed(&*store));
    });
}

pub fn of_two_stores_that_create_one_id_the_first_to_store_it_wins(fixture: &dyn Fixture) {
    let store = fixture.store();
    let first = create(&*store, "s");
    beside(fixture, |second| {
        let late = second.create(&sample::header_created_at("s", 7), CreateOptions::default());
        append(&*first, &[signed(0, 1)]);
        match late {
            Ok(late) => {
                refused(late.append(&[signed(0, 2)]), "s", ErrorKind::AlreadyExists);
                refused(late.append(&[signed(0, 2)]), "s", ErrorKind::AlreadyExists);
                refused(late.flush(), "s", ErrorKind::AlreadyExists);
                close(&*late);
            }
            // A store that knows what others have pending refuses at once.
            refusal => drop(refused(refusal, "s", ErrorKind::AlreadyExists)),
        }
        assert_eq!(told(second, "s").header, Some(sample::header("s")));
        assert_eq!(log_of(second, "s"), [signed(0, 1)]);
        append(&*first, &[signed(1, 1)]);
        assert_eq!(log_of(second, "s"), [signed(0, 1), signed(1, 1)]);
    });
}

pub fn closing_the_loser_of_a_race_leaves_the_session_to_the_winner(fixture: &dyn Fixture) {
    let store = fixture.store();
    let loser = create(&*store, "s");
    beside(fixture, |second| {
        let winner = match second.create(&sample::header_created_at("s", 7), CreateOptions::default()) {
            Ok(winner) => winner,
            refusal => return drop(refused(refusal, "s", ErrorKind::AlreadyExists)),
        };
        append(&*winner, &[signed(0, 2)]);
        refused(loser.append(&[signed(0, 1)]), "s", ErrorKind::AlreadyExists);
        close(&*loser);
        refused(store.open(&id("s"), OpenOptions::write()), "s", ErrorKind::AlreadyOwned);
        append(&*winner, &[signed(1, 2)]);
        assert_eq!(log_of(&*store, "s"), [signed(0, 2), signed(1, 2)]);
        close(&*winner);
        append(&*writer(&*store, "s"), &[signed(2, 1)]);
    });
}

pub fn two_stores_write_different_sessions_at_the_same_time(fixture: &dyn Fixture) {
    const WRITERS: usize = 3;
    const EVENTS: u64 = 20;
    let write = |store: &dyn SessionPersistence, side: &str| {
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || {
                    let handle =
                        create_with(store, &sample::header(&format!("{side} {writer}")), CreateOptions::default());
                    for next in 0..EVENTS {
                        append(&*handle, &[signed(next, writer)]);
                    }
                });
            }
        });
    };
    let check = |store: &dyn SessionPersistence, side: &str| {
        for writer in 0..WRITERS {
            let expected: Vec<_> = (0..EVENTS).map(|next| signed(next, writer)).collect();
            assert_eq!(log_of(store, &format!("{side} {writer}")), expected);
        }
    };
    let store = fixture.store();
    beside(fixture, |second| {
        thread::scope(|scope| {
            scope.spawn(|| write(second, "second"));
            write(&*store, "first");
        });
        for side in ["first", "second"] {
            check(&*store, side);
            check(second, side);
        }
    });
    write(&*store, "alone");
    check(&*store, "alone");
}

pub fn a_flush_of_one_store_leaves_the_pending_sessions_of_another(fixture: &dyn Fixture) {
    let store = fixture.store();
    let handle = create(&*store, "s");
    beside(fixture, |second| {
        done(second.flush(), "flushing a store");
        assert_absent(second, "s");
    });
    assert_eq!(told(&*store, "s").state, SessionState::Pending);
    close(&*handle);
    assert_absent(&*store, "s");
}
