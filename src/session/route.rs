//! [`Route`]: from a live session to its stored log.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::log::{SessionEvent, SessionId};
use crate::seam::{Error, Result, SessionHandle};

/// What a live session has still to store, and the handle that it goes through.
pub(super) struct Route {
    handle: Box<dyn SessionHandle>,
    queue: Mutex<Queue>,
    /// Held while a batch is written: the order of batches is the order of the log.
    writing: Mutex<()>,
}

#[derive(Default)]
struct Queue {
    /// Oldest first. A batch leaves it when it is stored, and not before.
    events: Vec<SessionEvent>,
    /// When what is queued is to be written.
    due: Option<Instant>,
    /// Whether a write failed: then nothing is written until somebody asks for it.
    is_paused: bool,
    is_closed: bool,
}

/// What of a live session is not stored yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// How many events are queued.
    pub events: usize,
    /// Whether the last write failed: then they stay queued until a flush or a close.
    pub is_paused: bool,
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Route {
    pub(super) fn new(handle: Box<dyn SessionHandle>) -> Self {
        Self { handle, queue: Mutex::default(), writing: Mutex::new(()) }
    }

    pub(super) fn id(&self) -> &SessionId {
        self.handle.id()
    }

    /// Queues an event. When the batch that it belongs to is due, if it starts one: the wait is that of the first event,
    /// whatever follows it.
    pub(super) fn queue(&self, event: SessionEvent, window: Duration) -> Option<Instant> {
        let mut queue = guard(&self.queue);
        queue.events.push(event);
        if queue.due.is_some() || queue.is_paused {
            return None;
        }
        // A window beyond all time never passes.
        queue.due = Instant::now().checked_add(window);
        queue.due
    }

    /// When what is queued is to be written.
    pub(super) fn due(&self) -> Option<Instant> {
        guard(&self.queue).due
    }

    pub(super) fn backlog(&self) -> Backlog {
        let queue = guard(&self.queue);
        Backlog { events: queue.events.len(), is_paused: queue.is_paused }
    }

    /// Writes all that is queued, until nothing is left. What fails stays, in its order, and is tried again by the next who asks
    /// for it; the handle stores a batch whole or not at all, so that nothing is stored twice.
    pub(super) fn drain(&self) -> Result<()> {
        let _writing = guard(&self.writing);
        if self.is_closed() { Ok(()) } else { self.drain_in_turn() }
    }

    /// Whether it was closed meanwhile: then nothing is left to do, and what failed was told by the closing.
    fn is_closed(&self) -> bool {
        guard(&self.queue).is_closed
    }

    fn drain_in_turn(&self) -> Result<()> {
        loop {
            let batch = {
                let mut queue = guard(&self.queue);
                queue.due = None;
                queue.events.clone()
            };
            if batch.is_empty() {
                guard(&self.queue).is_paused = false;
                return Ok(());
            }
            let stored = self.handle.append(&batch);
            let mut queue = guard(&self.queue);
            match stored {
                Ok(()) => {
                    queue.events.drain(..batch.len());
                    queue.is_paused = false;
                }
                Err(failed) => {
                    queue.is_paused = true;
                    queue.due = None;
                    return Err(failed);
                }
            }
        }
    }

    /// Writes what is due, which nobody waits for.
    pub(super) fn drain_in_background(&self) {
        if let Err(e) = self.drain() {
            log::warn!(
                "session {:?}: writing its newest events failed, they are kept and written at the next flush or close: {e}",
                self.id()
            );
        }
    }

    /// Writes what is queued and makes all durable.
    pub(super) fn flush(&self) -> Result<()> {
        let _writing = guard(&self.writing);
        if self.is_closed() {
            return Ok(());
        }
        self.drain_in_turn()?;
        self.handle.flush()
    }

    /// Writes what is queued, makes it durable where that is asked for, and gives the session up, whatever failed before; all
    /// that failed.
    pub(super) fn close(&self, makes_durable: bool) -> Result<()> {
        let _writing = guard(&self.writing);
        if std::mem::replace(&mut guard(&self.queue).is_closed, true) {
            return Ok(());
        }
        let drained = self.drain_in_turn();
        let flushed = if makes_durable { self.handle.flush() } else { Ok(()) };
        let closed = self.handle.close();
        Error::collect([drained, flushed, closed].into_iter().filter_map(Result::err).collect())
    }
}
