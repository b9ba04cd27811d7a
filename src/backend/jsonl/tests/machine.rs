//! [`Machine`]: a disk in memory that fails on demand, and knows what a loss of power leaves of it.
//!
//! Content becomes durable when its file is synced, and a name when its folder is. A sync that fails counts what it
//! should have written as written, as Linux does: the next one succeeds and does not write it.

mod loss;
mod open_file;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

pub(super) use self::loss::{Chance, Loss};
use self::loss::{Change, Content, What};
use self::open_file::OpenFile;
use super::super::disk::{Disk, DiskFile, Identity, Name, Stat};
use super::watch::Call;

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

    /// Lets the system fail to write what it holds of a file, with nobody to tell: it counts as written.
    pub(super) fn lose_unwritten(&self, path: &Path) {
        let mut state = self.state();
        let node = state.find(path).unwrap();
        state.count_as_written(node);
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
        let durable = state.nodes.iter().map(|(number, node)| (*number, node.durable.clone())).collect();
        let disk = loss.leave(durable, &state.unsynced);
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
        Ok(names
            .iter()
            .map(|(name, node)| Name { text: name.clone(), may_be_folder: is_folder(node), is_link: false })
            .collect())
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
