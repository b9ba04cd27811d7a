//! [`ImportError`]: why a file was not imported.

use std::fmt;
use std::io;

#[cfg(feature = "zip")]
use super::ArchiveProblem;
use crate::log::{Seq, SessionId};
use crate::seam::Error;

/// Why a file was not imported: which file, which line or session, and what to do. The store holds what it held before,
/// unless it is [`ImportError::NotDurable`] or [`ImportError::NotVerified`].
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
    /// The archive is refused as a whole.
    #[cfg(feature = "zip")]
    #[error("{file}: {} {problem}; nothing was stored", part(entry))]
    Archive {
        /// The archive.
        file: String,
        /// The entry, where it is one.
        entry: Option<String>,
        /// Why.
        problem: ArchiveProblem,
    },
    /// What stands there is nothing that can be imported.
    #[error("{file} {reason}; nothing was stored")]
    Foreign {
        /// What was to be imported.
        file: String,
        /// What it is, and what to do.
        reason: String,
    },
    /// What is known of a session is no header of one.
    #[error("{file}: the header of session {session:?} cannot be read: {reason}; nothing of it was stored")]
    Header {
        /// Where it comes from.
        file: String,
        /// The id as it stands there, which need not be one.
        session: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The log of a session cannot be read where it comes from.
    #[error("{file}: session {session:?} cannot be read, nothing of it was stored")]
    Source {
        /// Where it comes from.
        file: String,
        /// The session.
        session: SessionId,
        /// The cause.
        source: Box<Error>,
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
    /// The session is stored, and what was read back is not what was written, or could not be compared.
    #[error(
        "{file}: session {session:?} is stored, but {}",
        if source.is_some() {
            format!("could not be compared with its source from seq {seq} on; copy it again, which compares again")
        } else {
            format!("does not read back as its source from seq {seq} on; check the store and remove the session there")
        }
    )]
    NotVerified {
        /// Where it comes from.
        file: String,
        /// The session.
        session: SessionId,
        /// The first event that differs; 0 also where the header does.
        seq: u64,
        /// Why it could not be compared, where that is so.
        source: Option<Box<Error>>,
    },
}

#[cfg(feature = "zip")]
fn part(entry: &Option<String>) -> String {
    entry.as_ref().map_or_else(|| "the archive".to_owned(), |entry| format!("entry {entry:?}"))
}

/// How a log that comes in and the stored log of the same session differ.
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
    /// The log that comes in goes on where the stored one ends, and extending was not asked for.
    FileGoesOn {
        /// How many events are stored: the seq of the first that is not.
        stored: u64,
        /// How many the log that comes in has.
        file: u64,
    },
    /// The same, of a log of a format that is not written here any more, or not yet: it cannot be extended.
    ReadOnlyGoesOn {
        /// How many events are stored.
        stored: u64,
        /// How many the log that comes in has.
        file: u64,
        /// The version of its format.
        version: u32,
    },
    /// The stored log goes on where the one that comes in ends.
    StoreGoesOn {
        /// How many events the log that comes in has: the seq of the first that only the store has.
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
                "is stored up to seq {stored}, where this log goes on to {file} events: extend it (`--extend`) to add them"
            ),
            Self::ReadOnlyGoesOn { stored, file, version } => write!(
                f,
                "is stored up to seq {stored}, where this log goes on to {file} events, and a log of format {version} cannot \
                 be extended here: remove the stored one and import this, or import this into another store"
            ),
            Self::StoreGoesOn { file, stored } => {
                write!(f, "is stored with {stored} events, of which this log has those before seq {file}")
            }
        }
    }
}
