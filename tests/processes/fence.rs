//! A writer whose lock was taken away behind its back and given to another one stores nothing any more. Of plain files the
//! log itself is locked too, so that nothing is given to another one.

use std::path::PathBuf;

use session_persistence::OpenOptions;

use super::log::{assert_log, id};
use super::peer::Peer;
use super::place::{Kind, Place};

/// What a careless hand removes, so that another one gets the lock: its file, or the folder that it lies in.
fn removable(place: &Place) -> Vec<PathBuf> {
    match place.kind {
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => vec![place.lock("s"), place.locks()],
        #[cfg(feature = "jsonl")]
        _ => Vec::new(),
    }
}

fn remove(path: &PathBuf) {
    if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
}

/// A place with a session that `old` writes and whose lock was removed, in each way that there is.
fn unlocked(kind: Kind) -> Vec<(Place, Peer, String)> {
    let ways = {
        let (place, _owner) = written(kind);
        removable(&place).len()
    };
    let unlock = |way: usize| {
        let (place, old) = written(kind);
        let path = removable(&place).remove(way);
        remove(&path);
        let what = format!("{kind:?}, {} removed", path.file_name().unwrap().display());
        (place, old, what)
    };
    (0..ways).map(unlock).collect()
}

fn written(kind: Kind) -> (Place, Peer) {
    let place = Place::new(kind);
    let mut old = Peer::at(&place);
    old.tell("create s").done();
    old.tell("append s 0 5").done();
    (place, old)
}

#[test]
fn a_fenced_writer_stores_nothing_and_takes_nothing_from_the_next() {
    for (place, mut old, what) in Kind::ALL.iter().flat_map(|kind| unlocked(*kind)) {
        let store = place.open();
        let mut new = Peer::at(&place);
        new.tell("open s").done();
        new.tell("append s 5 8").done();
        let before = place.bytes();
        // Neither where it believes that the log ends nor where it does.
        for from in [5, 8] {
            let refusal = old.tell(&format!("append s {from} {}", from + 1)).refused();
            assert_eq!(refusal.kind, "OwnershipLost", "{what}: {refusal:?}");
        }
        assert!(place.bytes() == before, "{what}: nothing is stored");
        assert_log(&*store, "s", 8);
        new.tell("append s 8 10").done();
        // Closing takes nothing away that is no longer its own.
        old.tell("close s").done();
        let refused = |by: &Peer| {
            let refused = store.open(&id("s"), OpenOptions::write()).expect_err("it is owned").to_string();
            assert!(refused.contains(&format!("process {}", by.pid())), "{what}: {refused}");
        };
        refused(&new);
        new.tell("append s 10 12").done();
        old.end();
        refused(&new);
        new.tell("append s 12 13").done();
        new.tell("close s").done();
        let next = store.open(&id("s"), OpenOptions::write()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
        assert_log(&*store, "s", 13);
        drop(next);
    }
}

#[test]
fn a_writer_is_fenced_by_the_opening_of_the_next_already() {
    for (place, mut old, what) in Kind::ALL.iter().flat_map(|kind| unlocked(*kind)) {
        let mut new = Peer::at(&place);
        new.tell("open s").done();
        let refusal = old.tell("append s 5 6").refused();
        assert_eq!(refusal.kind, "OwnershipLost", "{what}: {refusal:?}");
        new.tell("append s 5 6").done();
        old.kill();
        new.tell("append s 6 7").done();
        let refused = place.open().open(&id("s"), OpenOptions::write()).expect_err("it is owned").to_string();
        assert!(refused.contains(&format!("process {}", new.pid())), "{what}: {refused}");
        new.end();
        assert_log(&*place.open(), "s", 7);
    }
}

#[test]
fn a_fenced_writer_stays_fenced_when_the_next_has_finished() {
    for (place, mut old, what) in Kind::ALL.iter().flat_map(|kind| unlocked(*kind)) {
        let mut new = Peer::at(&place);
        new.tell("open s").done();
        new.tell("append s 5 8").done();
        new.end();
        let refusal = old.tell("append s 8 9").refused();
        assert_eq!(refusal.kind, "OwnershipLost", "{what}: {refusal:?}");
        // It becomes the writer again as anybody else does.
        old.tell("close s").done();
        old.tell("open s").done();
        old.tell("append s 8 9").done();
        old.end();
        assert_log(&*place.open(), "s", 9);
    }
}

#[test]
fn a_writer_that_stood_still_while_the_next_came_and_went_is_fenced() {
    for (place, mut old, what) in Kind::ALL.iter().flat_map(|kind| unlocked(*kind)) {
        old.stop();
        let mut new = Peer::at(&place);
        new.tell("open s").done();
        new.tell("append s 5 6").done();
        old.send("append s 6 7");
        old.go_on();
        assert_eq!(old.answer().refused().kind, "OwnershipLost", "{what}");
        new.end();
        assert_log(&*place.open(), "s", 6);
    }
}

#[cfg(feature = "jsonl")]
#[test]
fn a_writer_of_plain_files_whose_lock_file_was_removed_owns_its_session_until_it_ends() {
    for kind in Kind::ALL.iter().filter(|kind| !kind.goes_by_the_lock_alone()) {
        for is_stopped in [false, true] {
            let (place, mut old) = written(*kind);
            if is_stopped {
                old.stop();
            }
            remove(&place.lock("s"));
            let mut new = Peer::at(&place);
            let before = place.bytes();
            let refusal = new.tell("open s").refused();
            assert_eq!(refusal.kind, "AlreadyOwned", "{kind:?}: {refusal:?}");
            assert!(place.bytes() == before, "{kind:?}: a refusal changes nothing");
            if is_stopped {
                old.go_on();
            }
            old.tell("append s 5 6").done();
            assert_eq!(new.tell("open s").refused().kind, "AlreadyOwned", "{kind:?}");
            remove(&place.lock("s"));
            old.kill();
            new.tell("open s").done();
            new.tell("append s 6 7").done();
            new.end();
            assert_log(&*place.open(), "s", 7);
        }
    }
}
