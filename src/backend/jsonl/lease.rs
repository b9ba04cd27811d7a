//! [`Lease`]: the ownership of a session, as the writer of its log has it.

use std::io;
use std::sync::Arc;

use super::super::runtime::Process;
use super::disk::Disk;
use super::log_file::{LogFile, Tail};
use super::log_lock::Owned;
use super::memo::{Known, Slot};
use super::recall::Recollection;

/// The ownership of a session.
pub(super) struct Lease {
    /// A process that is forked gets the lease as well, and has no part in it.
    process: Process,
    disk: Arc<dyn Disk>,
    /// The log that it stands for. Its locks are held there.
    pub(super) log: Arc<LogFile>,
    /// What is known of the log. Held here so that the memo keeps it.
    pub(super) slot: Arc<Slot>,
    pub(super) tail: Tail,
}

impl Lease {
    /// The lease of a log that ends with `tail`.
    pub(super) fn new(disk: Arc<dyn Disk>, log: Arc<LogFile>, owned: Owned, slot: Arc<Slot>, tail: Tail) -> Self {
        log.begin(owned, tail.range.start);
        Self { process: Process::current(), disk, log, slot, tail }
    }
}

impl Lease {
    /// Leaves what is known of a long log to the next process.
    fn note_log(&self) -> io::Result<()> {
        let known = self.slot.lock();
        let is_of_this_file = |known: &&Known| known.stat.identity == self.log.identity();
        let known = known.as_ref().filter(is_of_this_file).filter(|known| !known.writing && !known.log.is_noted());
        let Some(known) = known else { return Ok(()) };
        let Some((file, durable)) = self.log.durable_up_to(known.log.end) else { return Ok(()) };
        let Some(told) = Recollection::of(&known.log, &*file, &known.stat, durable)? else { return Ok(()) };
        // Nobody else may have changed it, or be about to.
        if self.log.is_held(&*self.disk)? && self.disk.stat(&self.log.path)? == known.stat {
            told.write(&*self.disk, self.log.folder())?;
        }
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.process.is_current() {
            return;
        }
        if self.tail.is_ours
            && let Some(known) = &mut *self.slot.lock()
        {
            known.writing = false;
        }
        if let Err(e) = self.note_log() {
            log::debug!("what is known of {} is not noted: {e}", self.log.path.display());
        }
        self.log.finish(&*self.disk, &self.tail);
    }
}
