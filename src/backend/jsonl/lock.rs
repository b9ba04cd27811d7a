//! [`Lock`]: the file that a session's writer locks. The lock is the kernel's and dies with its process.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::runtime::{
    Alone, LOOKERS_TIMEOUT, LockFile, MAX_RECORD, Process, holder_of, lock_alone, record_of_locked, write_record,
};
use super::disk::{Disk, DiskFile, Identity, Stat};
use super::failure::Context;
use super::files::guard;
use crate::log::SessionId;
use crate::seam::{Error, Holder, Result};

/// The file in a session's folder that its writer locks. It stays when the lock is given up: a file that was removed could
/// be locked by one writer while the next makes it anew.
pub(super) const LOCK: &str = "session.lock";

/// What the file holds while nobody has the lock of a session that is stored. Of one whose making was stopped it is empty,
/// so that a folder without a log tells whether one was lost.
const MARK: &[u8] = b"{}\n";

/// How often a lock file is opened again because it was removed, with its session, while it was being locked.
const TRIES: usize = 5;

/// What a lock file tells by its size alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// No session was ever stored beside it.
    Unused,
    /// The last writer of a stored session gave it up.
    GivenUp,
    /// A writer has it, or died with it.
    Signed,
}

impl Told {
    pub(super) fn by_size(size: u64) -> Self {
        match size.cmp(&(MARK.len() as u64)) {
            Less => Self::Unused,
            Equal => Self::GivenUp,
            Greater => Self::Signed,
        }
    }
}

/// The locked file of a session, with a record of who has it; cleared of that and unlocked when it is dropped.
pub(super) struct Lock {
    /// A process that is forked gets the lock as well, and would give it up for both.
    process: Process,
    file: Box<dyn DiskFile>,
    path: PathBuf,
    identity: Identity,
    /// The record of this very lease.
    record: String,
    /// What the file has to hold: the record, or, where it could not be written, what was found instead, if that is known.
    expected: Mutex<Option<Vec<u8>>>,
    is_lost: AtomicBool,
    /// Whether a session is stored beside it.
    is_of_stored: AtomicBool,
}

/// What came of locking a session's folder.
pub(super) enum Taken {
    Locked(Lock),
    Held(Holder),
    /// There is no such folder.
    Absent,
    /// It is removed and made again, or looked at, all the time.
    Busy,
}

impl Lock {
    /// Locks the folder of a session, unless another one has.
    pub(super) fn take(disk: &dyn Disk, folder: &Path) -> io::Result<Taken> {
        let path = folder.join(LOCK);
        for _ in 0..TRIES {
            let file = match disk.open_or_create(&path) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Taken::Absent),
                Err(e) => return Err(e),
            };
            match lock_alone(&*file, LOOKERS_TIMEOUT)? {
                Alone::Locked => {}
                Alone::Held(holder) => return Ok(Taken::Held(holder)),
                Alone::Busy => return Ok(Taken::Busy),
            }
            let found = stat_in_place(disk, &*file, &path);
            if let Ok(Some(stat)) = found {
                let lock = Self::with_record(file, path, stat.identity);
                lock.note_stored(Told::by_size(stat.size) != Told::Unused);
                return Ok(Taken::Locked(lock));
            }
            unlock(&*file, &path);
            found?;
        }
        Ok(Taken::Busy)
    }

    fn with_record(file: Box<dyn DiskFile>, path: PathBuf, identity: Identity) -> Self {
        let record = write_record(&Holder::this_process());
        let (expected, is_lost, is_of_stored) = Default::default();
        let lock = Self { process: Process::current(), file, path, identity, record, expected, is_lost, is_of_stored };
        lock.leave_record(&mut guard(&lock.expected));
        lock
    }

    /// Notes who has the lock. The lock is what counts: a full disk must not keep a writer from waiting for room.
    fn leave_record(&self, expected: &mut Option<Vec<u8>>) {
        let record = self.record.as_bytes();
        let written = self.file.write_all_at(record, 0).and_then(|()| self.file.set_len(record.len() as u64));
        *expected = match written {
            Ok(()) => Some(record.to_vec()),
            Err(e) => {
                log::debug!("{}: the holder could not be noted: {e}", self.path.display());
                read_all(&*self.file).ok()
            }
        };
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes whether a session is stored beside it now.
    pub(super) fn note_stored(&self, is_stored: bool) {
        self.is_of_stored.store(is_stored, Ordering::Release);
    }

    /// Takes the record away. In between the file is empty, which is told as nobody's.
    fn clear(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        if self.is_of_stored.load(Ordering::Acquire) { self.file.write_all_at(MARK, 0) } else { Ok(()) }
    }

    /// Whether this is still what keeps others off: the very file that was locked stands at its path, and nobody wrote
    /// over its record. Once it is not, it never is again.
    pub(super) fn is_held(&self, disk: &dyn Disk) -> io::Result<bool> {
        if self.is_lost.load(Ordering::Acquire) {
            return Ok(false);
        }
        let is_held = stands_at(disk, &self.path, self.identity)? && self.has_record()?;
        if !is_held {
            self.is_lost.store(true, Ordering::Release);
        }
        Ok(is_held)
    }

    fn has_record(&self) -> io::Result<bool> {
        let found = read_all(&*self.file)?;
        let mut expected = guard(&self.expected);
        if expected.as_ref().is_some_and(|expected| *expected != found) {
            return Ok(false);
        }
        if found != self.record.as_bytes() {
            self.leave_record(&mut expected);
        }
        Ok(true)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.process.is_current() {
            return;
        }
        // While it is still locked, so that one look at its size tells that nobody has it. What somebody else wrote over it
        // is somebody else's.
        let cleared = match self.has_record() {
            Ok(true) if !self.is_lost.load(Ordering::Acquire) => self.clear(),
            Ok(_) => Ok(()),
            Err(e) => Err(e),
        };
        if let Err(e) = cleared {
            log::debug!("{}: the record of the last holder stays: {e}", self.path.display());
        }
        unlock(&*self.file, &self.path);
    }
}

/// Locks a session's folder: `AlreadyOwned` while another one has it, nothing where there is no such folder.
pub(super) fn lock_session(
    disk: &dyn Disk,
    folder: &Path,
    id: &SessionId,
    context: &Context<'_>,
) -> Result<Option<Lock>> {
    match Lock::take(disk, folder) {
        Ok(Taken::Locked(lock)) => Ok(Some(lock)),
        Ok(Taken::Held(holder)) => Err(Error::AlreadyOwned { session: id.clone(), holder }),
        Ok(Taken::Absent) => Ok(None),
        Ok(Taken::Busy) => {
            let (session, store) = (Some(id.clone()), folder.display().to_string());
            Err(Error::StoreBusy { session, store, holder: None, source: None })
        }
        Err(e) => Err(context.writing(&folder.join(LOCK), e)),
    }
}

/// Who has locked the file at `path`, which is only looked at. One that left no record is told as unknown.
pub(super) fn probe(disk: &dyn Disk, path: &Path) -> io::Result<Option<Holder>> {
    let record = record_of_locked(&*disk.open(path)?)?;
    // Cleared since it was found to hold a record, by a holder that is just giving it up.
    let signed = record.filter(|record| Told::by_size(record.len() as u64) == Told::Signed);
    Ok(signed.map(|record| holder_of(&record)))
}

impl LockFile for dyn DiskFile + '_ {
    fn try_lock(&self) -> Result<(), TryLockError> {
        DiskFile::try_lock(self)
    }

    fn try_lock_shared(&self) -> Result<(), TryLockError> {
        DiskFile::try_lock_shared(self)
    }

    fn unlock(&self) -> io::Result<()> {
        DiskFile::unlock(self)
    }

    fn record(&self) -> io::Result<Vec<u8>> {
        read_all(self)
    }
}

/// What is known of a file that was locked, if it is still the one that others find.
fn stat_in_place(disk: &dyn Disk, file: &dyn DiskFile, path: &Path) -> io::Result<Option<Stat>> {
    let stat = file.stat()?;
    Ok(stands_at(disk, path, stat.identity)?.then_some(stat))
}

/// Whether a file is the one that others find.
fn stands_at(disk: &dyn Disk, path: &Path, identity: Identity) -> io::Result<bool> {
    match disk.stat(path) {
        Ok(found) => Ok(found.identity == identity),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

fn read_all(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let mut record = [0; MAX_RECORD];
    let length = file.read_at(&mut record, 0)?;
    Ok(record[..length].to_vec())
}

/// Explicitly, and not only by closing: a child process that is being started may hold a copy for a moment.
pub(super) fn unlock(file: &dyn DiskFile, path: &Path) {
    if let Err(e) = file.unlock() {
        log::warn!("unlocking {}: {e}; it is unlocked when the process ends", path.display());
    }
}
