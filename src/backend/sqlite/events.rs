//! [`Events`]: what a change stores, in memory or given one after another.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use super::super::runtime::Pieces;
use super::row::check_sizes;
use crate::log::{SessionEvent, SessionId};
use crate::seam::{Result, checks};

/// The events of a change.
pub(super) enum Events<'e> {
    Held(Cow<'e, [SessionEvent]>),
    /// The thread that asks for the change takes them, once.
    Given(&'e dyn Source),
}

/// A batch that is given in pieces, an empty one at the end, and continues a log of `count` events.
pub(super) trait Source: Send + Sync {
    fn next(&self, session: &SessionId, count: u64) -> Result<Vec<SessionEvent>>;
}

/// A batch that is given in pieces, of events that can be stored.
pub(super) struct Given<'s> {
    pub(super) pieces: Mutex<Pieces<'s>>,
    pub(super) max_event_bytes: usize,
}

impl Source for Given<'_> {
    fn next(&self, session: &SessionId, count: u64) -> Result<Vec<SessionEvent>> {
        let piece = self.pieces.lock().unwrap_or_else(PoisonError::into_inner).next(session, count)?;
        check_sizes(&piece, self.max_event_bytes, session)?;
        Ok(piece)
    }
}

impl Events<'_> {
    /// Checks that they continue a log of `count` events, as far as that can be told before they are taken.
    pub(super) fn check(&self, session: &SessionId, count: u64) -> Result<()> {
        match self {
            Self::Held(events) => checks::check_contiguous(session, count, events),
            Self::Given(_) => Ok(()),
        }
    }

    /// Hands them to `take`, piece by piece. They were checked.
    pub(super) fn each(
        &self,
        session: &SessionId,
        count: u64,
        mut take: impl FnMut(&[SessionEvent]) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Held(events) => take(events),
            Self::Given(source) => loop {
                match source.next(session, count)? {
                    piece if piece.is_empty() => return Ok(()),
                    piece => take(&piece)?,
                }
            },
        }
    }
}
