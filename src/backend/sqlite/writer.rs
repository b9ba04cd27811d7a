//! [`Writer`]: the one connection that changes a store.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::connection::{open_writer, set_synchronous, set_up_writer};
use super::failure::{Context, corruption};
use super::lease::{Lease, Locks};
use super::row::{SessionKey, chained, line_checksum, row_key};
use super::session_row::SessionRow;
use super::{reader, schema};
use crate::log::text::{push_seqs, push_surface_op, write_event};
use crate::log::{SessionEvent, SessionHeader, SessionId};
use crate::seam::{Error, Result, checks};

const INSERT_EVENT: &str = "INSERT INTO events \
     (key, type, time, data, source_event_seqs, surface_op, ignorable, envelope, checksum) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

/// The connection that writes.
pub(super) struct Writer {
    connection: Connection,
    /// Whether something may be stored that is not durable yet, by this writer or by one before it.
    unsynced: bool,
}

impl Writer {
    pub(super) fn open(path: &Path, busy_timeout: Duration, context: &Context<'_>) -> Result<Self> {
        Ok(Self { connection: open_writer(path, busy_timeout, context)?, unsynced: true })
    }

    pub(super) fn in_memory(context: &Context<'_>) -> Result<Self> {
        let mut connection = Connection::open_in_memory().map_err(|e| context.sqlite(e))?;
        schema::create(&mut connection, context)?;
        set_up_writer(&connection).map_err(|e| context.sqlite(e))?;
        Ok(Self { connection, unsynced: false })
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Runs `work` in one transaction that holds the lock for writing from its start: what it reads is what it changes.
    fn transaction<T>(&mut self, context: &Context<'_>, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(|e| context.sqlite(e))?;
        let done = work(&transaction)?;
        transaction.commit().map_err(|e| context.sqlite(e))?;
        self.unsynced = true;
        Ok(done)
    }

    pub(super) fn materialize(
        &mut self,
        header: &SessionHeader,
        inherited: u64,
        events: &[SessionEvent],
        locks: &Locks,
        context: &Context<'_>,
    ) -> Result<(SessionKey, Lease)> {
        let id = header.id();
        let (key, lease, types) = self.transaction(context, |transaction| {
            let failed = |e| context.sqlite(e);
            if reader::contains(transaction, id).map_err(failed)? {
                return Err(Error::AlreadyExists { session: id.clone() });
            }
            checks::check_contiguous(id, 0, events)?;
            let incarnation = transaction.query_row("SELECT random()", [], |row| row.get(0)).map_err(failed)?;
            let activity = next_activity(transaction).map_err(failed)?;
            let mut row = SessionRow::new(header, incarnation, inherited, activity);
            row.insert(transaction).map_err(failed)?;
            let key = SessionKey::new(row.number, incarnation, header);
            // Before others can see the session.
            let lease = locks.take(key.number, id, context)?;
            let types = store(transaction, &key, &mut row, events).map_err(failed)?;
            Ok((key, lease, types))
        })?;
        key.note_types(types);
        Ok((key, lease))
    }

    pub(super) fn append(
        &mut self,
        id: &SessionId,
        key: &SessionKey,
        events: &[SessionEvent],
        context: &Context<'_>,
    ) -> Result<()> {
        let types = self.transaction(context, |transaction| {
            let mut row = reader::session(transaction, id, key, context)?;
            checks::check_contiguous(id, row.events, events)?;
            check_end(transaction, id, key, row.events, context)?;
            let stored = next_activity(transaction).and_then(|activity| {
                row.activity = activity;
                row.touch();
                store(transaction, key, &mut row, events)
            });
            stored.map_err(|e| context.sqlite(e))
        })?;
        key.note_types(types);
        Ok(())
    }

    pub(super) fn remove(&mut self, id: &SessionId, locks: &Locks, context: &Context<'_>) -> Result<bool> {
        // The lease is given up behind the commit: no other store finds the session writable while it still sees it.
        let removed = self.transaction(context, |transaction| {
            let failed = |e| context.sqlite(e);
            let number = transaction
                .query_row("SELECT number FROM sessions WHERE id = ?1", [id.as_str()], |row| row.get(0))
                .optional()
                .map_err(failed)?;
            let Some(number) = number else { return Ok(None) };
            let lease = locks.take(number, id, context)?;
            let keys = [row_key(number, 0), row_key(number + 1, 0)];
            transaction.execute("DELETE FROM events WHERE key >= ?1 AND key < ?2", keys).map_err(failed)?;
            transaction.execute("DELETE FROM session_types WHERE session = ?1", [number]).map_err(failed)?;
            // The number of the last write is not given to another one.
            transaction
                .execute(
                    "UPDATE store SET removed_activity = max(removed_activity, \
                     (SELECT activity FROM sessions WHERE number = ?1))",
                    [number],
                )
                .map_err(failed)?;
            transaction.execute("DELETE FROM sessions WHERE number = ?1", [number]).map_err(failed)?;
            Ok(Some(lease))
        })?;
        Ok(removed.is_some())
    }

    /// Commits once with a sync of the WAL, which makes durable whatever was committed before.
    pub(super) fn sync(&mut self, context: &Context<'_>) -> Result<()> {
        if !self.unsynced {
            return Ok(());
        }
        let sync = || {
            set_synchronous(&self.connection, "FULL")?;
            let committed = self
                .connection
                .prepare_cached("UPDATE store SET flushes = flushes + 1")
                .and_then(|mut s| s.execute([]));
            set_synchronous(&self.connection, "NORMAL")?;
            committed
        };
        sync().map_err(|e| context.sqlite(e))?;
        self.unsynced = false;
        Ok(())
    }
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

/// The activity of the session that is written next.
fn next_activity(transaction: &Transaction<'_>) -> Result<u64, rusqlite::Error> {
    transaction
        .prepare_cached("SELECT max(ifnull((SELECT max(activity) FROM sessions), 0), removed_activity) + 1 FROM store")?
        .query_row([], |found| found.get(0))
}

/// Stores a batch that continues the log, and the row of its session that follows from it; gives the types that it noted.
fn store<'e>(
    transaction: &Transaction<'_>,
    key: &SessionKey,
    row: &mut SessionRow,
    events: &'e [SessionEvent],
) -> Result<Vec<&'e str>, rusqlite::Error> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let mut insert = transaction.prepare_cached(INSERT_EVENT)?;
    let (mut line, mut sources, mut op) = (String::new(), String::new(), String::new());
    let mut new_types = Vec::new();
    for event in events {
        line.clear();
        write_event(&mut line, event);
        let checksum = line_checksum(&line, key.incarnation);
        let source_event_seqs = event.source_event_seqs().map(|seqs| {
            sources.clear();
            push_seqs(&mut sources, seqs);
            &sources
        });
        let surface_op = event.surface_op().map(|value| {
            op.clear();
            push_surface_op(&mut op, value);
            &op
        });
        insert.execute(params![
            key.row(event.seq().get()),
            event.event_type(),
            event.time(),
            event.data().as_str(),
            source_event_seqs,
            surface_op,
            event.is_ignorable().then_some(1),
            event.envelope().to_code(),
            checksum,
        ])?;
        row.events += 1;
        row.size_bytes += line.len() as u64 + 1;
        row.last_time = Some(event.time());
        row.chain = chained(row.chain, checksum);
        if key.has_seed_mark
            && let Some(mark) = checks::inherited_mark(event)
        {
            row.inherited = mark.get();
        }
        let event_type = event.event_type();
        if !event.is_ignorable() && !new_types.contains(&event_type) && !key.has_noted(event_type) {
            let first_seq = event.seq().get();
            let noted = transaction
                .prepare_cached("INSERT INTO session_types VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
                .execute(params![key.number, event_type, first_seq])?;
            if noted > 0 {
                row.add_type(event_type, first_seq);
            }
            new_types.push(event_type);
        }
    }
    row.revision += 1;
    row.update(transaction)?;
    Ok(new_types)
}
