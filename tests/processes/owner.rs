//! A writer that stands still owns its session, and one that is dead does not.

use rustix::process::Signal;
use session_persistence::{Error, OpenOptions, SeqRange, SessionPersistence, export};

use super::log::{assert_log, events, id, list, stat};
use super::peer::Peer;
use super::place::{Kind, Place};

fn holder(store: &dyn SessionPersistence) -> u32 {
    match store.open(&id("s"), OpenOptions::write()).expect_err("it is owned") {
        Error::AlreadyOwned { session, holder } => {
            assert_eq!(session, id("s"));
            assert_eq!(holder.host, gethostname::gethostname().to_string_lossy());
            assert!(holder.since > 1_600_000_000_000, "milliseconds since 1970");
            holder.process
        }
        other => panic!("{other:?}"),
    }
}

fn text(store: &dyn SessionPersistence) -> Vec<u8> {
    let mut text = Vec::new();
    export::jsonl(store, &id("s"), &mut text).unwrap();
    text
}

#[test]
fn a_stopped_writer_owns_its_session_and_everybody_reads_it() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let (before, mut owner) = (place.open(), Peer::at(&place));
        owner.tell("create s").done();
        owner.tell("append s 0 5").done();
        let (revision, exported) = (stat(&*before, "s").revision, text(&*before));
        owner.stop();
        // Neither a store that knew the session nor one that comes now takes it for free, or for empty.
        for store in [before, place.open()] {
            let bytes = place.bytes();
            assert_eq!(holder(&*store), owner.pid(), "{kind:?}");
            assert_eq!(store.remove(&id("s")).unwrap_err().kind().name(), "AlreadyOwned", "{kind:?}");
            assert!(place.bytes() == bytes, "{kind:?}: a refusal changes nothing");
            assert_log(&*store, "s", 5);
            assert_eq!(list(&*store), [stat(&*store, "s")], "{kind:?}");
            assert_eq!(stat(&*store, "s").revision, revision, "{kind:?}");
            assert!(text(&*store) == exported, "{kind:?}");
        }
        let mut visitor = Peer::at(&place);
        visitor.tell("look s 5").done();
        assert_eq!(visitor.tell("open s").refused().holder, Some(owner.pid()), "{kind:?}");
        owner.go_on();
        owner.tell("append s 5 7").done();
        visitor.tell("look s 7").done();
    }
}

#[test]
fn a_killed_writer_owns_nothing_from_then_on() {
    for kind in Kind::ALL {
        for stopped in [false, true] {
            let place = Place::new(*kind);
            let (store, mut owner) = (place.open(), Peer::at(&place));
            owner.tell("create s").done();
            owner.tell("append s 0 5").done();
            if stopped {
                owner.stop();
            }
            assert_eq!(holder(&*store), owner.pid(), "{kind:?}");
            owner.kill();
            let next = store.open(&id("s"), OpenOptions::write()).expect("at the first try");
            assert!(next.read(SeqRange::ALL).unwrap() == events("s", 0..5), "{kind:?}: what was acknowledged is there");
            next.append(&events("s", 5..6)).unwrap();
            assert_eq!(holder(&*place.open()), std::process::id(), "{kind:?}");
            next.close().unwrap();
            assert_log(&*place.open(), "s", 6);
        }
    }
}

#[test]
fn a_writer_killed_in_the_middle_of_its_appends_leaves_all_that_it_acknowledged() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let store = place.open();
        let mut count = 0;
        for _ in 0..5 {
            let mut owner = Peer::at(&place);
            owner.tell(if count == 0 { "create s" } else { "open s" }).done();
            owner.tell(&format!("each s {count} {}", count + 3)).done();
            let before = stat(&*store, "s").revision;
            owner.send(&format!("each s {} {}", count + 3, u64::MAX));
            // It is somewhere among its appends when the first of them has been seen.
            while stat(&*store, "s").revision == before {
                std::thread::yield_now();
            }
            owner.signal(Signal::KILL);
            owner.wait();
            let next = store.open(&id("s"), OpenOptions::write()).expect("at the first try");
            count = next.read(SeqRange::ALL).unwrap().len() as u64;
            next.append(&events("s", count..count + 1)).unwrap();
            count += 1;
            next.close().unwrap();
            assert_log(&*store, "s", count);
        }
    }
}

#[test]
fn the_record_of_a_live_stranger_in_a_lock_file_keeps_nobody_out() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let (store, stranger) = (place.open(), Peer::start());
        let mut owner = Peer::at(&place);
        owner.tell("create s").done();
        owner.tell("append s 0 1").done();
        let lock = place.lock("s");
        owner.kill();
        let record = format!("{{\"process\":{},\"since\":1700000000000}}\n", stranger.pid());
        std::fs::write(&lock, &record).unwrap();
        let next = store.open(&id("s"), OpenOptions::write()).expect("at the first try");
        next.append(&events("s", 1..2)).unwrap();
        // Nor does it make a stranger of the one that writes now.
        assert_eq!(holder(&*place.open()), std::process::id(), "{kind:?}");
        next.close().unwrap();
        assert_log(&*store, "s", 2);
    }
}
