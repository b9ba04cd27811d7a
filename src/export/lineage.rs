//! Which sessions descend from which, as their headers tell.

use crate::log::SessionId;
use crate::paging::{Listed, descend};
use crate::seam::{ListFilter, ListOrder, Result, SessionPersistence};

/// The descendants of a session, depth first: each before its own children, the children of one parent by the time of
/// their creation and then by id. Each once, whatever circle the headers describe; the root itself is none of them. A
/// session whose header cannot be read has no known parent.
pub(super) fn descendants(store: &dyn SessionPersistence, root: &SessionId) -> Result<Vec<SessionId>> {
    let descent = descend(root, |parents| {
        let filter = match parents {
            Some(parents) => ListFilter::new().with_parents(parents.iter().map(|parent| Some(parent.as_str()))),
            None => ListFilter::new(),
        };
        let listed = Listed::filtered(store, ListOrder::Created, filter);
        let with_header =
            listed.filter_map(|told| told.map(|told| told.header.map(|header| (header, told.id))).transpose());
        with_header.collect::<Result<Vec<_>>>()
    })?;
    Ok(descent.found.into_iter().map(|(session, _)| session).collect())
}
