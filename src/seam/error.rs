//! [`Error`]: what a store refuses or cannot do.

use std::error::Error as StdError;
use std::fmt;
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
use std::io;
use std::path::PathBuf;

use super::{ErrorKind, Holder};
use crate::log::{InvalidRecord, InvalidSessionId, Seq, SessionId};

/// What every call of the seam returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The cause below an error, as the backend had it.
pub type Source = Box<dyn StdError + Send + Sync>;

/// What a store refuses or cannot do: what happened, to which session, and what to do next.
///
/// A program decides by [`Error::kind`] and [`Error::is_retryable`]; the text is for people. Whatever the error, the
/// stored bytes are what they were before the call, but for a flush that stored a created session and then could not sync.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such session.
    #[error("session {session:?} is not in this store; `list` shows those that are")]
    NotFound {
        /// The session that was asked for.
        session: SessionId,
    },
    /// The id is taken.
    #[error("session {session:?} already exists; open it, or create one under another id")]
    AlreadyExists {
        /// The session that was to be created.
        session: SessionId,
    },
    /// Another handle writes the session.
    #[error("session {session:?} is being written by {holder}; wait until it has finished: meanwhile it can be read")]
    AlreadyOwned {
        /// The session.
        session: SessionId,
        /// Who writes it.
        holder: Holder,
    },
    /// Somebody else became the writer while this handle was open.
    #[error("session {session:?} has another writer now and this handle stored nothing; close it and open again")]
    OwnershipLost {
        /// The session.
        session: SessionId,
    },
    /// A writing call on a handle that was opened for reading.
    #[error("session {session:?} is open for reading, which allows no {operation}; open it for writing")]
    ReadOnly {
        /// The session.
        session: SessionId,
        /// The call.
        operation: &'static str,
    },
    /// A call on a closed handle.
    #[error("session {session:?}: the handle is closed, {operation} came too late; open the session again")]
    HandleClosed {
        /// The session.
        session: SessionId,
        /// The call.
        operation: &'static str,
    },
    /// A batch that does not continue the stored log.
    #[error(
        "session {session:?}: the event at index {index} of the batch has seq {found} where {expected} comes next; \
         nothing was stored, read the log and number the batch from there"
    )]
    NotContiguous {
        /// The session.
        session: SessionId,
        /// The place in the batch.
        index: usize,
        /// The seq that comes next.
        expected: u64,
        /// The seq that came.
        found: u64,
    },
    /// A value that JSON cannot carry to every reader unchanged.
    #[error("{path}: {reason}")]
    NotLossless {
        /// Where in the event, as in `data.items[3].x`.
        path: String,
        /// What cannot be kept.
        reason: String,
    },
    /// An argument that no store takes.
    #[error("{}{reason}", for_session(session))]
    InvalidArgument {
        /// The session, where the call is about one.
        session: Option<SessionId>,
        /// Which argument, and what it may be.
        reason: String,
    },
    /// A log that this build must not interpret.
    #[error("session {session:?} {problem}; it can still be listed, exported and read uninterpreted")]
    FormatUnsupported {
        /// The session.
        session: SessionId,
        /// What it does not know.
        problem: FormatProblem,
    },
    /// Stored data that is not what was stored.
    #[error(
        "session {session:?} is damaged{}: {reason}; {}",
        Place { seq, offset },
        if seq.is_some_and(|seq| seq.get() > 0) {
            "what stands before it can be read, and what stands behind it may be (`show ID --from SEQ`, or a read from \
             there on): look before anything of it is removed; the rest is to be had from a backup"
        } else {
            "restore it from a backup"
        }
    )]
    Corruption {
        /// The session.
        session: SessionId,
        /// The first event that is damaged, where it is one.
        seq: Option<Seq>,
        /// The byte in the session's file, where it is one.
        offset: Option<u64>,
        /// What is wrong with it.
        reason: String,
    },
    /// Another program holds the store for longer than the configured wait.
    #[error("{}the store {store} is busy with {}; try again", for_session(session), who(holder))]
    StoreBusy {
        /// The session, where the call is about one.
        session: Option<SessionId>,
        /// The store.
        store: String,
        /// The process that was in the way at last, a hint: where the system tells it, and it was not gone by then.
        holder: Option<u32>,
        /// The cause.
        source: Option<Source>,
    },
    /// The disk is full.
    #[error("{}no space left for the store {store}; free some, then repeat the same call", for_session(session))]
    StorageFull {
        /// The session, where the call is about one.
        session: Option<SessionId>,
        /// The store.
        store: String,
        /// The cause.
        source: Option<Source>,
    },
    /// The store cannot be written, or not even read: the cause tells which right is missing, and to what.
    #[error(
        "{}no permission for the store {store}; check its permissions and those of its folder",
        for_session(session)
    )]
    StorageReadOnly {
        /// The session, where the call is about one.
        session: Option<SessionId>,
        /// The store.
        store: String,
        /// The cause.
        source: Option<Source>,
    },
    /// A place that holds something else than a store that this build can use.
    #[error("{path} cannot be used as a store: {reason}", path = store.display())]
    UnsupportedStore {
        /// The place.
        store: PathBuf,
        /// What it holds and what to do.
        reason: String,
        /// The cause.
        source: Option<Source>,
    },
    /// The operating system failed.
    #[error("{}{operation} failed", for_session(session))]
    Io {
        /// The session, where the call is about one.
        session: Option<SessionId>,
        /// What was attempted, and on what.
        operation: String,
        /// The cause.
        source: Source,
    },
    /// Several failures of one call. What is not named went through, unless the first is the store's own.
    #[error("{} failures, the first: {}", failures.len(), First(failures))]
    Several {
        /// The failure of the store as a whole, where it has one, and then one a session; never empty.
        failures: Vec<Error>,
    },
}

impl Error {
    /// The kind; of several failures that of the first.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Self::AlreadyOwned { .. } => ErrorKind::AlreadyOwned,
            Self::OwnershipLost { .. } => ErrorKind::OwnershipLost,
            Self::ReadOnly { .. } => ErrorKind::ReadOnly,
            Self::HandleClosed { .. } => ErrorKind::HandleClosed,
            Self::NotContiguous { .. } => ErrorKind::NotContiguous,
            Self::NotLossless { .. } => ErrorKind::NotLossless,
            Self::InvalidArgument { .. } => ErrorKind::InvalidArgument,
            Self::FormatUnsupported { .. } => ErrorKind::FormatUnsupported,
            Self::Corruption { .. } => ErrorKind::Corruption,
            Self::StoreBusy { .. } => ErrorKind::StoreBusy,
            Self::StorageFull { .. } => ErrorKind::StorageFull,
            Self::StorageReadOnly { .. } => ErrorKind::StorageReadOnly,
            Self::UnsupportedStore { .. } => ErrorKind::UnsupportedStore,
            Self::Io { .. } => ErrorKind::Io,
            Self::Several { failures } => failures.first().map_or(ErrorKind::Io, Error::kind),
        }
    }

    /// Whether the process or the machine has no room for another open file, which says nothing of what is stored.
    pub(crate) fn is_out_of_files(&self) -> bool {
        let mut cause = match self {
            Self::Io { source, .. } => Some(&**source as &(dyn StdError + 'static)),
            _ => None,
        };
        while let Some(source) = cause {
            if source.downcast_ref::<std::io::Error>().is_some_and(is_out_of_files) {
                return true;
            }
            cause = source.source();
        }
        false
    }

    /// Whether the very same call can succeed later, once its cause has gone: a writer has closed, a busy program has
    /// finished, space was freed, the operating system has recovered.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Several { failures } => failures.iter().all(Error::is_retryable),
            _ => matches!(
                self.kind(),
                ErrorKind::AlreadyOwned | ErrorKind::StoreBusy | ErrorKind::StorageFull | ErrorKind::Io
            ),
        }
    }

    /// The session that it is about, where it is about one.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::NotFound { session }
            | Self::AlreadyExists { session }
            | Self::AlreadyOwned { session, .. }
            | Self::OwnershipLost { session }
            | Self::ReadOnly { session, .. }
            | Self::HandleClosed { session, .. }
            | Self::NotContiguous { session, .. }
            | Self::FormatUnsupported { session, .. }
            | Self::Corruption { session, .. } => Some(session),
            Self::InvalidArgument { session, .. }
            | Self::StoreBusy { session, .. }
            | Self::StorageFull { session, .. }
            | Self::StorageReadOnly { session, .. }
            | Self::Io { session, .. } => session.as_ref(),
            Self::NotLossless { .. } | Self::UnsupportedStore { .. } => None,
            Self::Several { failures } => failures.first().and_then(Error::session),
        }
    }

    /// A failure of the operating system while a store was being changed.
    #[cfg(any(feature = "sqlite", feature = "jsonl"))]
    pub(crate) fn of_io(session: Option<SessionId>, store: String, operation: String, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::StorageFull { session, store, source: Some(error.into()) }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::StorageReadOnly { session, store, source: Some(error.into()) }
            }
            _ => Self::Io { session, operation, source: error.into() },
        }
    }

    /// The same failure of a store, as one of several sessions met it together.
    #[cfg(feature = "sqlite")]
    pub(crate) fn of_store_for(&self, session: Option<&SessionId>) -> Self {
        let session = session.cloned();
        let causes: Vec<_> = std::iter::successors(StdError::source(self), |cause| StdError::source(*cause))
            .map(ToString::to_string)
            .collect();
        let source = Some(causes.join(": ").into()).filter(|_| !causes.is_empty());
        match self {
            Self::StoreBusy { store, holder, .. } => {
                Self::StoreBusy { session, store: store.clone(), holder: *holder, source }
            }
            Self::StorageFull { store, .. } => Self::StorageFull { session, store: store.clone(), source },
            Self::StorageReadOnly { store, .. } => Self::StorageReadOnly { session, store: store.clone(), source },
            Self::UnsupportedStore { store, reason, .. } => {
                Self::UnsupportedStore { store: store.clone(), reason: reason.clone(), source }
            }
            Self::InvalidArgument { reason, .. } => Self::InvalidArgument { session, reason: reason.clone() },
            Self::Io { operation, .. } => {
                let source = source.unwrap_or_else(|| "no cause was told".into());
                Self::Io { session, operation: operation.clone(), source }
            }
            other => {
                Self::Io { session, operation: "writing the store".to_owned(), source: format!("{other:?}").into() }
            }
        }
    }

    /// The failures of several sessions as one error: nothing where there is none, the one where there is one.
    pub fn collect(failures: Vec<Error>) -> Result<()> {
        let flat = failures.into_iter().flat_map(|failure| match failure {
            Self::Several { failures } => failures,
            one => vec![one],
        });
        let mut failures: Vec<_> = flat.collect();
        match failures.len() {
            0 => Ok(()),
            1 => Err(failures.remove(0)),
            _ => Err(Self::Several { failures }),
        }
    }
}

/// The kind, the text and the causes: what a program prints that returns the error from `main`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.kind())?;
        let mut cause = StdError::source(self);
        while let Some(source) = cause {
            write!(f, ": {source}")?;
            cause = source.source();
        }
        Ok(())
    }
}

impl From<InvalidSessionId> for Error {
    fn from(id: InvalidSessionId) -> Self {
        Self::InvalidArgument { session: None, reason: id.to_string() }
    }
}

impl From<InvalidRecord> for Error {
    fn from(record: InvalidRecord) -> Self {
        match record.not_lossless() {
            Some(n) => Self::NotLossless { path: n.path().to_owned(), reason: n.reason().to_owned() },
            None => Self::InvalidArgument { session: None, reason: record.reason().to_owned() },
        }
    }
}

/// Why a log must not be interpreted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatProblem {
    /// A newer program wrote it.
    NewerFormat {
        /// The version of the log.
        found: u32,
        /// The version that is known here.
        known: u32,
    },
    /// It is too old.
    OlderFormat {
        /// The version of the log.
        found: u32,
        /// The version that is known here.
        known: u32,
    },
    /// It holds an event of a type that is not known here and not marked ignorable.
    UnknownEvent {
        /// The first such event.
        seq: Seq,
        /// Its type.
        event_type: String,
    },
}

impl fmt::Display for FormatProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewerFormat { found, known } => {
                write!(f, "has format {found}, newer than format {known} that is known here: a newer program is needed")
            }
            Self::OlderFormat { found, known } => {
                write!(f, "has format {found}, too old for format {known} that is known here")
            }
            Self::UnknownEvent { seq, event_type } => write!(
                f,
                "holds an event of unknown type {event_type:?} at seq {seq} that is not marked ignorable: \
                 a program is needed whose vocabulary has it"
            ),
        }
    }
}

/// Whether a file could not be opened for the number of those that are open.
pub(crate) fn is_out_of_files(error: &std::io::Error) -> bool {
    // EMFILE and ENFILE have these numbers on every Unix.
    cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24))
}

fn for_session(session: &Option<SessionId>) -> String {
    session.as_ref().map_or_else(String::new, |id| format!("session {id:?}: "))
}

fn who(holder: &Option<u32>) -> String {
    holder.map_or_else(|| "another program".to_owned(), |process| format!("process {process}"))
}

struct Place<'a> {
    seq: &'a Option<Seq>,
    offset: &'a Option<u64>,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(seq) = self.seq {
            write!(f, " at seq {seq}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        Ok(())
    }
}

struct First<'a>(&'a [Error]);

impl fmt::Display for First<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.first().map_or(Ok(()), |e| e.fmt(f))
    }
}

#[cfg(all(test, any(feature = "sqlite", feature = "jsonl")))]
mod tests {
    use super::*;

    #[test]
    fn a_quota_that_is_used_up_is_a_full_disk_and_a_missing_right_a_store_that_can_only_be_read() {
        let told = |kind: io::ErrorKind| Error::of_io(None, "s".to_owned(), "writing s".to_owned(), kind.into()).kind();
        assert_eq!(told(io::ErrorKind::QuotaExceeded), ErrorKind::StorageFull);
        assert_eq!(told(io::ErrorKind::StorageFull), ErrorKind::StorageFull);
        assert_eq!(told(io::ErrorKind::ReadOnlyFilesystem), ErrorKind::StorageReadOnly);
        assert_eq!(told(io::ErrorKind::TimedOut), ErrorKind::Io);
    }
}
