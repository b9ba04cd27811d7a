//! [`SessionFilter`]: which sessions are wanted.

use std::cmp::Reverse;
use std::ops::RangeInclusive;

use super::{QueryError, SessionReader, SessionRecord};
use crate::log::SessionId;
use crate::seam::{Error, ListFilter};

/// Which sessions are wanted: all, but for what its parts say. The parts are joined as those of a [`ListFilter`] are, which
/// the store is asked with: a session must be let through by every part that was given, and is let through by a part where
/// one of its values fits; a part without values lets nothing through.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    told: ListFilter,
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
        self.told = self.told.with_ids(ids);
        self
    }

    /// Only sessions with one of the working directories; `None` stands for sessions without one.
    #[must_use]
    pub fn in_cwds<T: Into<String>>(mut self, cwds: impl IntoIterator<Item = Option<T>>) -> Self {
        self.told = self.told.in_cwds(cwds);
        self
    }

    /// Only sessions that were made in one of the ranges, in milliseconds since 1970, both ends included.
    ///
    /// # Errors
    ///
    /// `InvalidFilter` for a range whose end is before its start.
    pub fn created_in(mut self, ranges: impl IntoIterator<Item = RangeInclusive<u64>>) -> Result<Self, QueryError> {
        self.told = self.told.created_in(ranges).map_err(|refused| match refused {
            Error::InvalidArgument { reason, .. } => QueryError::InvalidFilter { reason },
            other => other.into(),
        })?;
        Ok(self)
    }

    /// Only sessions with one of the parents; `None` stands for sessions without one.
    #[must_use]
    pub fn with_parents<T: Into<String>>(mut self, parents: impl IntoIterator<Item = Option<T>>) -> Self {
        self.told = self.told.with_parents(parents);
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
        self.told.matches_id(record.id())
            && self.told.matches_header(&record.header)
            && self.availability.as_ref().is_none_or(|places| {
                places.iter().any(|place| match place {
                    Availability::Live => record.live,
                    Availability::Persisted => record.persisted,
                })
            })
    }

    /// Whether it may let through what is stored only.
    fn may_be_stored_only(&self) -> bool {
        self.availability.as_ref().is_none_or(|places| places.contains(&Availability::Persisted))
    }
}

impl SessionReader {
    /// The sessions that a filter lets through, live ones and stored ones, the one first that was made last, then by id. The
    /// store is asked for those alone, and no event is read. Sessions whose header cannot be read are left out:
    /// [`SessionPersistence::list`](crate::SessionPersistence::list) has them.
    ///
    /// # Errors
    ///
    /// `SourceConflict`; failures of the storage.
    pub fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionRecord>, QueryError> {
        let mut records =
            if filter.may_be_stored_only() { self.records(&filter.told)? } else { self.live_records(&filter.told)? };
        records.retain(|record| filter.matches(record));
        records.sort_by(|a, b| (Reverse(a.header.created_at()), a.id()).cmp(&(Reverse(b.header.created_at()), b.id())));
        Ok(records)
    }
}
