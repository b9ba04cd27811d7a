//! Making a session, whole or not at all.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::Disk;
use super::files::{Files, Key, Opened, guard};
use super::layout::{Encoding, Generation, Place};
use super::lease::Lease;
use super::lock::{LOCK, Lock, lock_root, lock_session};
use super::log_file::{LogFile, Tail};
use super::log_lock::{LogLock, Owned};
use super::memo::Known;
use super::search::{LOOKS, pause};
use super::stored_log::Log;
use super::writer::{Draft, batch, header_bytes, is_draft};
use crate::log::{SessionEvent, SessionHeader, SessionId};
use crate::seam::{Durability, Error, Result, checks};

/// How often the folder of a new session is made again because it was removed before it could be locked.
const TRIES: usize = 5;

impl Files {
    pub(super) fn create(&self, header: &SessionHeader, events: &[SessionEvent]) -> Result<(Key, Lease)> {
        let id = header.id();
        let context = self.context(id);
        checks::check_contiguous(id, 0, events)?;
        let folder: Arc<Path> = self.layout.folder(header.cwd(), id).into();
        let new = self.take_new_folder(&folder, id)?;
        // Of two stores that each make the first session the second goes by the encoding of the first, so it waits.
        let root = || lock_root(&*self.disk, self.layout.root(), id, &context);
        let first = if guard(&self.encoding).is_none() { Some(root()?) } else { None };
        self.remove_drafts(&folder, id)?;

        let generation = Generation { version: header.version(), encoding: self.encoding_for_new(id)? };
        let mut bytes = header_bytes(header, generation.encoding, &self.packer, &context)?;
        let mut log = Log::new(header.clone(), generation.encoding, bytes.len() as u64);
        if !events.is_empty() {
            let batch = batch(events, header.version(), generation.encoding, &self.packer, &context)?;
            log.extend(events, &batch, self.memo.limit());
            bytes.extend(batch.bytes);
        }
        let draft = Draft::write(&*self.disk, &folder, generation, &bytes, self.next_time(), &context)?;
        let place = Place { folder: folder.clone(), generation };
        let path = place.log();
        // Before it is published, so that nothing can fail afterwards.
        let file = self.disk.open(draft.path()).map_err(|e| context.reading(draft.path(), e))?;
        let identity = file.stat().map_err(|e| context.reading(draft.path(), e))?.identity;
        let every_append = self.durability == Durability::EveryAppend;
        if every_append {
            // Before it can be found, so that only its own name is left to fail.
            self.sync_folders(folder.ancestors().skip(1).take(2), id)?;
        }
        let root = match first {
            Some(locked) => locked,
            None => root()?,
        };
        self.check_free(id)?;
        // Before anybody can find it. Nobody else has it.
        let written = draft.file();
        let log_lock = LogLock::take(written.clone(), &path).map_err(|e| context.writing(draft.path(), e))?;
        match draft.publish(&path) {
            Ok(true) => drop(root),
            Ok(false) => return Err(Error::AlreadyExists { session: id.clone() }),
            Err(e) => return Err(context.writing(&path, e)),
        }
        if !every_append {
            self.unsynced.add_folders_to(&path);
        } else if let Err(failed) = self.sync_folders([&*folder], id) {
            self.unpublish(&path, id);
            return Err(failed);
        }
        let (Some(log_lock), Some(lock)) = (log_lock, new.keep()) else {
            return Err(Error::OwnershipLost { session: id.clone() });
        };
        lock.note_stored(true);
        let owned = Owned { log: log_lock, folder: lock };
        *guard(&self.encoding) = Some(generation.encoding);
        guard(&self.folders).insert(id.clone(), folder.clone());

        let slot = self.memo.slot(&path);
        self.memo.note(&path, log.bytes_held());
        // Where it cannot be looked at now it is read when it is needed.
        let stat = self.disk.stat(&path).ok();
        *slot.lock() = stat.map(|stat| Known { stat, log: log.into(), writing: false });
        // The content was synced before it was published.
        let end = bytes.len() as u64;
        let writes = LogFile::new(place.clone(), identity, id.clone(), Some(written), end);
        let lease = Lease::new(self.disk.clone(), writes.into(), owned, slot, Tail::found(end, 0));
        Ok((Key(Arc::new(Opened { place, path, file, identity })), lease))
    }

    /// Removes what writers left in a session's folder that were killed while they made it. Call it with the folder locked.
    pub(super) fn remove_drafts(&self, folder: &Path, id: &SessionId) -> Result<()> {
        let context = self.context(id);
        for name in self.layout.names(folder).map_err(|e| context.reading(folder, e))? {
            let path = folder.join(&name.text);
            if is_draft(&name.text) {
                self.disk.unlink(&path).map_err(|e| context.writing(&path, e))?;
            }
        }
        Ok(())
    }

    fn sync_folders<'p>(&self, folders: impl IntoIterator<Item = &'p Path>, id: &SessionId) -> Result<()> {
        let sync = |folder: &Path| self.disk.sync_dir(folder).map_err(|e| self.context(id).writing(folder, e));
        folders.into_iter().try_for_each(sync)
    }

    /// Takes back a log that could be found for a moment.
    fn unpublish(&self, path: &Path, id: &SessionId) {
        if let Err(e) = self.disk.unlink(path) {
            log::warn!("session {id:?} was not acknowledged and stays stored in {}: {e}", path.display());
        }
        self.unsynced.add_folders_to(path);
    }

    /// The encoding of a new session. Call it with the root locked as long as the encoding is not known.
    fn encoding_for_new(&self, id: &SessionId) -> Result<Encoding> {
        if let Some(encoding) = *guard(&self.encoding) {
            return Ok(encoding);
        }
        let found = self.layout.encoding().map_err(|e| self.context(id).reading(self.layout.root(), e))?;
        Ok(found.unwrap_or(self.wanted_encoding))
    }

    /// Makes and locks the folder of a new session.
    fn take_new_folder(&self, folder: &Path, id: &SessionId) -> Result<NewFolder<'_>> {
        let context = self.context(id);
        let mut new = NewFolder { disk: &*self.disk, made: Vec::new(), lock: None };
        for _ in 0..TRIES {
            for path in [folder.parent(), Some(folder)].into_iter().flatten() {
                match self.disk.make_dir(path) {
                    Ok(true) => new.made.push(path.to_owned()),
                    Ok(false) => {}
                    // The folder above it was just removed, with the last session in it.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => break,
                    Err(e) => return Err(context.writing(path, e)),
                }
            }
            match lock_session(&*self.disk, folder, id, &context) {
                Ok(Some(lock)) => {
                    new.lock = Some(lock);
                    return Ok(new);
                }
                Ok(None) => {}
                Err(Error::AlreadyOwned { session, .. }) => return Err(Error::AlreadyExists { session }),
                Err(other) => return Err(other),
            }
        }
        let root = self.layout.root();
        Err(context
            .writing(folder, io::Error::other(format!("it is removed again and again; is {} there?", root.display()))))
    }

    /// Refuses an id that is taken, in whatever project folder.
    pub(super) fn check_free(&self, id: &SessionId) -> Result<()> {
        for _ in 0..LOOKS {
            let found = self.layout.find(id).map_err(|e| self.context(id).reading(self.layout.root(), e))?;
            let Some(found) = found.first() else { return Ok(()) };
            if self.is_its_own(found.folder(), id)? {
                return Err(Error::AlreadyExists { session: id.clone() });
            }
            // Another session's, or its own, which was removed since it was found.
            pause();
        }
        Err(Error::InvalidArgument {
            session: Some(id.clone()),
            reason: "its folder would be that of another session, because the file system does not tell upper from \
                     lower case; choose an id that differs in more"
                .to_owned(),
        })
    }
}

/// The locked folder of a session that is being made, removed again unless the session is stored.
struct NewFolder<'f> {
    disk: &'f dyn Disk,
    /// The folders that were not there before, from the outside in.
    made: Vec<PathBuf>,
    lock: Option<Lock>,
}

impl NewFolder<'_> {
    /// Leaves the folder where it is; its lock.
    fn keep(mut self) -> Option<Lock> {
        self.made.clear();
        self.lock.take()
    }

    fn remove(&self, folder: &Path) -> io::Result<()> {
        if let Some(lock) = self.lock.as_ref().filter(|lock| lock.path().parent() == Some(folder))
            && lock.is_held(self.disk)?
        {
            self.disk.unlink(&folder.join(LOCK))?;
        }
        self.disk.remove_dir(folder)
    }
}

impl Drop for NewFolder<'_> {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            // An empty folder is no session, and one that somebody else uses by now has to stay.
            if let Err(e) = self.remove(folder) {
                log::debug!("{} stays: {e}", folder.display());
            }
        }
    }
}
