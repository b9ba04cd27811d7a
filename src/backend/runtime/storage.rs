//! [`Storage`]: what a backend supplies.

use std::collections::HashMap;

use super::Batch;
use crate::log::{SessionEvent, SessionHeader, SessionId, Vocabulary};
use crate::seam::{Fault, Holder, ListFilter, ListOrder, Position, Removal, Result, Revision, SeqRange, Snapshot};

/// Stored sessions, without handles and without owners. Each call is one transaction: it happens whole or not at all.
pub(crate) trait Storage: Send + Sync + 'static {
    /// What finds one incarnation of a session again: never equal for a session that was removed and made anew.
    type Key: Clone + Send + Sync + 'static;

    /// What keeps the writers of other stores over the same data off a session; given up when it is dropped.
    type Lease: Send + 'static;

    /// Whether an id is taken, whatever can be read of its session.
    fn contains(&self, id: &SessionId) -> Result<bool>;

    /// Looks a stored session up; `Corruption` when its header is not what was stored.
    fn find(&self, id: &SessionId) -> Result<Option<Stored<Self::Key>>>;

    /// Takes a stored session for writing: `AlreadyOwned` while another store has it, `NotFound` when it was removed.
    fn lease(&self, id: &SessionId, key: &Self::Key) -> Result<Self::Lease>;

    /// Takes a new session for writing and stores it with its first batch, which may be empty: `AlreadyExists`, or
    /// `NotContiguous` from 0.
    fn materialize(
        &self,
        header: &SessionHeader,
        inherited: u64,
        events: Batch<'_>,
    ) -> Result<(Self::Key, Self::Lease)>;

    /// Stores a batch that is not empty: `NotContiguous` with the stored next seq, `NotFound` when it was removed.
    fn append(&self, id: &SessionId, key: &Self::Key, lease: &mut Self::Lease, events: Batch<'_>) -> Result<()>;

    /// Checks the version and the types of a stored log without reading its events.
    fn check_interpretable(&self, id: &SessionId, key: &Self::Key, vocabulary: &Vocabulary) -> Result<()>;

    /// Reads a slice and the length of the log in one view, after the checks above where a vocabulary is given.
    fn read(&self, id: &SessionId, key: &Self::Key, range: SeqRange, vocabulary: Option<&Vocabulary>) -> Result<Slice>;

    /// What is known of a stored session.
    fn stat(&self, id: &SessionId, vocabulary: &Vocabulary) -> Result<Option<Snapshot>>;

    /// What no other store is called: a cursor of another one leads nowhere.
    fn identity(&self) -> Result<String>;

    /// The stored sessions that are wanted, in order.
    fn list(&self, wanted: &Wanted<'_>) -> Result<Vec<Listed>>;

    /// Removes a stored session with all that belongs to it, only at a revision where one is given, which is looked at where
    /// nobody can write it any more. `AlreadyOwned` while another store writes it.
    fn remove(&self, id: &SessionId, only: Option<&Revision>) -> Result<Removal>;

    /// Makes all that this store acknowledged survive a loss of power, and what was stored before it was opened.
    fn sync(&self) -> Result<()>;

    /// Checks that what was acknowledged through a lease is still where it was stored, as far as that can be told without
    /// reading it.
    fn check_stands(&self, _id: &SessionId, _lease: &Self::Lease) -> Result<()> {
        Ok(())
    }

    /// Checks what is kept beside the logs, without keeping a writer waiting.
    fn inspect(&self, _found: &mut dyn FnMut(Fault)) -> Result<()> {
        Ok(())
    }
}

/// A stored session.
pub(crate) struct Stored<K> {
    pub(crate) key: K,
    pub(crate) header: SessionHeader,
    pub(crate) inherited: u64,
}

/// A part of a stored log.
pub(crate) struct Slice {
    pub(crate) events: Vec<SessionEvent>,
    /// The length of the whole log.
    pub(crate) count: u64,
}

/// Which stored sessions are listed.
pub(crate) struct Wanted<'a> {
    pub(crate) filter: &'a ListFilter,
    pub(crate) order: ListOrder,
    /// Only those behind this place.
    pub(crate) after: Option<Position>,
    /// At most so many.
    pub(crate) limit: Option<usize>,
    pub(crate) vocabulary: &'a Vocabulary,
    /// The sessions that this store has a writer of, where the filter asks for one: the storage may know of others.
    pub(crate) claimed: HashMap<SessionId, Holder>,
}

impl Wanted<'_> {
    /// Whether a session with a key stands behind the place.
    pub(crate) fn is_behind(&self, key: u64, id: &SessionId) -> bool {
        self.after.as_ref().is_none_or(|after| after.is_before(key, id))
    }

    /// Whether the filter lets a session through, which is given its writer where one is asked for.
    pub(crate) fn lets_through(&self, session: &mut Snapshot) -> bool {
        if let Some(holder) = self.claimed.get(&session.id) {
            session.owner = Some(holder.clone());
        }
        self.filter.matches(session)
    }

    /// The session, when the filter lets it through.
    pub(crate) fn let_through(&self, mut session: Snapshot) -> Option<Snapshot> {
        self.lets_through(&mut session).then_some(session)
    }

    /// As many as are wanted at most.
    pub(crate) fn most(&self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }
}

/// A session in a list, with its key in the list's order.
pub(crate) struct Listed {
    pub(crate) key: u64,
    pub(crate) snapshot: Snapshot,
}
