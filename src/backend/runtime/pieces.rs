//! [`Pieces`]: a batch that is larger than what is held at once.

use crate::log::{SessionEvent, SessionId};
use crate::seam::{Error, EventSource, Result, checks};

/// About so much of a batch is held at once, in bytes. In the crate's own tests a few events are several pieces.
const PIECE: usize = if cfg!(test) { 512 } else { 1 << 20 };

/// A batch that is given event by event, in pieces.
pub(crate) struct Pieces<'b> {
    events: &'b mut EventSource<'b>,
    /// How many events of the batch were taken.
    taken: usize,
}

impl<'b> Pieces<'b> {
    pub(crate) fn of(events: &'b mut EventSource<'b>) -> Self {
        Self { events, taken: 0 }
    }

    /// As many events as are held at once, none at the end. The batch has to continue a log of `count` events.
    pub(crate) fn next(&mut self, session: &SessionId, count: u64) -> Result<Vec<SessionEvent>> {
        let (mut piece, mut size) = (Vec::new(), 0);
        while size < PIECE
            && let Some(event) = self.events.next().transpose()?
        {
            size += event.data().as_str().len() + 256;
            piece.push(event);
        }
        checks::check_contiguous(session, count + self.taken as u64, &piece).map_err(|e| match e {
            Error::NotContiguous { session, index, expected, found } => {
                Error::NotContiguous { session, index: self.taken + index, expected, found }
            }
            other => other,
        })?;
        self.taken += piece.len();
        Ok(piece)
    }
}
