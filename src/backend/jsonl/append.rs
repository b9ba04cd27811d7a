//! Appending: a batch behind the end of a log, by its one writer.

use std::io;
use std::sync::Arc;

use super::files::{Files, Key, Opened};
use super::lease::Lease;
use super::log_file::Unwritten;
use super::writer::{Batch, batch, set_modified};
use crate::log::{SessionEvent, SessionId};
use crate::seam::{Durability, Error, Result, checks};

impl Files {
    pub(super) fn append_batch(
        &self,
        id: &SessionId,
        key: &Key,
        lease: &mut Lease,
        events: &[SessionEvent],
    ) -> Result<()> {
        let Opened { path, place, .. } = &*key.0;
        let lost = || Error::OwnershipLost { session: id.clone() };
        if lease.log.path != *path {
            return Err(lost());
        }
        let end = match self.end_for(id, key, lease, events) {
            Ok(end) => end,
            // Who has lost the session is told so, whatever else its new owner has made of it.
            Err(Error::NotContiguous { .. } | Error::Corruption { .. }) if !self.is_held(id, lease)? => {
                return Err(lost());
            }
            Err(Error::NotFound { .. }) => return Err(self.gone(id, lease)),
            Err(refused) => return Err(refused),
        };
        let batch =
            batch(events, place.generation.version, place.generation.encoding, &self.packer, &self.context(id))?;
        if self.durability == Durability::EveryAppend {
            let synced = self.unsynced.sync_folders_to(path, &*self.disk);
            synced.map_err(|(folder, e)| self.context(id).writing(&folder, e))?;
        }
        if let Some(known) = &mut *lease.slot.lock() {
            known.writing = true;
        }
        let written = self.write(id, lease, end, &batch);
        match &written {
            Ok(()) => self.note_stored(lease, events, &batch),
            Err(refused) => self.note_unstored(lease, end, refused),
        }
        written
    }

    /// Where the log ends, which has to be where `events` go on.
    fn end_for(&self, id: &SessionId, key: &Key, lease: &Lease, events: &[SessionEvent]) -> Result<u64> {
        let log = self.current(id, key, &mut lease.slot.lock())?;
        if let Some(damage) = &log.damage {
            return Err(damage.of(id));
        }
        checks::check_contiguous(id, log.count, events)?;
        Ok(log.end)
    }

    /// The error for a log that is not where it was opened: another one may stand in its place.
    fn gone(&self, id: &SessionId, lease: &Lease) -> Error {
        let path = &lease.log.path;
        match self.disk.stat(path) {
            Ok(_) => {
                let reason =
                    "another file was put in its place while it was open; open the session again to go on with it";
                self.context(id).io(format!("appending to {}", path.display()), reason.into())
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Error::NotFound { session: id.clone() },
            Err(e) => self.context(id).reading(path, e),
        }
    }

    fn is_held(&self, id: &SessionId, lease: &Lease) -> Result<bool> {
        lease.log.is_held(&*self.disk).map_err(|e| self.context(id).reading(&lease.log.path, e))
    }

    /// Writes a batch at the end of a log, and waits for the disk where every append does.
    fn write(&self, id: &SessionId, lease: &mut Lease, end: u64, batch: &Batch) -> Result<()> {
        let Lease { log, tail, .. } = lease;
        let failed = |e| self.context(id).writing(&log.path, e);
        match log.write(&*self.disk, end, &batch.bytes, tail) {
            Ok(file) => set_modified(&*file, &log.path, self.next_time()),
            Err(Unwritten::Lost) => return Err(Error::OwnershipLost { session: id.clone() }),
            Err(Unwritten::Absent) => return Err(self.gone(id, lease)),
            Err(Unwritten::Failed(e)) => return Err(failed(e)),
        }
        if self.durability == Durability::EveryAppend {
            if let Err(e) = self.unsynced.sync_file(log, &*self.disk) {
                log.take_back(&*self.disk, end, batch.bytes.len(), tail);
                self.unsynced.add_file(log);
                return Err(failed(e));
            }
        } else {
            self.unsynced.add_file(log);
        }
        Ok(())
    }

    /// Takes what was stored into what is known of the log.
    fn note_stored(&self, lease: &Lease, events: &[SessionEvent], batch: &Batch) {
        let path = &lease.log.path;
        let mut slot = lease.slot.lock();
        let Some(known) = &mut *slot else { return };
        known.writing = false;
        let log = Arc::make_mut(&mut known.log);
        log.extend(events, batch, self.memo.limit());
        self.memo.note(path, log.bytes_held());
        match self.disk.stat(path) {
            Ok(stat) => known.stat = stat,
            // Where it cannot be looked at now it is read when it is needed.
            Err(_) => *slot = None,
        }
    }

    /// Takes what a failed append has left of the file into what is known of the log.
    fn note_unstored(&self, lease: &Lease, end: u64, refused: &Error) {
        let mut slot = lease.slot.lock();
        let Some(known) = &mut *slot else { return };
        known.writing = lease.tail.is_ours;
        // Of a file that somebody else writes nothing is known any more.
        if refused.kind().is_of_storage()
            && !lease.tail.is_ours
            && let Ok(stat) = self.disk.stat(&lease.log.path)
            && stat.size == end
        {
            Arc::make_mut(&mut known.log).torn = 0;
            known.stat = stat;
        }
    }
}
