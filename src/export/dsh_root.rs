//! The folders in which DeepSeek Harness keeps sessions: read, never written.

use std::path::Path;

use super::copy::copy_one;
use super::{ImportError, ImportOptions, Imported, Tally};
use crate::JsonlStore;
use crate::paging::Listed;
use crate::seam::{Error, ListOrder, ListQuery, SessionPersistence};

/// Imports the sessions of a folder in the layout of DeepSeek Harness, which is that of [`JsonlStore`] too: each by the
/// rules of [`copy`](super::copy()), those with the oldest last event first. Sessions that cannot be read are told as
/// failures, and the rest is imported.
///
/// The folder is only read: bytes, times and names in it stay as they are. Writes at the end of a log that were never
/// finished are left out, with a warning in the log. `report` is told of each session, or of the one error that refuses
/// the folder.
pub fn import_root(
    store: &dyn SessionPersistence,
    path: &Path,
    options: ImportOptions,
    report: &mut dyn FnMut(Result<Imported, ImportError>),
) -> Tally {
    Tally::of(report, |tell| find_root(path)?.import(store, options, tell))
}

/// A folder with at least one session.
pub(super) struct Root {
    name: String,
    sessions: JsonlStore,
}

/// Opens a folder as a root.
pub(super) fn find_root(path: &Path) -> Result<Root, ImportError> {
    let name = path.display().to_string();
    let foreign = |reason: &str| ImportError::Foreign {
        file: name.clone(),
        reason: format!(
            "is a folder and no root of sessions: {reason}; log files, archives and databases in it are imported by their paths"
        ),
    };
    let sessions = JsonlStore::open_existing(path).map_err(|error| match error {
        Error::UnsupportedStore { reason, .. } => foreign(&reason),
        other => unlisted(&name, other),
    })?;
    let first = sessions.list(&ListQuery::default().with_limit(1)).map_err(|e| unlisted(&name, e))?;
    if first.items.is_empty() {
        return Err(foreign("it holds none"));
    }
    Ok(Root { name, sessions })
}

impl Root {
    pub(super) fn import(
        &self,
        store: &dyn SessionPersistence,
        options: ImportOptions,
        tell: &mut dyn FnMut(Result<Imported, ImportError>),
    ) -> Result<(), ImportError> {
        let mut sessions = Vec::new();
        for snapshot in Listed::new(&self.sessions, ListOrder::Created) {
            let snapshot = snapshot.map_err(|e| unlisted(&self.name, e))?;
            // Not by the times of the files, which a copy of the folder need not have kept.
            let created = || snapshot.header.as_ref().and_then(|header| i64::try_from(header.created_at()).ok());
            sessions.push((snapshot.last_time.or_else(created), snapshot.id));
        }
        sessions.sort();
        for (_, session) in sessions {
            tell(copy_one(&self.sessions, &self.name, store, &session, options));
        }
        Ok(())
    }
}

fn unlisted(name: &str, error: Error) -> ImportError {
    ImportError::Unreadable { file: name.to_owned(), source: std::io::Error::other(error) }
}
