//! [`Ancestry`] and [`Descendant`]: which sessions descend from which.

use std::collections::HashSet;

use super::{QueryError, SessionReader, SessionRecord};
use crate::log::SessionId;
use crate::paging::{Descent, Listed, descend};
use crate::seam::{ListFilter, ListOrder};

/// The ancestors of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ancestry {
    /// Its parent, the parent of that, and so on outward.
    pub ancestors: Vec<SessionRecord>,
    /// The parent of the last of them, where that one has a parent and it is not here, or has a header that cannot be read.
    pub unresolved_parent: Option<String>,
}

impl Ancestry {
    /// Whether they go to a session without a parent.
    pub fn is_complete(&self) -> bool {
        self.unresolved_parent.is_none()
    }
}

/// A session that descends from another.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Descendant {
    /// The session.
    pub record: SessionRecord,
    /// How many generations it is away: 1 for a child.
    pub depth: usize,
}

impl SessionReader {
    /// The ancestors of a session, as the headers tell. One look at a header each.
    ///
    /// # Errors
    ///
    /// Those of [`SessionReader::record`]; `InvalidLineage` where they go round in a circle, which need not lead back to the
    /// session itself.
    pub fn ancestry(&self, id: &SessionId) -> Result<Ancestry, QueryError> {
        let mut parent = self.record(id)?.header.parent_session().map(str::to_owned);
        let mut path = vec![id.clone()];
        let mut ancestors = Vec::new();
        while let Some(name) = parent {
            let unresolved = |ancestors| Ok(Ancestry { ancestors, unresolved_parent: Some(name.clone()) });
            let Ok(parent_id) = SessionId::new(name.as_str()) else { return unresolved(ancestors) };
            if let Some(start) = path.iter().position(|session| *session == parent_id) {
                return Err(QueryError::InvalidLineage { session: id.clone(), circle: path.split_off(start) });
            }
            let Some(record) = self.known(&parent_id)? else { return unresolved(ancestors) };
            parent = record.header.parent_session().map(str::to_owned);
            ancestors.push(record);
            path.push(parent_id);
        }
        Ok(Ancestry { ancestors, unresolved_parent: None })
    }

    /// The descendants of a session, live ones and stored ones: each before its own children, the children of one parent by
    /// the time of their creation and then by id. The store is asked for the children of each generation, and no event is
    /// read. Sessions whose header cannot be read have no known parent.
    ///
    /// # Errors
    ///
    /// Those of [`SessionReader::record`], for every one of them; `InvalidLineage` where the session descends from itself.
    pub fn descendants(&self, id: &SessionId) -> Result<Vec<Descendant>, QueryError> {
        self.record(id)?;
        let Descent { found, circle: closed } = descend(id, |parents| {
            let filter = match parents {
                Some(parents) => ListFilter::new().with_parents(parents.iter().map(|parent| Some(parent.as_str()))),
                None => ListFilter::new(),
            };
            let records = self.records(&filter)?;
            Ok::<_, QueryError>(records.into_iter().map(|record| (record.header.clone(), record)).collect())
        })?;
        let found: Vec<_> = found.into_iter().map(|(record, depth)| Descendant { record, depth }).collect();
        match closed {
            Some((last, before)) => {
                Err(QueryError::InvalidLineage { session: id.clone(), circle: circle(id, &last, &found[..before]) })
            }
            None => Ok(found),
        }
    }

    /// The sessions, live or stored, that a filter lets through by their ids and headers, where a header can be read.
    pub(super) fn records(&self, filter: &ListFilter) -> Result<Vec<SessionRecord>, QueryError> {
        let (mut records, mut seen) = (Vec::new(), HashSet::new());
        for snapshot in Listed::filtered(&*self.store, ListOrder::Created, filter.clone()) {
            let snapshot = snapshot?;
            let live = self.live(&snapshot.id);
            if seen.insert(snapshot.id.clone()) {
                records.extend(SessionRecord::of(live.as_ref().map(|live| live.header()), Some(&snapshot))?);
            }
        }
        records.extend(self.live_records(filter)?.into_iter().filter(|record| !seen.contains(record.id())));
        Ok(records)
    }

    /// Those of them that are live.
    pub(super) fn live_records(&self, filter: &ListFilter) -> Result<Vec<SessionRecord>, QueryError> {
        let mut records = Vec::new();
        for session in self.hub.iter().flat_map(|hub| hub.sessions()) {
            if filter.matches_id(session.id()) && filter.matches_header(session.header()) {
                records.extend(SessionRecord::of(Some(session.header()), self.store.stat(session.id())?.as_ref())?);
            }
        }
        Ok(records)
    }

    fn known(&self, id: &SessionId) -> Result<Option<SessionRecord>, QueryError> {
        let live = self.live(id);
        let stored = self.store.stat(id)?;
        SessionRecord::of(live.as_ref().map(|live| live.header()), stored.as_ref())
    }
}

/// From a session outward by the parents of those that were found below it, until it comes again.
fn circle(id: &SessionId, last: &SessionRecord, found: &[Descendant]) -> Vec<SessionId> {
    let above = |child: &SessionRecord| {
        let parent = child.header.parent_session()?;
        found.iter().map(|descendant| &descendant.record).find(|record| record.id().as_str() == parent)
    };
    let outward = std::iter::successors(above(last), |record| above(record)).map(|record| record.id().clone());
    std::iter::once(id.clone()).chain(outward).collect()
}
