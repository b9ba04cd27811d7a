//! [`ImportError`]: why a file was not imported.

use std::fmt;
use std::io;

use crate::log::{Seq, SessionId};
use crate::seam::Error;

/// Why a file was not imported: which file, which line or session, and what to do. The store holds what it held before,
/// unless it is [`ImportError::NotDurable`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file cannot be read.
    #[error("{file} cannot be read, nothing was stored")]
    Unreadable {
        /// The file.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// The file is not a log.
    #[error("{file}, line {line}: {reason}; nothing was stored")]
    Refused {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it and, where it helps, what to do.
        reason: String,
    },
    /// The store holds the session with another log.
    #[error("{file}: session {session:?} {conflict}; nothing was stored")]
    Conflict {
        /// The file.
        file: String,
        /// The session.
        session: SessionId,
        /// How the two differ.
        conflict: Conflict,
    },
    /// The store refused or failed.
    #[error("{file}: session {session:?} was not imported, nothing was stored")]
    Store {
        /// The file.
        file: String,
        /// The session.
        session: SessionId,
        /// The cause.
        source: Error,
    },
    /// The session is stored, and the promise that it survives a loss of power could not be had.
    #[error("{file}: session {session:?} is stored, but may not survive a loss of power")]
    NotDurable {
        /// The file.
        file: String,
        /// The session.
        session: SessionId,
        /// The cause.
        source: Error,
    },
}

/// How a log in a file and the stored log of the same session differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conflict {
    /// Their headers.
    Header,
    /// An event that both have.
    Event {
        /// The first such event.
        seq: Seq,
    },
    /// The file goes on where the stored log ends, and extending was not asked for.
    FileGoesOn {
        /// How many events are stored: the seq of the first that is not.
        stored: u64,
        /// How many the file has.
        file: u64,
    },
    /// The stored log goes on where the file ends.
    StoreGoesOn {
        /// How many events the file has: the seq of the first that only the store has.
        file: u64,
        /// How many are stored.
        stored: u64,
    },
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("is stored with another header, and what is stored is never replaced"),
            Self::Event { seq } => {
                write!(f, "is stored with another event at seq {seq}, and what is stored is never replaced")
            }
            Self::FileGoesOn { stored, file } => write!(
                f,
                "is stored up to seq {stored}, where the file goes on to {file} events: extend it (`--extend`) to add them"
            ),
            Self::StoreGoesOn { file, stored } => {
                write!(f, "is stored with {stored} events, of which the file has those before seq {file}")
            }
        }
    }
}
