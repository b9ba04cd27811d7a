//! A backup of a store of plain files.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use crate::export::{self, ImportError, ImportOptions};
use crate::log::SessionId;
use crate::paging::Listed;
use crate::seam::{Error, ListOrder, Result, SessionPersistence as _, SessionState};
use crate::{BackupReport, JsonlOptions, JsonlStore, private};

impl JsonlStore {
    /// Copies every session into the root folder of a new store, while they are being read and written: each as it is
    /// when its turn comes, event by event, and compared with its source afterwards. The folder has its name only when
    /// it is whole and survives a loss of power: until then it is `.sessions-*.part` beside it, which stays where the process
    /// is killed meanwhile, and is to be removed by hand then. Times of files are not taken over, but their order is: lists have the
    /// same order. Sessions are stored as new ones are here ([`JsonlOptions::encoding`]); torn tails and older
    /// generations of logs stay behind. A log above a few megabytes is set aside in the folder of temporary files until it is
    /// read.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a name that is taken, by whatever, or inside the store itself; `Corruption` for the first
    /// session that cannot be copied whole: [`upkeep::salvage`](crate::upkeep::salvage()) and remove it first, or copy
    /// the others ([`export::copy`](crate::export::copy())); `StorageFull`, `StorageReadOnly`, `Io`. Nothing of the
    /// backup is left then.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        let to = to.as_ref();
        let Some(name) = to.file_name() else { return Err(refused(to, "it names no folder")) };
        let folder = to.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().map_err(|e| failed(to, "finding the folder above", e))?;
        let root = self.root().canonicalize().map_err(|e| failed(self.root(), "finding", e))?;
        let to = folder.join(name);
        if to.starts_with(&root) {
            return Err(refused(&to, "it is a part of the store itself; name another folder"));
        }
        refuse_taken(&to)?;

        let draft = Draft::new(&folder)?;
        let options = JsonlOptions { encoding: self.encoding().unwrap_or_default(), ..JsonlOptions::default() };
        let copy = JsonlStore::open_existing_with(draft.path(), options)?;
        let mut report = BackupReport::new(0, 0, 0);
        for session in self.stored_least_recent_first()? {
            // None where it was removed since it was listed.
            if let Some(events) = self.copy_session(&session, &root, &copy)? {
                report.sessions += 1;
                report.events += events;
            }
        }
        copy.flush()?;
        drop(copy);
        report.bytes = size(draft.path()).map_err(|e| failed(draft.path(), "looking at", e))?;
        refuse_taken(&to)?;
        draft.publish(&to)?;
        if let Err(e) = private::sync_folder(&folder) {
            // A name that may be gone tomorrow is no backup.
            fs::remove_dir_all(&to).map_err(|e| failed(&to, "removing", e))?;
            return Err(failed(&to, "making durable the folder above", e));
        }
        Ok(report)
    }

    fn stored_least_recent_first(&self) -> Result<Vec<SessionId>> {
        let mut sessions = Vec::new();
        for listed in Listed::new(self, ListOrder::Activity) {
            let listed = listed?;
            if listed.state != SessionState::Pending {
                sessions.push(listed.id);
            }
        }
        sessions.reverse();
        Ok(sessions)
    }

    fn copy_session(&self, session: &SessionId, root: &Path, copy: &JsonlStore) -> Result<Option<u64>> {
        let from = root.display().to_string();
        let mut copied = Ok(None);
        let only = std::slice::from_ref(session);
        export::copy(self, &from, copy, Some(only), ImportOptions::default(), &mut |outcome| {
            copied = match outcome {
                Ok(imported) => Ok(Some(imported.events())),
                Err(error) => match into_error(error) {
                    Error::NotFound { .. } => Ok(None),
                    other => Err(other),
                },
            };
        })?;
        copied
    }
}

/// The error of the seam that a session was not copied for.
fn into_error(error: ImportError) -> Error {
    match error {
        ImportError::Source { source, .. } => *source,
        ImportError::Store { source, .. } | ImportError::NotDurable { source, .. } => source,
        other => {
            let session = match &other {
                ImportError::NotVerified { session, .. } | ImportError::Conflict { session, .. } => {
                    Some(session.clone())
                }
                _ => None,
            };
            Error::Io { session, operation: "copying a session".to_owned(), source: other.into() }
        }
    }
}

fn refuse_taken(to: &Path) -> Result<()> {
    match fs::symlink_metadata(to) {
        Ok(_) => Err(refused(to, "there is something of that name already; name another folder, or move it away")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(failed(to, "looking at", e)),
    }
}

fn refused(to: &Path, reason: &str) -> Error {
    Error::InvalidArgument { session: None, reason: format!("{} cannot be the backup: {reason}", to.display()) }
}

fn failed(path: &Path, operation: &str, error: io::Error) -> Error {
    let store = path.display().to_string();
    let operation = format!("{operation} {store}");
    Error::of_io(None, store, operation, error)
}

/// How many bytes the files of a folder have.
fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { size(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

/// The backup under a name that nobody looks for, gone with this value unless it is published.
struct Draft {
    path: Option<PathBuf>,
}

impl Draft {
    fn new(folder: &Path) -> Result<Self> {
        let random = RandomState::new().build_hasher().finish();
        let path = folder.join(format!(".sessions-{random:016x}.part"));
        private::folder().create(&path).map_err(|e| failed(&path, "making", e))?;
        Ok(Self { path: Some(path) })
    }

    fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    /// Gives it its name, which must be free: only an empty folder that was made meanwhile is replaced.
    fn publish(mut self, to: &Path) -> Result<()> {
        fs::rename(self.path(), to).map_err(|e| failed(to, "naming", e))?;
        self.path = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && let Err(e) = fs::remove_dir_all(path)
        {
            log::warn!("{}: what there is of a backup stays: {e}", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::Conflict;

    #[test]
    fn a_session_that_is_not_what_was_copied_is_named() {
        let (file, session) = ("root".to_owned(), SessionId::new("s").unwrap());
        let unverified =
            ImportError::NotVerified { file: file.clone(), session: session.clone(), seq: 3, source: None };
        let conflict = ImportError::Conflict { file, session: session.clone(), conflict: Conflict::Header };
        for failed in [unverified, conflict] {
            let error = into_error(failed);
            assert!(matches!(&error, Error::Io { session: Some(named), .. } if *named == session), "{error:?}");
        }
    }
}
