//! [`Writer`]: the one connection that changes a store.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::connection::{open_writer, set_synchronous, set_up_writer};
use super::failure::{Context, corruption};
use super::lease::{Lease, Locks};
use super::row::{SessionKey, chained, line_checksum, row_key};
use super::schema;
use crate::log::text::{push_seqs, push_surface_op, write_event};
use crate::log::{SessionEvent, SessionHeader, SessionId};
use crate::seam::{Error, Result, checks};

const COUNTERS: &str =
    "SELECT incarnation, event_count, size_bytes, chain, inherited_count FROM sessions WHERE number = ?1";

const INSERT_EVENT: &str = "INSERT INTO events \
     (key, type, time, data, source_event_seqs, surface_op, ignorable, envelope, checksum) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

/// The connection that writes.
pub(super) struct Writer {
    connection: Connection,
    /// Whether something may be stored that is not durable yet, by this writer or by one before it.
    unsynced: bool,
}

/// What the sessions table tells of a log, as it will be after the batch.
struct Counters {
    events: u64,
    size_bytes: u64,
    last_time: Option<i64>,
    chain: i64,
    inherited: u64,
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
            let taken = transaction
                .prepare_cached("SELECT 1 FROM sessions WHERE id = ?1")
                .and_then(|mut s| s.exists([id.as_str()]))
                .map_err(failed)?;
            if taken {
                return Err(Error::AlreadyExists { session: id.clone() });
            }
            checks::check_contiguous(id, 0, events)?;
            let line = header.to_line();
            let incarnation = transaction.query_row("SELECT random()", [], |row| row.get(0)).map_err(failed)?;
            let checksum = line_checksum(&line, incarnation);
            transaction
                .prepare_cached(
                    "INSERT INTO sessions (id, incarnation, header, header_checksum, inherited_count, event_count, \
                     size_bytes, revision, chain, activity) VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, 0, ?4, \
                     (SELECT ifnull(max(activity), 0) + 1 FROM sessions))",
                )
                .and_then(|mut s| {
                    s.execute(params![id.as_str(), incarnation, line, checksum, inherited, line.len() as u64 + 1])
                })
                .map_err(failed)?;
            let key = SessionKey::new(transaction.last_insert_rowid(), incarnation, header);
            // Before others can see the session.
            let lease = locks.take(key.number, id, context)?;
            if events.is_empty() {
                return Ok((key, lease, Vec::new()));
            }
            let size_bytes = line.len() as u64 + 1;
            let counters = Counters { events: 0, size_bytes, last_time: None, chain: checksum, inherited };
            let types = store(transaction, &key, counters, events).map_err(failed)?;
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
            let failed = |e| context.sqlite(e);
            let counters = transaction
                .prepare_cached(COUNTERS)
                .and_then(|mut s| {
                    let row = s.query_row([key.number], |row| {
                        let counters = Counters {
                            events: row.get(1)?,
                            size_bytes: row.get(2)?,
                            last_time: None,
                            chain: row.get(3)?,
                            inherited: row.get(4)?,
                        };
                        Ok((row.get::<_, i64>(0)?, counters))
                    });
                    row.optional()
                })
                .map_err(failed)?;
            let counters = match counters {
                Some((incarnation, counters)) if incarnation == key.incarnation => counters,
                _ => return Err(Error::NotFound { session: id.clone() }),
            };
            checks::check_contiguous(id, counters.events, events)?;
            check_end(transaction, id, key, counters.events, context)?;
            store(transaction, key, counters, events).map_err(failed)
        })?;
        key.note_types(types);
        Ok(())
    }

    pub(super) fn remove(&mut self, id: &SessionId, locks: &Locks, context: &Context<'_>) -> Result<bool> {
        self.transaction(context, |transaction| {
            let failed = |e| context.sqlite(e);
            let number = transaction
                .query_row("SELECT number FROM sessions WHERE id = ?1", [id.as_str()], |row| row.get(0))
                .optional()
                .map_err(failed)?;
            let Some(number) = number else { return Ok(false) };
            let _lease = locks.take(number, id, context)?;
            let keys = [row_key(number, 0), row_key(number + 1, 0)];
            transaction.execute("DELETE FROM events WHERE key >= ?1 AND key < ?2", keys).map_err(failed)?;
            transaction.execute("DELETE FROM session_types WHERE session = ?1", [number]).map_err(failed)?;
            transaction.execute("DELETE FROM sessions WHERE number = ?1", [number]).map_err(failed)?;
            Ok(true)
        })
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

/// Stores a batch that continues the log, and the counters that follow from it; gives the types that it noted.
fn store<'e>(
    transaction: &Transaction<'_>,
    key: &SessionKey,
    mut counters: Counters,
    events: &'e [SessionEvent],
) -> Result<Vec<&'e str>, rusqlite::Error> {
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
        counters.events += 1;
        counters.size_bytes += line.len() as u64 + 1;
        counters.last_time = Some(event.time());
        counters.chain = chained(counters.chain, checksum);
        if key.has_seed_mark
            && let Some(mark) = checks::inherited_mark(event)
        {
            counters.inherited = mark.get();
        }
        let event_type = event.event_type();
        if !event.is_ignorable() && !new_types.contains(&event_type) && !key.has_noted(event_type) {
            transaction
                .prepare_cached("INSERT INTO session_types VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
                .execute(params![key.number, event_type, event.seq().get()])?;
            new_types.push(event_type);
        }
    }
    transaction
        .prepare_cached(
            "UPDATE sessions SET event_count = ?2, size_bytes = ?3, last_time = ?4, chain = ?5, inherited_count = ?6, \
             revision = revision + 1, activity = (SELECT max(activity) + 1 FROM sessions) WHERE number = ?1",
        )?
        .execute(params![
            key.number,
            counters.events,
            counters.size_bytes,
            counters.last_time,
            counters.chain,
            counters.inherited,
        ])?;
    Ok(new_types)
}
