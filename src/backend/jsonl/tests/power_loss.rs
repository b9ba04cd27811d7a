//! A program that is stopped at any call it makes of the disk, and what is there when the power comes back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::machine::{Chance, Loss, Machine};
use super::watch::Call;
use super::{ENCODINGS, header, id};
use crate::backend::jsonl::{Encoding, JsonlOptions, JsonlStore};
use crate::log::{Json, SessionEvent};
use crate::seam::{
    CreateOptions, Durability, ErrorKind, ListQuery, OpenOptions, Result, SeqRange, SessionHandle, SessionPersistence,
};

pub(super) const DURABILITIES: [Durability; 2] = [Durability::OnFlush, Durability::EveryAppend];

const NAMES: [&str; 3] = ["s", "t", "u"];

/// Whether a suite runs in full: it takes minutes then.
pub(super) fn in_full() -> bool {
    std::env::var_os("SESSIONS_FULL").is_some()
}

pub(super) fn root() -> PathBuf {
    PathBuf::from("/home/root")
}

pub(super) fn open(machine: &Machine, encoding: Encoding, durability: Durability) -> Result<JsonlStore> {
    let options = JsonlOptions::default().with_encoding(encoding).with_durability(durability);
    JsonlStore::over(Arc::new(machine.clone()), root(), options)
}

pub(super) fn log_of(name: &str, encoding: Encoding) -> PathBuf {
    let suffix = if encoding == Encoding::Zstd { ".zstd" } else { "" };
    root().join(format!("--w--/{name}/session.v3.jsonl{suffix}"))
}

/// The event of a session with this seq: some are longer than a sector whatever compresses them, and some finish a turn.
pub(super) fn event(name: &str, seq: u64) -> SessionEvent {
    let mut chance = Chance::new(seq + 1000 * name.len() as u64 + u64::from(name.as_bytes()[0]));
    let length = if seq % 4 == 1 { 1500 } else { 20 };
    let text: String =
        (0..length).map(|_| char::from(b'!' + chance.below(90) as u8)).filter(|c| *c != '\\' && *c != '"').collect();
    let event_type = if is_turn_end(seq) { "turn/end" } else { "todo/write" };
    let data = if is_turn_end(seq) {
        r#"{"turn":1,"reason":{"kind":"completed"}}"#.to_owned()
    } else {
        format!(r#"{{"todos":["{name}{seq} {text}"]}}"#)
    };
    SessionEvent::new(event_type, seq, seq as i64, Json::parse(&data).unwrap()).unwrap()
}

/// A program flushes when it has finished a turn, and these are the last events before a flush.
fn is_turn_end(seq: u64) -> bool {
    seq == 4 || seq == 8
}

pub(super) fn events(name: &str, range: std::ops::Range<u64>) -> Vec<SessionEvent> {
    range.map(|seq| event(name, seq)).collect()
}

/// What a program was told of a session.
#[derive(Debug, Default, Clone)]
struct Told {
    asked: u64,
    appended: u64,
    flushed: u64,
    /// Whether a flush has told that it is stored, with whatever events.
    is_stored: bool,
    may_be_stored: bool,
    asked_to_remove: bool,
    is_removed: bool,
    removal_is_flushed: bool,
}

struct Program {
    store: JsonlStore,
    told: BTreeMap<&'static str, Told>,
    durability: Durability,
}

impl Program {
    fn told(&mut self, name: &'static str) -> &mut Told {
        self.told.entry(name).or_default()
    }

    fn create(&mut self, name: &'static str) -> Result<Box<dyn SessionHandle>> {
        self.store.create(&header(name), CreateOptions::default())
    }

    fn append(&mut self, name: &'static str, handle: &dyn SessionHandle, until: u64) -> Result<()> {
        let every_append = self.durability == Durability::EveryAppend;
        let told = self.told(name);
        let from = told.appended;
        told.asked = until;
        told.may_be_stored = true;
        handle.append(&events(name, from..until))?;
        told.appended = until;
        if every_append {
            told.flushed = until;
            told.is_stored = true;
        }
        Ok(())
    }

    fn flushed(&mut self) {
        for told in self.told.values_mut() {
            told.flushed = told.appended;
            told.is_stored = told.may_be_stored;
            told.removal_is_flushed = told.is_removed;
        }
    }

    /// What a program may do, as far as it comes.
    fn run(&mut self) -> Result<()> {
        let s = self.create("s")?;
        self.append("s", &*s, 3)?;
        self.append("s", &*s, 5)?;
        s.flush()?;
        self.flushed();
        let t = self.create("t")?;
        self.append("t", &*t, 2)?;
        self.append("t", &*t, 3)?;
        self.append("s", &*s, 6)?;
        self.append("t", &*t, 4)?;
        self.append("s", &*s, 7)?;
        self.append("s", &*s, 9)?;
        self.store.flush()?;
        self.flushed();
        let u = self.create("u")?;
        self.told("u").may_be_stored = true;
        u.flush()?;
        self.flushed();
        t.close()?;
        s.close()?;
        let s = self.store.open(&id("s"), OpenOptions::write())?;
        self.append("s", &*s, 11)?;
        self.told("t").asked_to_remove = true;
        assert!(self.store.remove(&id("t"))?);
        self.told("t").is_removed = true;
        self.append("u", &*u, 1)?;
        self.append("s", &*s, 12)?;
        self.store.flush()?;
        self.flushed();
        drop(u);
        self.append("s", &*s, 14)?;
        self.append("s", &*s, 15)?;
        self.append("s", &*s, 16)?;
        Ok(())
    }
}

/// Runs the program on a machine; nothing where it could not even open its store.
fn run(machine: &Machine, encoding: Encoding, durability: Durability) -> (BTreeMap<&'static str, Told>, Result<()>) {
    match open(machine, encoding, durability) {
        Ok(store) => {
            let mut program = Program { store, told: BTreeMap::new(), durability };
            let ended = program.run();
            (program.told, ended)
        }
        Err(e) => (BTreeMap::new(), Err(e)),
    }
}

/// Whether a file that is left by a loss of power is more than a start of what it was and zeros.
fn has_hole(before: &Machine, after: &Machine, path: &Path) -> bool {
    let (Some(before), Some(after)) = (before.content(path), after.content(path)) else { return false };
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    after[same..].iter().any(|b| *b != 0)
}

fn check(before: &Machine, after: &Machine, told: &BTreeMap<&'static str, Told>, encoding: Encoding, what: &str) {
    let store = open(after, encoding, Durability::OnFlush).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let (mut there, mut damaged) = (Vec::new(), Vec::new());
    for name in NAMES {
        let told = told.get(name).cloned().unwrap_or_default();
        let snapshot = store.stat(&id(name)).unwrap_or_else(|e| panic!("{what}: {name}: {e:?}"));
        let reader = match store.open(&id(name), OpenOptions::read()) {
            Ok(reader) => reader,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::NotFound, "{what}: {name}: {e:?}");
                assert!(!told.is_stored || told.asked_to_remove, "{what}: {name} is gone: {told:?}");
                assert_eq!(snapshot, None, "{what}: {name}");
                continue;
            }
        };
        there.push(name);
        let has_hole = has_hole(before, after, &log_of(name, encoding));
        let log = match reader.read(SeqRange::ALL) {
            // A finished turn behind a hole counts as proof that the hole is damage, wherever it comes from.
            Err(e) if has_hole && e.kind() == ErrorKind::Corruption && (told.flushed..told.asked).any(is_turn_end) => {
                let log = reader.read(SeqRange::from(..told.flushed)).unwrap();
                assert!(log == events(name, 0..told.flushed), "{what}: {name}");
                damaged.push(name);
                continue;
            }
            read => read.unwrap_or_else(|e| panic!("{what}: {name}: {e:?}")),
        };
        let count = log.len() as u64;
        assert!(told.may_be_stored && !told.removal_is_flushed, "{what}: {name} is there: {told:?}");
        assert!(count >= told.flushed && count <= told.asked, "{what}: {name}: {count} of {told:?}");
        assert!(log == events(name, 0..count), "{what}: {name}");
        if !has_hole {
            let snapshot = snapshot.unwrap_or_else(|| panic!("{what}: {name} is read and not told"));
            let last_time = log.last().map(SessionEvent::time);
            assert_eq!((snapshot.event_count, snapshot.last_time), (Some(count), last_time), "{what}: {name}");
            let read = store.stat(&id(name)).unwrap().unwrap();
            assert_eq!(snapshot, read, "{what}: {name}: what is told by the ends, and after it was read");
        }
    }
    let mut listed: Vec<_> = store.list(&ListQuery::default()).unwrap().items;
    listed.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(listed.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), there, "{what}");
    let mut stored = Vec::new();
    for name in NAMES.into_iter().filter(|name| !damaged.contains(name)) {
        let (writer, next) = match there.contains(&name) {
            true => {
                let writer = store.open(&id(name), OpenOptions::write()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                let next = writer.read(SeqRange::ALL).unwrap().len() as u64;
                (writer, next)
            }
            false => (store.create(&header(name), CreateOptions::default()).unwrap(), 0),
        };
        writer.append(&events(name, next..next + 2)).unwrap_or_else(|e| panic!("{what}: {name}: {e:?}"));
        stored.push((name, next));
    }
    store.flush().unwrap();
    let again = open(&after.after(Loss::All), encoding, Durability::OnFlush).unwrap();
    for (name, next) in stored {
        let log = again.open(&id(name), OpenOptions::read()).unwrap().read(SeqRange::ALL).unwrap();
        assert!(log == events(name, 0..next + 2), "{what}: {name}: appending goes on");
    }
}

/// What a loss of power may do to a machine that was stopped: all of it, or one of each kind.
fn losses(machine: &Machine, chance: &mut Chance) -> Vec<Loss> {
    let full = in_full();
    let mut losses = vec![Loss::All, Loss::Nothing];
    let unsynced = machine.unsynced();
    if full {
        losses.extend((1..unsynced).map(Loss::AllBut));
    } else if unsynced > 1 {
        losses.push(Loss::AllBut(1 + chance.below(unsynced as u64 - 1) as usize));
    }
    for _ in 0..if full { 8 } else { 1 } {
        losses.push(Loss::Some(chance.below(u64::MAX)));
        losses.push(Loss::Sectors(chance.below(u64::MAX)));
    }
    if let Some(length) = machine.last_write() {
        let torn = |stay, is_grown| Loss::Torn { stay, is_grown };
        if full {
            losses.extend((0..length).flat_map(|stay| [torn(stay, false), torn(stay, true)]));
        } else {
            losses.push(torn(chance.below(length as u64) as usize, chance.below(2) == 0));
        }
    }
    losses
}

fn stops_anywhere(encoding: Encoding, durability: Durability) {
    let seed = 7;
    let mut chance = Chance::new(seed);
    let whole = Machine::with_folder(&root());
    let first = whole.calls();
    run(&whole, encoding, durability).1.unwrap();
    let changing = |call: &Call| !matches!(call, Call::Stat | Call::ReadDir | Call::Open | Call::Read | Call::Lock);
    let calls = whole.calls_from(first);
    let mut stops: Vec<_> = (0..calls.len()).filter(|at| changing(&calls[*at].0)).map(|at| first + at).collect();
    stops.push(whole.calls());
    // Where nothing waits to be synced there is less to lose, and every second stop will do for every day.
    let step = if durability == Durability::EveryAppend && !in_full() { 2 } else { 1 };
    for stop in stops.into_iter().step_by(step) {
        let machine = Machine::with_folder(&root());
        machine.turn_off_at(stop);
        let (told, _) = run(&machine, encoding, durability);
        for loss in losses(&machine, &mut chance) {
            let at = calls.get(stop - first);
            let what = format!("seed {seed}, {encoding:?}, {durability:?}, off at call {stop}, {at:?}, {loss:?}");
            check(&machine, &machine.after(loss), &told, encoding, &what);
        }
    }
}

#[test]
fn a_program_that_loses_its_power_anywhere_keeps_in_text_what_was_acknowledged_by_a_flush() {
    stops_anywhere(Encoding::Raw, Durability::OnFlush);
}

#[test]
fn a_program_that_loses_its_power_anywhere_keeps_in_frames_what_was_acknowledged_by_a_flush() {
    stops_anywhere(Encoding::Zstd, Durability::OnFlush);
}

#[test]
fn where_every_append_waits_for_the_disk_a_loss_of_power_takes_nothing_that_was_acknowledged() {
    for encoding in ENCODINGS {
        stops_anywhere(encoding, Durability::EveryAppend);
    }
}
