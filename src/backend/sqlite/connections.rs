//! [`Connections`]: all that a store has open of its database.
//!
//! SQLite notes by process which locks it holds on a file, and a process that is forked gets a copy of those notes but none
//! of the locks. A connection that it opened anew would believe itself locked, and its parent, closing, would take the WAL
//! away from under it. So the connections that it has of its parent are closed before it opens any of its own.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::super::runtime::Process;
use super::failure::Context;
use super::in_place::{Identity, InPlace};
use super::look::keep_wal;
use super::readers::Readers;
use super::visit::Visit;
use super::writer::Writer;
use crate::seam::Result;

/// All that a store has open of its database.
pub(super) struct Connections {
    process: Process,
    pub(super) in_place: InPlace,
    pub(super) reading: Reading,
    /// Opened by the first write: a visit that only reads needs no lock for writing.
    writer: Mutex<Option<Writer>>,
}

/// What reads a database.
pub(super) enum Reading {
    Pool(Readers),
    /// It cannot be written.
    Visit(Visit),
    /// It is in memory and belongs to its one connection.
    Writer,
}

/// The connections of all stores of files that are open in this process, or were in the one that it was forked from.
static OPEN: Mutex<Vec<Weak<Connections>>> = Mutex::new(Vec::new());

impl Connections {
    pub(super) fn in_memory(writer: Writer) -> Arc<Self> {
        Arc::new(Self {
            process: Process::current(),
            in_place: InPlace::in_memory(),
            reading: Reading::Writer,
            writer: Mutex::new(Some(writer)),
        })
    }

    pub(super) fn of(in_place: InPlace, reading: Reading) -> Arc<Self> {
        let connections = Arc::new(Self { process: Process::current(), in_place, reading, writer: Mutex::new(None) });
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|connections| connections.strong_count() > 0);
        open.push(Arc::downgrade(&connections));
        connections
    }

    pub(super) fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets them in a forked process, to whose parent they belong: to close them could undo what the parent is doing.
    pub(super) fn forget_if_inherited(self: &Arc<Self>) {
        if !self.process.is_current() {
            std::mem::forget(self.clone());
        }
    }

    /// Closes those that this process has of the one that it was forked from. Refuses to go on where those of this file were
    /// in use at that time.
    pub(super) fn let_inherited_go(file: Option<Identity>, context: &Context<'_>) -> Result<()> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut parent = None;
        open.retain(|connections| {
            let Some(connections) = connections.upgrade() else { return false };
            if connections.process.is_current() {
                return true;
            }
            let is_let_go = connections.let_go();
            if !is_let_go && connections.in_place.identity() == file {
                parent = Some(connections.process.id());
            }
            !is_let_go
        });
        let Some(parent) = parent else { return Ok(()) };
        Err(context.invalid(format!(
            "process {parent}, from which this one was forked, was at work on the store at that time, so that SQLite cannot \
             open it here; start the program anew, or fork before the store is opened"
        )))
    }

    fn let_go(&self) -> bool {
        let is_read = match &self.reading {
            Reading::Pool(readers) => readers.let_go(),
            Reading::Visit(visit) => visit.let_go(),
            Reading::Writer => true,
        };
        is_read && self.writer.try_lock().is_ok_and(|mut writer| writer.take().is_none_or(Writer::let_go))
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        if !self.in_place.is_overwritten().load(Ordering::Acquire) {
            return;
        }
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(e)) = writer.as_ref().map(|writer| keep_wal(writer.connection())) {
            log::warn!("the WAL of a file that was written over may be copied into it: {e}");
        }
    }
}
