//! [`Machine`]: a disk in memory that fails on demand, and knows what a loss of power leaves of it.
//!
//! Content becomes durable when its file is synced, and a name when its folder is. A sync that fails counts what it
//! should have written as written, as Linux does: the next one succeeds and does not write it.

use std::collections::{BTreeMap, HashMap};
use std::fs::TryLockError;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::super::disk::{Disk, DiskFile, Identity, Name, Stat};
use super::watch::Call;

/// What a disk writes whole or not at all, in bytes.
const SECTOR: usize = 512;

/// A machine with a disk; its clones are the same machine.
#[derive(Clone)]
pub(super) struct Machine(Arc<Mutex<State>>);

struct State {
    nodes: HashMap<u64, Node>,
    /// What is not durable yet, in the order in which it was done.
    unsynced: Vec<Change>,
    locks: HashMap<u64, HashMap<u64, Held>>,
    made: u64,
    opened: u64,
    clock: u64,
    /// The calls so far, each with what it was about.
    calls: Vec<(Call, PathBuf)>,
    off_at: Option<usize>,
    fault: Option<Fault>,
    /// How many bytes were written, over all files.
    written: usize,
    open: usize,
}

#[derive(Clone)]
struct Node {
    live: Content,
    durable: Content,
    modified: u64,
    changed: u64,
}

#[derive(Clone, PartialEq)]
enum Content {
    File(Vec<u8>),
    Folder(BTreeMap<String, u64>),
}

#[derive(Clone)]
struct Change {
    node: u64,
    what: What,
}

#[derive(Clone)]
enum What {
    Write { at: usize, bytes: Vec<u8> },
    SetLen(usize),
    Add(String, u64),
    Remove(String),
}

#[derive(Clone, Copy, PartialEq)]
enum Held {
    Alone,
    Together,
}

/// Calls that are to fail.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub(super) which: Which,
    /// As the system numbers its errors.
    pub(super) errno: i32,
    /// Whether half of a write that fails arrives.
    pub(super) is_short: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Which {
    /// The call of this number.
    At(usize),
    /// Every call of this kind.
    Every(Call),
}

/// What a loss of power does to what is not durable.
#[derive(Debug, Clone, Copy)]
pub(super) enum Loss {
    /// It takes all.
    All,
    /// It takes nothing.
    Nothing,
    /// It takes all but the first changes, so many.
    AllBut(usize),
    /// It takes some changes, each by chance.
    Some(u64),
    /// Each sector of a file stays at some time of its own, and the size at another.
    Sectors(u64),
    /// It takes the end of the last write, of which so many bytes stay; the file may have grown to its new size before.
    Torn { stay: usize, is_grown: bool },
}

impl Machine {
    /// A machine with one empty folder.
    pub(super) fn with_folder(path: &Path) -> Self {
        let empty = || Content::Folder(BTreeMap::new());
        let node = Node { live: empty(), durable: empty(), modified: 0, changed: 0 };
        let machine = Self::of(HashMap::from([(1, node)]), 1, 0);
        for folder in path.ancestors().collect::<Vec<_>>().into_iter().rev().skip(1) {
            machine.make_dir(folder).unwrap();
            machine.sync_dir(folder.parent().unwrap()).unwrap();
        }
        machine
    }

    fn of(nodes: HashMap<u64, Node>, made: u64, clock: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            nodes,
            unsynced: Vec::new(),
            locks: HashMap::new(),
            made,
            opened: 0,
            clock,
            calls: Vec::new(),
            off_at: None,
            fault: None,
            written: 0,
            open: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// How many calls there were.
    pub(super) fn calls(&self) -> usize {
        self.state().calls.len()
    }

    /// The calls from the one of this number on.
    pub(super) fn calls_from(&self, first: usize) -> Vec<(Call, PathBuf)> {
        self.state().calls[first..].to_vec()
    }

    /// Turns the machine off before the call of this number.
    pub(super) fn turn_off_at(&self, call: usize) {
        self.state().off_at = Some(call);
    }

    pub(super) fn fail(&self, fault: Fault) {
        self.state().fault = Some(fault);
    }

    pub(super) fn heal(&self) {
        self.state().fault = None;
    }

    /// How many bytes were written since the last call.
    pub(super) fn written(&self) -> usize {
        std::mem::take(&mut self.state().written)
    }

    /// How many files are open.
    pub(super) fn open_files(&self) -> usize {
        self.state().open
    }

    /// How many changes are not durable.
    pub(super) fn unsynced(&self) -> usize {
        self.state().unsynced.len()
    }

    /// The length of the last write, where it is not durable.
    pub(super) fn last_write(&self) -> Option<usize> {
        match &self.state().unsynced.last()?.what {
            What::Write { bytes, .. } => Some(bytes.len()),
            _ => None,
        }
    }

    /// The content of a file as programs see it.
    pub(super) fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        match &state.nodes[&state.find(path).ok()?].live {
            Content::File(bytes) => Some(bytes.clone()),
            Content::Folder(_) => None,
        }
    }

    /// Lets the system forget what it holds of a file and has not written: it reads back what is on the disk.
    pub(super) fn forget_unwritten(&self, path: &Path) {
        let mut state = self.state();
        let node = state.find(path).unwrap();
        let node = state.nodes.get_mut(&node).unwrap();
        if let (Content::File(live), Content::File(durable)) = (&mut node.live, &node.durable) {
            let size = live.len();
            live.clone_from(durable);
            live.resize(size, 0);
        }
    }

    /// The machine after a loss of power, turned on again.
    pub(super) fn after(&self, loss: Loss) -> Self {
        let state = self.state();
        let mut disk: HashMap<u64, Content> = state.nodes.iter().map(|(n, node)| (*n, node.durable.clone())).collect();
        let changes = &state.unsynced;
        let mut chance = Chance::new(match loss {
            Loss::Some(seed) | Loss::Sectors(seed) => seed,
            _ => 0,
        });
        match loss {
            Loss::All => {}
            Loss::Nothing => changes.iter().for_each(|change| change.apply(&mut disk)),
            Loss::AllBut(first) => changes.iter().take(first).for_each(|change| change.apply(&mut disk)),
            Loss::Some(_) => changes.iter().filter(|_| chance.below(2) == 0).for_each(|change| change.apply(&mut disk)),
            Loss::Sectors(_) => {
                let mut numbers: Vec<_> = disk.keys().copied().collect();
                numbers.sort_unstable();
                for number in numbers {
                    let changes: Vec<_> = changes.iter().filter(|change| change.node == number).collect();
                    by_sectors(number, &changes, &mut disk, &mut chance);
                }
            }
            Loss::Torn { stay, is_grown } => {
                let (last, before) = changes.split_last().unwrap();
                before.iter().for_each(|change| change.apply(&mut disk));
                let What::Write { at, bytes } = &last.what else { panic!("the last change is no write") };
                if is_grown {
                    Change { node: last.node, what: What::SetLen(at + bytes.len()) }.grow(&mut disk);
                }
                let what = What::Write { at: *at, bytes: bytes[..stay].to_vec() };
                Change { node: last.node, what }.apply(&mut disk);
            }
        }
        let nodes = disk.into_iter().map(|(number, content)| {
            let modified = state.nodes[&number].modified;
            (number, Node { live: content.clone(), durable: content, modified, changed: state.clock })
        });
        Self::of(nodes.collect(), state.made, state.clock + 1)
    }

    fn open_node(&self, state: &mut State, path: &Path, node: u64) -> Box<dyn DiskFile> {
        state.opened += 1;
        state.open += 1;
        Box::new(OpenFile { machine: self.clone(), node, opening: state.opened, path: path.to_owned() })
    }
}

/// Chooses for each sector of a file, and for its size, the time at which it stays.
fn by_sectors(number: u64, changes: &[&Change], disk: &mut HashMap<u64, Content>, chance: &mut Chance) {
    if changes.is_empty() {
        return;
    }
    let mut times = vec![disk[&number].clone()];
    for change in changes {
        change.apply(disk);
        times.push(disk[&number].clone());
    }
    let pick = |chance: &mut Chance| times[chance.below(times.len() as u64) as usize].clone();
    let Content::File(sized) = pick(chance) else {
        disk.insert(number, pick(chance));
        return;
    };
    let mut result = vec![0; sized.len()];
    for start in (0..result.len()).step_by(SECTOR) {
        let Content::File(from) = pick(chance) else { unreachable!("a file stays one") };
        let end = (start + SECTOR).min(result.len()).min(from.len());
        if start < end {
            result[start..end].copy_from_slice(&from[start..end]);
        }
    }
    disk.insert(number, Content::File(result));
}

impl Change {
    fn apply(&self, disk: &mut HashMap<u64, Content>) {
        let content = disk.get_mut(&self.node).expect("what is changed is there");
        match (&self.what, content) {
            (What::Write { at, bytes }, Content::File(content)) => write_into(content, *at, bytes),
            (What::SetLen(length), Content::File(content)) => content.resize(*length, 0),
            (What::Add(name, node), Content::Folder(names)) => drop(names.insert(name.clone(), *node)),
            (What::Remove(name), Content::Folder(names)) => drop(names.remove(name)),
            _ => unreachable!("files have content, and folders names"),
        }
    }

    fn grow(&self, disk: &mut HashMap<u64, Content>) {
        if let (What::SetLen(length), Some(Content::File(content))) = (&self.what, disk.get_mut(&self.node)) {
            content.resize((*length).max(content.len()), 0);
        }
    }
}

fn write_into(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = at + bytes.len();
    content.resize(content.len().max(end), 0);
    content[at..end].copy_from_slice(bytes);
}

/// Numbers by chance, the same for the same seed.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

impl State {
    /// Counts a call, which fails where it is to; whether half of it is to happen first.
    fn call(&mut self, call: Call, path: &Path) -> Result<(), (io::Error, bool)> {
        let number = self.calls.len();
        if self.off_at.is_some_and(|off_at| number >= off_at) {
            return Err((io::Error::other("the machine is off"), false));
        }
        self.calls.push((call, path.to_owned()));
        match self.fault {
            Some(Fault { which: Which::At(at), errno, is_short }) if at == number => {
                Err((io::Error::from_raw_os_error(errno), is_short))
            }
            Some(Fault { which: Which::Every(kind), errno, is_short }) if kind == call => {
                Err((io::Error::from_raw_os_error(errno), is_short))
            }
            _ => Ok(()),
        }
    }

    fn step(&mut self, call: Call, path: &Path) -> io::Result<()> {
        self.call(call, path).map_err(|(failed, _)| failed)
    }

    fn find(&self, path: &Path) -> io::Result<u64> {
        let mut at = 1;
        for part in path.components() {
            if let Component::Normal(name) = part {
                at = *self.names(at)?.get(name.to_str().unwrap()).ok_or(io::ErrorKind::NotFound)?;
            }
        }
        Ok(at)
    }

    fn names(&self, node: u64) -> io::Result<&BTreeMap<String, u64>> {
        match &self.nodes[&node].live {
            Content::Folder(names) => Ok(names),
            Content::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// The folder of a path, and the last name in it.
    fn place(&self, path: &Path) -> io::Result<(u64, String)> {
        let above = self.find(path.parent().unwrap())?;
        self.names(above)?;
        Ok((above, path.file_name().unwrap().to_str().unwrap().to_owned()))
    }

    fn change(&mut self, node: u64, what: What) {
        let change = Change { node, what };
        let held = self.nodes.get_mut(&node).unwrap();
        let mut alone = HashMap::from([(node, held.live.clone())]);
        change.apply(&mut alone);
        held.live = alone.remove(&node).unwrap();
        self.clock += 1;
        held.changed = self.clock;
        held.modified = held.modified.max(self.clock);
        self.unsynced.push(change);
    }

    fn make(&mut self, path: &Path, content: Content) -> io::Result<u64> {
        let (above, name) = self.place(path)?;
        if self.names(above)?.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.made += 1;
        let empty = match &content {
            Content::File(_) => Content::File(Vec::new()),
            Content::Folder(_) => Content::Folder(BTreeMap::new()),
        };
        let node = Node { live: content, durable: empty, modified: self.clock, changed: self.clock };
        self.nodes.insert(self.made, node);
        self.change(above, What::Add(name, self.made));
        Ok(self.made)
    }

    fn is_file(&self, node: u64) -> io::Result<u64> {
        match &self.nodes[&node].live {
            Content::File(_) => Ok(node),
            Content::Folder(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")),
        }
    }

    fn sync(&mut self, node: u64) {
        let mut disk = HashMap::from([(node, self.nodes[&node].durable.clone())]);
        self.unsynced.iter().filter(|change| change.node == node).for_each(|change| change.apply(&mut disk));
        self.nodes.get_mut(&node).unwrap().durable = disk.remove(&node).unwrap();
        self.count_as_written(node);
    }

    fn count_as_written(&mut self, node: u64) {
        self.unsynced.retain(|change| change.node != node);
    }

    fn stat(&self, node: u64) -> Stat {
        let held = &self.nodes[&node];
        let (size, is_dir) = match &held.live {
            Content::File(bytes) => (bytes.len() as u64, false),
            Content::Folder(_) => (0, true),
        };
        Stat {
            identity: Identity { device: 1, number: node },
            size,
            modified: held.modified,
            changed: held.changed.into(),
            is_dir,
        }
    }
}

impl Disk for Machine {
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let mut state = self.state();
        state.step(Call::Stat, path)?;
        Ok(state.stat(state.find(path)?))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<Name>> {
        let mut state = self.state();
        state.step(Call::ReadDir, path)?;
        let names = state.names(state.find(path)?)?;
        let is_folder = |node| matches!(state.nodes[node].live, Content::Folder(_));
        Ok(names.iter().map(|(name, node)| Name { text: name.clone(), may_be_folder: is_folder(node) }).collect())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.step(Call::Open, path)?;
        let node = state.find(path).and_then(|node| state.is_file(node))?;
        Ok(self.open_node(&mut state, path, node))
    }

    fn open_for_writing(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.step(Call::OpenForWriting, path)?;
        let node = state.find(path).and_then(|node| state.is_file(node))?;
        Ok(self.open_node(&mut state, path, node))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.step(Call::Create, path)?;
        let node = state.make(path, Content::File(Vec::new()))?;
        Ok(self.open_node(&mut state, path, node))
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.step(Call::OpenForWriting, path)?;
        let node = match state.find(path).and_then(|node| state.is_file(node)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => state.make(path, Content::File(Vec::new()))?,
            found => found?,
        };
        Ok(self.open_node(&mut state, path, node))
    }

    fn make_dir(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.state();
        state.step(Call::MakeDir, path)?;
        match state.make(path, Content::Folder(BTreeMap::new())) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step(Call::Link, to)?;
        let node = state.find(from)?;
        let (above, name) = state.place(to)?;
        if state.names(above)?.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.change(above, What::Add(name, node));
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step(Call::Unlink, path)?;
        state.find(path)?;
        let (above, name) = state.place(path)?;
        state.change(above, What::Remove(name));
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step(Call::RemoveDir, path)?;
        if !state.names(state.find(path)?)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let (above, name) = state.place(path)?;
        state.change(above, What::Remove(name));
        Ok(())
    }

    /// One that fails stays undone.
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step(Call::SyncDir, path)?;
        let node = state.find(path)?;
        state.sync(node);
        Ok(())
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.step(Call::Open, path)?;
        let node = state.find(path)?;
        Ok(self.open_node(&mut state, path, node))
    }
}

struct OpenFile {
    machine: Machine,
    node: u64,
    opening: u64,
    path: PathBuf,
}

impl OpenFile {
    fn lock(&self, wanted: Held) -> Result<(), TryLockError> {
        let mut state = self.machine.state();
        state.step(Call::Lock, &self.path).map_err(TryLockError::Error)?;
        let locks = state.locks.entry(self.node).or_default();
        let others = locks.iter().filter(|(opening, _)| **opening != self.opening);
        if others.clone().any(|(_, held)| wanted == Held::Alone || *held == Held::Alone) {
            return Err(TryLockError::WouldBlock);
        }
        locks.insert(self.opening, wanted);
        Ok(())
    }
}

impl DiskFile for OpenFile {
    fn stat(&self) -> io::Result<Stat> {
        let mut state = self.machine.state();
        state.step(Call::Stat, &self.path)?;
        Ok(state.stat(self.node))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.machine.state();
        state.step(Call::Read, &self.path)?;
        let Content::File(bytes) = &state.nodes[&self.node].live else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let rest = &bytes[bytes.len().min(offset as usize)..];
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.machine.state();
        let (arrived, result) = match state.call(Call::Write, &self.path) {
            Ok(()) => (bytes.len(), Ok(())),
            Err((failed, is_short)) => (if is_short { bytes.len() / 2 } else { 0 }, Err(failed)),
        };
        state.written += arrived;
        if arrived > 0 {
            state.change(self.node, What::Write { at: offset as usize, bytes: bytes[..arrived].to_vec() });
        }
        result
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.machine.state();
        state.step(Call::SetLen, &self.path)?;
        state.change(self.node, What::SetLen(len as usize));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.machine.state();
        let is_on = state.off_at.is_none_or(|off_at| state.calls.len() < off_at);
        match state.step(Call::Sync, &self.path) {
            Ok(()) => state.sync(self.node),
            Err(failed) => {
                if is_on {
                    state.count_as_written(self.node);
                }
                return Err(failed);
            }
        }
        Ok(())
    }

    fn set_modified(&self, nanoseconds: u64) -> io::Result<()> {
        let mut state = self.machine.state();
        state.step(Call::SetModified, &self.path)?;
        state.clock += 1;
        let clock = state.clock;
        let node = state.nodes.get_mut(&self.node).unwrap();
        node.modified = nanoseconds;
        node.changed = clock;
        Ok(())
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        self.lock(Held::Alone)
    }

    fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.lock(Held::Together)
    }

    fn unlock(&self) -> io::Result<()> {
        if let Some(locks) = self.machine.state().locks.get_mut(&self.node) {
            locks.remove(&self.opening);
        }
        Ok(())
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut state = self.machine.state();
        state.open -= 1;
        if let Some(locks) = state.locks.get_mut(&self.node) {
            locks.remove(&self.opening);
        }
    }
}
