//! [`Context`]: failures of the file system and damage of files as errors of the seam, in this one place.

use std::io;
use std::path::Path;

use crate::log::{Seq, SessionId};
use crate::seam::{Error, Source};

/// Which store and which session a failure is about.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    root: &'a Path,
    session: Option<&'a SessionId>,
}

impl<'a> Context<'a> {
    pub(super) fn store(root: &'a Path) -> Self {
        Self { root, session: None }
    }

    pub(super) fn session(self, id: &'a SessionId) -> Self {
        Self { session: Some(id), ..self }
    }

    /// A failure of reading `path`.
    pub(super) fn reading(&self, path: &Path, error: io::Error) -> Error {
        self.io(format!("reading {}", path.display()), error.into())
    }

    /// A failure of changing `path`.
    pub(super) fn writing(&self, path: &Path, error: io::Error) -> Error {
        let operation = format!("writing {}", path.display());
        Error::of_io(self.session.cloned(), self.root.display().to_string(), operation, error)
    }

    pub(super) fn io(&self, operation: String, source: Source) -> Error {
        Error::Io { session: self.session.cloned(), operation, source }
    }

    pub(super) fn unsupported(&self, reason: impl Into<String>, source: Option<Source>) -> Error {
        Error::UnsupportedStore { store: self.root.to_owned(), reason: reason.into(), source }
    }
}

/// Stored data that is not what was stored: where, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) seq: Option<u64>,
    pub(super) offset: Option<u64>,
    pub(super) reason: String,
}

impl Damage {
    /// Damage of a header, or of what has to stand before any event.
    pub(super) fn header(reason: impl Into<String>) -> Self {
        Self { seq: None, offset: Some(0), reason: reason.into() }
    }

    pub(super) fn of(&self, session: &SessionId) -> Error {
        Error::Corruption {
            session: session.clone(),
            seq: self.seq.and_then(Seq::new),
            offset: self.offset,
            reason: self.reason.clone(),
        }
    }
}
