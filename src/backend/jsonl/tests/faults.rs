//! Every call of the disk fails once, in every way it may: a typed error, nothing changed, and the same call goes through
//! afterwards.

use super::machine::{Fault, Loss, Machine, Which};
use super::power_loss::{DURABILITIES, event, events, in_full, log_of, open, root};
use super::watch::Call;
use super::{ENCODINGS, header, id};
use crate::backend::jsonl::disk::Disk;
use crate::backend::jsonl::{Encoding, JsonlStore};
use crate::seam::{
    CreateOptions, Durability, Error, ErrorKind, ListQuery, OpenOptions, Result, SeqRange, SessionHandle,
    SessionPersistence,
};

const EIO: i32 = 5;
const EACCES: i32 = 13;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    /// The first append of a created session.
    Create,
    /// The same with a batch that is given event by event, and written in pieces.
    CreateFrom,
    /// The flush of a created session without events.
    CreateEmpty,
    Append,
    /// The first append of a session that another store wrote and never flushed.
    AppendToOpened,
    /// The same behind a torn tail.
    AppendBehindTorn,
    Flush,
    FlushAll,
    Close,
    Open,
    Remove,
}

const ACTS: [Act; 11] = [
    Act::Create,
    Act::CreateFrom,
    Act::CreateEmpty,
    Act::Append,
    Act::AppendToOpened,
    Act::AppendBehindTorn,
    Act::Flush,
    Act::FlushAll,
    Act::Close,
    Act::Open,
    Act::Remove,
];

/// A store in which one act is about to happen.
struct Scene {
    act: Act,
    machine: Machine,
    encoding: Encoding,
    durability: Durability,
    store: JsonlStore,
    writer: Option<Box<dyn SessionHandle>>,
    other: Option<Box<dyn SessionHandle>>,
    /// How many events are stored before.
    stored: u64,
}

impl Scene {
    fn new(act: Act, encoding: Encoding, durability: Durability) -> Self {
        let machine = Machine::with_folder(&root());
        let store = open(&machine, encoding, durability).unwrap();
        let mut scene = Self { act, machine, encoding, durability, store, writer: None, other: None, stored: 0 };
        let writer = scene.store.create(&header("s"), CreateOptions::default()).unwrap();
        if matches!(act, Act::Create | Act::CreateFrom | Act::CreateEmpty) {
            scene.writer = Some(writer);
            return scene;
        }
        writer.append(&events("s", 0..2)).unwrap();
        writer.append(&events("s", 2..3)).unwrap();
        scene.stored = 3;
        match act {
            Act::AppendToOpened | Act::AppendBehindTorn => {
                drop(writer);
                if act == Act::AppendBehindTorn {
                    let log = scene.machine.open_for_writing(&log_of("s", encoding)).unwrap();
                    log.set_len(log.stat().unwrap().size - 7).unwrap();
                    scene.stored = 2;
                }
                scene.store = open(&scene.machine, encoding, durability).unwrap();
                scene.writer = Some(scene.open_for_writing().unwrap());
            }
            Act::Flush | Act::FlushAll => {
                writer.flush().unwrap();
                writer.append(&events("s", 3..5)).unwrap();
                scene.stored = 5;
                let other = scene.store.create(&header("t"), CreateOptions::default()).unwrap();
                other.append(&events("t", 0..2)).unwrap();
                (scene.writer, scene.other) = (Some(writer), Some(other));
            }
            Act::Open | Act::Remove => drop(writer),
            _ => scene.writer = Some(writer),
        }
        scene
    }

    fn open_for_writing(&self) -> Result<Box<dyn SessionHandle>> {
        self.store.open(&id("s"), OpenOptions::write())
    }

    fn writer(&self) -> &dyn SessionHandle {
        &**self.writer.as_ref().unwrap()
    }

    /// How many events there are when the act has happened.
    fn stored_after(&self) -> u64 {
        match self.act {
            Act::Create | Act::CreateFrom | Act::Append | Act::AppendToOpened | Act::AppendBehindTorn => {
                self.stored + 3
            }
            Act::Remove => 0,
            _ => self.stored,
        }
    }

    fn happen(&mut self) -> Result<()> {
        match self.act {
            Act::Create | Act::Append | Act::AppendToOpened | Act::AppendBehindTorn => {
                self.writer().append(&events("s", self.stored..self.stored + 3))
            }
            Act::CreateFrom => self.writer().append_from(&mut events("s", 0..3).into_iter().map(Ok)),
            Act::CreateEmpty | Act::Flush => self.writer().flush(),
            Act::FlushAll => self.store.flush(),
            Act::Close => self.writer().close(),
            Act::Open => self.open_for_writing().map(|writer| self.writer = Some(writer)),
            Act::Remove => self.store.remove(&id("s")).map(|there_was| assert!(there_was)),
        }
    }

    /// What any store reads of a session; nothing where there is none.
    fn read(store: &JsonlStore, name: &str) -> Option<u64> {
        let log = match store.open(&id(name), OpenOptions::read()) {
            Ok(reader) => reader.read(SeqRange::ALL).unwrap(),
            Err(e) if e.kind() == ErrorKind::NotFound => return None,
            Err(e) => panic!("{e:?}"),
        };
        assert!(log == events(name, 0..log.len() as u64), "every event once, and in order");
        Some(log.len() as u64)
    }

    fn check_unchanged(&self, what: &str) {
        let others = open(&self.machine, self.encoding, self.durability).unwrap();
        let found = Self::read(&others, "s");
        match self.act {
            Act::Create | Act::CreateFrom => assert_eq!(found, None, "{what}"),
            // A flush may store it and then fail to sync.
            Act::CreateEmpty => assert!(matches!(found, None | Some(0)), "{what}: {found:?}"),
            _ => assert_eq!(found, Some(self.stored), "{what}"),
        }
        let there = usize::from(found.is_some()) + usize::from(self.other.is_some());
        assert_eq!(others.list(&ListQuery::default()).unwrap().items.len(), there, "{what}");
        assert_eq!(Self::read(&self.store, "s"), Some(self.stored), "{what}");
        if let Some(writer) = self.writer.as_ref().filter(|_| self.act != Act::Close) {
            assert!(writer.read(SeqRange::ALL).unwrap() == events("s", 0..self.stored), "{what}");
        }
    }

    /// Checks how the last write of an open writer is told to have failed.
    fn check_told(&self, failed: Option<ErrorKind>, what: &str) {
        let operation = match self.act {
            Act::Close | Act::Open | Act::Remove => return,
            Act::CreateEmpty | Act::Flush | Act::FlushAll => "flush",
            _ => "append",
        };
        let told = self.store.stat(&id("s")).unwrap().unwrap().last_failure;
        assert_eq!(told.map(|told| (told.operation, told.kind)), failed.map(|kind| (operation, kind)), "{what}");
    }

    /// Goes on after the act, and checks that a loss of power takes nothing that was flushed.
    fn go_on(mut self, what: &str) {
        let stored = self.stored_after();
        match self.act {
            Act::Close => {
                self.writer = Some(
                    open(&self.machine, self.encoding, self.durability)
                        .unwrap()
                        .open(&id("s"), OpenOptions::write())
                        .unwrap(),
                )
            }
            Act::Remove => {
                let others = open(&self.machine, self.encoding, self.durability).unwrap();
                assert_eq!((Self::read(&others, "s"), Self::read(&self.store, "s")), (None, None), "{what}");
                self.store.flush().unwrap();
                let after = open(&self.machine.after(Loss::All), self.encoding, self.durability).unwrap();
                assert_eq!(Self::read(&after, "s"), None, "{what}");
                self.writer = Some(self.store.create(&header("s"), CreateOptions::default()).unwrap());
            }
            Act::Flush | Act::FlushAll => {
                let after = open(&self.machine.after(Loss::All), self.encoding, self.durability).unwrap();
                assert_eq!((Self::read(&after, "s"), Self::read(&after, "t")), (Some(stored), Some(2)), "{what}");
            }
            _ => {}
        }
        if self.durability == Durability::EveryAppend && self.act != Act::Remove {
            let after = open(&self.machine.after(Loss::All), self.encoding, self.durability).unwrap();
            assert_eq!(Self::read(&after, "s"), Some(stored), "{what}");
        }
        let more = if in_full() { 100 } else { 3 };
        for seq in stored..stored + more {
            self.writer().append(&[event("s", seq)]).unwrap_or_else(|e| panic!("{what}: {e:?}"));
        }
        self.writer().flush().unwrap();
        self.writer().close().unwrap();
        for machine in [self.machine.clone(), self.machine.after(Loss::All)] {
            let store = open(&machine, self.encoding, self.durability).unwrap();
            assert_eq!(Self::read(&store, "s"), Some(stored + more), "{what}");
            let snapshot = store.stat(&id("s")).unwrap().unwrap();
            assert_eq!((snapshot.event_count, snapshot.owner), (Some(stored + more), None), "{what}");
        }
    }
}

fn changes(call: Call) -> bool {
    !matches!(call, Call::Stat | Call::ReadDir | Call::Open | Call::Read | Call::Lock)
}

/// The ways in which a call may fail.
fn faults(which: Which, call: Call) -> Vec<Fault> {
    let fault = |errno, is_short| Fault { which, errno, is_short };
    let mut faults = vec![fault(EIO, false)];
    if changes(call) {
        faults.extend([fault(ENOSPC, false), fault(EACCES, false)]);
        faults.extend(in_full().then(|| fault(EROFS, false)));
    }
    if call == Call::Write {
        faults.push(fault(ENOSPC, true));
        faults.extend(in_full().then(|| fault(EIO, true)));
    }
    faults
}

fn check_kind(failed: &Error, fault: Fault, what: &str) {
    if let Error::Several { failures } = failed {
        return failures.iter().for_each(|failed| check_kind(failed, fault, what));
    }
    let expected = match fault.errno {
        ENOSPC => ErrorKind::StorageFull,
        EACCES | EROFS => ErrorKind::StorageReadOnly,
        _ => ErrorKind::Io,
    };
    assert_eq!(failed.kind(), expected, "{what}: {failed:?}");
    assert_eq!(failed.is_retryable(), expected != ErrorKind::StorageReadOnly, "{what}: {failed:?}");
    let cause = std::error::Error::source(failed).unwrap_or_else(|| panic!("{what}: {failed:?} has no cause"));
    assert!(cause.to_string().contains("os error"), "{what}: {cause}");
}

fn one_call_fails(act: Act, encoding: Encoding, durability: Durability) {
    let mut whole = Scene::new(act, encoding, durability);
    let first = whole.machine.calls();
    whole.happen().unwrap();
    let calls = whole.machine.calls_from(first);
    whole.go_on("nothing fails");
    for (at, (call, path)) in calls.iter().enumerate() {
        for fault in faults(Which::At(first + at), *call) {
            let what = format!("{act:?}, {encoding:?}, {durability:?}: {call:?} of {}, {fault:?}", path.display());
            let mut scene = Scene::new(act, encoding, durability);
            scene.machine.fail(fault);
            let happened = scene.happen();
            scene.machine.heal();
            if let Err(failed) = happened {
                check_kind(&failed, fault, &what);
                scene.check_unchanged(&what);
                // What keeps the other session from being flushed is none of this one's failures.
                let is_of_other = failed.session() == Some(&id("t"));
                scene.check_told((!is_of_other).then_some(failed.kind()), &what);
                scene.happen().unwrap_or_else(|e| panic!("{what}: again: {e:?}"));
                scene.check_told(None, &what);
            }
            scene.go_on(&what);
        }
    }
}

#[test]
fn a_call_of_the_disk_that_fails_changes_nothing_and_the_same_call_goes_through_afterwards() {
    for encoding in ENCODINGS {
        for durability in DURABILITIES {
            ACTS.iter().for_each(|act| one_call_fails(*act, encoding, durability));
        }
    }
}

#[test]
fn a_disk_that_fails_for_a_while_loses_nothing_and_doubles_nothing() {
    for encoding in ENCODINGS {
        for durability in DURABILITIES {
            for act in ACTS {
                let mut whole = Scene::new(act, encoding, durability);
                let first = whole.machine.calls();
                whole.happen().unwrap();
                let mut calls: Vec<_> = whole.machine.calls_from(first).iter().map(|(call, _)| *call).collect();
                calls.dedup();
                for fault in calls.into_iter().flat_map(|call| faults(Which::Every(call), call)) {
                    let what = format!("{act:?}, {encoding:?}, {durability:?}: {fault:?}");
                    let mut scene = Scene::new(act, encoding, durability);
                    scene.machine.fail(fault);
                    let mut happened = scene.happen();
                    if happened.is_err() {
                        happened = scene.happen();
                    }
                    scene.machine.heal();
                    if let Err(failed) = happened {
                        check_kind(&failed, fault, &what);
                        scene.check_unchanged(&what);
                        scene.happen().unwrap_or_else(|e| panic!("{what}: again: {e:?}"));
                    }
                    scene.go_on(&what);
                }
            }
        }
    }
}

#[test]
fn a_session_that_could_not_be_stored_leaves_no_folder_of_its_own() {
    for durability in DURABILITIES {
        for call in [Call::Create, Call::Link] {
            let machine = Machine::with_folder(&root());
            let store = open(&machine, Encoding::Zstd, durability).unwrap();
            let handle = store.create(&header("s"), CreateOptions::default()).unwrap();
            machine.fail(Fault { which: Which::Every(call), errno: ENOSPC, is_short: false });
            assert_eq!(handle.append(&events("s", 0..3)).unwrap_err().kind(), ErrorKind::StorageFull);
            assert_eq!(machine.read_dir(&root()).unwrap(), [], "{durability:?}, {call:?}");
            machine.heal();
            handle.append(&events("s", 0..3)).unwrap();
        }
    }
}
