//! Writers that end in other ways than by closing what they have open.

use rustix::process::Signal;
use session_persistence::{OpenOptions, SeqRange};

use super::log::{assert_log, events, id};
use super::peer::Peer;
use super::place::{Kind, Place};

/// Ten events, appended and not flushed, and then an end.
fn ten_events_and(kind: Kind, end: impl FnOnce(Peer)) {
    let place = Place::new(kind);
    let mut writer = Peer::at(&place);
    writer.tell("create s").done();
    writer.tell("each s 0 10").done();
    end(writer);
    let store = place.open();
    assert_log(&*store, "s", 10);
    let next = store.open(&id("s"), OpenOptions::write()).expect("at the first try");
    next.append(&events("s", 10..11)).unwrap();
    assert_eq!(next.read(SeqRange::ALL).unwrap().len(), 11, "{kind:?}");
}

#[test]
fn what_was_appended_is_there_after_a_sigterm() {
    for kind in Kind::ALL {
        ten_events_and(*kind, |writer| {
            writer.signal(Signal::TERM);
            assert!(!writer.wait().success());
        });
    }
}

#[test]
fn what_was_appended_is_there_after_an_exit_that_drops_nothing() {
    for kind in Kind::ALL {
        ten_events_and(*kind, |mut writer| {
            writer.send("exit");
            assert!(writer.wait().success());
        });
    }
}

#[test]
fn what_was_appended_is_there_after_the_handle_is_dropped() {
    for kind in Kind::ALL {
        ten_events_and(*kind, |mut writer| {
            writer.tell("drop s").done();
            writer.end();
        });
    }
}

#[test]
fn what_was_appended_is_there_after_the_store_is_dropped_under_its_handle() {
    for kind in Kind::ALL {
        ten_events_and(*kind, Peer::end);
    }
}

#[test]
fn what_was_flushed_is_there_after_a_sigkill() {
    for kind in Kind::ALL {
        ten_events_and(*kind, |mut writer| {
            writer.tell("flush s").done();
            writer.kill();
        });
    }
}
