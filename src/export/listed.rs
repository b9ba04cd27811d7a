//! Every session of a store, a page of the list in memory.

use crate::seam::{ListOrder, ListQuery, Result, SessionPersistence, Snapshot};

/// How many sessions are listed at once.
const PAGE: usize = 1000;

/// Gives every session of a store, in the order of its list.
pub(super) fn for_each_listed(
    store: &dyn SessionPersistence,
    order: ListOrder,
    mut take: impl FnMut(Snapshot),
) -> Result<()> {
    let mut query = ListQuery::default().with_order(order).with_limit(PAGE);
    loop {
        let page = store.list(&query)?;
        page.items.into_iter().for_each(&mut take);
        match page.next {
            Some(cursor) => query = query.with_cursor(cursor),
            None => return Ok(()),
        }
    }
}
