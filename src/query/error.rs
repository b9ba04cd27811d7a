//! [`QueryError`]: what a query refuses or cannot do.

use std::sync::Arc;

use crate::log::{FoldError, InvalidRecord, Seq, SessionId};
use crate::seam::Error;

/// What a query refuses or cannot do. No query changes anything that is stored.
///
/// It can be cloned: one failure is told to all who waited for the same session.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// No such session.
    #[error("session {session:?} is neither live nor in this store; `list` shows those that are stored")]
    SessionNotFound {
        /// The session that was asked for.
        session: SessionId,
    },
    /// No such event.
    #[error("session {session:?} has no event at seq {seq}: its log has {count} events; ask for an earlier one")]
    EventNotFound {
        /// The session.
        session: SessionId,
        /// The seq that was asked for.
        seq: u64,
        /// How many events there are.
        count: u64,
    },
    /// A window that is too wide.
    #[error(
        "session {session:?}: a window of {before} events before and {after} behind is too wide, each may be {max} at \
         most; ask for less, or for a range of seqs"
    )]
    InvalidWindow {
        /// The session.
        session: SessionId,
        /// How many events before were asked for.
        before: u64,
        /// How many events behind were asked for.
        after: u64,
        /// The most that are given on either side.
        max: u64,
    },
    /// A filter that cannot be meant.
    #[error("a filter cannot be used: {reason}")]
    InvalidFilter {
        /// Which part of it, and what it may be.
        reason: String,
    },
    /// A log whose surface cannot be told.
    #[error(
        "session {session:?}: which events the model sees cannot be told, its log breaks a rule; its events can be read \
         without that"
    )]
    InvalidSurface {
        /// The session.
        session: SessionId,
        /// The first rule that is broken.
        source: FoldError,
    },
    /// Sessions that descend from themselves.
    #[error(
        "session {session:?} has no lineage: its ancestors go round in a circle, {}; import one of them again under a \
         header with another parent",
        Circle(circle)
    )]
    InvalidLineage {
        /// The session that was asked for.
        session: SessionId,
        /// The circle: each is a child of the next, the last one of the first.
        circle: Vec<SessionId>,
    },
    /// A live session and a stored one of the same id that are two sessions.
    #[error(
        "session {session:?} is live and stored with different headers: {key} differs; dispose the live one, or query \
         another store"
    )]
    SourceConflict {
        /// The session.
        session: SessionId,
        /// The key of the header.
        key: &'static str,
    },
    /// A session that was written all the time.
    #[error(
        "session {session:?} changed each of the {attempts} times that it was read; try again when less is written to it"
    )]
    KeepsChanging {
        /// The session.
        session: SessionId,
        /// How often it was read.
        attempts: u32,
    },
    /// A session that is too large to be held in memory.
    #[error(
        "session {session:?} takes more than the {limit} bytes of memory that one session may take here; read it from \
         the store by ranges, or raise the limit"
    )]
    TooLarge {
        /// The session.
        session: SessionId,
        /// The most bytes that a session may take.
        limit: u64,
    },
    /// An interrupted turn that cannot be ended in memory.
    #[error(
        "session {session:?}: its last turn was interrupted at seq {seq} and cannot be ended; read it from the store"
    )]
    NotBalanced {
        /// The session.
        session: SessionId,
        /// The last event of its log.
        seq: Seq,
        /// What is in the way.
        source: InvalidRecord,
    },
    /// The store refused or failed.
    #[error(transparent)]
    Store(Arc<Error>),
}

impl QueryError {
    /// The session that it is about, where it is about one.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::SessionNotFound { session }
            | Self::EventNotFound { session, .. }
            | Self::InvalidWindow { session, .. }
            | Self::InvalidSurface { session, .. }
            | Self::InvalidLineage { session, .. }
            | Self::SourceConflict { session, .. }
            | Self::KeepsChanging { session, .. }
            | Self::TooLarge { session, .. }
            | Self::NotBalanced { session, .. } => Some(session),
            Self::InvalidFilter { .. } => None,
            Self::Store(error) => error.session(),
        }
    }
}

impl From<Error> for QueryError {
    fn from(error: Error) -> Self {
        Self::Store(Arc::new(error))
    }
}

struct Circle<'a>(&'a [SessionId]);

impl std::fmt::Display for Circle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for session in self.0 {
            write!(f, "{session:?} below ")?;
        }
        self.0.first().map_or(Ok(()), |first| write!(f, "{first:?}"))
    }
}
