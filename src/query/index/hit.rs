//! [`SearchHit`]: an event that was found, and [`SearchPage`].

use super::{SearchCursor, Snippet};
use crate::log::SessionId;

/// An event that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchHit {
    /// Its session.
    pub session: SessionId,
    /// Its seq.
    pub seq: u64,
    /// Its type.
    pub event_type: String,
    /// Its time, in milliseconds since 1970.
    pub time: i64,
    /// How often the text stands in it.
    pub matches: u64,
    /// The part of its text in which it stands first.
    pub snippet: Snippet,
}

/// A page of what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchPage {
    /// The events, the best first.
    pub hits: Vec<SearchHit>,
    /// How many events hold the text, on all pages.
    pub total: u64,
    /// Where the next page starts; nothing behind the last.
    pub next: Option<SearchCursor>,
}

/// Where a hit stands among all: the least comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) matches: std::cmp::Reverse<u64>,
    /// How many characters its text has.
    pub(super) length: u64,
    pub(super) time: std::cmp::Reverse<i64>,
    pub(super) seq: std::cmp::Reverse<u64>,
    pub(super) session: String,
}
