//! Removing a session, whole or not at all.

use std::path::Path;
use std::sync::Arc;

use super::failure::Damage;
use super::files::{Files, guard};
use super::layout::{Found, Generation, Place, one_of};
use super::lock::{LOCK, Lock, lock_session};
use super::log_lock::{LogLock, Owned, own};
use super::recall::RECALL;
use super::writer::is_draft;
use crate::log::{SessionId, Vocabulary};
use crate::seam::{Error, Removal, Result, Revision};

impl Files {
    pub(super) fn remove_session(&self, id: &SessionId, only: Option<&Revision>) -> Result<Removal> {
        let context = self.context(id);
        let found = self.find_places(id).map_err(|e| context.reading(self.layout.root(), e))?;
        let several = found.len() > 1;
        let folder = match one_of(found) {
            None => return Ok(Removal::Absent),
            Some(Found::Unclear { reason, .. }) if several => {
                return Err(Damage { seq: None, offset: None, reason }.of(id));
            }
            Some(Found::One(Place { folder, .. }) | Found::Unclear { folder, .. }) => folder,
        };
        match self.layout.name(&folder).map_err(|e| context.reading(&folder, e))? {
            None => return Ok(Removal::Absent),
            // Another store may have it, or a backup.
            Some(name) if name.is_link => {
                let reason = format!(
                    "{} is a symbolic link to its folder, and what stands behind that is left alone; remove the link \
                     itself to take the session out of this store",
                    folder.display()
                );
                return Err(Error::InvalidArgument { session: Some(id.clone()), reason });
            }
            Some(_) => {}
        }
        let Some((lock, _log)) = self.take_for_removal(&folder, id)? else { return Ok(Removal::Absent) };
        if let Some(revision) = only {
            match self.snapshot_of(id, &Vocabulary::default())? {
                None => return Ok(Removal::Absent),
                Some(told) if told.revision != *revision => return Ok(Removal::Changed),
                Some(_) => {}
            }
        }
        let generations = self.layout.generations(&folder).map_err(|e| context.reading(&folder, e))?;
        let Some((newest, older)) = generations.split_last() else { return Ok(Removal::Absent) };
        let unlink = |generation: &Generation| {
            let path = folder.join(generation.file_name());
            self.disk.unlink(&path).map_err(|e| context.writing(&path, e))
        };
        // The oldest first: as long as the newest is there, the session is what it was. Durably, so that a loss of power
        // cannot bring back an older one in its place.
        older.iter().try_for_each(unlink)?;
        if !older.is_empty() {
            self.disk.sync_dir(&folder).map_err(|e| context.writing(&folder, e))?;
        }
        unlink(newest)?;
        lock.note_stored(false);
        for generation in &generations {
            let path = folder.join(generation.file_name());
            self.memo.forget(&path);
            self.glances.forget(&path);
            self.unsynced.forget_file(&path);
        }
        guard(&self.folders).remove(id);
        // Whether its folder goes or stays, the next flush makes the removal survive.
        self.unsynced.add_folder(&folder);
        self.unsynced.add_folder(folder.parent().unwrap_or(self.layout.root()));
        self.remove_folder(&folder, &lock);
        Ok(Removal::Removed)
    }

    /// Locks a session as its writer does: the folder, and the log that it holds.
    fn take_for_removal(&self, folder: &Path, id: &SessionId) -> Result<Option<(Lock, Option<LogLock>)>> {
        let context = self.context(id);
        let generations = self.layout.generations(folder).map_err(|e| context.reading(folder, e))?;
        let newest = generations.last().map(|newest| folder.join(newest.file_name()));
        // What cannot be opened has no writer, and can be removed all the same.
        let opened = newest.and_then(|path| self.disk.open(&path).ok().map(|file| (Arc::from(file), path)));
        match opened {
            Some((file, path)) => {
                let owned = own(&*self.disk, &file, &path, id, &context)?;
                Ok(owned.map(|Owned { log, folder }| (folder, Some(log))))
            }
            None => Ok(lock_session(&*self.disk, folder, id, &context)?.map(|lock| (lock, None))),
        }
    }

    /// Removes the folder of a session that is gone; what is none of ours in it keeps it.
    fn remove_folder(&self, folder: &Path, lock: &Lock) {
        let remove = || {
            for name in self.layout.names(folder)? {
                if is_draft(&name.text) || name.text == RECALL || name.text == LOCK && lock.is_held(&*self.disk)? {
                    self.disk.unlink(&folder.join(&name.text))?;
                }
            }
            self.disk.remove_dir(folder)
        };
        if let Err(e) = remove() {
            log::warn!("the session in {} is removed, its folder stays: {e}", folder.display());
        }
    }
}
