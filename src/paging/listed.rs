//! [`Listed`]: the sessions of a store, a page at a time.

use std::vec;

use crate::seam::{ListOrder, ListQuery, Result, SessionPersistence, Snapshot};

/// How many sessions are listed at once.
const PAGE: usize = 1000;

/// Every session of a store, in the order of its list. A failure is the last that it gives.
pub(crate) struct Listed<'a> {
    store: &'a dyn SessionPersistence,
    /// The page that comes next; none behind the last.
    query: Option<ListQuery>,
    page: vec::IntoIter<Snapshot>,
}

impl<'a> Listed<'a> {
    pub(crate) fn new(store: &'a dyn SessionPersistence, order: ListOrder) -> Self {
        let query = ListQuery::default().with_order(order).with_limit(PAGE);
        Self { store, query: Some(query), page: Vec::new().into_iter() }
    }
}

impl Iterator for Listed<'_> {
    type Item = Result<Snapshot>;

    fn next(&mut self) -> Option<Result<Snapshot>> {
        loop {
            if let Some(snapshot) = self.page.next() {
                return Some(Ok(snapshot));
            }
            let query = self.query.take()?;
            match self.store.list(&query) {
                Ok(page) => {
                    self.query = page.next.map(|cursor| query.with_cursor(cursor));
                    self.page = page.items.into_iter();
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
