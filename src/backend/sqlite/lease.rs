//! [`Lease`]: the ownership of a session, as a lock that the kernel holds for a process and drops with it.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::runtime::{
    Alone, LOOKERS_TIMEOUT, Process, holder_of, lock_alone, record_of_locked, write_record, writer_of,
};
use super::failure::Context;
use super::side_files::beside;
use crate::log::SessionId;
use crate::private;
use crate::seam::{Error, Holder, Result};

/// How often a lock file is made again because its last holder removed it while it was being locked.
const TRIES: usize = 100;

/// How long to wait, with the lock for writing held, for those who only ask for an owner: nobody else can write meanwhile.
const BRIEFLY: Duration = Duration::from_millis(20);

/// The ownership of a session. A database in memory, which has one store only, needs no lock.
pub(super) struct Lease {
    /// The number that the session has as long as its writer is not replaced.
    pub(super) fence: i64,
    _lock: Option<Lock>,
}

impl Lease {
    pub(super) fn with_fence(self, fence: i64) -> Self {
        Self { fence, ..self }
    }
}

struct Lock {
    file: File,
    path: PathBuf,
    /// A process that is forked gets the lock as well, and would give it up for both.
    process: Process,
}

/// Where the lock of each session stands: a folder beside the database, one file a session that is being written.
pub(super) struct Locks {
    folder: Option<PathBuf>,
}

impl Locks {
    pub(super) fn beside(database: &Path) -> Self {
        Self { folder: Some(beside(database, "-locks")) }
    }

    pub(super) fn none() -> Self {
        Self { folder: None }
    }

    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    fn path(folder: &Path, number: i64) -> PathBuf {
        folder.join(format!("{number}.lock"))
    }

    /// Takes the session with this number, or tells who has it. Its fence is still to be set.
    pub(super) fn take(&self, number: i64, id: &SessionId, context: &Context<'_>) -> Result<Lease> {
        self.take_within(LOOKERS_TIMEOUT, number, id, context)
    }

    /// [`Locks::take`] in a transaction that writes, which waits for nobody for long.
    pub(super) fn take_in_transaction(&self, number: i64, id: &SessionId, context: &Context<'_>) -> Result<Lease> {
        self.take_within(BRIEFLY, number, id, context)
    }

    fn take_within(&self, patience: Duration, number: i64, id: &SessionId, context: &Context<'_>) -> Result<Lease> {
        let Some(folder) = &self.folder else { return Ok(Lease { fence: 0, _lock: None }) };
        let path = Self::path(folder, number);
        let busy = |holder| {
            let (session, store) = (Some(id.clone()), folder.display().to_string());
            Error::StoreBusy { session, store, holder, source: None }
        };
        for _ in 0..TRIES {
            private::create_folder(folder).map_err(|e| context.io("making the folder for locks of", e))?;
            let file = match private::file().open(&path) {
                Ok(file) => file,
                // The last holder of another session removed the folder.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(context.io("opening a lock of", e)),
            };
            match lock_alone(&file, patience).map_err(|e| context.io("locking a session of", e))? {
                Alone::Locked => {}
                Alone::Held(holder) => return Err(Error::AlreadyOwned { session: id.clone(), holder }),
                Alone::Busy => return Err(busy(None)),
            }
            // Only a file that is in its place becomes a lock, which is removed when it is given up: another one's never is.
            if is_in_place(&file, &path).map_err(|e| context.io("looking at a lock of", e))? {
                let lock = Lock { file, path, process: Process::current() };
                lock.leave_record();
                return Ok(Lease { fence: 0, _lock: Some(lock) });
            }
        }
        Err(busy(writer_of(&path, 0..u64::MAX)))
    }

    /// The numbers of the sessions that may have an owner.
    pub(super) fn numbers(&self) -> std::io::Result<HashSet<i64>> {
        let Some(folder) = &self.folder else { return Ok(HashSet::new()) };
        let mut numbers = HashSet::new();
        match fs::read_dir(folder) {
            Ok(names) => {
                for name in names {
                    let name = name?.file_name();
                    numbers.extend(
                        name.to_str().and_then(|n| n.strip_suffix(".lock")).and_then(|n| n.parse::<i64>().ok()),
                    );
                }
                Ok(numbers)
            }
            Err(e) if is_hidden(&e) => Ok(numbers),
            Err(e) => Err(e),
        }
    }

    /// Who has the session with this number, in whatever process. A file that a killed writer left locks nothing.
    pub(super) fn owner(&self, number: i64) -> std::io::Result<Option<Holder>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        match File::open(Self::path(folder, number)) {
            Ok(file) => Ok(record_of_locked(&file)?.map(|record| holder_of(&record))),
            Err(e) if is_hidden(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Whether the lock file is absent, or this user may not read it.
fn is_hidden(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
}

/// Whether a file that was locked is still the one that others find.
pub(super) fn is_in_place(file: &File, path: &Path) -> std::io::Result<bool> {
    match fs::metadata(path) {
        Ok(found) => is_same(&found, &file.metadata()?),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

impl Lock {
    /// The lock is what counts: a disk that is full must not keep a writer from waiting for room.
    fn leave_record(&self) {
        let record = write_record(&Holder::this_process());
        let mut file = &self.file;
        // It may have been read before, to see who had it.
        let written = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(record.as_bytes()));
        let written = written.and_then(|()| file.set_len(record.len() as u64));
        if let Err(e) = written {
            log::debug!("{}: the holder could not be noted: {e}", self.path.display());
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.process.is_current() {
            return;
        }
        // Removed while it is still locked: whoever has it open already finds that it is no longer in its place. One that
        // somebody else put there is another writer's.
        let removed = is_in_place(&self.file, &self.path)
            .and_then(|is_own| if is_own { fs::remove_file(&self.path) } else { Ok(()) });
        if let Err(e) = removed {
            log::debug!("{}: the lock file stays: {e}", self.path.display());
        }
        // Explicitly, and not only by closing: a child process that is being started may hold a copy for a moment.
        if let Err(e) = self.file.unlock() {
            log::warn!("unlocking {}: {e}; it is unlocked when the process ends", self.path.display());
        }
        // Fails, as it should, while other sessions are being written.
        if let Some(Err(e)) = self.path.parent().map(fs::remove_dir) {
            log::trace!("{}: the folder stays: {e}", self.path.display());
        }
    }
}

#[cfg(unix)]
pub(super) fn is_same(a: &fs::Metadata, b: &fs::Metadata) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
}

/// Elsewhere a file that is open cannot be removed, so that it is in its place.
#[cfg(not(unix))]
pub(super) fn is_same(_: &fs::Metadata, _: &fs::Metadata) -> std::io::Result<bool> {
    Ok(true)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_that_was_opened_before_it_was_given_up_locks_nothing_and_harms_no_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("s.db");
        let locks = Locks::beside(&database);
        let context = Context::store(&database);
        let id = SessionId::new("s").unwrap();
        let path = folder.path().join("s.db-locks/7.lock");

        let first = locks.take(7, &id, &context).unwrap();
        let late = File::open(&path).unwrap();
        drop(first);
        assert!(!path.exists(), "a lock that is given up leaves nothing behind");
        let second = locks.take(7, &id, &context).unwrap();
        late.try_lock().unwrap();
        assert!(!is_in_place(&late, &path).unwrap());
        drop(late);
        assert!(path.exists());
        assert!(
            matches!(locks.take(7, &id, &context), Err(Error::AlreadyOwned { holder, .. }) if holder.process == std::process::id())
        );
        drop(second);
        locks.take(7, &id, &context).unwrap();
    }
}
