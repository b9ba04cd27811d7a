//! [`Batch`]: the events that are stored in one step.

use std::borrow::Cow;

use crate::log::SessionEvent;
use crate::seam::{EventSource, Result};

/// The events that are stored in one step, held in memory or given one after another.
pub(crate) enum Batch<'b> {
    Held(&'b [SessionEvent]),
    /// There is at least one.
    Given(&'b mut EventSource<'b>),
}

impl<'b> Batch<'b> {
    /// All of them at once.
    pub(crate) fn into_held(self) -> Result<Cow<'b, [SessionEvent]>> {
        match self {
            Self::Held(events) => Ok(events.into()),
            Self::Given(events) => events.collect::<Result<Vec<_>>>().map(Cow::Owned),
        }
    }
}
