//! [`Turnstile`]: a fair queue of processes before the lock for writing.
//!
//! SQLite's own wait is no queue: a process that commits again and again leaves one that sleeps between its tries next to
//! nothing. So whoever wants to write first takes the turnstile, keeps it while it waits for SQLite's lock, and gives it
//! up once it has that: the process that just wrote has to line up behind the one that waits. It gives fairness only;
//! that one process writes at a time is SQLite's own doing.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::lease::{Locks, is_in_place};
use super::patience::pause;
use crate::private;

/// The name of the file that is locked, in the folder of locks.
const NAME: &str = "queue";

/// How often a file is made anew because somebody removed it.
const TRIES: usize = 100;

/// The turnstile of one store.
pub(super) struct Turnstile {
    folder: Option<PathBuf>,
    file: Option<File>,
}

/// Being first in line, until it is dropped.
pub(super) struct First<'t>(Option<&'t File>);

impl Turnstile {
    pub(super) fn of(locks: &Locks) -> Self {
        Self { folder: locks.folder().map(Path::to_owned), file: None }
    }

    /// Waits to be first in line, for `patience` at most. Where the queue cannot be used, or somebody in it has come to a
    /// halt, it is passed by: SQLite decides all the same.
    pub(super) fn pass(&mut self, patience: Duration) -> First<'_> {
        match self.wait(patience) {
            Ok(true) => First(self.file.as_ref()),
            Ok(false) => First(None),
            Err(e) => {
                log::debug!("the queue of writers cannot be used, which costs fairness only: {e}");
                First(None)
            }
        }
    }

    fn wait(&mut self, patience: Duration) -> io::Result<bool> {
        let Some(folder) = &self.folder else { return Ok(false) };
        let started = Instant::now();
        let mut tries = 0;
        for _ in 0..TRIES {
            let file = match self.file.take() {
                Some(file) => file,
                None => match private::create_folder(folder).and_then(|()| private::file().open(folder.join(NAME))) {
                    // The last one to leave the folder removed it.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    opened => opened?,
                },
            };
            while let Err(refused) = file.try_lock() {
                match refused {
                    TryLockError::Error(e) => return Err(e),
                    TryLockError::WouldBlock if started.elapsed() >= patience => {
                        self.file = Some(file);
                        return Ok(false);
                    }
                    TryLockError::WouldBlock => pause(tries),
                }
                tries += 1;
            }
            // One that was removed meanwhile is nobody's queue any more.
            if is_in_place(&file, &folder.join(NAME))? {
                self.file = Some(file);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        if let Some(Err(e)) = self.0.map(File::unlock) {
            log::warn!("leaving the queue of writers: {e}");
        }
    }
}

impl Drop for Turnstile {
    /// Leaves nothing behind, unless others use it.
    fn drop(&mut self) {
        let (Some(folder), Some(file)) = (&self.folder, &self.file) else { return };
        let path = folder.join(NAME);
        if file.try_lock().is_ok() && is_in_place(file, &path).unwrap_or(false) {
            let removed = fs::remove_file(&path).and_then(|()| fs::remove_dir(folder));
            if let Err(e) = removed {
                log::trace!("{}: the folder stays: {e}", folder.display());
            }
        }
        if let Err(e) = file.unlock() {
            log::warn!("leaving the queue of writers: {e}");
        }
    }
}
