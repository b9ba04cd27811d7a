//! [`LogFile`]: the file of a log as its writer has it, and how much of it is known to survive a loss of power.
//!
//! When the system fails to write what it holds of a file, it says so once, at the next sync, and counts it as written
//! from then on: the sync after that succeeds, and nothing has reached the disk. So after a failure all that is not known
//! to survive is written once more before the file is synced again, and so it is where the file was closed meanwhile and
//! the system may have had nobody to tell.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::disk::{Disk, DiskFile, Identity};
use super::files::guard;
use super::layout::Place;
use super::lock::{Lock, Taken};
use super::log_lock::{LogLock, Owned};
use super::scan::scan;
use crate::log::SessionId;

/// What is written again at once, in bytes.
const PIECE: usize = 256 << 10;

/// The file of a log that this store writes, or has written and not synced yet.
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    place: Place,
    identity: Identity,
    id: SessionId,
    content: Mutex<Content>,
    /// Held while the file is synced: of several who sync at the same time only one is told of a failure.
    syncing: Mutex<()>,
}

/// What is known of the content, and what is needed to change it.
struct Content {
    /// Opened when it is first needed, and kept, unless very many are: one that is opened later may not be told of a failure.
    file: Option<Arc<dyn DiskFile>>,
    /// What keeps others off, as long as a lease of this store lives.
    owned: Option<Owned>,
    /// Where the log ended when this store saw or wrote it last.
    end: u64,
    /// How much of it, from its start on, is known to survive.
    durable: u64,
    /// The first byte that was changed since the last sync began.
    lowest: u64,
    /// Whether a sync has failed, so that the next one proves nothing of what it did not write.
    is_doubtful: bool,
    /// Whether it was closed before all of it was synced, so that the system may have had nobody to tell of a failure.
    was_closed: bool,
    /// How often something was cut off, and up to which of these cuts they are known to survive.
    cuts: u64,
    durable_cuts: u64,
}

/// What stands behind the end of a log and may be cut off: what its lease found torn there when it began, or what a
/// failed append of its own left. Anything else is somebody else's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) range: Range<u64>,
    /// Whether a failed append of this lease has left it.
    pub(super) is_ours: bool,
}

impl Tail {
    /// A tail of `torn` bytes that was found behind `end`.
    pub(super) fn found(end: u64, torn: u64) -> Self {
        Self { range: end..end + torn, is_ours: false }
    }
}

/// Why nothing was written.
pub(super) enum Unwritten {
    /// Somebody else writes the session.
    Lost,
    /// Another file, or none, stands in its place.
    Absent,
    Failed(io::Error),
}

impl From<io::Error> for Unwritten {
    fn from(failed: io::Error) -> Self {
        Self::Failed(failed)
    }
}

impl LogFile {
    /// A file of which the first `durable` bytes are known to survive, opened already or not.
    pub(super) fn new(
        place: Place,
        identity: Identity,
        id: SessionId,
        file: Option<Arc<dyn DiskFile>>,
        durable: u64,
    ) -> Self {
        let content = Content {
            file,
            owned: None,
            end: durable,
            durable,
            lowest: u64::MAX,
            is_doubtful: false,
            was_closed: false,
            cuts: 0,
            durable_cuts: 0,
        };
        Self { path: place.log(), place, identity, id, content: Mutex::new(content), syncing: Mutex::default() }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        guard(&self.content)
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) fn folder(&self) -> &Path {
        &self.place.folder
    }

    /// How much of a log that ends at `end` is known to survive a loss of power, with the open file; nothing where it ends
    /// elsewhere, or something is in doubt.
    pub(super) fn durable_up_to(&self, end: u64) -> Option<(Arc<dyn DiskFile>, u64)> {
        let content = self.content();
        let is_certain = content.end == end && !content.is_doubtful && !content.was_closed && !content.has_fresh_cut();
        Some((content.file.clone().filter(|_| is_certain)?, content.durable.min(end)))
    }

    /// Gives the file to a lease: its locks, and where its log ends.
    pub(super) fn begin(&self, owned: Owned, end: u64) {
        let mut content = self.content();
        // It may have been closed meanwhile, and the lock is one of this very opening.
        content.file = Some(owned.log.file());
        content.owned = Some(owned);
        content.end = end;
    }

    /// Ends the lease, and cuts off what a failed append of it has left.
    pub(super) fn finish(&self, disk: &dyn Disk, tail: &Tail) {
        let path = self.path.display();
        let has_fresh_cut = {
            let mut content = self.content();
            if tail.is_ours
                && let Some(file) = content.file.clone()
                && let Err(e) = content.cut_own(disk, &self.place.folder, &*file, &tail.range)
            {
                log::warn!("{path}: what a failed append left could not be cut off: {e}; the next writer may read it");
            }
            content.has_fresh_cut()
        };
        // The next writer does not know of it.
        if has_fresh_cut && let Err(e) = self.sync(disk) {
            log::warn!("{path}: syncing what a failed append left and was cut off: {e}");
        }
        self.content().owned = None;
    }

    /// Closes a file that no lease needs: it is opened again to be synced, and what is not known to survive is written again
    /// then.
    pub(super) fn close_unless_leased(&self) {
        let mut content = self.content();
        if content.owned.is_none() && content.file.take().is_some() {
            content.was_closed |= content.durable < content.end;
        }
    }

    /// Opens it for writing, unless it is open; `NotFound` where another file stands in its place.
    pub(super) fn open(&self, disk: &dyn Disk) -> io::Result<Arc<dyn DiskFile>> {
        let mut content = self.content();
        if let Some(file) = &content.file {
            return Ok(file.clone());
        }
        let file: Arc<dyn DiskFile> = disk.open_for_writing(&self.path)?.into();
        if file.stat()?.identity != self.identity {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(content.file.insert(file).clone())
    }

    /// Whether the lease still keeps everybody else off.
    pub(super) fn is_held(&self, disk: &dyn Disk) -> io::Result<bool> {
        self.content().is_held(disk, &self.place.folder)
    }

    /// Writes a batch at `end`, where the log ends, after cutting `tail` off. After a failure nothing of the batch is left,
    /// or, where that fails too, it is noted as the tail.
    pub(super) fn write(
        &self,
        disk: &dyn Disk,
        end: u64,
        bytes: &[u8],
        tail: &mut Tail,
    ) -> Result<Arc<dyn DiskFile>, Unwritten> {
        let file = match self.open(disk) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(Unwritten::Absent),
            opened => opened?,
        };
        let size = file.stat()?.size;
        if size < end {
            return Err(io::Error::other(format!("the file has {size} bytes where its log has {end}")).into());
        }
        if size > end {
            // Nobody can add to a file that this lease keeps others off, except by not asking.
            if tail.range.start != end || size > tail.range.end || !self.is_held(disk)? {
                return Err(Unwritten::Lost);
            }
            self.content().cut(&*file, end)?;
            if !tail.is_ours {
                let (id, cut, place) = (&self.id, size - end, self.path.display());
                log::warn!("session {id:?}: cut {cut} bytes of an unfinished write off the end of {place}");
            }
        }
        *tail = Tail::found(end, 0);
        // Durably before the first new byte: a mixture of the two must not be what a loss of power leaves.
        if self.content().has_fresh_cut() {
            self.sync(disk)?;
        }
        if !self.is_held(disk)? {
            return Err(Unwritten::Lost);
        }
        let mut content = self.content();
        content.changes_from(end);
        match file.write_all_at(bytes, end) {
            Ok(()) => {
                content.end = end + bytes.len() as u64;
                drop(content);
                Ok(file)
            }
            Err(failed) => {
                content.take_back(disk, &self.place.folder, &*file, end..end + bytes.len() as u64, tail);
                Err(failed.into())
            }
        }
    }

    /// Takes back a batch of `length` bytes that was written at `end` and could not be synced.
    pub(super) fn take_back(&self, disk: &dyn Disk, end: u64, length: usize, tail: &mut Tail) {
        let has_fresh_cut = {
            let mut content = self.content();
            content.end = end;
            // Open, or nothing could have been written.
            let Some(file) = content.file.clone() else { return };
            content.take_back(disk, &self.place.folder, &*file, end..end + length as u64, tail);
            content.has_fresh_cut()
        };
        // Where it fails the next write asks for it again.
        if has_fresh_cut && let Err(e) = self.sync(disk) {
            log::debug!("{}: syncing what was taken back: {e}", self.path.display());
        }
    }

    /// Checks that the log still stands where it was written, with all that was acknowledged. Nobody else may change it as
    /// long as it is leased, and a sync of the open file knows nothing of its name.
    pub(super) fn check_stands(&self, disk: &dyn Disk) -> io::Result<()> {
        let end = self.content().end;
        let advice = "what was acknowledged is not there any more: restore the session from a backup, or store what is still \
                      known of it anew, under another id";
        let gone = |what: String| Err(io::Error::other(format!("{what} while this store wrote it; {advice}")));
        match disk.stat(&self.path) {
            Ok(found) if found.identity != self.identity => gone("another file was put in its place".to_owned()),
            Ok(found) if found.size < end => {
                gone(format!("it was cut to {} bytes of {end} by another program", found.size))
            }
            Ok(_) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => gone("it was removed by another program".to_owned()),
            Err(e) => Err(e),
        }
    }

    /// Makes all that was written before this call survive a loss of power.
    pub(super) fn sync(&self, disk: &dyn Disk) -> io::Result<()> {
        let _turn = guard(&self.syncing);
        let file = self.open(disk)?;
        let (end, cuts) = {
            let mut content = self.content();
            if content.is_doubtful || content.was_closed {
                self.write_again(disk, &mut content, &*file)?;
            }
            content.lowest = u64::MAX;
            (content.end.min(file.stat()?.size), content.cuts)
        };
        let synced = file.sync();
        let mut content = self.content();
        match synced {
            Ok(()) => {
                content.durable = content.durable.max(end.min(content.lowest));
                content.durable_cuts = cuts;
                content.is_doubtful = false;
                content.was_closed = false;
            }
            Err(_) => content.is_doubtful = true,
        }
        synced
    }

    /// Locks the log through an opening of its own, for as long as nobody has a lease of it.
    fn lock_alone(&self, disk: &dyn Disk) -> io::Result<LogLock> {
        LogLock::take(disk.open(&self.path)?.into(), &self.path)?
            .ok_or_else(|| io::Error::other("an earlier sync failed, and another program writes it now"))
    }

    /// Writes again what is not known to survive, as far as it still is what was written: the system may have let go of it
    /// and read back what was there before.
    fn write_again(&self, disk: &dyn Disk, content: &mut Content, file: &dyn DiskFile) -> io::Result<()> {
        let (mut at, end) = (content.durable, content.end);
        if at >= end {
            return Ok(());
        }
        // Nobody else may change it meanwhile.
        let _lock = match content.owned.is_some() {
            true if content.is_held(disk, &self.place.folder)? => None,
            true => return Err(io::Error::other("an earlier sync failed, and another program writes it now")),
            false => match Lock::take(disk, &self.place.folder)? {
                Taken::Locked(lock) => Some(lock),
                // Removed meanwhile.
                Taken::Absent => return Ok(()),
                // No sync is known to have failed, and that of who writes it now is for all of it.
                Taken::Held(_) if !content.is_doubtful => return Ok(()),
                Taken::Held(holder) => {
                    return Err(io::Error::other(format!("an earlier sync failed, and {holder} writes it now")));
                }
                Taken::Busy => return Err(io::ErrorKind::ResourceBusy.into()),
            },
        };
        let _log = if content.owned.is_some() { None } else { Some(self.lock_alone(disk)?) };
        let stat = file.stat()?;
        let is_whole = scan(file, stat.size, &self.id, self.place.generation, 0)?
            .is_ok_and(|log| log.damage.is_none() && log.end >= end);
        if !is_whole {
            let reason = "it did not reach the disk, and is gone from memory too";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let mut piece = vec![0; PIECE];
        while at < end {
            let wanted = usize::try_from(end - at).map_or(PIECE, |left| left.min(PIECE));
            let read = file.read_at(&mut piece[..wanted], at)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            file.write_all_at(&piece[..read], at)?;
            at += read as u64;
        }
        // No event was written, so nothing has happened in the session.
        file.set_modified(stat.modified)
    }
}

impl Content {
    /// Whether the lease still keeps everybody else off. The file beside the log may be gone: nobody else has got further
    /// than to the lock on the log, and so it is made again.
    fn is_held(&mut self, disk: &dyn Disk, folder: &Path) -> io::Result<bool> {
        let Some(owned) = &mut self.owned else { return Ok(false) };
        if owned.folder.is_held(disk)? {
            return Ok(true);
        }
        match disk.stat(owned.folder.path()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
            // Another file in its place is another program's.
            Ok(_) => return Ok(false),
        }
        match Lock::take(disk, folder)? {
            Taken::Locked(lock) => {
                lock.note_stored(true);
                owned.folder = lock;
                Ok(true)
            }
            Taken::Held(_) | Taken::Absent | Taken::Busy => Ok(false),
        }
    }

    fn has_fresh_cut(&self) -> bool {
        self.cuts > self.durable_cuts
    }

    /// Notes that bytes change from `at` on.
    fn changes_from(&mut self, at: u64) {
        self.lowest = self.lowest.min(at);
        self.durable = self.durable.min(at);
    }

    fn cut(&mut self, file: &dyn DiskFile, end: u64) -> io::Result<()> {
        self.changes_from(end);
        file.set_len(end)?;
        self.cuts += 1;
        Ok(())
    }

    /// Cuts off a batch that was not stored, or notes it as the tail.
    fn take_back(&mut self, disk: &dyn Disk, folder: &Path, file: &dyn DiskFile, batch: Range<u64>, tail: &mut Tail) {
        if let Err(e) = self.cut_own(disk, folder, file, &batch) {
            log::warn!("cutting off what a failed append left: {e}; the next one tries again");
            *tail = Tail { range: batch, is_ours: true };
        }
    }

    /// Cuts off what this lease wrote, where nothing of anybody else's stands behind it.
    fn cut_own(&mut self, disk: &dyn Disk, folder: &Path, file: &dyn DiskFile, written: &Range<u64>) -> io::Result<()> {
        let size = file.stat()?.size;
        if self.is_held(disk, folder)? && size > written.start && size <= written.end {
            self.cut(file, written.start)
        } else {
            Ok(())
        }
    }
}
