//! A file system that counts, fails on demand, and may not tell upper from lower case.

use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::super::disk::{Disk, DiskFile, Name, RealDisk, Stat};
use super::super::lock::LOCK;

/// What a file system is asked to do next, and may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Stat,
    ReadDir,
    Open,
    OpenForWriting,
    Create,
    MakeDir,
    Link,
    Unlink,
    RemoveDir,
    SyncDir,
    Read,
    Write,
    SetLen,
    Sync,
    SetModified,
    Lock,
}

/// A failure of calls to come.
struct Failure {
    call: Call,
    /// How many calls go through before.
    after: usize,
    /// How many fail then.
    times: usize,
    kind: io::ErrorKind,
}

/// What a test does besides.
type Happening = Arc<dyn Fn() + Send + Sync>;

/// What stands between the store and the disk.
#[derive(Default)]
pub(super) struct Watch {
    /// Of logs: what is read of a lock file has nothing to do with the length of a log.
    pub(super) bytes_read: AtomicU64,
    pub(super) opened: AtomicUsize,
    /// How often something was looked at by its path.
    pub(super) looked: AtomicUsize,
    failures: Mutex<Vec<Failure>>,
    /// How many bytes of a failing write arrive.
    pub(super) partial: AtomicUsize,
    pub(super) syncs: Mutex<Vec<PathBuf>>,
    /// What happens besides at each call of a kind.
    pub(super) at: Mutex<Option<(Call, Happening)>>,
    folds_case: bool,
}

impl Watch {
    /// One that does not tell upper from lower case.
    pub(super) fn folding_case() -> Self {
        Self { folds_case: true, ..Self::default() }
    }

    fn call(&self, call: Call) -> io::Result<()> {
        let at = self.at.lock().unwrap().clone();
        if let Some((_, happens)) = at.filter(|(kind, _)| *kind == call) {
            happens();
        }
        let mut failures = self.failures.lock().unwrap();
        let Some(failure) = failures.iter_mut().find(|failure| failure.call == call) else { return Ok(()) };
        if failure.after > 0 {
            failure.after -= 1;
            return Ok(());
        }
        if failure.times == 0 {
            return Ok(());
        }
        failure.times -= 1;
        Err(failure.kind.into())
    }

    pub(super) fn fail(&self, call: Call, after: usize, times: usize, kind: io::ErrorKind) {
        self.failures.lock().unwrap().push(Failure { call, after, times, kind });
    }

    /// Ends all failures; whether each has happened as often as it was to.
    pub(super) fn heal(&self) -> bool {
        std::mem::take(&mut *self.failures.lock().unwrap()).iter().all(|failure| failure.times == 0)
    }
}

pub(super) struct WatchedDisk(pub(super) Arc<Watch>);

struct WatchedFile(Arc<Watch>, PathBuf, Box<dyn DiskFile>);

impl WatchedDisk {
    /// The path as it is stored: on a file system that folds case the first spelling of each name stays.
    fn stored(&self, path: &Path) -> PathBuf {
        if !self.0.folds_case || path.exists() {
            return path.to_owned();
        }
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
        let above = if above.as_os_str().is_empty() { above.to_owned() } else { self.stored(above) };
        let entries = std::fs::read_dir(&above).into_iter().flatten().flatten();
        let same = entries.map(|e| e.file_name()).find(|n| n.eq_ignore_ascii_case(name));
        above.join(same.unwrap_or(name.to_owned()))
    }

    fn file(&self, path: &Path, file: io::Result<Box<dyn DiskFile>>) -> io::Result<Box<dyn DiskFile>> {
        self.0.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(WatchedFile(self.0.clone(), path.to_owned(), file?)))
    }
}

impl Disk for WatchedDisk {
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.0.call(Call::Stat)?;
        self.0.looked.fetch_add(1, Ordering::Relaxed);
        RealDisk.stat(&self.stored(path))
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<Name>> {
        self.0.call(Call::ReadDir)?;
        RealDisk.read_dir(&self.stored(path))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.call(Call::Open)?;
        self.file(path, RealDisk.open(&self.stored(path)))
    }
    fn open_for_writing(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.call(Call::OpenForWriting)?;
        self.file(path, RealDisk.open_for_writing(&self.stored(path)))
    }
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.call(Call::Create)?;
        self.file(path, RealDisk.create_new(&self.stored(path)))
    }
    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.call(Call::OpenForWriting)?;
        self.file(path, RealDisk.open_or_create(&self.stored(path)))
    }
    fn make_dir(&self, path: &Path) -> io::Result<bool> {
        self.0.call(Call::MakeDir)?;
        RealDisk.make_dir(&self.stored(path))
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.call(Call::Link)?;
        RealDisk.link(&self.stored(from), &self.stored(to))
    }
    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.0.call(Call::Unlink)?;
        RealDisk.unlink(&self.stored(path))
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.0.call(Call::RemoveDir)?;
        RealDisk.remove_dir(&self.stored(path))
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.call(Call::SyncDir)?;
        self.0.syncs.lock().unwrap().push(path.to_owned());
        RealDisk.sync_dir(&self.stored(path))
    }
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.file(path, RealDisk.open_dir(&self.stored(path)))
    }
}

impl DiskFile for WatchedFile {
    fn stat(&self) -> io::Result<Stat> {
        self.0.call(Call::Stat)?;
        self.2.stat()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.call(Call::Read)?;
        let read = self.2.read_at(buffer, offset)?;
        if self.1.file_name().is_none_or(|name| name != LOCK) {
            self.0.bytes_read.fetch_add(read as u64, Ordering::Relaxed);
        }
        Ok(read)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.0.call(Call::Write) {
            Ok(()) => self.2.write_all_at(bytes, offset),
            Err(e) => {
                let arrived = self.0.partial.load(Ordering::Relaxed).min(bytes.len());
                self.2.write_all_at(&bytes[..arrived], offset)?;
                Err(e)
            }
        }
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.call(Call::SetLen)?;
        self.2.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.call(Call::Sync)?;
        self.0.syncs.lock().unwrap().push(self.1.clone());
        self.2.sync()
    }
    fn set_modified(&self, nanoseconds: u64) -> io::Result<()> {
        self.0.call(Call::SetModified)?;
        self.2.set_modified(nanoseconds)
    }
    fn try_lock(&self) -> Result<(), TryLockError> {
        self.0.call(Call::Lock).map_err(TryLockError::Error)?;
        self.2.try_lock()
    }
    fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.0.call(Call::Lock).map_err(TryLockError::Error)?;
        self.2.try_lock_shared()
    }
    fn unlock(&self) -> io::Result<()> {
        self.2.unlock()
    }
}
