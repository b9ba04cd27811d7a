//! [`Disk`]: a folder whose files SQLite reaches through [`super::vfs`] only, with what of them is durable, and with faults.
//!
//! The files themselves hold what a running process sees. Beside them the disk keeps what would be left after a loss of
//! power: of each file what it held when it was last synced, and what was done to it since. A file's name is durable once
//! the file was synced for the first time, because SQLite syncs the folder then. A database's name is durable from the start:
//! the store makes the file under another name and syncs the folder itself.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use rusqlite::ffi;
use tempfile::TempDir;

use super::fault::{Counts, Effect, Fault, Kind, Part};
use super::outage::{Change, FileId, Files, Image, Outage};
use super::shadow::Shadow;
use super::vfs;

/// A folder with the state of its disk.
pub(crate) struct Disk {
    folder: PathBuf,
    /// Removes the folder.
    _owned: Option<TempDir>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    files: Vec<Found>,
    live: Image,
    durable: Image,
    unsynced: Vec<Change>,
    counts: Counts,
    faults: Vec<Fault>,
    fired: u64,
    /// How many changes are made before the power goes.
    left: Option<u64>,
    outage: Option<Outage>,
    without_shared_memory: bool,
    syncs_are_held: bool,
    held: u64,
    shadow: Option<Shadow>,
}

/// A file that was found or made.
struct Found {
    /// Device and inode.
    inode: (u64, u64),
    /// How often it is open.
    open: usize,
    /// When it was last written here, once a sync of it was refused.
    written: Option<SystemTime>,
}

/// The disks of this process, each for one test.
static DISKS: Mutex<Vec<(PathBuf, Weak<Disk>)>> = Mutex::new(Vec::new());

/// How far apart times are that a file system tells apart, generously.
const CLOCK: Duration = Duration::from_millis(20);

/// A folder that is removed with its value, in memory where the system offers that: thousands are made and filled.
pub(crate) fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir()
        && let Ok(folder) = tempfile::tempdir_in(memory)
    {
        return folder;
    }
    tempfile::tempdir().unwrap()
}

impl Disk {
    /// A disk of its own, with nothing on it.
    pub(crate) fn new() -> Arc<Self> {
        let owned = scratch();
        let folder = owned.path().canonicalize().unwrap();
        Self::register(folder, Some(owned), None)
    }

    /// A disk that holds files, all durable.
    pub(crate) fn holding(files: &Files) -> Arc<Self> {
        let disk = Self::new();
        files.write_to(&disk.folder);
        disk.find_files();
        disk
    }

    /// The disk of a folder that exists. What is durable is kept in the folder `shadow` too, where it outlives this process.
    pub(crate) fn shadowed(folder: &Path, shadow: &Path) -> Arc<Self> {
        let disk = Self::register(folder.canonicalize().unwrap(), None, Some(Shadow::in_folder(shadow)));
        disk.find_files();
        disk
    }

    /// Takes over the files that lie here already, all durable. No process has them open.
    fn find_files(&self) {
        let mut state = self.state();
        for name in Files::names(&self.folder) {
            let path = self.folder.join(&name);
            state.file_found(inode(&path).expect("it was listed"), &name, &path);
        }
    }

    fn register(folder: PathBuf, owned: Option<TempDir>, shadow: Option<Shadow>) -> Arc<Self> {
        vfs::install();
        let state = Mutex::new(State { shadow, ..State::default() });
        let disk = Arc::new(Self { folder: folder.clone(), _owned: owned, state, changed: Condvar::new() });
        let mut disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
        disks.retain(|(_, disk)| disk.strong_count() > 0);
        disks.push((folder, Arc::downgrade(&disk)));
        disk
    }

    /// The disk on which a file lies, in its folder or in one below, with the file's name from there on.
    pub(crate) fn of(path: &Path) -> Option<(Arc<Self>, String)> {
        let disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, disk) = disks.iter().find_map(|(folder, disk)| Some((path.strip_prefix(folder).ok()?, disk)))?;
        Some((disk.upgrade()?, name.to_str()?.to_owned()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.notice_what_others_wrote(&self.folder);
        state
    }

    /// The path of the store that a test keeps here.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.join("sessions.db")
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes operations go wrong from now on.
    pub(crate) fn inject(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Lets everything go well again. Tells how many operations had gone wrong.
    pub(crate) fn mend(&self) -> u64 {
        let mut state = self.state();
        state.faults.clear();
        std::mem::take(&mut state.fired)
    }

    /// How many operations went wrong.
    pub(crate) fn fired(&self) -> u64 {
        self.state().fired
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// Cuts the power once `changes` more changes were made.
    pub(crate) fn cut_power_after(&self, changes: u64) {
        self.state().left = Some(changes);
    }

    /// Whether the power was cut.
    pub(crate) fn is_off(&self) -> bool {
        self.state().outage.is_some()
    }

    /// What the disk held when the power was cut, or what it would hold if it were cut now.
    pub(crate) fn outage(&self) -> Outage {
        let state = self.state();
        state.outage.clone().unwrap_or_else(|| state.outage_now())
    }

    /// Files that are opened from now on cannot share memory, as on a network file system.
    pub(crate) fn give_no_shared_memory(&self) {
        self.state().without_shared_memory = true;
    }

    pub(crate) fn gives_shared_memory(&self) -> bool {
        !self.state().without_shared_memory
    }

    /// Lets every sync wait until the value is dropped.
    pub(crate) fn hold_syncs(&self) -> HeldSyncs<'_> {
        self.state().syncs_are_held = true;
        HeldSyncs { disk: self }
    }

    /// Lets an operation start, or says how it goes wrong.
    pub(crate) fn start(&self, kind: Kind, part: Part) -> Result<(), Effect> {
        self.state().start(kind, part)
    }

    /// Opens a file with `open`, which makes it where it is absent.
    pub(crate) fn open(&self, name: &str, open: impl FnOnce() -> i32) -> Result<FileId, i32> {
        let mut state = self.state();
        let part = Part::of(name);
        state.start(Kind::Open, part).map_err(Effect::code)?;
        let path = self.folder.join(name);
        let found = inode(&path).map(|inode| state.file_found(inode, name, &path));
        match open() {
            ffi::SQLITE_OK => {}
            failed => return Err(failed),
        }
        let file = match found {
            Some(file) => file,
            None => state.file_made(inode(&path).expect("it was opened"), name),
        };
        state.files[file].open += 1;
        Ok(file)
    }

    pub(crate) fn close(&self, file: FileId) {
        self.state().files[file].open -= 1;
    }

    /// Writes with `write`, which gets what of `bytes` is to reach the file.
    pub(crate) fn write(
        &self,
        file: FileId,
        part: Part,
        at: u64,
        bytes: &[u8],
        write: impl FnOnce(&[u8]) -> i32,
    ) -> i32 {
        let mut state = self.state();
        let (bytes, told) = match state.start(Kind::Write, part) {
            Ok(()) => (bytes, None),
            Err(Effect::Half(code)) => (&bytes[..bytes.len() / 2], Some(code)),
            Err(other) => return other.code(),
        };
        let done = write(bytes);
        if done == ffi::SQLITE_OK {
            state.counts.add_bytes(part, bytes.len());
            let at = usize::try_from(at).expect("a file fits into memory");
            state.change(Change::Write { file, at, bytes: bytes.to_vec() });
            state.note_time(file, &self.folder);
        }
        told.unwrap_or(done)
    }

    pub(crate) fn truncate(&self, file: FileId, part: Part, length: u64, truncate: impl FnOnce() -> i32) -> i32 {
        let mut state = self.state();
        if let Err(effect) = state.start(Kind::Truncate, part) {
            return effect.code();
        }
        let done = truncate();
        if done == ffi::SQLITE_OK {
            let length = usize::try_from(length).expect("a file fits into memory");
            state.change(Change::Truncate { file, length });
            state.note_time(file, &self.folder);
        }
        done
    }

    /// Makes durable what was done to a file. The file below is not synced: what a sync is good for is kept here, and no
    /// test cuts the power of the machine.
    pub(crate) fn sync(&self, file: FileId, part: Part) -> i32 {
        let mut state = self.state();
        if state.syncs_are_held {
            state.held += 1;
            self.changed.notify_all();
            state = self.changed.wait_while(state, |s| s.syncs_are_held).unwrap_or_else(PoisonError::into_inner);
            state.held -= 1;
        }
        match state.start(Kind::Sync, part) {
            Ok(()) => {
                state.sync(file, true);
                ffi::SQLITE_OK
            }
            Err(Effect::Forget(code)) => {
                state.sync(file, false);
                state.files[file].written = Some(SystemTime::UNIX_EPOCH);
                state.note_time(file, &self.folder);
                // A file system tells times that are so far apart.
                std::thread::sleep(CLOCK);
                code
            }
            Err(other) => other.code(),
        }
    }

    pub(crate) fn delete(&self, name: &str, is_lasting: bool, delete: impl FnOnce() -> i32) -> i32 {
        let mut state = self.state();
        let late = match state.start(Kind::Delete, Part::of(name)) {
            Ok(()) => None,
            Err(Effect::Late(code)) => Some(code),
            Err(other) => return other.code(),
        };
        let done = delete();
        if done != ffi::SQLITE_OK {
            return done;
        }
        state.change(Change::Unname { name: name.to_owned() });
        match late {
            // The folder is synced only where that is asked for.
            Some(code) if is_lasting => return code,
            None if is_lasting => {
                state.make_durable(|change| matches!(change, Change::Unname { name: n } if n == name));
            }
            _ => {}
        }
        done
    }
}

/// Syncs that wait; they go on when this is dropped.
pub(crate) struct HeldSyncs<'a> {
    disk: &'a Disk,
}

impl HeldSyncs<'_> {
    /// Waits until a sync has started.
    pub(crate) fn wait_for_one(&self) {
        let state = self.disk.state();
        drop(self.disk.changed.wait_while(state, |s| s.held == 0).unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether a sync has started and waits.
    pub(crate) fn is_one_waiting(&self) -> bool {
        self.disk.state().held > 0
    }
}

impl Drop for HeldSyncs<'_> {
    fn drop(&mut self) {
        self.disk.state().syncs_are_held = false;
        self.disk.changed.notify_all();
    }
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

impl State {
    fn start(&mut self, kind: Kind, part: Part) -> Result<(), Effect> {
        if self.outage.is_some() {
            return Err(Effect::Fail(kind.failure()));
        }
        if kind.is_change() {
            if self.left == Some(0) {
                self.outage = Some(self.outage_now());
                return Err(Effect::Fail(kind.failure()));
            }
            self.left = self.left.map(|n| n - 1);
        }
        self.counts.add(kind, part);
        match self.faults.iter_mut().find_map(|fault| fault.meets(kind, part)) {
            Some(effect) => {
                self.fired += 1;
                Err(effect)
            }
            None => Ok(()),
        }
    }

    /// Notes when a file was written by SQLite, where others may write it too.
    fn note_time(&mut self, file: FileId, folder: &Path) {
        if self.files[file].written.is_some() {
            self.files[file].written = self.time_of(file, folder);
        }
    }

    fn time_of(&self, file: FileId, folder: &Path) -> Option<SystemTime> {
        let name = self.live.names.iter().find(|(_, named)| **named == file)?.0;
        fs::metadata(folder.join(name)).and_then(|found| found.modified()).ok()
    }

    /// A WAL whose sync failed is written by the store itself once more, past SQLite, and synced.
    fn notice_what_others_wrote(&mut self, folder: &Path) {
        for file in 0..self.files.len() {
            let Some(written) = self.files[file].written else { continue };
            let now = self.time_of(file, folder);
            if self.outage.is_some() || now == Some(written) {
                continue;
            }
            self.files[file].written = now;
            if now.is_some() {
                self.durable.contents[file] = self.live.contents[file].clone();
                self.unsynced.retain(|change| !change.is_of(file) || matches!(change, Change::Name { .. }));
            }
        }
    }

    fn outage_now(&self) -> Outage {
        Outage { live: self.live.clone(), durable: self.durable.clone(), unsynced: self.unsynced.clone() }
    }

    /// The file that lies at a path, known already or not.
    fn file_found(&mut self, inode: (u64, u64), name: &str, path: &Path) -> FileId {
        // A number is given again to another file. One that is open cannot be another one, and must not be read past SQLite:
        // closing it would drop the locks of the process.
        let known = self.files.iter().rposition(|found| found.inode == inode);
        let known =
            known.filter(|file| self.files[*file].open > 0 || fs::read(path).unwrap() == self.live.contents[*file]);
        let file = known.unwrap_or_else(|| {
            let content = fs::read(path).unwrap();
            let file = self.add(inode, content.clone());
            self.durable.contents[file] = content;
            file
        });
        if known.is_none() || self.live.names.get(name) != Some(&file) {
            // Somebody else gave it this name, and made that durable: see above.
            let before = self.live.names.iter().filter(|(_, named)| **named == file).map(|(name, _)| name.clone());
            for name in before.collect::<Vec<_>>() {
                self.change(Change::Unname { name });
            }
            self.change(Change::Name { name: name.to_owned(), file });
            self.make_durable(|change| matches!(change, Change::Unname { .. } | Change::Name { .. }));
            if let Some(shadow) = &mut self.shadow {
                shadow.replace(file, &self.durable.contents[file]);
            }
        }
        file
    }

    fn file_made(&mut self, inode: (u64, u64), name: &str) -> FileId {
        let file = self.add(inode, Vec::new());
        self.change(Change::Name { name: name.to_owned(), file });
        file
    }

    fn add(&mut self, inode: (u64, u64), content: Vec<u8>) -> FileId {
        self.files.push(Found { inode, open: 0, written: None });
        self.live.contents.push(content);
        self.durable.contents.push(Vec::new());
        self.files.len() - 1
    }

    fn change(&mut self, change: Change) {
        self.live.apply(&change);
        self.unsynced.push(change);
    }

    fn sync(&mut self, file: FileId, succeeds: bool) {
        if succeeds {
            self.make_durable(|change| change.is_of(file));
        } else {
            // SQLite syncs the folder later then.
            self.unsynced.retain(|change| !change.is_of(file) || matches!(change, Change::Name { .. }));
        }
    }

    fn make_durable(&mut self, is_meant: impl Fn(&Change) -> bool) {
        for change in std::mem::take(&mut self.unsynced) {
            if !is_meant(&change) {
                self.unsynced.push(change);
                continue;
            }
            // What was to become of a name before is settled with it.
            if let Change::Name { name, .. } | Change::Unname { name } = &change {
                self.unsynced
                    .retain(|c| !matches!(c, Change::Name { name: n, .. } | Change::Unname { name: n } if n == name));
            }
            self.durable.apply(&change);
            if let Some(shadow) = &mut self.shadow {
                shadow.apply(&change);
            }
        }
    }
}
