//! [`Snapshot`]: what a store knows of a session without reading its events.

use std::fmt;
use std::sync::Arc;

use super::{Error, ErrorKind, Holder, now};
use crate::log::{LogDigest, SessionHeader, SessionId, Vocabulary};

/// What a store knows of a session without reading its events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The session.
    pub id: SessionId,
    /// Its header; absent only where the stored one cannot be read, which [`Snapshot::state`] explains.
    pub header: Option<SessionHeader>,
    /// Whether it can be opened here.
    pub state: SessionState,
    /// Which content it has.
    pub revision: Revision,
    /// The running digest of the log with exactly [`Snapshot::event_count`] events, where the backend keeps it.
    pub digest: Option<LogDigest>,
    /// How many events are stored, where the backend knows without reading them.
    pub event_count: Option<u64>,
    /// How many bytes are stored, where the backend knows; the backend says of what.
    pub size_bytes: Option<u64>,
    /// The time of the last stored event, in milliseconds since 1970 as its producer gave it.
    pub last_time: Option<i64>,
    /// The place of the session in the order of activity: a number of the store that every write raises above those of all
    /// other sessions, so that a clock that was wrong once cannot pin a session on top. A session that is above them already
    /// may keep its number: the revision tells each write. Below [`Snapshot::PENDING_ACTIVITY`] where it is stored.
    pub activity: u64,
    /// When it was last written, in milliseconds since 1970 by the clock of its writer, where the store knows. No event
    /// says so: the times of events are their producer's.
    pub written_at: Option<i64>,
    /// Who writes it now, through this store or any other, where the store knows.
    pub owner: Option<Holder>,
    /// The last write through this store that failed, until one like it succeeds or the handle is closed.
    pub last_failure: Option<WriteFailure>,
    /// What an unfinished write left behind the last event, where the backend sees it without reading the log. It is
    /// never given to a reader, and the next append removes it. A write that is under way elsewhere looks the same.
    pub torn_tail: Option<TornTail>,
}

/// A write that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteFailure {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// The call: `append` or `flush`.
    pub operation: &'static str,
    /// How it failed.
    pub kind: ErrorKind,
    /// What its error said.
    pub message: String,
}

impl WriteFailure {
    /// A failure of a call, now.
    pub(crate) fn now(operation: &'static str, error: &Error) -> Self {
        Self { at: now(), operation, kind: error.kind(), message: error.to_string() }
    }
}

/// What an unfinished write left at the end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// The seq that comes next: the log ends before it.
    pub seq: u64,
    /// How many bytes stand behind the end.
    pub bytes: u64,
}

impl TornTail {
    /// A torn tail, for a backend.
    pub fn new(seq: u64, bytes: u64) -> Self {
        Self { seq, bytes }
    }
}

impl Snapshot {
    /// The activities of sessions that are created and not stored yet start here: they stand before all stored ones.
    pub const PENDING_ACTIVITY: u64 = 1 << 63;

    /// What is known of a session that can be read, without counts. The state follows from the header's version.
    pub fn new(header: SessionHeader, revision: Revision, vocabulary: &Vocabulary) -> Self {
        Self {
            id: header.id().clone(),
            state: SessionState::of_version(header.version(), vocabulary),
            header: Some(header),
            revision,
            digest: None,
            event_count: None,
            size_bytes: None,
            last_time: None,
            activity: 0,
            written_at: None,
            owner: None,
            last_failure: None,
            torn_tail: None,
        }
    }

    /// What is known of a session whose header cannot be read.
    pub fn damaged(id: SessionId, reason: String, revision: Revision) -> Self {
        Self {
            id,
            header: None,
            state: SessionState::Damaged { reason },
            revision,
            digest: None,
            event_count: None,
            size_bytes: None,
            last_time: None,
            activity: 0,
            written_at: None,
            owner: None,
            last_failure: None,
            torn_tail: None,
        }
    }
}

/// Whether a session can be opened for interpretation, as far as its header tells.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// It can.
    Readable,
    /// It was created here and has nothing stored yet.
    Pending,
    /// Its format is newer than the reader's: a newer program is needed.
    NewerFormat {
        /// Its version.
        version: u32,
    },
    /// Its format is older than the reader's.
    OlderFormat {
        /// Its version.
        version: u32,
    },
    /// Its header is not what was stored.
    Damaged {
        /// What is wrong.
        reason: String,
    },
}

/// Which [`SessionState`] it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StateKind {
    /// It can be opened for interpretation.
    Readable,
    /// It was created here and has nothing stored yet.
    Pending,
    /// Its format is newer than the reader's.
    NewerFormat,
    /// Its format is older than the reader's.
    OlderFormat,
    /// Its header is not what was stored.
    Damaged,
}

impl SessionState {
    /// Which state it is, without its particulars.
    pub fn kind(&self) -> StateKind {
        match self {
            Self::Readable => StateKind::Readable,
            Self::Pending => StateKind::Pending,
            Self::NewerFormat { .. } => StateKind::NewerFormat,
            Self::OlderFormat { .. } => StateKind::OlderFormat,
            Self::Damaged { .. } => StateKind::Damaged,
        }
    }

    fn of_version(version: u32, vocabulary: &Vocabulary) -> Self {
        match version.cmp(&vocabulary.version()) {
            std::cmp::Ordering::Less => Self::OlderFormat { version },
            std::cmp::Ordering::Equal => Self::Readable,
            std::cmp::Ordering::Greater => Self::NewerFormat { version },
        }
    }
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Readable => f.write_str("readable"),
            Self::Pending => f.write_str("pending"),
            Self::NewerFormat { version } => write!(f, "format {version}, needs a newer program"),
            Self::OlderFormat { version } => write!(f, "format {version}, older"),
            Self::Damaged { reason } => write!(f, "damaged: {reason}"),
        }
    }
}

/// Which content a session has: opaque, for comparing only.
///
/// Equal means that the stored log is unchanged. Ownership, opening and reading never change it. An append, a repair, a
/// removal with re-creation, a restored backup with other content, and another store always do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Revision(Arc<str>);

impl Revision {
    /// A revision of a backend's own making.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Its text, to be kept and compared later.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
