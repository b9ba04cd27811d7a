//! [`Handle`]: the states that an open session goes through, the same for every backend.

use std::iter;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::store::Shared;
use super::{Batch, Slice, Storage};
use crate::log::{SessionEvent, SessionHeader, SessionId};
use crate::seam::{Access, Error, EventSource, OpenOptions, Result, SeqRange, SessionHandle, WriteFailure};

/// An open session.
pub(super) struct Handle<S: Storage>(pub(super) Arc<Core<S>>);

/// What a handle is made of; the store reaches it too, to flush all writers.
pub(super) struct Core<S: Storage> {
    pub(super) shared: Arc<Shared<S>>,
    pub(super) header: SessionHeader,
    pub(super) inherited: u64,
    pub(super) options: OpenOptions,
    /// Held by a writing call from start to end, so that they queue. Reads do not take it: they never wait for a disk.
    /// Holds the lease of a stored session that is open for writing.
    pub(super) writing: Mutex<Option<S::Lease>>,
    pub(super) state: Mutex<State<S::Key>>,
}

pub(super) struct State<K> {
    pub(super) closed: bool,
    pub(super) place: Place<K>,
    /// The length of the log as this handle last saw it.
    pub(super) seen: u64,
    /// The last write that failed, until one like it succeeds.
    pub(super) failure: Option<WriteFailure>,
}

/// Where the session is.
#[derive(Clone)]
pub(super) enum Place<K> {
    /// Created here, and not stored when last looked at; the key comes when it is.
    Pending(Arc<OnceLock<K>>),
    Stored(K),
}

impl<S: Storage> Core<S> {
    fn id(&self) -> &SessionId {
        self.header.id()
    }

    fn state(&self) -> MutexGuard<'_, State<S::Key>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_open(&self, operation: &'static str) -> Result<()> {
        self.shared.process.check(Some(self.id()))?;
        if self.state().closed {
            return Err(Error::HandleClosed { session: self.id().clone(), operation });
        }
        Ok(())
    }

    /// Waits for the handle's turn to write, and checks that it may.
    fn turn(&self, operation: &'static str) -> Result<MutexGuard<'_, Option<S::Lease>>> {
        self.check_open(operation)?;
        if self.options.access() == Access::Read {
            return Err(Error::ReadOnly { session: self.id().clone(), operation });
        }
        let turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_open(operation)?;
        Ok(turn)
    }

    fn append(&self, events: &[SessionEvent]) -> Result<()> {
        let mut turn = self.turn("append")?;
        if events.is_empty() {
            return Ok(());
        }
        let stored = self.store(&mut turn, Batch::Held(events));
        self.note("append", &stored);
        stored
    }

    fn append_from(&self, events: &mut EventSource<'_>) -> Result<()> {
        let mut turn = self.turn("append")?;
        let Some(first) = events.next().transpose()? else { return Ok(()) };
        let mut has_failed = false;
        let mut events = iter::once(Ok(first)).chain(events).fuse().inspect(|given| has_failed |= given.is_err());
        let stored = self.store(&mut turn, Batch::Given(&mut events));
        drop(events);
        // What could not be given says nothing of the storage.
        if !has_failed {
            self.note("append", &stored);
        }
        stored
    }

    /// Stores a batch that is not empty. Call it in the handle's turn.
    fn store(&self, lease: &mut Option<S::Lease>, events: Batch<'_>) -> Result<()> {
        let place = self.state().place.clone();
        match (place, lease) {
            (Place::Stored(key), Some(lease)) => self.shared.storage.append(self.id(), &key, lease, events),
            (Place::Stored(_), None) => Err(Error::OwnershipLost { session: self.id().clone() }),
            (Place::Pending(stored), lease) => self.materialize(lease, &stored, events),
        }
    }

    /// Remembers whether a write failed, for those who ask how the session is.
    pub(super) fn note(&self, operation: &'static str, done: &Result<()>) {
        let mut state = self.state();
        match done {
            // A batch that was refused for what it is says nothing of the storage.
            Err(failed) if failed.kind().is_of_storage() => state.failure = Some(WriteFailure::now(operation, failed)),
            Ok(()) if state.failure.as_ref().is_some_and(|f| f.operation == operation) => state.failure = None,
            _ => {}
        }
    }

    /// The last write that failed.
    pub(super) fn failure(&self) -> Option<WriteFailure> {
        self.state().failure.clone()
    }

    /// Stores the session with its first batch. Call it in the handle's turn.
    fn materialize(&self, lease: &mut Option<S::Lease>, stored: &OnceLock<S::Key>, events: Batch<'_>) -> Result<()> {
        let stored_now = self.shared.storage.materialize(&self.header, self.inherited, events);
        if matches!(stored_now, Err(Error::AlreadyExists { .. })) {
            // Another store was first: from now on this one shows its session too.
            self.shared.claims.lock().set_stored(self.id());
        }
        let (key, taken) = stored_now?;
        *lease = Some(taken);
        self.state().place = Place::Stored(stored.get_or_init(|| key).clone());
        self.shared.claims.lock().set_stored(self.id());
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let mut turn = self.turn("flush")?;
        let flushed = self.store_pending(&mut turn).and_then(|()| self.shared.storage.sync());
        let flushed = flushed.and_then(|()| self.check_stands(&turn));
        self.note("flush", &flushed);
        flushed
    }

    fn store_pending(&self, lease: &mut Option<S::Lease>) -> Result<()> {
        let place = self.state().place.clone();
        match place {
            Place::Pending(stored) => self.materialize(lease, &stored, Batch::Held(&[])),
            Place::Stored(_) => Ok(()),
        }
    }

    /// Checks that there is something that was made to survive. Only its one writer knows what has to be there.
    fn check_stands(&self, lease: &Option<S::Lease>) -> Result<()> {
        match lease {
            Some(lease) => self.shared.storage.check_stands(self.id(), lease),
            None => Ok(()),
        }
    }

    /// The part of a flush of the whole store that is this handle's. A handle that was closed has nothing left to do.
    pub(super) fn join_flush(&self) -> Result<()> {
        match self.turn("flush") {
            Ok(mut turn) => self.store_pending(&mut turn).and_then(|()| self.check_stands(&turn)),
            Err(Error::HandleClosed { .. }) => Ok(()),
            Err(other) => Err(other),
        }
    }

    fn read(&self, range: SeqRange) -> Result<Vec<SessionEvent>> {
        self.check_open("read")?;
        let (place, seen) = {
            let state = self.state();
            (state.place.clone(), state.seen)
        };
        let key = match place {
            Place::Stored(key) => key,
            Place::Pending(stored) => match self.stored_since(&stored)? {
                Some(key) => key,
                None => return Ok(Vec::new()),
            },
        };
        let vocabulary = (!self.options.is_uninterpreted()).then_some(&self.shared.vocabulary);
        let Slice { events, count } = self.shared.storage.read(self.id(), &key, range, vocabulary)?;
        if count < seen {
            return Err(Error::Corruption {
                session: self.id().clone(),
                seq: None,
                offset: None,
                reason: format!("{count} events are stored where this handle saw {seen}"),
            });
        }
        let mut state = self.state();
        state.seen = state.seen.max(count);
        Ok(events)
    }

    /// The key of a session that was pending when this handle was opened; nothing while it still is.
    fn stored_since(&self, stored: &Arc<OnceLock<S::Key>>) -> Result<Option<S::Key>> {
        let claims = self.shared.claims.lock();
        let is_pending = claims.pending(self.id()).is_some_and(|p| Arc::ptr_eq(&p.stored, stored));
        match stored.get() {
            Some(key) => {
                self.state().place = Place::Stored(key.clone());
                Ok(Some(key.clone()))
            }
            None if is_pending => Ok(None),
            None => Err(Error::NotFound { session: self.id().clone() }),
        }
    }

    fn close(&self) {
        let mut turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut self.state().closed, true) {
            return;
        }
        // The next writer of this store meets the claim first and the lease then, so they go the other way round.
        drop(turn.take());
        if self.options.access() == Access::Write {
            self.shared.claims.lock().release(self.id());
        }
    }
}

impl<S: Storage> SessionHandle for Handle<S> {
    fn id(&self) -> &SessionId {
        self.0.id()
    }

    fn header(&self) -> &SessionHeader {
        &self.0.header
    }

    fn inherited_event_count(&self) -> u64 {
        self.0.inherited
    }

    fn access(&self) -> Access {
        self.0.options.access()
    }

    fn read(&self, range: SeqRange) -> Result<Vec<SessionEvent>> {
        self.0.read(range)
    }

    fn append(&self, events: &[SessionEvent]) -> Result<()> {
        self.0.append(events)
    }

    fn append_from(&self, events: &mut EventSource<'_>) -> Result<()> {
        self.0.append_from(events)
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }

    fn close(&self) -> Result<()> {
        self.0.shared.process.check(Some(self.id()))?;
        self.0.close();
        Ok(())
    }
}

impl<S: Storage> Drop for Handle<S> {
    fn drop(&mut self) {
        if self.0.shared.process.is_current() {
            self.0.close();
        }
    }
}
