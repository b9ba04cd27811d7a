//! Sessions that were not written for long, removed.

use std::time::Duration;

use crate::log::SessionId;
use crate::paging::Listed;
use crate::seam::{
    Error, ErrorKind, Holder, ListOrder, Removal, Result, SessionPersistence, SessionState, Snapshot, now,
};

const DAY: i64 = 24 * 60 * 60 * 1000;

/// How far the clock may be ahead of the newest write of a store, in milliseconds.
const MOST_AHEAD: i64 = 90 * DAY;

/// How far a write may lie in the future of the clock, in milliseconds.
const MOST_BEHIND: i64 = DAY;

/// Which sessions [`prune`] removes.
///
/// ```
/// use std::time::Duration;
/// use session_persistence::upkeep::PruneOptions;
///
/// let options = PruneOptions::older_than(Duration::from_secs(30 * 24 * 60 * 60)).with_keep(10);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneOptions {
    /// Sessions that were last written longer ago than this are removed.
    pub older_than: Duration,
    /// How many sessions are kept whatever their age, the most recently active first. Default: none.
    pub keep: usize,
    /// The present, in milliseconds since 1970. Default: this machine's clock, as far as the store bears it out; a time
    /// that is given is taken as it is.
    pub now: Option<i64>,
}

impl PruneOptions {
    /// Sessions that were last written longer ago than this.
    pub fn older_than(age: Duration) -> Self {
        Self { older_than: age, keep: 0, now: None }
    }

    /// The same options, where so many sessions are kept whatever their age.
    #[must_use]
    pub fn with_keep(mut self, keep: usize) -> Self {
        self.keep = keep;
        self
    }

    /// The same options with a present that the caller has checked, in milliseconds since 1970.
    #[must_use]
    pub fn with_now(mut self, now: i64) -> Self {
        self.now = Some(now);
        self
    }
}

/// What becomes of a session that is old enough, or may be.
#[derive(Debug)]
#[non_exhaustive]
pub enum Pruned<'a> {
    /// It is removed; in a dry run, it would be.
    Removed(&'a Snapshot),
    /// It is kept, and somebody may want to know why.
    Kept(&'a Snapshot, Kept),
}

/// Why a session is kept whose age is no reason to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Kept {
    /// The store does not know when it was last written.
    AgeUnknown,
    /// Somebody writes it.
    Owned(Holder),
    /// It was written since it was listed.
    WrittenMeanwhile,
    /// Its removal failed; nothing of it is gone.
    Failed(Error),
}

/// What a call of [`prune`] came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneReport {
    /// How many sessions were removed, or would be.
    pub removed: u64,
    /// What the store told of their size together, in bytes.
    pub bytes: u64,
    /// How many were told as [`Pruned::Kept`].
    pub kept: u64,
    /// How many of those because their removal failed.
    pub failed: u64,
}

/// Removes the sessions that were last written longer ago than the options say, the most recently active first, and
/// tells `watch` of each. A dry run tells of the same sessions and removes none: it is the same call in all but the
/// removal. Nothing is ever removed but by this call. [`flush`](SessionPersistence::flush) makes the removals survive a
/// loss of power.
///
/// The age of a session is that of its last write, by [`Snapshot::written_at`]: never by the times of its events, which
/// are their producer's, and not by its creation. A session without one is kept and told, which is every session of a
/// [`MemoryStore`](crate::MemoryStore) and, in SQLite, one that an earlier version of this crate wrote last or whose
/// row is damaged. A damaged session whose last write is known goes like any other. So does one whose children stay:
/// each of them holds what it inherited.
///
/// A session that somebody writes is kept and told; where the store does not know of writers elsewhere, only the
/// removal finds them, and a dry run does not. One that was written since it was listed is kept
/// ([`SessionPersistence::remove_if_unchanged`]).
///
/// **The clock** decides what is old, and a clock that is wrong makes all of it old. So it is held against the store:
/// where it is more than 90 days ahead of the newest write, or a session was written more than a day in its future,
/// nothing is removed unless the caller gives the time ([`PruneOptions::with_now`]).
///
/// # Errors
///
/// `InvalidArgument` for a clock that the store does not bear out; the failures of the store as a whole. Where the
/// removal of one session fails the others are removed all the same: `watch` is told, and the report counts it.
pub fn prune(
    store: &dyn SessionPersistence,
    options: &PruneOptions,
    dry_run: bool,
    watch: &mut dyn FnMut(Pruned<'_>),
) -> Result<PruneReport> {
    let now = match options.now {
        Some(given) => given,
        None => checked_clock(store)?,
    };
    let age = i64::try_from(options.older_than.as_millis()).unwrap_or(i64::MAX);
    let before = now.saturating_sub(age);
    let mut report = PruneReport::default();
    let mut keep = options.keep;
    for listed in Listed::new(store, ListOrder::Activity) {
        let snapshot = listed?;
        // What was created and is not stored yet is no session to keep, and none to remove.
        if snapshot.state == SessionState::Pending {
            continue;
        }
        if keep > 0 {
            keep -= 1;
            continue;
        }
        let reason = match snapshot.written_at {
            None => Some(Kept::AgeUnknown),
            Some(written) if written >= before => continue,
            Some(_) => match &snapshot.owner {
                Some(owner) => Some(Kept::Owned(owner.clone())),
                None if dry_run => None,
                None => remove(store, &snapshot)?,
            },
        };
        match reason {
            None => {
                report.removed += 1;
                report.bytes += snapshot.size_bytes.unwrap_or(0);
                watch(Pruned::Removed(&snapshot));
            }
            Some(reason) => {
                report.kept += 1;
                report.failed += u64::from(matches!(reason, Kept::Failed(_)));
                watch(Pruned::Kept(&snapshot, reason));
            }
        }
    }
    Ok(report)
}

/// Removes a session that is still what it was when it was listed; otherwise the reason why it stays.
fn remove(store: &dyn SessionPersistence, listed: &Snapshot) -> Result<Option<Kept>> {
    match store.remove_if_unchanged(&listed.id, &listed.revision) {
        Ok(Removal::Changed) => Ok(Some(Kept::WrittenMeanwhile)),
        // Where it is absent somebody else removed it: it is gone either way.
        Ok(Removal::Removed | Removal::Absent) => Ok(None),
        Err(Error::AlreadyOwned { holder, .. }) => Ok(Some(Kept::Owned(holder))),
        // Of a store that is busy or cannot be written the next session would tell the same.
        Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) => Ok(Some(Kept::Failed(error))),
        Err(error) => Err(error),
    }
}

/// The present by this machine's clock, where the writes of the store bear it out.
fn checked_clock(store: &dyn SessionPersistence) -> Result<i64> {
    let now = now();
    let mut newest: Option<(i64, SessionId)> = None;
    for listed in Listed::new(store, ListOrder::Activity) {
        let snapshot = listed?;
        if let Some(written) = snapshot.written_at
            && newest.as_ref().is_none_or(|(before, _)| written > *before)
        {
            newest = Some((written, snapshot.id));
        }
    }
    let Some((newest, id)) = newest else { return Ok(now) };
    let ahead = now.saturating_sub(newest);
    let found = if ahead > MOST_AHEAD {
        format!("is {} days ahead of the last write to any session", ahead / DAY)
    } else if ahead < -MOST_BEHIND {
        format!("is {} hours behind the last write to session {id:?}", ahead / -(DAY / 24))
    } else {
        return Ok(now);
    };
    Err(Error::InvalidArgument {
        session: None,
        reason: format!(
            "this machine's clock says {now} ms since 1970, which {found}; nothing was removed: check the clock, and \
             give the time explicitly if it is right"
        ),
    })
}
