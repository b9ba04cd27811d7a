//! [`SessionPersistence`]: a store of sessions.

use std::sync::Arc;

use super::{Access, Fault, ListQuery, Page, Result, Revision, SessionHandle, Snapshot};
use crate::log::{SessionHeader, SessionId};

/// A store of sessions.
///
/// Reading calls (`stat`, `list`, `open` for reading, `read`) change nothing that is stored: no byte, no revision, no
/// order. A refused call changes nothing either.
pub trait SessionPersistence: Send + Sync {
    /// Makes a new session and gives its only write handle. The session is visible through this store at once, with an
    /// empty log, and to other stores over the same data once its header and first batch are stored together, by the
    /// first append or a flush. A handle that is closed before that takes the session with it.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a header and options that contradict each other; `AlreadyExists` when the id is stored, or
    /// created and not stored yet, or lost a race.
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>>;

    /// Opens a stored session, or one that was created through this store. Reading never takes the ownership; writing
    /// claims it, and a refused opening releases the claim. An absent session stays absent.
    ///
    /// # Errors
    ///
    /// `NotFound`; `AlreadyOwned` with the holder, for writing; `FormatUnsupported` for a log whose version or event
    /// types the store's vocabulary does not know, unless opened uninterpreted; `Corruption`.
    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>>;

    /// Tells what is known of a session without reading its events, at a cost that does not depend on how many there
    /// are. Nothing where there is no such session. A session that cannot be interpreted is told like any other.
    ///
    /// # Errors
    ///
    /// Failures of the storage; never an absent answer in place of one.
    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>>;

    /// Lists the sessions that the query's filter lets through in pages, those that cannot be interpreted included, reading no
    /// event: the cost grows with the page and not with the store, but for what a filter has to look through.
    /// [`ListOrder`](super::ListOrder) tells what is promised of the pages together while others write.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a limit of 0 or a cursor of another list or another store; failures of the storage, never an
    /// empty page in place of one.
    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>>;

    /// Makes everything that was acknowledged on any open write handle survive a loss of power, in one barrier.
    /// A handle that is closed meanwhile counts as flushed.
    ///
    /// # Errors
    ///
    /// What failed, session by session; the others are flushed all the same.
    fn flush(&self) -> Result<()>;

    /// Removes a session with all that belongs to it, or nothing: explicit, never a side effect of another call. Tells
    /// whether there was one; a session that was created and not stored yet is none. [`SessionPersistence::flush`] makes
    /// the removal survive a loss of power.
    ///
    /// # Errors
    ///
    /// `AlreadyOwned` while a writer is open; failures of the storage.
    fn remove(&self, id: &SessionId) -> Result<bool>;

    /// [`SessionPersistence::remove`] of a session that is still at a revision that was told before: what was written
    /// since keeps it.
    ///
    /// The stores of this crate look where nobody can write any more. A backend that does not implement it looks right
    /// before the removal, and what is written in between goes with the session.
    ///
    /// # Errors
    ///
    /// As for [`SessionPersistence::remove`].
    fn remove_if_unchanged(&self, id: &SessionId, revision: &Revision) -> Result<Removal> {
        match self.stat(id)? {
            Some(told) if told.revision != *revision => Ok(Removal::Changed),
            Some(_) if self.remove(id)? => Ok(Removal::Removed),
            _ => Ok(Removal::Absent),
        }
    }

    /// Checks what a store keeps beside its logs (counters, indexes, files), and calls back with each fault as it is
    /// found. Logs that are damaged are told by reading them: [`upkeep::verify`](crate::upkeep::verify()) does both.
    /// Nothing is changed, and no writer is kept waiting that does not wait for any other reader. The callback may call
    /// the store.
    ///
    /// A backend that keeps nothing beside its logs need not implement it.
    ///
    /// # Errors
    ///
    /// What kept the check from going on. What is wrong with the store is no error but a fault.
    fn check_storage(&self, _found: &mut dyn FnMut(Fault)) -> Result<()> {
        Ok(())
    }

    /// What tells this store from any other, for whoever keeps something beside it, as an index: an opaque text that stays
    /// as long as the store does. A copy of the store may have the same one, and one that was moved another. Nothing where
    /// the backend cannot tell.
    ///
    /// # Errors
    ///
    /// Those of looking at the store.
    fn identity(&self) -> Result<Option<String>> {
        Ok(None)
    }
}

/// What came of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The session is removed.
    Removed,
    /// There was none.
    Absent,
    /// The session was written since, and stays.
    Changed,
}

/// What a new session starts with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreateOptions {
    /// How many events are inherited from a parent. Required for a seeded header, and 0 or absent for another. It stands in
    /// for the `session/end-seed` event that marks the end of the seed in the log, until that is stored.
    pub inherited_event_count: Option<u64>,
}

impl CreateOptions {
    /// Options for a seeded session that inherits `count` events.
    pub fn inheriting(count: u64) -> Self {
        Self { inherited_event_count: Some(count) }
    }
}

/// How to open a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    access: Access,
    uninterpreted: bool,
}

impl OpenOptions {
    /// For reading.
    pub const fn read() -> Self {
        Self { access: Access::Read, uninterpreted: false }
    }

    /// For reading and writing.
    pub const fn write() -> Self {
        Self { access: Access::Write, uninterpreted: false }
    }

    /// For reading what is stored as it is: the two refusals of a log that this build does not know are skipped, and
    /// nothing else.
    pub const fn uninterpreted() -> Self {
        Self { access: Access::Read, uninterpreted: true }
    }

    /// What the handle may do.
    pub const fn access(self) -> Access {
        self.access
    }

    /// Whether the log is read without being interpreted.
    pub const fn is_uninterpreted(self) -> bool {
        self.uninterpreted
    }
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        impl<T: SessionPersistence + ?Sized> SessionPersistence for $pointer<T> {
            fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
                (**self).create(header, options)
            }
            fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
                (**self).open(id, options)
            }
            fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
                (**self).stat(id)
            }
            fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
                (**self).list(query)
            }
            fn flush(&self) -> Result<()> {
                (**self).flush()
            }
            fn remove(&self, id: &SessionId) -> Result<bool> {
                (**self).remove(id)
            }
            fn remove_if_unchanged(&self, id: &SessionId, revision: &Revision) -> Result<Removal> {
                (**self).remove_if_unchanged(id, revision)
            }
            fn check_storage(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
                (**self).check_storage(found)
            }
            fn identity(&self) -> Result<Option<String>> {
                (**self).identity()
            }
        }
    )*};
}
forward!(Box, Arc);
