//! Which sessions descend from which, as their headers tell.

use std::collections::{HashMap, HashSet};

use crate::log::SessionId;
use crate::paging::Listed;
use crate::seam::{ListOrder, Result, SessionPersistence};

/// The descendants of a session, depth first: each before its own children, the children of one parent by the time of
/// their creation and then by id. Each once, whatever circle the headers describe; the root itself is none of them. A
/// session whose header cannot be read has no known parent.
pub(super) fn descendants(store: &dyn SessionPersistence, root: &SessionId) -> Result<Vec<SessionId>> {
    let mut children = children_by_parent(store)?;
    let mut seen = HashSet::from([root.clone()]);
    let mut found = Vec::new();
    let mut waiting = children.remove(root.as_str()).unwrap_or_default();
    // Taken from the end, so the first child has to stand there.
    waiting.sort_by(|a, b| b.cmp(a));
    while let Some((_, session)) = waiting.pop() {
        if !seen.insert(session.clone()) {
            continue;
        }
        let mut own = children.remove(session.as_str()).unwrap_or_default();
        own.sort_by(|a, b| b.cmp(a));
        waiting.extend(own);
        found.push(session);
    }
    Ok(found)
}

fn children_by_parent(store: &dyn SessionPersistence) -> Result<HashMap<String, Vec<(u64, SessionId)>>> {
    let mut children: HashMap<_, Vec<_>> = HashMap::new();
    for snapshot in Listed::new(store, ListOrder::Created) {
        let snapshot = snapshot?;
        let Some(header) = snapshot.header else { continue };
        if let Some(parent) = header.parent_session() {
            children.entry(parent.to_owned()).or_default().push((header.created_at(), snapshot.id));
        }
    }
    Ok(children)
}
