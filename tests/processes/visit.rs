//! A process that only looks: it leaves everything as it was.

use session_persistence::{OpenOptions, SessionPersistence};

use super::log::{assert_log, id, list, stat};
use super::peer::Peer;
use super::place::{Kind, Place, Store};

/// Three sessions, written one after another so that their order tells which was written last, and then another one of
/// them again by a writer that is still there.
fn written(place: &Place) -> Peer {
    let mut writer = Peer::at(place);
    for name in ["a", "b", "c"] {
        writer.tell(&format!("create {name}")).done();
        writer.tell(&format!("append {name} 0 4")).done();
        writer.tell(&format!("close {name}")).done();
    }
    writer.tell("open b").done();
    writer.tell("append b 4 6").done();
    writer
}

fn order(store: &dyn SessionPersistence) -> Vec<String> {
    list(store).iter().map(|snapshot| snapshot.id.to_string()).collect()
}

/// Looks at everything, from a process that then ends.
fn look(place: &Place) {
    let mut visitor = Peer::at(place);
    assert_eq!(visitor.tell("count").done(), "3");
    for (name, count) in [("a", 4), ("b", 6), ("c", 4)] {
        visitor.tell(&format!("look {name} {count}")).done();
        visitor.tell(&format!("page {name} 1 2")).done();
    }
    visitor.end();
}

#[test]
fn a_visit_to_a_store_that_nobody_has_open_leaves_its_files_as_they_were() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let mut writer = written(&place);
        writer.tell("close b").done();
        writer.end();
        let (files, bytes) = (place.entries(), place.bytes());
        look(&place);
        assert_eq!(place.entries(), files, "{kind:?}: nothing is left beside the store");
        assert!(place.bytes() == bytes, "{kind:?}");
        let store = place.open();
        let before = list(&*store);
        assert_eq!(order(&*store), ["b", "c", "a"], "{kind:?}");
        assert!(before.iter().all(|snapshot| snapshot.owner.is_none()), "{kind:?}: {before:?}");
        drop(store);
        look(&place);
        // A store that is opened for writing and refused is only looked at, too.
        let absent = place.open().open(&id("absent"), OpenOptions::write()).map(|_| ()).unwrap_err();
        assert_eq!(absent.kind().name(), "NotFound", "{kind:?}");
        assert_eq!(list(&*place.open()), before, "{kind:?}");
        assert_eq!(place.entries(), files, "{kind:?}: nothing is left beside the store");
        assert!(place.bytes() == bytes, "{kind:?}");
    }
}

#[test]
fn a_visit_to_a_store_that_another_process_writes_changes_nothing() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let mut writer = written(&place);
        let store = place.open();
        let (files, bytes, before) = (place.entries(), place.bytes(), list(&*store));
        look(&place);
        let mut visitor = Peer::at(&place);
        let refusal = visitor.tell("open b").refused();
        assert_eq!((refusal.kind.as_str(), refusal.holder), ("AlreadyOwned", Some(writer.pid())), "{kind:?}");
        assert_eq!(visitor.tell("create b").refused().kind, "AlreadyExists", "{kind:?}");
        visitor.end();
        assert_eq!(place.entries(), files, "{kind:?}");
        assert!(place.bytes() == bytes, "{kind:?}");
        assert_eq!(list(&*store), before, "{kind:?}");
        writer.tell("append b 6 7").done();
        assert_log(&*store, "b", 7);
        assert_ne!(stat(&*store, "b").revision, before[0].revision, "{kind:?}");
    }
}

#[test]
fn stat_and_list_tell_the_writer_in_another_process_as_long_as_it_lives() {
    let owners = |store: &Store| {
        let listed: Vec<_> = list(&**store).into_iter().map(|s| (s.id, s.owner.map(|o| o.process))).collect();
        for (id, owner) in &listed {
            assert_eq!(stat(&**store, id.as_str()).owner.map(|o| o.process), *owner);
        }
        listed.into_iter().filter_map(|(id, owner)| Some((id.to_string(), owner?))).collect::<Vec<_>>()
    };
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let mut writer = written(&place);
        let (old, pid) = (place.open(), writer.pid());
        for store in [&old, &place.open()] {
            assert_eq!(owners(store), [("b".to_owned(), pid)], "{kind:?}");
        }
        writer.tell("close b").done();
        assert_eq!(owners(&old), [], "{kind:?}: it has finished");
        writer.tell("open c").done();
        assert_eq!(owners(&old), [("c".to_owned(), pid)], "{kind:?}");
        writer.stop();
        assert_eq!(owners(&old), [("c".to_owned(), pid)], "{kind:?}: a stopped writer is one");
        writer.kill();
        for store in [&old, &place.open()] {
            assert_eq!(owners(store), [], "{kind:?}: a dead writer is none");
        }
        // What it left is not taken for a writer, nor is whoever looks.
        old.open(&id("c"), OpenOptions::write()).expect("at the first try").close().unwrap();
        assert_eq!(owners(&old), [], "{kind:?}");
    }
}
