//! [`SessionFilter`]: which sessions are wanted.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::filter::checked;
use super::{QueryError, SessionReader, SessionRecord};
use crate::log::SessionId;

/// Which sessions are wanted: all, but for what its parts say. The parts are joined as those of an
/// [`EventFilter`](super::EventFilter) are: a session must be let through by every part that was given, and is let through by
/// a part where one of its values fits; a part without values lets nothing through.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    ids: Option<HashSet<SessionId>>,
    cwds: Option<HashSet<Option<String>>>,
    created: Option<Vec<RangeInclusive<u64>>>,
    parents: Option<HashSet<Option<String>>>,
    availability: Option<Vec<Availability>>,
}

/// Where a session is to be found. It can be both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Availability {
    /// It is live.
    Live,
    /// It is stored.
    Persisted,
}

impl SessionFilter {
    /// Lets everything through.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only sessions with one of the ids.
    #[must_use]
    pub fn with_ids(mut self, ids: impl IntoIterator<Item = SessionId>) -> Self {
        self.ids = Some(ids.into_iter().collect());
        self
    }

    /// Only sessions with one of the working directories; `None` stands for sessions without one.
    #[must_use]
    pub fn in_cwds<T: Into<String>>(mut self, cwds: impl IntoIterator<Item = Option<T>>) -> Self {
        self.cwds = Some(cwds.into_iter().map(|cwd| cwd.map(Into::into)).collect());
        self
    }

    /// Only sessions that were made in one of the ranges, in milliseconds since 1970, both ends included.
    ///
    /// # Errors
    ///
    /// `InvalidFilter` for a range whose end is before its start.
    pub fn created_in(mut self, ranges: impl IntoIterator<Item = RangeInclusive<u64>>) -> Result<Self, QueryError> {
        self.created = Some(checked("times of creation", ranges)?);
        Ok(self)
    }

    /// Only sessions with one of the parents; `None` stands for sessions without one.
    #[must_use]
    pub fn with_parents<T: Into<String>>(mut self, parents: impl IntoIterator<Item = Option<T>>) -> Self {
        self.parents = Some(parents.into_iter().map(|parent| parent.map(Into::into)).collect());
        self
    }

    /// Only sessions that are to be found in one of these places.
    #[must_use]
    pub fn available(mut self, places: impl IntoIterator<Item = Availability>) -> Self {
        self.availability = Some(places.into_iter().collect());
        self
    }

    /// Whether it lets a session through.
    pub fn matches(&self, record: &SessionRecord) -> bool {
        let header = &record.header;
        let is_one_of =
            |known: &HashSet<Option<String>>, value: Option<&str>| known.contains(&value.map(str::to_owned));
        self.ids.as_ref().is_none_or(|ids| ids.contains(record.id()))
            && self.cwds.as_ref().is_none_or(|cwds| is_one_of(cwds, header.cwd()))
            && self.created.as_ref().is_none_or(|all| all.iter().any(|range| range.contains(&header.created_at())))
            && self.parents.as_ref().is_none_or(|parents| is_one_of(parents, header.parent_session()))
            && self.availability.as_ref().is_none_or(|places| {
                places.iter().any(|place| match place {
                    Availability::Live => record.live,
                    Availability::Persisted => record.persisted,
                })
            })
    }
}

impl SessionReader {
    /// The sessions that a filter lets through, live ones and stored ones, the one first that was made last, then by id. The
    /// whole store is listed for it, and no event is read. Sessions whose header cannot be read are left out:
    /// [`SessionPersistence::list`](crate::SessionPersistence::list) has them.
    ///
    /// # Errors
    ///
    /// `SourceConflict`; failures of the storage.
    pub fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionRecord>, QueryError> {
        let mut records = self.records()?;
        records.retain(|record| filter.matches(record));
        records.sort_by(|a, b| (Reverse(a.header.created_at()), a.id()).cmp(&(Reverse(b.header.created_at()), b.id())));
        Ok(records)
    }
}
