//! [`Lock`]: the file that a session's writer locks. The lock is the kernel's and dies with its process.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::fs::TryLockError;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::super::runtime::{MAX_RECORD, Process, may_be_of_holder, read_record, write_record, writer_of};
use super::disk::{Disk, DiskFile, Identity};
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

/// How long to wait for those who only look whether somebody has a lock. They hold it for no longer than two calls take.
const LOOKERS_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a holder is looked for that has locked the file and not said yet who it is.
const LOOKS: u64 = 20;

/// How long to wait for another program that makes a session in the same root.
const CREATION_TIMEOUT: Duration = Duration::from_secs(5);

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
            match lock_alone(&*file)? {
                Alone::Locked => {}
                Alone::Held(holder) => return Ok(Taken::Held(holder)),
                Alone::Busy => return Ok(Taken::Busy),
            }
            let (identity, size) = match file.stat() {
                Ok(stat) => (stat.identity, stat.size),
                Err(e) => return Err(unlocked(&*file, e)),
            };
            match stands_at(disk, &path, identity) {
                Ok(true) => {
                    let lock = Self::with_record(file, path, identity);
                    lock.note_stored(Told::by_size(size) != Told::Unused);
                    return Ok(Taken::Locked(lock));
                }
                Ok(false) => unlock(&*file, &path),
                Err(e) => return Err(unlocked(&*file, e)),
            }
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
    let file = disk.open(path)?;
    match file.try_lock_shared() {
        // Nobody: a writer that was killed left its record. Given up at once, a writer may be about to come.
        Ok(()) => {
            unlock(&*file, path);
            Ok(None)
        }
        Err(TryLockError::WouldBlock) => {
            let record = read_all(&*file)?;
            // Cleared since it was found to hold a record, by a holder that is just giving it up.
            if Told::by_size(record.len() as u64) != Told::Signed {
                return Ok(None);
            }
            let holder = read_record(&record);
            // That of a writer that was killed says nothing of who has it now.
            Ok(Some(if may_be_of_holder(&holder) { holder } else { Holder::unknown() }))
        }
        Err(TryLockError::Error(e)) => Err(e),
    }
}

enum Alone {
    Locked,
    /// Another one has locked it alone.
    Held(Holder),
    /// Others look at it again and again.
    Busy,
}

/// Locks a file for this opening of it alone. Those who only look whether somebody has it hold it together for a moment,
/// which is told from a holder by joining them.
fn lock_alone(file: &dyn DiskFile) -> io::Result<Alone> {
    let mut jitter = RandomState::new().build_hasher().finish();
    let started = Instant::now();
    let mut looks = 0;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Alone::Locked),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(e),
        }
        match file.try_lock_shared() {
            Ok(()) => file.unlock()?,
            Err(TryLockError::WouldBlock) => {
                let holder = read_holder(file);
                looks += 1;
                if may_be_of_holder(&holder) || looks == LOOKS {
                    return Ok(Alone::Held(holder));
                }
            }
            Err(TryLockError::Error(e)) => return Err(e),
        }
        if started.elapsed() > LOOKERS_TIMEOUT {
            return Ok(Alone::Busy);
        }
        // Not in step with another writer that does the same.
        jitter = jitter.rotate_left(7);
        std::thread::sleep(Duration::from_micros(20 + jitter % 300));
    }
}

/// Whether the file that was locked is still the one that others find.
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

pub(super) fn read_holder(file: &dyn DiskFile) -> Holder {
    let record = read_all(file).unwrap_or_else(|e| {
        log::debug!("the holder of a lock could not be read: {e}");
        Vec::new()
    });
    read_record(&record)
}

/// Explicitly, and not only by closing: a child process that is being started may hold a copy for a moment.
fn unlock(file: &dyn DiskFile, path: &Path) {
    if let Err(e) = file.unlock() {
        log::warn!("unlocking {}: {e}; it is unlocked when the process ends", path.display());
    }
}

/// Gives up what could not be looked at.
fn unlocked(file: &dyn DiskFile, failed: io::Error) -> io::Error {
    if let Err(e) = file.unlock() {
        log::warn!("unlocking: {e}; it is unlocked when the process ends");
    }
    failed
}

/// The locked root of a store; unlocked when it is dropped.
pub(super) struct RootLock {
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

impl Drop for RootLock {
    fn drop(&mut self) {
        unlock(&*self.file, &self.path);
    }
}

/// Keeps all other creators of sessions off a root for as long as it lives: whether an id is taken is a question to all
/// project folders. `StoreBusy` when another one takes too long.
pub(super) fn lock_root(
    disk: &dyn Disk,
    root: &Path,
    id: &SessionId,
    context: &Context<'_>,
) -> Result<Option<RootLock>> {
    // Where a folder cannot be locked, of two creators of one id in two working folders both may win at the same time.
    if cfg!(not(unix)) {
        return Ok(None);
    }
    let file = disk.open_dir(root).map_err(|e| context.reading(root, e))?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(RootLock { file, path: root.to_owned() })),
            Err(TryLockError::Error(e)) => {
                log::debug!("{} cannot be locked, creators are not kept apart: {e}", root.display());
                return Ok(None);
            }
            Err(TryLockError::WouldBlock) if started.elapsed() > CREATION_TIMEOUT => {
                let (session, store) = (Some(id.clone()), root.display().to_string());
                return Err(Error::StoreBusy { session, store, holder: writer_of(root, 0..u64::MAX), source: None });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}
