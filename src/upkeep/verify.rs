//! Whether a store holds what was stored.

use super::log_check::{check_damaged, check_log};
use crate::log::SessionId;
use crate::paging::Listed;
use crate::seam::{Error, ErrorKind, Fault, FaultKind, ListOrder, Result, SessionPersistence, SessionState};

/// What a check tells while it is under way.
#[derive(Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A log is being read.
    Reading {
        /// The session.
        session: &'a SessionId,
        /// How many of its events were read.
        read: u64,
        /// How many it has, where the store knows.
        of: Option<u64>,
    },
    /// All logs are read, and what the store keeps beside them is being checked.
    Storage,
    /// Something is not as it should be.
    Fault(&'a Fault),
}

/// What a check came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// How many sessions were checked.
    pub sessions: u64,
    /// How many events were read, and found to be what was stored.
    pub events: u64,
    /// How many faults were told that are not harmless.
    pub faults: u64,
    /// How many harmless ones.
    pub leftovers: u64,
}

impl Report {
    /// Whether no fault was found but harmless ones.
    pub fn is_sound(&self) -> bool {
        self.faults == 0
    }
}

/// Takes what is found, and counts it.
pub(super) struct Watch<'w> {
    tell: &'w mut dyn FnMut(Progress<'_>),
    pub(super) report: Report,
}

impl Watch<'_> {
    pub(super) fn tell(&mut self, progress: Progress<'_>) {
        (self.tell)(progress);
    }

    pub(super) fn fault(&mut self, fault: &Fault) {
        if fault.kind.is_harmless() {
            self.report.leftovers += 1;
        } else {
            self.report.faults += 1;
        }
        self.tell(Progress::Fault(fault));
    }
}

/// Reads logs from end to end, uninterpreted, so that every check that reading makes is made; holds what the store
/// tells of each against it; and asks the store for what it keeps beside them
/// ([`check_storage`](SessionPersistence::check_storage)). With `sessions` only those are read, and the store is not
/// asked for more. `watch` is told of each fault when it is found. Nothing is changed, writers are not kept waiting,
/// and what they write meanwhile is no fault.
///
/// A parent that is not stored is no fault, and neither is a log that this build cannot interpret. A log that was cut
/// where one batch of it ends, in a backend that keeps no count beside it, looks like a shorter one: a copy or a backup
/// that has more tells so when it is compared ([`export::copy`](crate::export::copy())).
///
/// # Errors
///
/// `NotFound` for one of `sessions` that is not stored, before anything is read. Otherwise what kept the store from
/// being checked at all, which `Io` is where the sessions cannot be listed or too many files are open: what is wrong with
/// it is no error but told to `watch`, and counted in the report.
pub fn verify(
    store: &dyn SessionPersistence,
    sessions: Option<&[SessionId]>,
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<Report> {
    let mut watch = Watch { tell: watch, report: Report::default() };
    let Some(sessions) = sessions else {
        verify_all(store, &mut watch)?;
        return Ok(watch.report);
    };
    for session in sessions {
        store.stat(session)?.ok_or_else(|| Error::NotFound { session: session.clone() })?;
    }
    for session in sessions {
        check_log(store, session, &mut watch)?;
    }
    Ok(watch.report)
}

fn verify_all(store: &dyn SessionPersistence, watch: &mut Watch<'_>) -> Result<()> {
    // Not by activity: a session that is written meanwhile would move out of the pages that are still to come.
    for listed in Listed::new(store, ListOrder::Created) {
        match listed {
            Ok(snapshot) => match &snapshot.state {
                SessionState::Damaged { reason } => check_damaged(store, &snapshot.id, reason, watch),
                SessionState::Pending => {}
                _ => check_log(store, &snapshot.id, watch)?,
            },
            Err(error) if is_of_the_store(&error) => {
                let reason = format!("the sessions cannot be listed: {error:?}");
                watch.fault(&Fault::new(FaultKind::Structure, reason, "restore the store from a backup"));
            }
            Err(error) => return Err(error),
        }
    }
    watch.tell(Progress::Storage);
    store.check_storage(&mut |fault| watch.fault(&fault))
}

/// Whether what is stored is the reason for an error, and not who else uses the store.
fn is_of_the_store(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::UnsupportedStore)
}
