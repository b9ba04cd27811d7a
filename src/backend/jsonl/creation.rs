//! Making a session, whole or not at all.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::runtime::{Batch, Pieces};
use super::disk::{Disk, DiskFile, Identity};
use super::files::{Files, Key, Opened, guard};
use super::layout::{Encoding, Generation, Place};
use super::lease::Lease;
use super::lock::{Lock, lock_session};
use super::log_file::{LogFile, Tail};
use super::log_lock::{LogLock, Owned};
use super::memo::Known;
use super::root_lock::RootLock;
use super::search::{LOOKS, pause};
use super::stored_log::Log;
use super::writer::{Draft, batch, header_bytes, is_draft};
use crate::log::{SessionEvent, SessionHeader, SessionId};
use crate::seam::{Durability, Error, Result, checks};

/// How often the folder of a new session is made again because it was removed before it could be locked.
const TRIES: usize = 5;

impl Files {
    pub(super) fn create(&self, header: &SessionHeader, events: Batch<'_>) -> Result<(Key, Lease)> {
        let id = header.id();
        let context = self.context(id);
        if let Batch::Held(events) = events {
            checks::check_contiguous(id, 0, events)?;
        }
        let folder: Arc<Path> = self.layout.folder(header.cwd(), id).into();
        let mut made = NewFolders::new(&*self.disk);
        let lock = self.take_new_folder(&mut made, &folder, id)?;
        let unused = made.has(&folder).then(|| UnusedLock { disk: &*self.disk, lock: &lock });
        let lock_root = || RootLock::take(&*self.disk, self.layout.root(), id, &context);
        // Of two stores that each make the first session the second goes by the encoding of the first, so it waits.
        let locked_early = if guard(&self.encoding).is_none() { Some(lock_root()?) } else { None };
        self.remove_drafts(&folder, id)?;

        let new = self.prepare(header, events, folder)?;
        if self.durability == Durability::EveryAppend {
            // Before it can be found, so that only its own name is left to fail.
            self.sync_folders(new.place.folder.ancestors().skip(1).take(2), id)?;
        }
        let root = match locked_early {
            Some(locked) => locked,
            None => lock_root()?,
        };
        let stored = self.publish(new, id)?;
        drop(root);
        self.settle(&stored.path, id)?;
        made.keep();
        // Used from here on: its file stays.
        std::mem::forget(unused);
        lock.note_stored(true);
        Ok(self.lease_new(stored, lock, id))
    }

    /// Writes a new session whole, under a name that nobody looks for.
    fn prepare(&self, header: &SessionHeader, events: Batch<'_>, folder: Arc<Path>) -> Result<New<'_>> {
        let id = header.id();
        let context = self.context(id);
        let generation = Generation { version: header.version(), encoding: self.encoding_for_new(id)? };
        let mut bytes = header_bytes(header, generation.encoding, &self.packer, &context)?;
        let mut log = Log::new(header.clone(), generation.encoding, bytes.len() as u64);
        let add = |log: &mut Log, bytes: &mut Vec<u8>, events: &[SessionEvent], keep| -> Result<()> {
            let batch = batch(events, header.version(), generation.encoding, &self.packer, &context)?;
            log.extend(events, &batch, keep);
            bytes.extend(batch.bytes);
            Ok(())
        };
        let mut draft = Draft::new(&*self.disk, &folder, generation, &context)?;
        match events {
            Batch::Held([]) => {}
            Batch::Held(events) => add(&mut log, &mut bytes, events, self.memo.limit())?,
            Batch::Given(events) => {
                let mut pieces = Pieces::of(events);
                loop {
                    let piece = pieces.next(id, 0)?;
                    if piece.is_empty() {
                        break;
                    }
                    // Who gives them one by one has too many of them for memory.
                    add(&mut log, &mut bytes, &piece, 0)?;
                    draft.write(&bytes, &context)?;
                    bytes.clear();
                }
            }
        }
        if !bytes.is_empty() {
            draft.write(&bytes, &context)?;
        }
        draft.finish(self.next_time(), &context)?;
        // Before it is published, so that nothing can fail afterwards.
        let file = self.disk.open(draft.path()).map_err(|e| context.reading(draft.path(), e))?;
        let identity = file.stat().map_err(|e| context.reading(draft.path(), e))?.identity;
        Ok(New { place: Place { folder, generation }, draft, log, file, identity })
    }

    /// Gives a new session its name, which must be free. Call it with the root locked.
    fn publish(&self, new: New<'_>, id: &SessionId) -> Result<NewLog> {
        self.check_free(id)?;
        let New { place, draft, log, file, identity } = new;
        let (path, written) = (place.log(), draft.file());
        // Before anybody can find it. Nobody else has it.
        let locked = LogLock::take(written.clone(), &path).map_err(|e| self.context(id).writing(draft.path(), e))?;
        let lock = locked.ok_or_else(|| Error::OwnershipLost { session: id.clone() })?;
        match draft.publish(&path) {
            Ok(true) => Ok(NewLog { place, path, log, lock, file, written, identity }),
            Ok(false) => Err(Error::AlreadyExists { session: id.clone() }),
            Err(e) => Err(self.context(id).writing(&path, e)),
        }
    }

    /// Makes the name of a new log survive a loss of power: now, or with the next flush.
    fn settle(&self, path: &Path, id: &SessionId) -> Result<()> {
        if self.durability != Durability::EveryAppend {
            self.unsynced.add_folders_to(path);
            return Ok(());
        }
        self.sync_folders(path.parent(), id).inspect_err(|_| self.unpublish(path, id))
    }

    /// Gives a session that was just stored to its first writer.
    fn lease_new(&self, new: NewLog, folder: Lock, id: &SessionId) -> (Key, Lease) {
        let NewLog { place, path, log, lock, file, written, identity } = new;
        let end = log.end;
        let owned = Owned { log: lock, folder };
        *guard(&self.encoding) = Some(place.generation.encoding);
        guard(&self.folders).insert(id.clone(), place.folder.clone());
        let slot = self.memo.slot(&path);
        self.memo.note(&path, log.bytes_held());
        // Where it cannot be looked at now it is read when it is needed.
        let stat = self.disk.stat(&path).ok();
        *slot.lock() = stat.map(|stat| Known { stat, log: log.into(), writing: false });
        // The content was synced before it was published.
        let writes = LogFile::new(place.clone(), identity, id.clone(), Some(written), end);
        let lease = Lease::new(self.disk.clone(), writes.into(), owned, slot, Tail::found(end, 0));
        (Key(Arc::new(Opened { place, path, file, identity })), lease)
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
    fn take_new_folder(&self, made: &mut NewFolders<'_>, folder: &Path, id: &SessionId) -> Result<Lock> {
        let context = self.context(id);
        for _ in 0..TRIES {
            for path in [folder.parent(), Some(folder)].into_iter().flatten() {
                match made.make(path) {
                    Ok(()) => {}
                    // The folder above it was just removed, with the last session in it.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => break,
                    Err(e) => return Err(context.writing(path, e)),
                }
            }
            match lock_session(&*self.disk, folder, id, &context) {
                Ok(Some(lock)) => return Ok(lock),
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

/// A session that is written and not published.
struct New<'d> {
    place: Place,
    draft: Draft<'d>,
    log: Log,
    /// The draft, open for reading.
    file: Box<dyn DiskFile>,
    identity: Identity,
}

/// The log of a session that was just published.
struct NewLog {
    place: Place,
    path: PathBuf,
    log: Log,
    lock: LogLock,
    /// The file open for reading, and for writing.
    file: Box<dyn DiskFile>,
    written: Arc<dyn DiskFile>,
    identity: Identity,
}

/// The folders that were made for a new session, removed again unless it is stored.
struct NewFolders<'f> {
    disk: &'f dyn Disk,
    /// From the outside in.
    made: Vec<PathBuf>,
}

impl<'f> NewFolders<'f> {
    fn new(disk: &'f dyn Disk) -> Self {
        Self { disk, made: Vec::new() }
    }

    /// Makes a folder, where there is none, in an existing one.
    fn make(&mut self, folder: &Path) -> io::Result<()> {
        if self.disk.make_dir(folder)? {
            self.made.push(folder.to_owned());
        }
        Ok(())
    }

    fn has(&self, folder: &Path) -> bool {
        self.made.iter().any(|made| made == folder)
    }

    /// Leaves the folders where they are.
    fn keep(mut self) {
        self.made.clear();
    }
}

impl Drop for NewFolders<'_> {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            // An empty folder is no session, and one that somebody else uses by now has to stay.
            if let Err(e) = self.disk.remove_dir(folder) {
                log::debug!("{} stays: {e}", folder.display());
            }
        }
    }
}

/// The lock in a folder that was made for a new session. Unless that is stored its file is removed again, while it is
/// still locked, so that the folder can go.
struct UnusedLock<'l> {
    disk: &'l dyn Disk,
    lock: &'l Lock,
}

impl Drop for UnusedLock<'_> {
    fn drop(&mut self) {
        let is_held = self.lock.is_held(self.disk);
        let removed = is_held.and_then(|is_held| if is_held { self.disk.unlink(self.lock.path()) } else { Ok(()) });
        if let Err(e) = removed {
            log::debug!("{} stays: {e}", self.lock.path().display());
        }
    }
}
