//! [`Change`]: what the one writer can be asked for, and what comes of it.

use rusqlite::{OptionalExtension, Transaction};

use super::events::Events;
use super::failure::{Context, corruption};
use super::lease::{Lease, Locks};
use super::reader;
use super::row::{SessionKey, row_key};
use super::session_row::SessionRow;
use super::{batch, counter};
use crate::log::{SessionHeader, SessionId, Vocabulary};
use crate::seam::{Durability, Error, Removal, Result, Revision};

/// What the writer can be asked for.
pub(super) enum Change<'e> {
    /// Store a new session with its first batch, which may be empty.
    Materialize { header: SessionHeader, inherited: u64, events: Events<'e> },
    /// Store a batch behind the log, for the writer that was given `fence`.
    Append { id: SessionId, key: SessionKey, fence: i64, events: Events<'e> },
    /// Make the writer that asks the only one of a session.
    Own { id: SessionId, key: SessionKey },
    /// Remove a session, where a revision is given only at that one.
    Remove { id: SessionId, only: Option<Revision> },
    /// Make all that was committed survive a loss of power.
    Flush,
}

/// What came of a change.
pub(super) enum Done {
    /// A new session, and its ownership.
    Stored(SessionKey, Lease),
    Appended,
    /// The fence of the only writer.
    Owned(i64),
    Removed(Removal),
    Flushed,
}

impl Change<'_> {
    /// The same change, to be made by another thread; back where only the thread that asks for it can make it.
    pub(super) fn into_owned(self) -> Result<Change<'static>, Self> {
        Ok(match self {
            Self::Materialize { header, inherited, events: Events::Held(events) } => {
                Change::Materialize { header, inherited, events: Events::Held(events.into_owned().into()) }
            }
            Self::Append { id, key, fence, events: Events::Held(events) } => {
                Change::Append { id, key, fence, events: Events::Held(events.into_owned().into()) }
            }
            Self::Own { id, key } => Change::Own { id, key },
            Self::Remove { id, only } => Change::Remove { id, only },
            Self::Flush => Change::Flush,
            given => return Err(given),
        })
    }

    /// The session that it is about.
    pub(super) fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Materialize { header, .. } => Some(header.id()),
            Self::Append { id, .. } | Self::Own { id, .. } | Self::Remove { id, .. } => Some(id),
            Self::Flush => None,
        }
    }

    /// About how many bytes it writes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Materialize { events: Events::Held(events), .. }
            | Self::Append { events: Events::Held(events), .. } => {
                events.iter().map(|event| event.data().as_str().len() + 256).sum()
            }
            // Not known, and likely to be large.
            Self::Materialize { .. } | Self::Append { .. } => usize::MAX,
            Self::Own { .. } | Self::Remove { .. } | Self::Flush => 0,
        }
    }

    /// Whether who asks for it waits for the disk.
    pub(super) fn waits_for_disk(&self, durability: Durability) -> bool {
        match self {
            Self::Materialize { .. } | Self::Append { .. } => durability == Durability::EveryAppend,
            Self::Own { .. } | Self::Remove { .. } => false,
            Self::Flush => true,
        }
    }
}

/// Why a change is not made.
pub(super) enum Halt {
    /// It was refused before anything of it was written.
    Refused(Error),
    /// It failed while it was written, so that its transaction must not be committed.
    Failed(Error),
}

/// A change that was made in a transaction which is not committed yet.
pub(super) struct Made {
    done: Done,
    /// What its session's key remembers once it is committed.
    noted: Option<(SessionKey, Vec<String>)>,
    /// Held until it is committed: no other store finds a removed session writable while it still sees it.
    _removed: Option<Lease>,
}

impl Made {
    fn new(done: Done) -> Self {
        Self { done, noted: None, _removed: None }
    }

    /// What came of it, now that it is committed.
    pub(super) fn committed(self) -> Done {
        if let Some((key, types)) = self.noted {
            key.note_types(types);
        }
        self.done
    }
}

impl Change<'_> {
    /// Makes the change in a transaction that holds the lock for writing, so that what it reads is what it changes.
    pub(super) fn make(
        &self,
        transaction: &Transaction<'_>,
        locks: &Locks,
        context: &Context<'_>,
    ) -> Result<Made, Halt> {
        match self {
            Self::Materialize { header, inherited, events } => {
                materialize(header, *inherited, events, transaction, locks, context)
            }
            Self::Append { id, key, fence, events } => append(id, key, *fence, events, transaction, context),
            Self::Own { id, key } => own(id, key, transaction, context),
            Self::Remove { id, only } => remove(id, only.as_ref(), transaction, locks, context),
            Self::Flush => Ok(Made::new(Done::Flushed)),
        }
    }
}

fn materialize(
    header: &SessionHeader,
    inherited: u64,
    events: &Events<'_>,
    transaction: &Transaction<'_>,
    locks: &Locks,
    context: &Context<'_>,
) -> Result<Made, Halt> {
    let id = header.id();
    let look = || {
        if reader::contains(transaction, id).map_err(|e| context.sqlite(e))? {
            return Err(Error::AlreadyExists { session: id.clone() });
        }
        events.check(id, 0)
    };
    look().map_err(Halt::Refused)?;
    let write = || {
        let failed = |e| context.sqlite(e);
        let incarnation = transaction.query_row("SELECT random()", [], |row| row.get(0)).map_err(failed)?;
        let newest = newest_activity(transaction).map_err(failed)?;
        let mut row = SessionRow::new(header, incarnation, inherited, newest + 1);
        row.insert(transaction).map_err(failed)?;
        let key = SessionKey::new(row.number, incarnation, header);
        // Before others can see the session.
        let lease = locks.take_in_transaction(key.number, id, context)?.with_fence(row.fence);
        let types = store(events, transaction, &key, &mut row, id, context)?;
        let noted = Some((key.clone(), types));
        Ok(Made { noted, ..Made::new(Done::Stored(key, lease)) })
    };
    write().map_err(Halt::Failed)
}

fn append(
    id: &SessionId,
    key: &SessionKey,
    fence: i64,
    events: &Events<'_>,
    transaction: &Transaction<'_>,
    context: &Context<'_>,
) -> Result<Made, Halt> {
    let look = || {
        let row = reader::session(transaction, id, key, context)?;
        if row.fence != fence {
            return Err(Error::OwnershipLost { session: id.clone() });
        }
        events.check(id, row.events)?;
        check_end(transaction, id, key, row.events, context)?;
        Ok(row)
    };
    let mut row = look().map_err(Halt::Refused)?;
    let mut write = || {
        row.pass(newest_activity(transaction).map_err(|e| context.sqlite(e))?);
        row.touch();
        store(events, transaction, key, &mut row, id, context)
    };
    let types = write().map_err(Halt::Failed)?;
    Ok(Made { noted: Some((key.clone(), types)), ..Made::new(Done::Appended) })
}

/// Stores events that continue the log, and the row of the session that follows from them; gives the types that it noted.
fn store(
    events: &Events<'_>,
    transaction: &Transaction<'_>,
    key: &SessionKey,
    row: &mut SessionRow<'_>,
    id: &SessionId,
    context: &Context<'_>,
) -> Result<Vec<String>> {
    let failed = |e| context.sqlite(e);
    let before = row.events;
    let mut new_types = Vec::new();
    events.each(id, before, |piece| batch::insert(transaction, key, row, piece, &mut new_types).map_err(failed))?;
    if row.events > before {
        row.revision += 1;
        row.update(transaction).map_err(failed)?;
    }
    Ok(new_types)
}

fn own(id: &SessionId, key: &SessionKey, transaction: &Transaction<'_>, context: &Context<'_>) -> Result<Made, Halt> {
    let row = reader::session(transaction, id, key, context).map_err(Halt::Refused)?;
    let fence = row.fence.wrapping_add(1);
    transaction
        .prepare_cached("UPDATE sessions SET fence = ?2 WHERE number = ?1")
        .and_then(|mut raise| raise.execute([row.number, fence]))
        .map_err(|e| Halt::Failed(context.sqlite(e)))?;
    Ok(Made::new(Done::Owned(fence)))
}

fn remove(
    id: &SessionId,
    only: Option<&Revision>,
    transaction: &Transaction<'_>,
    locks: &Locks,
    context: &Context<'_>,
) -> Result<Made, Halt> {
    let look = || {
        let number = transaction
            .query_row("SELECT number FROM sessions WHERE id = ?1", [id.as_str()], |row| row.get(0))
            .optional()
            .map_err(|e| context.sqlite(e))?;
        number.map(|number: i64| Ok((number, locks.take_in_transaction(number, id, context)?))).transpose()
    };
    if let Some(revision) = only {
        let told = reader::stat(transaction, id, &Vocabulary::default(), context).map_err(Halt::Refused)?;
        if told.is_some_and(|told| told.snapshot.revision != *revision) {
            return Ok(Made::new(Done::Removed(Removal::Changed)));
        }
    }
    let Some((number, lease)) = look().map_err(Halt::Refused)? else {
        return Ok(Made::new(Done::Removed(Removal::Absent)));
    };
    let write = || {
        let keys = [row_key(number, 0), row_key(number + 1, 0)];
        transaction.execute("DELETE FROM events WHERE key >= ?1 AND key < ?2", keys)?;
        transaction.execute("DELETE FROM session_types WHERE session = ?1", [number])?;
        // The number of the last write is not given to another one.
        transaction.execute(
            "UPDATE store SET removed_activity = max(removed_activity, \
             (SELECT activity FROM sessions WHERE number = ?1))",
            [number],
        )?;
        // Whoever compares two states of the store has to see that this is the later one.
        counter::raise(transaction, 1)?;
        transaction.execute("DELETE FROM sessions WHERE number = ?1", [number])
    };
    write().map_err(|e| Halt::Failed(context.sqlite(e)))?;
    Ok(Made { _removed: Some(lease), ..Made::new(Done::Removed(Removal::Removed)) })
}

/// Checks that the stored log ends where its counter says, so that no row ever stands without the one before it.
fn check_end(
    transaction: &Transaction<'_>,
    id: &SessionId,
    key: &SessionKey,
    count: u64,
    context: &Context<'_>,
) -> Result<()> {
    let Some(last) = count.checked_sub(1) else { return Ok(()) };
    let stored = transaction
        .prepare_cached("SELECT 1 FROM events WHERE key = ?1")
        .and_then(|mut s| s.exists([key.row(last)]))
        .map_err(|e| context.sqlite(e))?;
    if stored {
        Ok(())
    } else {
        Err(corruption(id, Some(last), format!("its row is missing, of {count} that are counted")))
    }
}

/// The activity of the session that was written last, which may have been removed.
fn newest_activity(transaction: &Transaction<'_>) -> Result<u64, rusqlite::Error> {
    transaction
        .prepare_cached("SELECT max(ifnull((SELECT max(activity) FROM sessions), 0), removed_activity) FROM store")?
        .query_row([], |found| found.get(0))
}
