//! [`ListQuery`] and [`Page`]: the sessions of a store, a page at a time.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;

use super::{Error, Result};
use crate::log::SessionId;

/// Which sessions to list, in which order, how many at a time. The default lists all in one page, most recently active
/// first.
///
/// ```
/// use session_persistence::{ListOrder, ListQuery};
/// let query = ListQuery::default().with_limit(50).with_order(ListOrder::Created);
/// # let _ = query;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListQuery {
    /// The order.
    pub order: ListOrder,
    /// The most sessions a page; all where there is none.
    pub limit: Option<usize>,
    /// Where the page starts: the [`Page::next`] of the one before.
    pub cursor: Option<Cursor>,
}

/// The order of a list; sessions that tie stand by id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ListOrder {
    /// By [`Snapshot::activity`](super::Snapshot::activity), most recent first.
    #[default]
    Activity,
    /// By the header's time of creation, newest first.
    Created,
}

impl ListQuery {
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

    /// Where the page starts, for a backend: behind the session with this key and id.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the limit is 0, or the cursor is not one or was given by a query in another order.
    pub fn position(&self) -> Result<Option<Position>> {
        if self.limit == Some(0) {
            return Err(invalid("the limit of a page must be at least 1".to_owned()));
        }
        self.cursor.as_ref().map(|c| c.position(self.order)).transpose()
    }
}

/// A place in an ordered list, for a backend: the key is the activity or the time of creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The activity or the time of creation.
    pub key: u64,
    /// The session.
    pub id: SessionId,
}

impl Position {
    /// Whether a session with `key` and `id` comes behind this place in a list: keys fall, ids rise.
    pub fn is_before(&self, key: u64, id: &SessionId) -> bool {
        (std::cmp::Reverse(self.key), &self.id) < (std::cmp::Reverse(key), id)
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

/// Where a page of a list starts: opaque, to be handed back with the same order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cursor(String);

impl Cursor {
    /// The cursor behind a session, for a backend.
    pub fn behind(order: ListOrder, place: &Position) -> Self {
        let text = format!("1{}{}:{}", letter(order), place.key, place.id);
        Self(BASE64URL_NOPAD.encode(text.as_bytes()))
    }

    fn position(&self, order: ListOrder) -> Result<Position> {
        let refused = || invalid("the cursor is not one of a list of sessions; start again without it".to_owned());
        let bytes = BASE64URL_NOPAD.decode(self.0.as_bytes()).map_err(|_| refused())?;
        let text = String::from_utf8(bytes).map_err(|_| refused())?;
        let rest = text.strip_prefix('1').ok_or_else(refused)?;
        let rest = rest.strip_prefix(letter(order)).ok_or_else(|| {
            invalid("the cursor belongs to a list in another order; start again without it".to_owned())
        })?;
        let (key, id) = rest.split_once(':').ok_or_else(refused)?;
        Ok(Position { key: key.parse().map_err(|_| refused())?, id: SessionId::new(id).map_err(|_| refused())? })
    }
}

fn letter(order: ListOrder) -> char {
    match order {
        ListOrder::Activity => 'a',
        ListOrder::Created => 'c',
    }
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

    #[test]
    fn a_cursor_gives_back_its_place_and_refuses_another_order() {
        let place = Position { key: 7, id: SessionId::new("a:b/😀").unwrap() };
        let cursor: Cursor = Cursor::behind(ListOrder::Created, &place).to_string().parse().unwrap();
        let query = ListQuery::default().with_cursor(cursor);
        assert_eq!(query.clone().with_order(ListOrder::Created).position().unwrap(), Some(place));
        query.position().unwrap_err();
        for bad in ["", "%", "MWE", "x".repeat(1000).as_str()] {
            ListQuery::default().with_cursor(bad.parse().unwrap()).position().expect_err(bad);
        }
        ListQuery::default().with_limit(0).position().unwrap_err();
    }
}
