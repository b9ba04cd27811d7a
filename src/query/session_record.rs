//! [`SessionRecord`]: where a session is to be found.

use super::{QueryError, SessionReader};
use crate::log::{SessionHeader, SessionId};
use crate::seam::{Error, SessionState, Snapshot};

/// A session, and where it is to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionRecord {
    /// Its header.
    pub header: SessionHeader,
    /// Whether it is live.
    pub live: bool,
    /// Whether it is stored.
    pub persisted: bool,
}

impl SessionRecord {
    /// Its id.
    pub fn id(&self) -> &SessionId {
        self.header.id()
    }

    /// What is known of a session; nothing where it is neither live nor has a header that can be read.
    pub(super) fn of(live: Option<&SessionHeader>, stored: Option<&Snapshot>) -> Result<Option<Self>, QueryError> {
        let stored_header = stored.and_then(|snapshot| snapshot.header.as_ref());
        if let (Some(live), Some(stored)) = (live, stored_header)
            && let Some(key) = differing_key(live, stored)
        {
            return Err(QueryError::SourceConflict { session: live.id().clone(), key });
        }
        let Some(header) = live.or(stored_header) else { return Ok(None) };
        let persisted = stored.is_some_and(|snapshot| snapshot.state != SessionState::Pending);
        Ok(Some(Self { header: header.clone(), live: live.is_some(), persisted }))
    }
}

/// The key of the first that differs of what a live session and its stored log must have in common.
fn differing_key(live: &SessionHeader, stored: &SessionHeader) -> Option<&'static str> {
    let keys = [
        ("version", live.version() == stored.version()),
        ("createdAt", live.created_at() == stored.created_at()),
        ("cwd", live.cwd() == stored.cwd()),
        ("parentSession", live.parent_session() == stored.parent_session()),
        ("isSeeded", live.is_seeded() == stored.is_seeded()),
        ("delegationDepth", live.delegation_depth() == stored.delegation_depth()),
    ];
    keys.into_iter().find(|(_, is_equal)| !is_equal).map(|(key, _)| key)
}

impl SessionReader {
    /// What is known of a session without reading its events.
    ///
    /// # Errors
    ///
    /// `SessionNotFound`; `SourceConflict`; `Corruption` for one whose header cannot be read; failures of the storage.
    pub fn record(&self, id: &SessionId) -> Result<SessionRecord, QueryError> {
        let live = self.live(id);
        let stored = self.store.stat(id)?;
        if let Some(record) = SessionRecord::of(live.as_ref().map(|live| live.header()), stored.as_ref())? {
            return Ok(record);
        }
        Err(match stored.map(|snapshot| snapshot.state) {
            Some(SessionState::Damaged { reason }) => {
                Error::Corruption { session: id.clone(), seq: None, offset: None, reason }.into()
            }
            _ => QueryError::SessionNotFound { session: id.clone() },
        })
    }
}
