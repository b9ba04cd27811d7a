//! [`Unsynced`]: what was written and would not survive a loss of power yet.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{Disk, Identity};
use super::log_file::LogFile;

/// The most files of sessions without a writer that are kept open to be synced, about.
const MOST_OPEN: usize = 64;

/// What was written and would not survive a loss of power yet.
#[derive(Default)]
pub(super) struct Unsynced {
    pending: Mutex<Pending>,
    /// Held while syncing: who asks meanwhile must not be told that nothing is left to do.
    syncing: Mutex<()>,
}

/// Each with the number of the addition that was last: what is added again while it is synced stays.
#[derive(Default)]
struct Pending {
    files: HashMap<PathBuf, (Arc<LogFile>, u64)>,
    folders: HashMap<PathBuf, u64>,
    added: u64,
}

impl Unsynced {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_file(&self, file: &Arc<LogFile>) {
        let mut pending = self.pending();
        pending.added += 1;
        let added = pending.added;
        if let Some((known, last)) = pending.files.get_mut(&file.path) {
            *last = added;
            if !Arc::ptr_eq(known, file) {
                *known = file.clone();
            }
            return;
        }
        pending.files.insert(file.path.clone(), (file.clone(), added));
        if pending.files.len().is_multiple_of(MOST_OPEN) {
            pending.files.values().for_each(|(file, _)| file.close_unless_leased());
        }
    }

    /// The file at `path`, where it was written and not synced.
    pub(super) fn file(&self, path: &Path, identity: Identity) -> Option<Arc<LogFile>> {
        let pending = self.pending();
        let (file, _) = pending.files.get(path)?;
        (file.identity() == identity).then(|| file.clone())
    }

    /// Forgets a file that was removed.
    pub(super) fn forget_file(&self, path: &Path) {
        self.pending().files.remove(path);
    }

    pub(super) fn add_folder(&self, path: &Path) {
        let mut pending = self.pending();
        pending.added += 1;
        let added = pending.added;
        pending.folders.insert(path.to_owned(), added);
    }

    /// Adds the folders that lead to a log: those of its session, its project and its root.
    pub(super) fn add_folders_to(&self, log: &Path) {
        folders_to(log).for_each(|folder| self.add_folder(folder));
    }

    /// Syncs those of the folders that lead to a log which are not synced yet.
    pub(super) fn sync_folders_to(&self, log: &Path, disk: &dyn Disk) -> Result<(), (PathBuf, io::Error)> {
        for folder in folders_to(log) {
            self.sync_folder(folder, disk).map_err(|e| (folder.to_owned(), e))?;
        }
        Ok(())
    }

    fn sync_folder(&self, path: &Path, disk: &dyn Disk) -> io::Result<()> {
        let Some(added) = self.pending().folders.get(path).copied() else { return Ok(()) };
        gone_is_fine(disk.sync_dir(path))?;
        let mut pending = self.pending();
        if pending.folders.get(path) == Some(&added) {
            pending.folders.remove(path);
        }
        Ok(())
    }

    /// Syncs a file, whether it was added or not.
    pub(super) fn sync_file(&self, file: &LogFile, disk: &dyn Disk) -> io::Result<()> {
        let number = |pending: &Pending| pending.files.get(&file.path).map(|(_, added)| *added);
        let added = number(&self.pending());
        gone_is_fine(file.sync(disk))?;
        let mut pending = self.pending();
        if number(&pending) == added {
            pending.files.remove(&file.path);
        }
        Ok(())
    }

    /// Syncs all; what fails stays to be synced, and the rest is synced all the same.
    pub(super) fn sync(&self, disk: &dyn Disk) -> Vec<(PathBuf, io::Error)> {
        let _turn = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let (files, mut folders) = {
            let pending = self.pending();
            let mut files: Vec<_> = pending.files.values().map(|(file, _)| file.clone()).collect();
            files.sort_by(|a, b| a.path.cmp(&b.path));
            (files, pending.folders.keys().cloned().collect::<Vec<_>>())
        };
        let mut failures = Vec::new();
        for file in files {
            if let Err(e) = self.sync_file(&file, disk) {
                failures.push((file.path.clone(), e));
            }
        }
        // A folder survives by the one that holds it, and its files by it: the innermost first.
        folders.sort_by(|a, b| b.as_os_str().len().cmp(&a.as_os_str().len()).then_with(|| a.cmp(b)));
        for path in folders {
            if let Err(e) = self.sync_folder(&path, disk) {
                failures.push((path, e));
            }
        }
        failures
    }
}

/// The folders that lead to a log, the innermost first.
fn folders_to(log: &Path) -> impl Iterator<Item = &Path> {
    log.ancestors().skip(1).take(3)
}

/// What was removed meanwhile has nothing left to survive.
fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
