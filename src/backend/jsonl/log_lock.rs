//! [`LogLock`]: the lock on a log itself, beside the one on the file next to it. That one can be removed, and another
//! one made in its place, while its holder is paused; the file that is written cannot.

use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::runtime::{Process, writer_of};
use super::disk::{Disk, DiskFile};
use super::failure::Context;
use super::lock::{LOCK, Lock, lock_session, probe};
use crate::log::SessionId;
use crate::seam::{Error, Holder, Result};

/// How long a holder is waited for that has taken one of the two locks and not yet the other, or has just given one up.
const HALF_WAY: Duration = Duration::from_millis(20);

/// A locked log; unlocked when it is dropped.
pub(super) struct LogLock {
    /// A process that is forked gets the lock as well, and would give it up for both.
    process: Process,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
}

impl LogLock {
    /// Locks a log through a handle of it; nothing where another one has.
    pub(super) fn take(file: Arc<dyn DiskFile>, path: &Path) -> io::Result<Option<Self>> {
        // There a lock keeps out readers too.
        if !cfg!(windows) {
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(e),
            }
        }
        Ok(Some(Self { process: Process::current(), file, path: path.to_owned() }))
    }

    pub(super) fn file(&self) -> Arc<dyn DiskFile> {
        self.file.clone()
    }
}

impl Drop for LogLock {
    fn drop(&mut self) {
        if cfg!(windows) || !self.process.is_current() {
            return;
        }
        if let Err(e) = self.file.unlock() {
            log::warn!("unlocking {}: {e}; it is unlocked when the process ends", self.path.display());
        }
    }
}

/// What keeps all others off a session. The log is given up first: who finds the other one free finds it free too.
pub(super) struct Owned {
    pub(super) log: LogLock,
    pub(super) folder: Lock,
}

/// Locks a session for its one writer, its log through `file`: `AlreadyOwned` while another one has it, nothing where
/// there is no such folder.
pub(super) fn own(
    disk: &dyn Disk,
    file: &Arc<dyn DiskFile>,
    path: &Path,
    id: &SessionId,
    context: &Context<'_>,
) -> Result<Option<Owned>> {
    let Some(folder) = path.parent() else { return Ok(None) };
    let started = Instant::now();
    // The log first: who is refused by it leaves the other file as it is.
    let log = loop {
        if let Some(log) = LogLock::take(file.clone(), path).map_err(|e| context.writing(path, e))? {
            break log;
        }
        if let Some(holder) = signed_holder(disk, folder) {
            return Err(Error::AlreadyOwned { session: id.clone(), holder });
        }
        if started.elapsed() > HALF_WAY {
            let holder = match writer_of(path, 0..u64::MAX) {
                Some(process) => Holder { process, ..Holder::this_process() },
                None => Holder::unknown(),
            };
            return Err(Error::AlreadyOwned { session: id.clone(), holder });
        }
        std::thread::sleep(Duration::from_micros(200));
    };
    Ok(lock_session(disk, folder, id, context)?.map(|folder| Owned { log, folder }))
}

/// The living holder that the lock file names, while it is locked.
fn signed_holder(disk: &dyn Disk, folder: &Path) -> Option<Holder> {
    // What cannot be looked at names nobody; the lock on the log has decided already.
    probe(disk, &folder.join(LOCK)).ok().flatten().filter(|holder| *holder != Holder::unknown())
}
