//! Sessions from one store into another.

use super::deposit::{Incoming, deposit};
use super::jsonl::warn_of_torn_tail;
use super::{ImportError, ImportOptions, Imported, Tally};
use crate::log::{SessionEvent, SessionId};
use crate::paging::{Listed, LogPages};
use crate::seam::{Error, ListOrder, OpenOptions, Result, SessionHandle, SessionPersistence};

/// Copies sessions into another store, by the rules of an import: each whole or not at all, a stored one never replaced,
/// the same call again changes nothing. Logs are read as they are stored and are not interpreted. What was written is
/// read back and compared with its source, event by event.
///
/// `sessions` are copied in their order; without any, all that the source lists are, the least recently active first, so
/// that the list of the target has their order. A session that fails does not keep the others back: `report` is told of
/// each as it is done. `from` stands for the source in errors. A log above a few
/// megabytes is set aside in the folder of temporary files until it is read.
///
/// ```
/// use session_persistence::export::{self, ImportOptions};
/// use session_persistence::{CreateOptions, MemoryStore, SessionHeader, SessionId, SessionPersistence};
///
/// let (source, target) = (MemoryStore::new(), MemoryStore::new());
/// let header = SessionHeader::new(SessionId::new("s1")?, 0)?;
/// source.create(&header, CreateOptions::default())?.flush()?;
///
/// let tally = export::copy(&source, "a", &target, None, ImportOptions::default(), &mut |outcome| {
///     if let Err(error) = outcome {
///         eprintln!("{error}");
///     }
/// })?;
/// assert_eq!((tally.created, tally.failed), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Only what keeps the source from being listed; the failure of a session is reported.
pub fn copy(
    source: &dyn SessionPersistence,
    from: &str,
    target: &dyn SessionPersistence,
    sessions: Option<&[SessionId]>,
    options: ImportOptions,
    report: &mut dyn FnMut(Result<Imported, ImportError>),
) -> Result<Tally> {
    let listed;
    let sessions = match sessions {
        Some(sessions) => sessions,
        None => {
            listed = least_recent_first(source)?;
            &listed
        }
    };
    Ok(Tally::of(report, |tell| {
        for session in sessions {
            tell(copy_one(source, from, target, session, options));
        }
        Ok(())
    }))
}

fn least_recent_first(source: &dyn SessionPersistence) -> Result<Vec<SessionId>> {
    let listed = Listed::new(source, ListOrder::Activity).map(|found| found.map(|snapshot| snapshot.id));
    let mut sessions = listed.collect::<Result<Vec<_>>>()?;
    sessions.reverse();
    Ok(sessions)
}

/// Copies one session and reads it back.
pub(super) fn copy_one(
    source: &dyn SessionPersistence,
    from: &str,
    target: &dyn SessionPersistence,
    session: &SessionId,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    let unreadable =
        |source| ImportError::Source { file: from.to_owned(), session: session.clone(), source: Box::new(source) };
    let handle = source.open(session, OpenOptions::uninterpreted()).map_err(unreadable)?;
    let absent = || Error::NotFound { session: session.clone() };
    let snapshot = source.stat(session).and_then(|found| found.ok_or_else(absent)).map_err(unreadable)?;
    warn_of_torn_tail(&snapshot);
    let log = Stored { log: LogPages::new(&*handle, &snapshot), unreadable: &unreadable };
    let imported = deposit(target, from, handle.header().clone(), log, options)?;
    // What is unchanged was compared to the last event already.
    if !matches!(imported, Imported::Unchanged { .. }) {
        let log = LogPages::new(&*handle, &snapshot);
        verify(from, &*handle, log, target)?;
    }
    Ok(imported)
}

/// Reads a copy back. What another writer appended to it meanwhile is no fault of the copy.
fn verify(
    from: &str,
    source: &dyn SessionHandle,
    mut log: LogPages<'_>,
    target: &dyn SessionPersistence,
) -> Result<(), ImportError> {
    let session = source.id();
    let differs = |seq: u64, source: Option<Error>| ImportError::NotVerified {
        file: from.to_owned(),
        session: session.clone(),
        seq,
        source: source.map(Box::new),
    };
    let copy = target.open(session, OpenOptions::uninterpreted()).map_err(|e| differs(0, Some(e)))?;
    let absent = || Error::NotFound { session: session.clone() };
    let snapshot = target.stat(session).and_then(|found| found.ok_or_else(absent));
    let mut copied = LogPages::new(&*copy, &snapshot.map_err(|e| differs(0, Some(e)))?);
    if copy.header() != source.header() {
        return Err(differs(0, None));
    }
    let mut seq = 0;
    while let Some(event) = log.next_event().map_err(|e| differs(seq, Some(e)))? {
        if copied.next_event().map_err(|e| differs(seq, Some(e)))?.as_ref() != Some(&event) {
            return Err(differs(seq, None));
        }
        seq += 1;
    }
    copy.close().map_err(|e| differs(seq, Some(e)))
}

/// A log of another store.
struct Stored<'a> {
    log: LogPages<'a>,
    unreadable: &'a dyn Fn(Error) -> ImportError,
}

impl Incoming for Stored<'_> {
    fn next_event(&mut self) -> Result<Option<SessionEvent>, ImportError> {
        self.log.next_event().map_err(self.unreadable)
    }
}
