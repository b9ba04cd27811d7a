//! [`Draft`]: a database that is whole before it has its name.
//!
//! It is made beside the place where it goes, and beside it a file is locked as long as its maker lives. So whoever makes a
//! database there next, or writes one, knows which drafts were left by processes that died, and removes them.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

use super::lease::is_in_place;
use super::side_files::side_files;
use crate::private;

/// The name of a draft starts and ends like this, and that of its lock.
const PREFIX: &str = ".sessions-";
const DRAFT: &str = "new";
const LOCK: &str = "lock";

/// How often a draft is begun anew because somebody took its lock for that of a dead process.
const TRIES: usize = 100;

/// A database that is being made, removed with what SQLite puts beside it unless it is published.
pub(super) struct Draft {
    path: PathBuf,
    /// Locked. Removed behind the draft.
    _lock: NamedTempFile,
}

impl Draft {
    /// An empty file that only its owner can read, in the folder of `target`, where what dead processes left is removed.
    pub(super) fn beside(target: &Path) -> io::Result<Self> {
        clean_up_beside(target);
        let draft = Self::locked(folder_of(target))?;
        // Closed before SQLite opens it: closing a descriptor drops the locks that SQLite holds on the same file.
        private::file().open(&draft.path)?;
        Ok(draft)
    }

    fn locked(folder: &Path) -> io::Result<Self> {
        let suffix = format!(".{LOCK}");
        for _ in 0..TRIES {
            let lock = tempfile::Builder::new().prefix(PREFIX).suffix(&suffix).tempfile_in(folder)?;
            match lock.as_file().try_lock() {
                Ok(()) if is_in_place(lock.as_file(), lock.path())? => {
                    return Ok(Self { path: lock.path().with_extension(DRAFT), _lock: lock });
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                // Nobody else can lock it either, and take it for that of a dead process.
                Err(TryLockError::Error(e)) => {
                    log::debug!("{} cannot be locked: {e}", lock.path().display());
                    return Ok(Self { path: lock.path().with_extension(DRAFT), _lock: lock });
                }
            }
        }
        Err(io::Error::new(ErrorKind::ResourceBusy, "drafts are removed as soon as they are begun"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name, which must be free; whether it was.
    pub(super) fn publish(self, to: &Path) -> io::Result<bool> {
        match TempPath::try_from_path(&self.path)?.persist_noclobber(to) {
            Ok(()) => Ok(true),
            Err(lost) if lost.error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(failed) => Err(failed.error),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Err(e) = remove(&self.path) {
            log::warn!("{}: what there is of a new database stays: {e}", self.path.display());
        }
    }
}

/// Removes what was left beside a store by processes that died while they made one, or a backup.
pub(super) fn clean_up_beside(path: &Path) {
    remove_abandoned(folder_of(path));
}

/// The folder of a file.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes a draft with what SQLite put beside it, as far as it is there.
fn remove(draft: &Path) -> io::Result<()> {
    for part in side_files(draft).iter().map(PathBuf::as_path).chain([draft]) {
        match fs::remove_file(part) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Removes the drafts of processes that died. One that cannot be removed is in nobody's way.
fn remove_abandoned(folder: &Path) {
    let removed = fs::read_dir(folder).and_then(|entries| {
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let is_lock = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
                && path.extension().is_some_and(|end| end == LOCK);
            if is_lock
                && entry.file_type()?.is_file()
                && let Err(e) = remove_if_abandoned(&path)
            {
                log::debug!("{}: the draft of a dead process stays: {e}", path.display());
            }
        }
        Ok(())
    });
    if let Err(e) = removed {
        log::debug!("{}: no drafts of dead processes are looked for: {e}", folder.display());
    }
}

fn remove_if_abandoned(lock: &Path) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(lock)?;
    match file.try_lock() {
        Ok(()) if is_in_place(&file, lock)? => {}
        Ok(()) | Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(e)) => return Err(e),
    }
    remove(&lock.with_extension(DRAFT))?;
    // While it is locked: whoever has it open already finds that it is no longer in its place.
    fs::remove_file(lock)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Files as a process leaves them that is killed while it makes a store or a backup.
    fn leave(folder: &Path, names: &[&str]) {
        names.iter().for_each(|name| fs::write(folder.join(name), "half").unwrap());
    }

    #[test]
    fn drafts_of_dead_processes_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        leave(folder, &[".sessions-dead.lock", ".sessions-dead.new", ".sessions-dead.new-journal"]);
        leave(folder, &[".sessions-early.lock"]);
        let others = [".sessions-other.new", "sessions-x.lock", "sessions-x.new", ".sessions-y.part"];
        leave(folder, &others);
        fs::create_dir(folder.join(".sessions-folder.lock")).unwrap();
        let living = Draft::beside(&folder.join("s.db")).unwrap();
        fs::write(&living.path, "half").unwrap();
        let living_names: Vec<_> = [&living.path, living._lock.path()]
            .map(|path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .into();

        let second = Draft::beside(&folder.join("s.db")).unwrap();
        assert!(second.publish(&folder.join("s.db")).unwrap());
        let mut left: Vec<_> = others.map(str::to_owned).into();
        left.extend([".sessions-folder.lock".to_owned(), "s.db".to_owned()]);
        let without_living = left.len();
        left.extend(living_names);
        left.sort_unstable();
        assert_eq!(names(folder), left);
        assert_eq!(fs::read(&living.path).unwrap(), b"half");
        assert!(!living.publish(&folder.join("s.db")).unwrap(), "the name is taken");
        assert_eq!(fs::read(folder.join("s.db")).unwrap(), b"");
        assert_eq!(names(folder).len(), without_living);
    }
}
