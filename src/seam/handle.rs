//! [`SessionHandle`]: one open session.

use std::fmt;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo};

use super::Result;
use crate::log::{SessionEvent, SessionHeader, SessionId};

/// Events that are given one after another; the first error is the last thing that is taken.
pub type EventSource<'s> = dyn Iterator<Item = Result<SessionEvent>> + Send + 's;

/// One open session.
///
/// Every call checks in this order: that the handle is open, the access, the ownership, the content. The calls of one
/// handle take effect one after another, in whatever threads they are made.
pub trait SessionHandle: Send + Sync {
    /// The session; fixed when the handle was opened.
    fn id(&self) -> &SessionId;

    /// Its header; fixed when the handle was opened.
    fn header(&self) -> &SessionHeader;

    /// How many events at the start of the log were inherited from a parent; fixed when the handle was opened.
    fn inherited_event_count(&self) -> u64;

    /// What the handle may do; fixed when it was opened.
    fn access(&self) -> Access;

    /// Gives a slice of the valid, contiguous log, as of now: what any append that returned before this call stored,
    /// through whatever handle, is there; a torn tail never is; and never fewer events than this handle gave before.
    /// Past the end the slice is empty.
    ///
    /// Reading changes nothing that is stored.
    ///
    /// # Errors
    ///
    /// `HandleClosed`; `NotFound` when the session was removed meanwhile; `FormatUnsupported` when the log holds a type
    /// that the store's vocabulary does not know, wherever it stands, unless the handle was opened uninterpreted;
    /// `Corruption` when a row of the slice is not what was stored, or the log is shorter than this handle saw it.
    fn read(&self, range: SeqRange) -> Result<Vec<SessionEvent>>;

    /// Stores a batch, all of it or nothing. When it returns, the events are ordered, visible to every read that starts
    /// later on this store, and survive the death of the process; [`SessionHandle::flush`] makes them survive a loss of
    /// power. The first seq must be the stored next one, which is checked in the transaction that stores. An empty
    /// batch is a success that does nothing. Types are not judged here: what a newer producer sends is stored verbatim.
    ///
    /// After an error the same batch can be appended again, whatever the error was: nothing of it is stored.
    ///
    /// # Errors
    ///
    /// `HandleClosed`; `ReadOnly`; `NotContiguous` with the seq that comes next; `AlreadyExists` when the first batch
    /// of a created session lost the race for its id; `InvalidArgument` for an event larger than the backend holds;
    /// `NotFound` when the session was removed; `OwnershipLost`; `Corruption` when the stored log does not end where it is
    /// counted to; `UnsupportedStore` when the store was replaced; `StoreBusy`, `StorageFull`, `StorageReadOnly`, `Io`.
    fn append(&self, events: &[SessionEvent]) -> Result<()>;

    /// Stores a batch that need not be in memory at once, all of it or nothing, as [`SessionHandle::append`] does. Its
    /// events are taken one after another while it is stored; an error in their place ends it, nothing of it is stored, and
    /// that error is what is given back. Without events it does nothing.
    ///
    /// Others may have to wait until the last event was given: with SQLite all writers of the store, and in rollback mode its
    /// readers; in a folder of files whoever makes a session while this is its first one. So `events` should not wait for a
    /// person or a network, and must not call this store: a call from inside may never return.
    ///
    /// The provided method holds the whole batch. Of the stores of this crate SQLite holds about a megabyte at a time, and
    /// so do files for the first batch of a session; a later batch of a file is held whole, for it is written in one piece.
    ///
    /// # Errors
    ///
    /// As for [`SessionHandle::append`], and what `events` gives.
    fn append_from(&self, events: &mut EventSource<'_>) -> Result<()> {
        // Whether the handle may write comes before what it is to write.
        self.append(&[])?;
        let events = events.collect::<Result<Vec<_>>>()?;
        self.append(&events)
    }

    /// Makes everything that was acknowledged survive a loss of power. A created session without events is stored now.
    ///
    /// # Errors
    ///
    /// `HandleClosed`; `ReadOnly`; otherwise as for [`SessionHandle::append`].
    fn flush(&self) -> Result<()>;

    /// Gives up the ownership, and the session itself where nothing was ever stored: its id is free again. The
    /// ownership is released even when something fails, which is reported afterwards. A second call does nothing.
    /// Dropping the handle does the same and logs a failure.
    ///
    /// # Errors
    ///
    /// What failed while the rest of the work was written.
    fn close(&self) -> Result<()>;
}

impl fmt::Debug for dyn SessionHandle + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHandle").field("id", self.id()).field("access", &self.access()).finish_non_exhaustive()
    }
}

/// What a handle may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read; needs no ownership, disturbs nobody.
    Read,
    /// Read and write; at most one such handle a session.
    Write,
}

/// A half-open range of seqs.
///
/// ```
/// use session_persistence::SeqRange;
/// assert_eq!(SeqRange::from(..), SeqRange::ALL);
/// assert_eq!(SeqRange::from(2..5), SeqRange::new(2, Some(3)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeqRange {
    start: u64,
    length: Option<u64>,
}

impl SeqRange {
    /// The whole log.
    pub const ALL: Self = Self { start: 0, length: None };

    /// `length` events from `start` on, or the rest of the log.
    pub const fn new(start: u64, length: Option<u64>) -> Self {
        Self { start, length }
    }

    /// Where it starts.
    pub fn start(self) -> u64 {
        self.start
    }

    /// The part of it inside a log of `count` events.
    pub fn within(self, count: u64) -> Range<u64> {
        let start = self.start.min(count);
        let end = self.length.map_or(count, |n| self.start.saturating_add(n).min(count));
        start..end.max(start)
    }
}

impl From<RangeInclusive<u64>> for SeqRange {
    fn from(range: RangeInclusive<u64>) -> Self {
        Self::from(*range.start()..range.end().saturating_add(1))
    }
}

impl From<RangeFull> for SeqRange {
    fn from(_: RangeFull) -> Self {
        Self::ALL
    }
}

impl From<RangeFrom<u64>> for SeqRange {
    fn from(range: RangeFrom<u64>) -> Self {
        Self::new(range.start, None)
    }
}

impl From<RangeTo<u64>> for SeqRange {
    fn from(range: RangeTo<u64>) -> Self {
        Self::new(0, Some(range.end))
    }
}

impl From<Range<u64>> for SeqRange {
    fn from(range: Range<u64>) -> Self {
        Self::new(range.start, Some(range.end.saturating_sub(range.start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_to_the_log() {
        assert_eq!(SeqRange::ALL.within(3), 0..3);
        assert_eq!(SeqRange::from(1..).within(3), 1..3);
        assert_eq!(SeqRange::from(..2).within(3), 0..2);
        assert_eq!(SeqRange::from(1..=1).within(3), 1..2);
        assert_eq!(SeqRange::from(2..9).within(3), 2..3);
        assert_eq!(SeqRange::from(3..).within(3), 3..3);
        assert_eq!(SeqRange::new(u64::MAX, Some(u64::MAX)).within(3), 3..3);
    }
}
