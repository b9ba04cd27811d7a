//! Making a new database: whole before it has its name.
//!
//! It is made as a draft beside the place where it goes, and beside the draft a file is locked as long as its maker lives.
//! So the next one to make a database there, or to write one, knows which drafts were left by processes that died, and
//! removes them.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::{NamedTempFile, TempPath};

use super::failure::Context;
use super::journal::Journal;
use super::side_files::beside;
use super::{file_system, schema};
use crate::private;
use crate::seam::Result;

/// The name of a draft starts and ends like this, and that of its lock.
const PREFIX: &str = ".sessions-";
const DRAFT: &str = "new";
const LOCK: &str = "lock";

/// What SQLite puts beside a database, by the end of its name.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// How often a draft is begun anew because somebody took its lock for that of a dead process.
const TRIES: usize = 100;

/// Makes a store in a new file at `path`: other processes see no file or a whole store, and of several that make one at the
/// same time the first wins.
pub(super) fn create_file(path: &Path, journal: Journal) -> Result<()> {
    let context = Context::store(path);
    let folder = folder_of(path);
    file_system::remote_wal(path, Some(journal), &context)?;
    for (suffix, holds) in [("-wal", "what was written last"), ("-journal", "a change that was not finished")] {
        // Another process may have made the store since it was looked for, and use it.
        if beside(path, suffix).try_exists().map_err(|e| context.io("looking beside", e))?
            && !path.try_exists().map_err(|e| context.io("looking for", e))?
        {
            return Err(context.unsupported(
                format!(
                    "there is no such file, but its {suffix} lies there, with {holds}; bring the file back to it, or move \
                     the {suffix} away if a new store is wanted"
                ),
                None,
            ));
        }
    }
    private::create_lasting_folder(folder).map_err(|e| context.io("making the folder of", e))?;
    remove_abandoned(folder);
    let draft = Draft::new(folder).map_err(|e| context.io("making", e))?;
    // Closed before SQLite opens it: closing a descriptor drops the locks that SQLite holds on the same file.
    private::file().open(&draft.path).map(drop).map_err(|e| context.io("making", e))?;
    let mut connection = Connection::open(&draft.path).map_err(|e| context.sqlite(e))?;
    schema::create(&mut connection, &context)?;
    journal.set(&connection, Duration::ZERO, &context)?;
    connection.close().map_err(|(_, e)| context.sqlite(e))?;
    let finished = TempPath::try_from_path(&draft.path).map_err(|e| context.io("making", e))?;
    match finished.persist_noclobber(path) {
        Ok(()) => {}
        Err(lost) if lost.error.kind() == ErrorKind::AlreadyExists => {}
        Err(failed) => return Err(context.io("making", failed.error)),
    }
    private::sync_folder(folder).map_err(|e| context.io("making durable the folder of", e))
}

/// Removes what was left beside a store by processes that died while they made one.
pub(super) fn clean_up_beside(path: &Path) {
    remove_abandoned(folder_of(path));
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A database that is being made, removed with what SQLite puts beside it.
struct Draft {
    path: PathBuf,
    /// Locked. Removed behind the draft.
    _lock: NamedTempFile,
}

impl Draft {
    fn new(folder: &Path) -> io::Result<Self> {
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
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Err(e) = remove(&self.path) {
            log::warn!("{}: what there is of a new store stays: {e}", self.path.display());
        }
    }
}

/// Removes a draft with what SQLite put beside it, as far as it is there.
fn remove(draft: &Path) -> io::Result<()> {
    for suffix in BESIDE.iter().chain(&[""]) {
        match fs::remove_file(beside(draft, suffix)) {
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

/// Whether a file that was locked is still the one that others find.
#[cfg(unix)]
fn is_in_place(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let held = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((held.dev(), held.ino()) == (named.dev(), named.ino())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Elsewhere a file that is open cannot be removed.
#[cfg(not(unix))]
fn is_in_place(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
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

    /// Files as a process leaves them that is killed while it makes a store.
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
        let living = Draft::new(folder).unwrap();
        fs::write(&living.path, "half").unwrap();
        let living_names: Vec<_> = [&living.path, living._lock.path()]
            .map(|path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .into();

        create_file(&folder.join("s.db"), Journal::Wal).unwrap();
        let mut left: Vec<_> = others.map(str::to_owned).into();
        left.extend([".sessions-folder.lock".to_owned(), "s.db".to_owned()]);
        let without_living = left.clone();
        left.extend(living_names);
        left.sort_unstable();
        assert_eq!(names(folder), left);
        assert_eq!(fs::read(&living.path).unwrap(), b"half");
        drop(living);
        create_file(&folder.join("t.db"), Journal::Rollback).unwrap();
        assert_eq!(names(folder).len(), without_living.len() + 1);
    }

    #[test]
    fn many_who_make_the_same_store_at_once_make_one_and_leave_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = folder.path().join(format!("{round}.db"));
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| create_file(&path, Journal::Wal).unwrap());
                }
            });
        }
        assert_eq!(names(folder.path()).len(), 20);
    }
}
