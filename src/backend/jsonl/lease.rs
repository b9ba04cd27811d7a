//! [`Lease`]: the ownership of a session, as a lock that the kernel holds for a process and drops with it.

use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::runtime::{MAX_RECORD, read_record, write_record};
use super::disk::{Disk, DiskFile};
use super::failure::Context;
use super::memo::Slot;
use crate::log::SessionId;
use crate::seam::{Error, Holder, Result};

/// The file in a session's folder that its writer locks. It stays when the lock is given up: a file that was removed
/// could be locked by one writer while the next makes it anew.
pub(super) const LOCK: &str = "session.lock";

/// How often a lock file is opened again because it was removed, with its session, while it was being locked.
const TRIES: usize = 5;

/// How long to wait for another program that makes a session in the same root.
const CREATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The ownership of a session.
pub(super) struct Lease {
    /// The log file that it stands for.
    pub(super) path: PathBuf,
    /// The same file, opened by the first append.
    pub(super) log: Option<Box<dyn DiskFile>>,
    /// What is known of the log file. Held here so that the memo keeps it.
    pub(super) slot: Arc<Slot>,
    /// Whether bytes of a failed append may stand behind the end of the log that could not be cut off yet.
    pub(super) has_leftovers: bool,
    _lock: Lock,
}

impl Lease {
    pub(super) fn new(path: PathBuf, lock: Lock, slot: Arc<Slot>) -> Self {
        Self { path, log: None, slot, has_leftovers: false, _lock: lock }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.has_leftovers {
            return;
        }
        let mut known = self.slot.lock();
        if let (Some(known), Some(log)) = (&mut *known, &self.log) {
            known.writing = false;
            if let Err(e) = log.set_len(known.log.end) {
                let path = self.path.display();
                log::warn!("{path}: what a failed append left could not be cut off: {e}; the next writer may read it");
            }
        }
    }
}

/// A locked file; unlocked when it is dropped.
pub(super) struct Lock {
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

impl Lock {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Explicitly, and not only by closing: a child process that is being started may hold a copy for a moment.
        if let Err(e) = self.file.unlock() {
            log::warn!("unlocking {}: {e}; it is unlocked when the process ends", self.path.display());
        }
    }
}

/// Locks a session's folder: `AlreadyOwned` while another one has it, nothing where there is no such folder.
pub(super) fn lock_session(
    disk: &dyn Disk,
    folder: &Path,
    id: &SessionId,
    context: &Context<'_>,
) -> Result<Option<Lock>> {
    let path = folder.join(LOCK);
    for _ in 0..TRIES {
        let file = match disk.open_or_create(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(context.writing(&path, e)),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::AlreadyOwned { session: id.clone(), holder: holder(&*file) });
            }
            Err(TryLockError::Error(e)) => return Err(context.writing(&path, e)),
        }
        let lock = Lock { file, path: path.clone() };
        if is_at(disk, &*lock.file, &path).map_err(|e| context.reading(&path, e))? {
            leave_record(&lock);
            return Ok(Some(lock));
        }
    }
    Err(Error::StoreBusy { session: Some(id.clone()), store: folder.display().to_string(), source: None })
}

/// Whether the file that was locked is still the one that others find.
fn is_at(disk: &dyn Disk, file: &dyn DiskFile, path: &Path) -> io::Result<bool> {
    match disk.stat(path) {
        Ok(found) => Ok(found.identity == file.stat()?.identity),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Notes who has the lock. The lock is what counts: a full disk must not keep a writer from waiting for room.
fn leave_record(lock: &Lock) {
    let record = write_record(&Holder::this_process());
    let written = lock.file.write_all_at(record.as_bytes(), 0).and_then(|()| lock.file.set_len(record.len() as u64));
    if let Err(e) = written {
        log::debug!("{}: the holder could not be noted: {e}", lock.path.display());
    }
}

fn holder(file: &dyn DiskFile) -> Holder {
    let mut record = [0; MAX_RECORD];
    let length = file.read_at(&mut record, 0).unwrap_or_else(|e| {
        log::debug!("the holder of a lock could not be read: {e}");
        0
    });
    read_record(&record[..length])
}

/// Keeps all other creators of sessions off a root for as long as it lives: whether an id is taken is a question to all
/// project folders. `StoreBusy` when another one takes too long.
pub(super) fn lock_root(disk: &dyn Disk, root: &Path, id: &SessionId, context: &Context<'_>) -> Result<Option<Lock>> {
    // Where a folder cannot be locked, of two creators of one id in two working folders both may win at the same time.
    if cfg!(not(unix)) {
        return Ok(None);
    }
    let file = disk.open_dir(root).map_err(|e| context.reading(root, e))?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(Lock { file, path: root.to_owned() })),
            Err(TryLockError::Error(e)) => {
                log::debug!("{} cannot be locked, creators are not kept apart: {e}", root.display());
                return Ok(None);
            }
            Err(TryLockError::WouldBlock) if started.elapsed() > CREATION_TIMEOUT => {
                let store = root.display().to_string();
                return Err(Error::StoreBusy { session: Some(id.clone()), store, source: None });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}
