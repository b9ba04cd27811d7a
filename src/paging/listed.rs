//! [`Listed`]: the sessions of a store, a page at a time.

use std::collections::HashSet;
use std::vec;

use crate::log::SessionId;
use crate::seam::{ListFilter, ListOrder, ListQuery, Page, Result, SessionPersistence, Snapshot};

/// How many sessions are listed at once.
const PAGE: usize = 1000;

/// How many are listed at first to see those that were written meanwhile.
const FRONT: usize = 16;

/// The sessions of a store that a filter lets through, in the order of its list. A failure is the last that it gives.
///
/// Each that exists all the while is given exactly once, whatever is written, created and removed meanwhile. In the order of
/// activity those that were written before their page came are given at the end. Their ids are kept for it in memory.
///
/// ```
/// use session_persistence::{ListOrder, Listed, MemoryStore};
///
/// let store = MemoryStore::new();
/// for session in Listed::new(&store, ListOrder::Activity) {
///     println!("{}", session?.id);
/// }
/// # Ok::<(), session_persistence::Error>(())
/// ```
pub struct Listed<'a> {
    store: &'a dyn SessionPersistence,
    filter: ListFilter,
    /// The page that comes next; none behind the last.
    query: Option<ListQuery>,
    page: vec::IntoIter<Snapshot>,
    /// What may move while the pages are turned; nothing where nothing does.
    moving: Option<Moving>,
}

#[derive(Default)]
struct Moving {
    shown: HashSet<SessionId>,
    /// The activity of the first stored session: what is written after it was listed stands above.
    ceiling: Option<u64>,
    has_turned: bool,
}

impl Moving {
    /// The page without what was shown before.
    fn show(&mut self, page: Vec<Snapshot>) -> Vec<Snapshot> {
        let stored = page.iter().map(|told| told.activity).find(|activity| *activity < Snapshot::PENDING_ACTIVITY);
        self.ceiling = self.ceiling.or(stored);
        page.into_iter().filter(|told| self.shown.insert(told.id.clone())).collect()
    }
}

impl<'a> Listed<'a> {
    /// All sessions of a store.
    pub fn new(store: &'a dyn SessionPersistence, order: ListOrder) -> Self {
        Self::filtered(store, order, ListFilter::new())
    }

    /// Those that a filter lets through.
    pub fn filtered(store: &'a dyn SessionPersistence, order: ListOrder, filter: ListFilter) -> Self {
        Self::in_pages_of(PAGE, store, order, filter)
    }

    fn in_pages_of(size: usize, store: &'a dyn SessionPersistence, order: ListOrder, filter: ListFilter) -> Self {
        let query = ListQuery::default().with_filter(filter.clone()).with_order(order).with_limit(size);
        let moving = (order == ListOrder::Activity).then(Moving::default);
        Self { store, filter, query: Some(query), page: Vec::new().into_iter(), moving }
    }

    /// The next page; nothing behind the last.
    fn turn(&mut self) -> Result<Option<Vec<Snapshot>>> {
        let Some(query) = self.query.take() else { return self.front() };
        let Page { items, next } = self.store.list(&query)?;
        if let Some(moving) = &mut self.moving {
            moving.has_turned |= next.is_some();
        }
        self.query = next.map(|cursor| query.with_cursor(cursor));
        Ok(Some(match &mut self.moving {
            Some(moving) => moving.show(items),
            None => items,
        }))
    }

    /// Those that were written since the first page came and were not shown. They are had in one list, so that none can
    /// move out of it.
    fn front(&mut self) -> Result<Option<Vec<Snapshot>>> {
        let Some(mut moving) = self.moving.take().filter(|moving| moving.has_turned) else { return Ok(None) };
        let ceiling = moving.ceiling.unwrap_or(0);
        let mut size = FRONT;
        loop {
            let query = ListQuery::default().with_filter(self.filter.clone()).with_limit(size);
            let Page { mut items, next } = self.store.list(&query)?;
            if next.is_none() || items.last().is_none_or(|last| last.activity < ceiling) {
                items.retain(|told| told.activity >= ceiling);
                return Ok(Some(moving.show(items)));
            }
            size = size.saturating_mul(4);
        }
    }
}

impl Iterator for Listed<'_> {
    type Item = Result<Snapshot>;

    fn next(&mut self) -> Option<Result<Snapshot>> {
        loop {
            if let Some(snapshot) = self.page.next() {
                return Some(Ok(snapshot));
            }
            match self.turn() {
                Ok(page) => self.page = page?.into_iter(),
                Err(error) => {
                    (self.query, self.moving) = (None, None);
                    return Some(Err(error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::MemoryStore;
    use crate::log::{Json, SessionEvent, SessionHeader};
    use crate::seam::{CreateOptions, SessionHandle};

    fn created(store: &MemoryStore, name: &str) -> Box<dyn SessionHandle> {
        let header = SessionHeader::new(SessionId::new(name).unwrap(), 0).unwrap();
        let handle = store.create(&header, CreateOptions::default()).unwrap();
        handle.flush().unwrap();
        handle
    }

    fn write(handle: &dyn SessionHandle) {
        let seq = handle.read(crate::seam::SeqRange::ALL).unwrap().len() as u64;
        let event = SessionEvent::new("note", seq, 0, Json::parse("{}").unwrap()).unwrap().into_ignorable();
        handle.append(&[event]).unwrap();
    }

    fn names(listed: Listed<'_>) -> String {
        listed.map(|told| told.unwrap().id.to_string()).collect()
    }

    #[test]
    fn what_is_written_while_the_pages_are_turned_is_given_once() {
        let store = MemoryStore::new();
        let handles: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|name| created(&store, name)).into();
        for (written, handle) in handles.iter().enumerate() {
            for shown in 0..=6 {
                let mut listed = Listed::in_pages_of(2, &store, ListOrder::Activity, ListFilter::new());
                let mut given: String = listed.by_ref().take(shown).map(|told| told.unwrap().id.to_string()).collect();
                write(&**handle);
                drop(created(&store, "new"));
                given.extend(listed.map(|told| told.unwrap().id.to_string()));
                let mut all: Vec<_> = given.replace("new", "").chars().collect();
                all.sort_unstable();
                assert_eq!(all, ['a', 'b', 'c', 'd', 'e', 'f'], "{written} was written after {shown}: {given}");
                assert!(store.remove(&SessionId::new("new").unwrap()).unwrap());
            }
        }
    }

    #[test]
    fn many_that_moved_are_all_given() {
        let store = MemoryStore::new();
        let handles: Vec<_> = (0..200).map(|n| created(&store, &format!("s{n}"))).collect();
        let mut listed = Listed::in_pages_of(1, &store, ListOrder::Activity, ListFilter::new());
        assert_eq!(listed.next().unwrap().unwrap().id.as_str(), "s199");
        handles.iter().for_each(|handle| write(&**handle));
        let rest: HashSet<_> = listed.map(|told| told.unwrap().id.to_string()).collect();
        assert_eq!(rest.len(), 199);
    }

    #[test]
    fn only_what_the_filter_lets_through_is_given() {
        let store = MemoryStore::new();
        let _open = ["a", "b", "c", "d"].map(|name| created(&store, name));
        let ids = ListFilter::new().with_ids(["a", "c", "d"].map(|name| SessionId::new(name).unwrap()));
        assert_eq!(names(Listed::in_pages_of(2, &store, ListOrder::Activity, ids.clone())), "dca");
        assert_eq!(names(Listed::in_pages_of(2, &store, ListOrder::Created, ids)), "acd");
    }
}
