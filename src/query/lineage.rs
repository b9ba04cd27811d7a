//! [`Ancestry`] and [`Descendant`]: which sessions descend from which.

use std::collections::{HashMap, HashSet};

use super::{QueryError, SessionReader, SessionRecord};
use crate::log::SessionId;
use crate::paging::Listed;
use crate::seam::ListOrder;

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
    /// the time of their creation and then by id. The whole store is listed for it, and no event is read. Sessions whose
    /// header cannot be read have no known parent.
    ///
    /// # Errors
    ///
    /// Those of [`SessionReader::record`], for every session; `InvalidLineage` where the session descends from itself.
    pub fn descendants(&self, id: &SessionId) -> Result<Vec<Descendant>, QueryError> {
        self.record(id)?;
        let mut children = self.children_by_parent()?;
        let mut found: Vec<Descendant> = Vec::new();
        let mut waiting = Vec::new();
        let mut add = |waiting: &mut Vec<Descendant>, parent: &SessionId, depth| {
            let mut own = children.remove(parent.as_str()).unwrap_or_default();
            // Taken from the end, so the first child has to stand there.
            own.sort_by(|a, b| b.order().cmp(&a.order()));
            waiting.extend(own.into_iter().map(|record| Descendant { record, depth }));
        };
        add(&mut waiting, id, 1);
        while let Some(next) = waiting.pop() {
            if next.record.id() == id {
                // Each has one parent, so that a circle can only be closed here.
                return Err(QueryError::InvalidLineage {
                    session: id.clone(),
                    circle: circle(id, &next.record, &found),
                });
            }
            add(&mut waiting, next.record.id(), next.depth + 1);
            found.push(next);
        }
        Ok(found)
    }

    /// Every session, live or stored, by its parent.
    fn children_by_parent(&self) -> Result<HashMap<String, Vec<SessionRecord>>, QueryError> {
        let mut children: HashMap<String, Vec<SessionRecord>> = HashMap::new();
        for record in self.records()? {
            if let Some(parent) = record.header.parent_session() {
                children.entry(parent.to_owned()).or_default().push(record);
            }
        }
        Ok(children)
    }

    /// Every session, live or stored, whose header can be read.
    pub(super) fn records(&self) -> Result<Vec<SessionRecord>, QueryError> {
        let mut live = HashMap::new();
        for session in self.hub.iter().flat_map(|hub| hub.sessions()) {
            live.insert(session.id().clone(), session);
        }
        let (mut records, mut seen) = (Vec::new(), HashSet::new());
        for snapshot in Listed::new(&*self.store, ListOrder::Created) {
            let snapshot = snapshot?;
            let header = live.get(&snapshot.id).map(|session| session.header());
            if seen.insert(snapshot.id.clone()) {
                records.extend(SessionRecord::of(header, Some(&snapshot))?);
            }
        }
        for session in live.values().filter(|session| !seen.contains(session.id())) {
            records.extend(SessionRecord::of(Some(session.header()), None)?);
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
