//! [`ListFilter`]: which sessions of a store are listed.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::RangeInclusive;

use super::{Error, Result, Snapshot, StateKind};
use crate::log::{Origin, SessionHeader, SessionId};

/// Which sessions of a store are listed: all, but for what its parts say. A session must be let through by every part that
/// was given, and is let through by a part where one of its values fits. A part without values lets nothing through. A part
/// that is given again stands for what it was before.
///
/// A session whose header cannot be read is let through by no part that asks for something in the header: its working
/// directory, parent, origin, version and time of creation are not known.
///
/// ```
/// use session_persistence::{ListFilter, ListQuery};
///
/// let top_level_here = ListFilter::new().in_cwds([Some("/w")]).with_parents([None::<String>]);
/// let query = ListQuery::default().with_filter(top_level_here).with_limit(50);
/// # let _ = query;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ListFilter {
    ids: Option<BTreeSet<SessionId>>,
    cwds: Option<BTreeSet<Option<String>>>,
    parents: Option<BTreeSet<Option<String>>>,
    origins: Option<BTreeSet<Option<Origin>>>,
    created: Option<Vec<RangeInclusive<u64>>>,
    active: Option<Vec<RangeInclusive<i64>>>,
    versions: Option<BTreeSet<u32>>,
    states: Option<BTreeSet<StateKind>>,
    owned: Option<bool>,
}

impl ListFilter {
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
        self.cwds = Some(texts(cwds));
        self
    }

    /// Only sessions with one of the parents, which need not be stored; `None` stands for sessions without one.
    #[must_use]
    pub fn with_parents<T: Into<String>>(mut self, parents: impl IntoIterator<Item = Option<T>>) -> Self {
        self.parents = Some(texts(parents));
        self
    }

    /// Only sessions with one of the origins; `None` stands for sessions without one that this build knows.
    #[must_use]
    pub fn with_origins(mut self, origins: impl IntoIterator<Item = Option<Origin>>) -> Self {
        self.origins = Some(origins.into_iter().collect());
        self
    }

    /// Only sessions that were made in one of the ranges, in milliseconds since 1970, both ends included.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a range whose end is before its start.
    pub fn created_in(mut self, ranges: impl IntoIterator<Item = RangeInclusive<u64>>) -> Result<Self> {
        self.created = Some(checked("times of creation", ranges)?);
        Ok(self)
    }

    /// Only sessions that were last active in one of the ranges, in milliseconds since 1970, both ends included: by
    /// [`Snapshot::written_at`], and where that is not known by [`Snapshot::last_time`]. A session of which neither is
    /// known is in no range.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a range whose end is before its start.
    pub fn active_in(mut self, ranges: impl IntoIterator<Item = RangeInclusive<i64>>) -> Result<Self> {
        self.active = Some(checked("times of activity", ranges)?);
        Ok(self)
    }

    /// Only sessions of one of the format versions.
    #[must_use]
    pub fn with_versions(mut self, versions: impl IntoIterator<Item = u32>) -> Self {
        self.versions = Some(versions.into_iter().collect());
        self
    }

    /// Only sessions in one of the states.
    #[must_use]
    pub fn in_states(mut self, states: impl IntoIterator<Item = StateKind>) -> Self {
        self.states = Some(states.into_iter().collect());
        self
    }

    /// Only sessions that have a writer now, or only those that have none, as [`Snapshot::owner`] tells.
    #[must_use]
    pub fn owned(mut self, owned: bool) -> Self {
        self.owned = Some(owned);
        self
    }

    /// The ids, where they are asked for.
    pub fn ids(&self) -> Option<&BTreeSet<SessionId>> {
        self.ids.as_ref()
    }

    /// The working directories, where they are asked for.
    pub fn cwds(&self) -> Option<&BTreeSet<Option<String>>> {
        self.cwds.as_ref()
    }

    /// The parents, where they are asked for.
    pub fn parents(&self) -> Option<&BTreeSet<Option<String>>> {
        self.parents.as_ref()
    }

    /// The origins, where they are asked for.
    pub fn origins(&self) -> Option<&BTreeSet<Option<Origin>>> {
        self.origins.as_ref()
    }

    /// The ranges of the time of creation, where they are asked for.
    pub fn created(&self) -> Option<&[RangeInclusive<u64>]> {
        self.created.as_deref()
    }

    /// The ranges of the time of activity, where they are asked for.
    pub fn active(&self) -> Option<&[RangeInclusive<i64>]> {
        self.active.as_deref()
    }

    /// The format versions, where they are asked for.
    pub fn versions(&self) -> Option<&BTreeSet<u32>> {
        self.versions.as_ref()
    }

    /// The states, where they are asked for.
    pub fn states(&self) -> Option<&BTreeSet<StateKind>> {
        self.states.as_ref()
    }

    /// Whether a writer is asked for, where that counts.
    pub fn is_owned(&self) -> Option<bool> {
        self.owned
    }

    /// Whether it lets a session through. What every backend gives, whatever way it finds it.
    pub fn matches(&self, session: &Snapshot) -> bool {
        let active = session.written_at.or(session.last_time);
        self.matches_id(&session.id)
            && self.states.as_ref().is_none_or(|states| states.contains(&session.state.kind()))
            && self.owned.is_none_or(|owned| owned == session.owner.is_some())
            && self.active.as_ref().is_none_or(|ranges| active.is_some_and(|at| is_within(ranges, &at)))
            && match &session.header {
                Some(header) => self.matches_header(header),
                None => !self.asks_for_header(),
            }
    }

    /// Whether the parts that ask for something in the header let it through.
    pub(crate) fn matches_header(&self, header: &SessionHeader) -> bool {
        let is_one_of = |known: &Option<BTreeSet<Option<String>>>, value: Option<&str>| {
            known.as_ref().is_none_or(|known| known.contains(&value.map(str::to_owned)))
        };
        is_one_of(&self.cwds, header.cwd())
            && is_one_of(&self.parents, header.parent_session())
            && self.origins.as_ref().is_none_or(|origins| origins.contains(&header.origin()))
            && self.created.as_ref().is_none_or(|ranges| is_within(ranges, &header.created_at()))
            && self.versions.as_ref().is_none_or(|versions| versions.contains(&header.version()))
    }

    pub(crate) fn matches_id(&self, id: &SessionId) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(id))
    }

    /// Whether a part asks for something in the header.
    pub(crate) fn asks_for_header(&self) -> bool {
        self.cwds.is_some()
            || self.parents.is_some()
            || self.origins.is_some()
            || self.created.is_some()
            || self.versions.is_some()
    }
}

/// The same for equal values, and hardly ever for others.
pub(super) fn fingerprint(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn texts<T: Into<String>>(values: impl IntoIterator<Item = Option<T>>) -> BTreeSet<Option<String>> {
    values.into_iter().map(|value| value.map(Into::into)).collect()
}

fn is_within<T: PartialOrd>(ranges: &[RangeInclusive<T>], value: &T) -> bool {
    ranges.iter().any(|range| range.contains(value))
}

/// The ranges in their order, so that equal filters are equal.
fn checked<T: Display + Ord + Copy>(
    what: &str,
    ranges: impl IntoIterator<Item = RangeInclusive<T>>,
) -> Result<Vec<RangeInclusive<T>>> {
    let mut ranges: Vec<_> = ranges.into_iter().collect();
    if let Some(range) = ranges.iter().find(|range| range.start() > range.end()) {
        let (start, end) = (range.start(), range.end());
        return Err(Error::InvalidArgument {
            session: None,
            reason: format!(
                "the range of {what} from {start} to {end} ends before it starts; give the smaller one first"
            ),
        });
    }
    ranges.sort_by_key(|range| (*range.start(), *range.end()));
    ranges.dedup();
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Vocabulary;
    use crate::seam::{Holder, Revision};

    fn session(change: impl FnOnce(SessionHeader) -> SessionHeader) -> Snapshot {
        let header = SessionHeader::new(SessionId::new("s").unwrap(), 10).unwrap();
        Snapshot::new(change(header), Revision::new("r"), &Vocabulary::default())
    }

    #[test]
    fn parts_are_joined_by_and_and_their_values_by_or() {
        let filter = ListFilter::new().in_cwds([Some("/a"), None]).with_versions([3, 4]);
        for (cwd, version, passes) in [
            (Some("/a"), 3, true),
            (None, 4, true),
            (Some("/b"), 3, false),
            (Some("/a"), 2, false),
            (Some("/b"), 2, false),
        ] {
            let told = session(|h| cwd.map_or(h.clone(), |cwd| h.with_cwd(cwd)).with_version(version));
            assert_eq!(filter.matches(&told), passes, "{cwd:?} {version}");
        }
    }

    #[test]
    fn a_part_without_values_lets_nothing_through() {
        let told = session(|h| h);
        let none = ListFilter::new;
        assert!(none().matches(&told));
        for filter in [
            none().with_ids([]),
            none().in_cwds::<String>([]),
            none().with_parents::<String>([]),
            none().with_origins([]),
            none().created_in([]).unwrap(),
            none().active_in([]).unwrap(),
            none().with_versions([]),
            none().in_states([]),
        ] {
            assert!(!filter.matches(&told), "{filter:?}");
        }
    }

    #[test]
    fn each_part_asks_for_its_own() {
        let mut told = session(|h| h.with_cwd("/w").with_parent_session("p").with_origin(Origin::Subagent));
        told.written_at = Some(7);
        told.last_time = Some(5);
        let id = |name: &str| SessionId::new(name).unwrap();
        let new = ListFilter::new;
        for (let_through, kept_out) in [
            (new().with_ids([id("r"), id("s")]), new().with_ids([id("r")])),
            (new().in_cwds([Some("/w")]), new().in_cwds([None, Some("/w/")])),
            (new().with_parents([Some("p")]), new().with_parents([None::<String>])),
            (new().with_origins([Some(Origin::Subagent)]), new().with_origins([None])),
            (new().created_in([0..=1, 10..=10]).unwrap(), new().created_in([0..=9, 11..=99]).unwrap()),
            (new().active_in([7..=7]).unwrap(), new().active_in([5..=5]).unwrap()),
            (new().with_versions([3]), new().with_versions([2, 4])),
            (new().in_states([StateKind::Readable]), new().in_states([StateKind::Pending, StateKind::NewerFormat])),
            (new().owned(false), new().owned(true)),
        ] {
            assert!(let_through.matches(&told), "{let_through:?}");
            assert!(!kept_out.matches(&told), "{kept_out:?}");
            assert_ne!(fingerprint(&let_through), fingerprint(&kept_out));
        }
        told.written_at = None;
        assert!(
            new().active_in([5..=5]).unwrap().matches(&told),
            "where the store does not know, the last event tells"
        );
        told.last_time = None;
        assert!(!new().active_in([i64::MIN..=i64::MAX]).unwrap().matches(&told));
        told.owner = Some(Holder::this_process());
        assert!(new().owned(true).matches(&told));
    }

    #[test]
    fn of_a_header_that_cannot_be_read_nothing_is_known() {
        let id = SessionId::new("s").unwrap();
        let told = Snapshot::damaged(id.clone(), "broken".to_owned(), Revision::new("r"));
        let new = ListFilter::new;
        assert!(new().with_ids([id]).in_states([StateKind::Damaged]).owned(false).matches(&told));
        for filter in [
            new().in_cwds([None::<String>]),
            new().with_parents([None::<String>]),
            new().with_origins([None]),
            new().created_in([0..=u64::MAX]).unwrap(),
            new().with_versions(0..=9),
        ] {
            assert!(!filter.matches(&told), "{filter:?}");
        }
    }

    #[test]
    fn a_range_that_ends_before_it_starts_is_refused() {
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        let error = ListFilter::new().created_in([0..=1, 3..=2]).unwrap_err();
        assert!(error.to_string().contains("times of creation from 3 to 2"), "{error}");
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        ListFilter::new().active_in([3..=2]).unwrap_err();
    }

    #[test]
    fn equal_filters_have_one_fingerprint_in_whatever_order_their_values_were_given() {
        let new = ListFilter::new;
        assert_eq!(
            fingerprint(new().with_versions([1, 2]).created_in([5..=6, 1..=2]).unwrap()),
            fingerprint(new().created_in([1..=2, 5..=6]).unwrap().with_versions([2, 1, 1]))
        );
        let all = [new(), new().in_cwds([Some("p")]), new().with_parents([Some("p")]), new().owned(false)];
        let told: BTreeSet<_> = all.iter().map(fingerprint).collect();
        assert_eq!(told.len(), all.len());
    }
}
