//! [`IndexError`]: what an index refuses or cannot do.

use std::path::PathBuf;
use std::sync::Arc;

use crate::seam::Error;

/// What an index refuses or cannot do. The store is never changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A file that another program or a newer build needs.
    #[error("{path:?} is no search index of this build: {reason}; name another file, or remove this one")]
    NotAnIndex {
        /// The file.
        path: PathBuf,
        /// What it is.
        reason: String,
    },
    /// A file that others use now.
    #[error(
        "the search index {path:?} is in use by another process; try again when that is done, or name another file"
    )]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// A file that is damaged.
    #[error(
        "the search index {path:?} is damaged: {reason}; update it, which makes it anew from the store, or remove it"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says of it.
        reason: String,
    },
    /// The index of another store.
    #[error(
        "the search index {path:?} is that of another store, or this one was moved; name another file, or remove this one"
    )]
    OtherStore {
        /// The file.
        path: PathBuf,
    },
    /// A file that is new, or was made anew, and holds nothing of any store yet.
    #[error("the search index {path:?} was not brought up to a store yet; update it first")]
    NotFilled {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be read or written.
    #[error("the search index {path:?} cannot be used: {reason}; see to that, or name another file")]
    Failed {
        /// The file.
        path: PathBuf,
        /// What failed.
        reason: String,
    },
    /// A text that cannot be looked for.
    #[error("the search cannot be made: {reason}")]
    InvalidQuery {
        /// What is wrong with it, and what it may be.
        reason: String,
    },
    /// A cursor of something else.
    #[error("the cursor cannot be used: {reason}; search again without it")]
    InvalidCursor {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The store refused or failed.
    #[error(transparent)]
    Store(Arc<Error>),
}

impl From<Error> for IndexError {
    fn from(error: Error) -> Self {
        Self::Store(Arc::new(error))
    }
}

/// The result of what an index does.
pub type IndexResult<T> = Result<T, IndexError>;
