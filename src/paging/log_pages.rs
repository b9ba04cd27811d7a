//! [`LogPages`]: the events of a stored log one by one, a page of them in memory.

use std::vec;

use super::Pages;
use crate::log::SessionEvent;
use crate::seam::{Result, SessionHandle, Snapshot};

/// The events of an open session, from the first to the one that was the last when this was made.
pub(crate) struct LogPages<'a> {
    pages: Pages<'a>,
    page: vec::IntoIter<SessionEvent>,
    read: u64,
}

impl<'a> LogPages<'a> {
    /// The snapshot is of the same session and not older than the wanted end.
    pub(crate) fn new(handle: &'a dyn SessionHandle, snapshot: &Snapshot) -> Self {
        Self { pages: Pages::new(handle, snapshot, 0), page: Vec::new().into_iter(), read: 0 }
    }

    /// The next event; nothing at the end.
    pub(crate) fn next_event(&mut self) -> Result<Option<SessionEvent>> {
        if self.page.len() == 0 {
            // The page before goes first, so that no two are in memory.
            self.page = Vec::new().into_iter();
            self.page = self.pages.next_page()?.into_iter();
            self.read += self.page.len() as u64;
        }
        Ok(self.page.next())
    }

    /// How many events were read from the store so far, those included that were not taken yet.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }
}
