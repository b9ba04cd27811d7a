//! [`ListQuery`] and [`Page`]: the sessions of a store, a page at a time.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;

use super::list_filter::fingerprint;
use super::{Error, ListFilter, Result, Snapshot};
use crate::log::{SessionHeader, SessionId};

/// Which sessions to list, in which order, how many at a time. The default lists all in one page, most recently active
/// first.
///
/// ```
/// use session_persistence::{ListFilter, ListOrder, ListQuery};
/// let query = ListQuery::default()
///     .with_filter(ListFilter::new().in_cwds([Some("/w")]))
///     .with_order(ListOrder::Created)
///     .with_limit(50);
/// # let _ = query;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListQuery {
    /// Which sessions.
    pub filter: ListFilter,
    /// The order.
    pub order: ListOrder,
    /// The most sessions a page; all where there is none.
    pub limit: Option<usize>,
    /// Where the page starts: the [`Page::next`] of the one before.
    pub cursor: Option<Cursor>,
}

/// The order of a list; sessions that tie stand by id.
///
/// Others may write while a list is paged through. What is promised then of the pages that one cursor leads to after
/// another, for the sessions that the filter lets through all the while:
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ListOrder {
    /// By [`Snapshot::activity`], most recent first.
    ///
    /// A session that is written moves to the front. None is shown twice, and each that is not written meanwhile is shown
    /// exactly once. One that is written before its page came is behind the pager and not shown: list again from the
    /// front, down to the activity that the first page began with, to see those, or have [`Listed`](crate::Listed) do it,
    /// which shows each exactly once. A session that is created, or created anew, meanwhile is not shown.
    #[default]
    Activity,
    /// By the header's time of creation, newest first.
    ///
    /// Nothing moves a session: each that exists from the first page to the last is shown exactly once, whatever is
    /// written, created and removed meanwhile. One that is created meanwhile is shown where it stands behind the pager's place.
    Created,
}

impl ListOrder {
    /// The place of a session in this order, as far as its snapshot tells.
    pub fn key(self, session: &Snapshot) -> u64 {
        match self {
            Self::Activity => session.activity,
            Self::Created => session.header.as_ref().map_or(0, SessionHeader::created_at),
        }
    }

    fn letter(self) -> char {
        match self {
            Self::Activity => 'a',
            Self::Created => 'c',
        }
    }
}

impl ListQuery {
    /// The same query for the sessions that a filter lets through.
    #[must_use]
    pub fn with_filter(mut self, filter: ListFilter) -> Self {
        self.filter = filter;
        self
    }

    /// The same query with at most `limit` sessions a page.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The same query in another order.
    #[must_use]
    pub fn with_order(mut self, order: ListOrder) -> Self {
        self.order = order;
        self
    }

    /// The same query, starting behind the page that gave `cursor`.
    #[must_use]
    pub fn with_cursor(mut self, cursor: Cursor) -> Self {
        self.cursor = Some(cursor);
        self
    }

    /// Where the page starts, for a backend: behind the session with this key and id. `store` is what no other store is
    /// called and this one always is, as long as its cursors are to be good.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the limit is 0, or the cursor is not one or was given by a query in another order,
    /// with another filter or of another store.
    pub fn position(&self, store: &str) -> Result<Option<Position>> {
        if self.limit == Some(0) {
            return Err(invalid("the limit of a page must be at least 1".to_owned()));
        }
        self.cursor.as_ref().map(|cursor| cursor.position(self, store)).transpose()
    }

    /// The page that this query asks for, for a backend: of sessions of any order and number, among which are all that
    /// stand on the page and the one behind it, where there is one. Those that the filter does not let through, or that
    /// stand on earlier pages, are left out here.
    ///
    /// # Errors
    ///
    /// Those of [`ListQuery::position`].
    pub fn page_of(&self, store: &str, sessions: impl IntoIterator<Item = Snapshot>) -> Result<Page<Snapshot>> {
        let keyed = sessions.into_iter().map(|session| (self.order.key(&session), session));
        self.page_of_keyed(store, keyed)
    }

    /// [`ListQuery::page_of`] of sessions with their places in the order.
    pub(crate) fn page_of_keyed(
        &self,
        store: &str,
        sessions: impl IntoIterator<Item = (u64, Snapshot)>,
    ) -> Result<Page<Snapshot>> {
        let after = self.position(store)?;
        let is_wanted = |(key, session): &(u64, Snapshot)| {
            after.as_ref().is_none_or(|after| after.is_before(*key, &session.id)) && self.filter.matches(session)
        };
        let mut listed: Vec<_> = sessions.into_iter().filter(is_wanted).collect();
        listed.sort_by(|a, b| (Reverse(a.0), &a.1.id).cmp(&(Reverse(b.0), &b.1.id)));
        let mut next = None;
        if let Some(limit) = self.limit.filter(|limit| listed.len() > *limit) {
            let stored = listed.iter().map(|(key, _)| *key).find(|key| *key < Snapshot::PENDING_ACTIVITY);
            listed.truncate(limit);
            next = listed.last().map(|(key, session)| {
                let ceiling = match after {
                    Some(after) => after.ceiling,
                    None => stored.unwrap_or(0),
                };
                Cursor::behind(self, store, &Position { key: *key, id: session.id.clone(), ceiling })
            });
        }
        Ok(Page::new(listed.into_iter().map(|(_, session)| session).collect(), next))
    }
}

/// A place in an ordered list, for a backend: the key is the activity or the time of creation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Position {
    /// The activity or the time of creation.
    pub key: u64,
    /// The session.
    pub id: SessionId,
    /// The highest key of a stored session on the first page. A session that was created only stands before all stored
    /// ones, and above this when it is stored: by then it may have been shown.
    ceiling: u64,
}

impl Position {
    /// Whether a session with `key` and `id` comes behind this place in a list: keys fall, ids rise.
    pub fn is_before(&self, key: u64, id: &SessionId) -> bool {
        let is_new =
            self.key >= Snapshot::PENDING_ACTIVITY && (self.ceiling + 1..Snapshot::PENDING_ACTIVITY).contains(&key);
        (Reverse(self.key), &self.id) < (Reverse(key), id) && !is_new
    }

    /// The highest key that a stored session behind this place can have.
    pub fn highest(&self) -> u64 {
        if self.key >= Snapshot::PENDING_ACTIVITY { self.ceiling } else { self.key }
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page<T> {
    /// What the page holds.
    pub items: Vec<T>,
    /// Where the next page starts; nothing behind the last.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// A page.
    pub fn new(items: Vec<T>, next: Option<Cursor>) -> Self {
        Self { items, next }
    }
}

/// Where a page of a list starts: opaque, to be handed back to the same store with the same order and filter. Another build
/// of this crate may refuse it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cursor(String);

impl Cursor {
    fn behind(query: &ListQuery, store: &str, place: &Position) -> Self {
        let (order, filter, store) = (query.order.letter(), fingerprint(&query.filter), fingerprint(store));
        let Position { key, id, ceiling } = place;
        Self(BASE64URL_NOPAD.encode(format!("2{order}{filter:016x}{store:016x}{key}:{ceiling}:{id}").as_bytes()))
    }

    fn position(&self, query: &ListQuery, store: &str) -> Result<Position> {
        let refused = || invalid("the cursor is not one of a list of sessions; start again without it".to_owned());
        let foreign = |other: &str| invalid(format!("the cursor belongs to a list {other}; start again without it"));
        let bytes = BASE64URL_NOPAD.decode(self.0.as_bytes()).map_err(|_| refused())?;
        let text = String::from_utf8(bytes).map_err(|_| refused())?;
        let rest = text.strip_prefix('2').ok_or_else(refused)?;
        let mut rest = rest.chars();
        let order = rest.next().filter(|order| matches!(order, 'a' | 'c')).ok_or_else(refused)?;
        let (filter, rest) = number(rest.as_str()).ok_or_else(refused)?;
        let (of_store, rest) = number(rest).ok_or_else(refused)?;
        let (key, rest) = rest.split_once(':').ok_or_else(refused)?;
        let (ceiling, id) = rest.split_once(':').ok_or_else(refused)?;
        let place = Position {
            key: key.parse().map_err(|_| refused())?,
            id: SessionId::new(id).map_err(|_| refused())?,
            ceiling: ceiling.parse().map_err(|_| refused())?,
        };
        if place.ceiling >= Snapshot::PENDING_ACTIVITY {
            return Err(refused());
        }
        if of_store != fingerprint(store) {
            return Err(foreign("of another store"));
        }
        if order != query.order.letter() {
            return Err(foreign("in another order"));
        }
        if filter != fingerprint(&query.filter) {
            return Err(foreign("with another filter"));
        }
        Ok(place)
    }
}

/// A number of sixteen digits, and what follows it.
fn number(text: &str) -> Option<(u64, &str)> {
    let (digits, rest) = text.split_at_checked(16)?;
    Some((u64::from_str_radix(digits, 16).ok()?, rest))
}

fn invalid(reason: String) -> Error {
    Error::InvalidArgument { session: None, reason }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Cursor {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Vocabulary;
    use crate::seam::{ErrorKind, Revision};

    fn id(name: &str) -> SessionId {
        SessionId::new(name).unwrap()
    }

    fn reparsed(query: &ListQuery, store: &str, place: &Position) -> Cursor {
        Cursor::behind(query, store, place).to_string().parse().unwrap()
    }

    fn session(name: &str, activity: u64) -> Snapshot {
        let header = SessionHeader::new(id(name), 1000 - activity).unwrap();
        Snapshot { activity, ..Snapshot::new(header, Revision::new("r"), &Vocabulary::default()) }
    }

    fn names(page: &Page<Snapshot>) -> String {
        page.items.iter().map(|told| told.id.as_str()).collect()
    }

    #[test]
    fn a_cursor_gives_back_its_place_and_refuses_everything_foreign() {
        let place = Position { key: 7, id: id("a:b/😀"), ceiling: 9 };
        let query = ListQuery::default().with_order(ListOrder::Created).with_filter(ListFilter::new().owned(true));
        let query = query.clone().with_cursor(reparsed(&query, "here", &place));
        assert_eq!(query.position("here").unwrap(), Some(place));
        let why = |query: ListQuery, store| query.position(store).unwrap_err().to_string();
        assert!(why(query.clone(), "there").contains("of another store"));
        assert!(why(query.clone().with_order(ListOrder::Activity), "here").contains("in another order"));
        assert!(why(query.clone().with_filter(ListFilter::new().owned(false)), "here").contains("another filter"));
        assert!(why(query.clone().with_limit(0), "here").contains("limit"));
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        let place = Position { key: 7, id: id("s"), ceiling: 0 };
        let good = Cursor::behind(&ListQuery::default(), "here", &place).to_string();
        let plain = String::from_utf8(BASE64URL_NOPAD.decode(good.as_bytes()).unwrap()).unwrap();
        let mut bad = vec!["".to_owned(), "%".to_owned(), "MWE".to_owned(), "x".repeat(1000), format!("{good}=")];
        bad.extend((0..plain.len()).map(|end| BASE64URL_NOPAD.encode(&plain.as_bytes()[..end])));
        for text in ["2a+000000000000000", "2é", "1a7:s"] {
            bad.push(BASE64URL_NOPAD.encode(text.as_bytes()));
        }
        let beyond = format!("7:{}:s", u64::MAX);
        bad.push(BASE64URL_NOPAD.encode(plain.replace("7:0:s", &beyond).as_bytes()));
        for text in bad {
            let query = ListQuery::default().with_cursor(text.parse().unwrap());
            assert_eq!(query.position("here").expect_err(&text).kind(), ErrorKind::InvalidArgument);
        }
    }

    #[test]
    fn a_page_is_cut_from_all_that_is_there() {
        let all = || [session("a", 1), session("c", 3), session("b", 3), session("d", 4)];
        let query = ListQuery::default().with_limit(2);
        let first = query.page_of("here", all()).unwrap();
        assert_eq!(names(&first), "db");
        let second = query.clone().with_cursor(first.next.unwrap()).page_of("here", all()).unwrap();
        assert_eq!((names(&second), second.next), ("ca".to_owned(), None));
        let wanted = ListFilter::new().with_ids([id("a"), id("d")]);
        let filtered = query.with_order(ListOrder::Created).with_filter(wanted).page_of("here", all()).unwrap();
        assert_eq!((names(&filtered), filtered.next), ("ad".to_owned(), None));
    }

    #[test]
    fn a_session_that_was_shown_before_it_was_stored_is_not_shown_again() {
        let pending = |name, number| session_at(name, Snapshot::PENDING_ACTIVITY + number);
        let query = ListQuery::default().with_limit(1);
        let first = query.page_of("here", [pending("b", 2), pending("a", 1), session("s", 5)]).unwrap();
        assert_eq!(names(&first), "b");
        let after = || [session("b", 6), pending("a", 1), session("s", 5)];
        let second = query.clone().with_cursor(first.next.unwrap()).page_of("here", after()).unwrap();
        assert_eq!(names(&second), "a");
        let third = query.with_cursor(second.next.unwrap()).page_of("here", after()).unwrap();
        assert_eq!((names(&third), third.next), ("s".to_owned(), None));
    }

    fn session_at(name: &str, activity: u64) -> Snapshot {
        Snapshot { activity, ..session(name, 0) }
    }
}
