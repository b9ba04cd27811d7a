//! [`Lease`]: the ownership of a session, as the writer of its log has it.

use std::sync::Arc;

use super::super::runtime::Process;
use super::disk::Disk;
use super::log_file::{LogFile, Tail};
use super::log_lock::Owned;
use super::memo::Slot;

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
        self.log.finish(&*self.disk, &self.tail);
    }
}
