//! Making a new database: whole before it has its name.
//!
//! It is made in a folder of its own beside the place where it goes, a draft, which is locked as long as its maker lives. So
//! the next one who makes a database there knows which drafts were left by processes that died, and removes them.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

use rusqlite::Connection;
use tempfile::{TempDir, TempPath};

use super::failure::Context;
use super::journal::Journal;
use super::side_files::beside;
use super::{file_system, schema};
use crate::private;
use crate::seam::Result;

const PREFIX: &str = ".sessions-";
const SUFFIX: &str = ".new";

/// The database in a draft.
const NAME: &str = "store";

/// How often a draft is made anew because somebody took it for that of a dead process before it was locked.
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
    let file = draft.folder.path().join(NAME);
    // Closed before SQLite opens it: closing a descriptor drops the locks that SQLite holds on the same file.
    private::file().open(&file).map(drop).map_err(|e| context.io("making", e))?;
    let mut connection = Connection::open(&file).map_err(|e| context.sqlite(e))?;
    schema::create(&mut connection, &context)?;
    journal.set(&connection, std::time::Duration::ZERO, &context)?;
    connection.close().map_err(|(_, e)| context.sqlite(e))?;
    let finished = TempPath::try_from_path(file).map_err(|e| context.io("making", e))?;
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

/// A folder in which a database is made, removed with what is in it.
struct Draft {
    folder: TempDir,
    /// Locked. Dropped behind the folder, of which nothing is left by then.
    _lock: Option<File>,
}

impl Draft {
    fn new(folder: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            let mut builder = tempfile::Builder::new();
            builder.prefix(PREFIX).suffix(SUFFIX);
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
            let draft = builder.tempdir_in(folder)?;
            match lock(draft.path()) {
                Ok(Locked::Here(lock)) => return Ok(Self { folder: draft, _lock: lock }),
                Ok(Locked::Elsewhere) => {}
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::Error::new(ErrorKind::ResourceBusy, "drafts are removed as soon as they are made"))
    }
}

enum Locked {
    /// Nothing where folders cannot be locked: there a draft is never taken for an abandoned one.
    Here(Option<File>),
    /// By another process, or removed meanwhile.
    Elsewhere,
}

#[cfg(unix)]
fn lock(draft: &Path) -> io::Result<Locked> {
    use std::os::unix::fs::MetadataExt;
    let folder = File::open(draft)?;
    match folder.try_lock() {
        Ok(()) => {
            let (held, named) = (folder.metadata()?, fs::symlink_metadata(draft)?);
            let is_in_place = (held.dev(), held.ino()) == (named.dev(), named.ino());
            Ok(if is_in_place { Locked::Here(Some(folder)) } else { Locked::Elsewhere })
        }
        Err(TryLockError::WouldBlock) => Ok(Locked::Elsewhere),
        Err(TryLockError::Error(e)) => {
            log::debug!("{} cannot be locked: {e}", draft.display());
            Ok(Locked::Here(None))
        }
    }
}

#[cfg(not(unix))]
fn lock(_: &Path) -> io::Result<Locked> {
    Ok(Locked::Here(None))
}

/// Removes the drafts of processes that died. One that cannot be removed is in nobody's way.
fn remove_abandoned(folder: &Path) {
    let removed = fs::read_dir(folder).and_then(|entries| {
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let is_draft = name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
            if is_draft
                && entry.file_type()?.is_dir()
                && let Err(e) = remove_if_abandoned(&entry.path())
            {
                log::debug!("{}: the draft of a dead process stays: {e}", entry.path().display());
            }
        }
        Ok(())
    });
    if let Err(e) = removed {
        log::debug!("{}: no drafts of dead processes are looked for: {e}", folder.display());
    }
}

fn remove_if_abandoned(draft: &Path) -> io::Result<()> {
    let Locked::Here(Some(_lock)) = lock(draft)? else { return Ok(()) };
    // Nothing else than what a draft is made of.
    for suffix in ["", "-wal", "-shm", "-journal"] {
        match fs::remove_file(beside(&draft.join(NAME), suffix)) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    fs::remove_dir(draft)
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

    /// A draft as a process leaves it that is killed while it makes a store.
    fn abandoned(folder: &Path, name: &str) {
        let draft = folder.join(name);
        fs::create_dir(&draft).unwrap();
        for file in ["store", "store-journal"] {
            fs::write(draft.join(file), "half").unwrap();
        }
    }

    #[test]
    fn drafts_of_dead_processes_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        abandoned(folder.path(), ".sessions-dead.new");
        fs::create_dir(folder.path().join(".sessions-empty.new")).unwrap();
        abandoned(folder.path(), ".sessions-users.new");
        fs::write(folder.path().join(".sessions-users.new/letter"), "of somebody").unwrap();
        fs::write(folder.path().join(".sessions-file.new"), "of somebody").unwrap();
        abandoned(folder.path(), "sessions-other.new");
        let living = Draft::new(folder.path()).unwrap();
        fs::write(living.folder.path().join(NAME), "half").unwrap();
        let living_name = living.folder.path().file_name().unwrap().to_str().unwrap().to_owned();

        create_file(&folder.path().join("s.db"), Journal::Wal).unwrap();
        let mut left =
            vec![living_name.as_str(), ".sessions-file.new", ".sessions-users.new", "s.db", "sessions-other.new"];
        left.sort_unstable();
        assert_eq!(names(folder.path()), left);
        assert_eq!(fs::read(living.folder.path().join(NAME)).unwrap(), b"half");
        assert_eq!(names(&folder.path().join(".sessions-users.new")), ["letter"]);
        drop(living);
        create_file(&folder.path().join("t.db"), Journal::Rollback).unwrap();
        assert!(names(folder.path()).contains(&"t.db".to_owned()));
        assert!(!names(folder.path()).contains(&living_name));
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
