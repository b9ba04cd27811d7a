//! Removals that are interrupted: all of a session or nothing.

use std::path::Path;

use super::machine::{Loss, Machine};
use super::power_loss::{event, events, in_full, log_of, open, root};
use super::{ENCODINGS, header, id};
use crate::backend::jsonl::Encoding;
use crate::backend::jsonl::disk::Disk;
use crate::backend::jsonl::layout::Generation;
use crate::backend::jsonl::recall::RECALL;
use crate::seam::{CreateOptions, Durability, ErrorKind, ListQuery, OpenOptions, SeqRange, SessionPersistence};

/// A session in three generations, of which the newest is its log, all durable.
fn machine(encoding: Encoding) -> Machine {
    let machine = Machine::with_folder(&root());
    let store = open(&machine, encoding, Durability::OnFlush).unwrap();
    let writer = store.create(&header("s"), CreateOptions::default()).unwrap();
    writer.append(&events("s", 0..4)).unwrap();
    writer.flush().unwrap();
    let log = log_of("s", encoding);
    for version in [0, 2] {
        let older = log.with_file_name(Generation { version, encoding }.file_name());
        machine.link(&log, &older).unwrap();
    }
    machine.sync_dir(log.parent().unwrap()).unwrap();
    machine
}

fn names(machine: &Machine, folder: &Path) -> Vec<String> {
    machine.read_dir(folder).unwrap().into_iter().map(|name| name.text).collect()
}

fn check(machine: &Machine, encoding: Encoding, must_be_gone: bool, what: &str) {
    let store = open(machine, encoding, Durability::OnFlush).unwrap();
    let log = log_of("s", encoding);
    let listed = store.list(&ListQuery::default()).unwrap().items.len();
    match store.open(&id("s"), OpenOptions::write()) {
        Ok(writer) => {
            assert!(!must_be_gone, "{what}: it is back");
            assert_eq!(listed, 1, "{what}");
            assert!(writer.read(SeqRange::ALL).unwrap() == events("s", 0..4), "{what}: no older one in its place");
            writer.append(&[event("s", 4)]).unwrap();
        }
        Err(e) => {
            assert_eq!((e.kind(), listed), (ErrorKind::NotFound, 0), "{what}: {e:?}");
            assert_eq!(store.stat(&id("s")).unwrap(), None, "{what}");
            assert!(!store.remove(&id("s")).unwrap(), "{what}");
            // Whatever is left keeps nobody from its id, and is gone then.
            let writer = store.create(&header("s"), CreateOptions::default()).unwrap();
            writer.append(&events("s", 0..2)).unwrap_or_else(|e| panic!("{what}: {e:?}"));
            assert!(writer.read(SeqRange::ALL).unwrap() == events("s", 0..2), "{what}");
            let log = log.file_name().unwrap().to_str().unwrap();
            let names = names(machine, &root().join("--w--/s"));
            let names: Vec<_> = names.iter().filter(|name| *name != RECALL).collect();
            assert_eq!(names, ["session.lock", log], "{what}");
        }
    }
}

#[test]
fn an_interrupted_removal_leaves_all_or_nothing_of_every_generation() {
    for encoding in ENCODINGS {
        let whole = machine(encoding);
        let first = whole.calls();
        let remove = |machine: &Machine| {
            let store = open(machine, encoding, Durability::OnFlush)?;
            let removed = store.remove(&id("s"));
            store.flush().and(removed)
        };
        assert!(remove(&whole).unwrap());
        for stop in first..=whole.calls() {
            let machine = machine(encoding);
            machine.turn_off_at(stop);
            let is_flushed = remove(&machine).is_ok();
            assert_eq!(is_flushed, stop == whole.calls());
            let losses = (0..=machine.unsynced()).map(Loss::AllBut);
            let some = (0..if in_full() { 100 } else { 10 }).map(Loss::Some);
            for loss in losses.chain(some) {
                check(&machine.after(loss), encoding, is_flushed, &format!("{encoding:?}, off at {stop}, {loss:?}"));
            }
        }
    }
}

#[test]
fn a_removal_that_cannot_go_on_leaves_the_session_as_it_is() {
    for encoding in ENCODINGS {
        let whole = machine(encoding);
        let store = open(&whole, encoding, Durability::OnFlush).unwrap();
        let first = whole.calls();
        assert!(store.remove(&id("s")).unwrap());
        let calls = whole.calls() - first;
        for at in 0..calls {
            let machine = machine(encoding);
            let store = open(&machine, encoding, Durability::OnFlush).unwrap();
            let fault = super::machine::Fault {
                which: super::machine::Which::At(machine.calls() + at),
                errno: 5,
                is_short: false,
            };
            machine.fail(fault);
            let removed = store.remove(&id("s"));
            machine.heal();
            if removed.is_err() {
                let others = open(&machine, encoding, Durability::OnFlush).unwrap();
                let reader = others.open(&id("s"), OpenOptions::read()).unwrap_or_else(|e| panic!("{at}: {e:?}"));
                assert!(reader.read(SeqRange::ALL).unwrap() == events("s", 0..4), "{at}");
                assert!(store.remove(&id("s")).unwrap(), "{at}");
            }
            check(&machine, encoding, true, &format!("{encoding:?}, call {at}"));
        }
    }
}
