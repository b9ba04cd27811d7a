//! [`LiveError`]: what a live session refuses or cannot do.

use crate::log::{InvalidRecord, Seq, SessionId};
use crate::seam::{Error, Source};

/// What a live session refuses or cannot do. Whatever the error, neither the session nor its stored log has changed, unless
/// it says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// An event that cannot be kept, or that its type does not allow.
    #[error("session {session:?}: an event of type {event_type:?} was refused, nothing was appended: {reason}")]
    Refused {
        /// The session.
        session: SessionId,
        /// The type of the event.
        event_type: String,
        /// What is wrong with it.
        reason: String,
        /// The cause.
        source: Option<Source>,
    },
    /// An append from inside an observer of the very session.
    #[error(
        "session {session:?}: an event of type {event_type:?} was appended while another one was being told to observers; \
         append it when the first append has returned"
    )]
    Reentrant {
        /// The session.
        session: SessionId,
        /// The type of the event.
        event_type: String,
    },
    /// An observer did not let it happen.
    #[error("session {session:?}: {what} was vetoed by {observer}: {reason}")]
    Vetoed {
        /// The session.
        session: SessionId,
        /// What was to happen: the publication, or an event of a type.
        what: String,
        /// The name of the observer.
        observer: String,
        /// Why.
        reason: String,
    },
    /// A log that no session can be made of.
    #[error("session {session:?} cannot be made of its seed{}: {reason}", at(index))]
    Seed {
        /// The session.
        session: SessionId,
        /// The event that is wrong, where it is one.
        index: Option<u64>,
        /// What is wrong.
        reason: String,
    },
    /// A session of this id is live already.
    #[error("session {session:?} is live already; get it from the hub, or dispose it first")]
    AlreadyLive {
        /// The session.
        session: SessionId,
    },
    /// No session of this id is live.
    #[error("session {session:?} is not live; create or resume it first")]
    NotLive {
        /// The session.
        session: SessionId,
    },
    /// A live session whose stored log is another one.
    #[error(
        "session {session:?} is stored with another log than the live one from seq {seq} on; dispose the live one and \
         resume what is stored"
    )]
    Diverged {
        /// The session.
        session: SessionId,
        /// The first stored event that the live session has not.
        seq: Seq,
    },
    /// A boundary at which a session cannot be forked.
    #[error("session {session:?} cannot be forked behind seq {boundary}: {reason}")]
    Boundary {
        /// The session that was to be forked.
        session: SessionId,
        /// The last event that was to be inherited.
        boundary: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A boundary inside a turn.
    #[error(
        "session {session:?} cannot be forked behind seq {boundary}: turn {turn} is open there; fork behind its end"
    )]
    OpenTurn {
        /// The session that was to be forked.
        session: SessionId,
        /// The last event that was to be inherited.
        boundary: Seq,
        /// The open turn.
        turn: u64,
    },
    /// The host's own set-up of a session failed; nothing was stored.
    #[error("session {session:?} was not made, its set-up failed")]
    SetUp {
        /// The session.
        session: SessionId,
        /// The cause.
        source: Source,
    },
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl LiveError {
    /// The session that it is about, where it is about one.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Refused { session, .. }
            | Self::Reentrant { session, .. }
            | Self::Vetoed { session, .. }
            | Self::Seed { session, .. }
            | Self::AlreadyLive { session }
            | Self::NotLive { session }
            | Self::Diverged { session, .. }
            | Self::Boundary { session, .. }
            | Self::OpenTurn { session, .. }
            | Self::SetUp { session, .. } => Some(session),
            Self::Store(error) => error.session(),
        }
    }

    pub(super) fn record(session: &SessionId, event_type: &str, error: InvalidRecord) -> Self {
        Self::Refused {
            session: session.clone(),
            event_type: event_type.to_owned(),
            reason: error.to_string(),
            source: Some(error.into()),
        }
    }
}

fn at(index: &Option<u64>) -> String {
    index.map_or_else(String::new, |index| format!(" at index {index}"))
}
