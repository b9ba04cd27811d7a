//! [`Writer`]: the one connection that changes a store.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};

use super::change::{Change, Done, Halt, Made};
use super::connection::{open_writer, set_up_writer};
use super::failure::Context;
use super::journal::Journal;
use super::lease::Locks;
use super::look::keep_wal;
use super::patience::{Patience, pause};
use super::turnstile::Turnstile;
use super::wal::Wal;
use super::{counter, creation, schema};
use crate::seam::{Durability, ErrorKind, Result};

/// How long a new store may take to have one name only.
const NAMED: Duration = Duration::from_millis(200);

/// The connection that writes.
pub(super) struct Writer {
    /// The database.
    path: PathBuf,
    connection: Connection,
    durability: Durability,
    turnstile: Turnstile,
    /// How long SQLite may wait for its lock.
    patience: Patience,
    wal: Wal,
    /// Which commits wait for the disk now.
    synchronous: Synchronous,
    /// Whether something may be stored that is not durable yet, by this writer or by one before it.
    unsynced: bool,
}

/// NORMAL survives the death of the process, FULL a loss of power too. In rollback mode every commit does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Synchronous {
    Normal,
    Full,
    Always,
}

impl Writer {
    pub(super) fn open(
        path: &Path,
        locks: &Locks,
        journal: Option<Journal>,
        durability: Durability,
        busy_timeout: Duration,
        context: &Context<'_>,
    ) -> Result<Self> {
        creation::clean_up_beside(path);
        refuse_second_name(path, context)?;
        let (mut connection, journal) = open_writer(path, journal, busy_timeout, context)?;
        let patience = Patience::of(&mut connection, busy_timeout).map_err(|e| context.sqlite(e))?;
        let (wal, synchronous, unsynced) = (Wal::none(), Synchronous::Always, false);
        let (path, turnstile) = (path.to_owned(), Turnstile::of(locks));
        let mut writer = Self { path, connection, durability, turnstile, patience, wal, synchronous, unsynced };
        match journal {
            Journal::Wal => writer.keep_wal_short(),
            // EXTRA: so that the journal of a commit is gone for good.
            Journal::Rollback => writer.connection.pragma_update(None, "synchronous", "EXTRA"),
        }
        .map_err(|e| context.sqlite(e))?;
        Ok(writer)
    }

    /// Goes by the rules of WAL mode from now on. What was stored until then may not be durable.
    fn keep_wal_short(&mut self) -> Result<(), rusqlite::Error> {
        self.wal = Wal::of(&mut self.connection, &self.path)?;
        self.connection.pragma_update(None, "synchronous", "NORMAL")?;
        (self.synchronous, self.unsynced) = (Synchronous::Normal, true);
        Ok(())
    }

    pub(super) fn in_memory(context: &Context<'_>) -> Result<Self> {
        let mut connection = Connection::open_in_memory().map_err(|e| context.sqlite(e))?;
        schema::create(&mut connection, context)?;
        set_up_writer(&connection).map_err(|e| context.sqlite(e))?;
        Ok(Self {
            path: PathBuf::from(":memory:"),
            connection,
            durability: Durability::OnFlush,
            turnstile: Turnstile::of(&Locks::none()),
            patience: Patience::none(),
            wal: Wal::none(),
            synchronous: Synchronous::Normal,
            unsynced: false,
        })
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The mode of the database.
    pub(super) fn journal(&self) -> Journal {
        if self.synchronous == Synchronous::Always { Journal::Rollback } else { Journal::Wal }
    }

    /// Closes the connection that a forked process has of its parent, who does not use it; whether that could be done. The
    /// place in the queue and what is still to be made good for are the parent's.
    pub(super) fn let_go(mut self) -> bool {
        let connection = Connection::open_in_memory().map(|empty| std::mem::replace(&mut self.connection, empty));
        std::mem::forget(self);
        match connection {
            Ok(connection) if keep_wal(&connection).is_ok() => true,
            kept => {
                std::mem::forget(kept);
                false
            }
        }
    }

    /// Makes changes in one transaction, with one wait for the disk where one of them asks for it. One that is refused leaves
    /// the others alone; where one fails each is made in a transaction of its own.
    pub(super) fn commit(&mut self, changes: &[Change<'_>], locks: &Locks, context: &Context<'_>) -> Vec<Result<Done>> {
        self.patience.renew();
        match self.attempt(changes, locks, context) {
            Ok(outcomes) => outcomes,
            Err(failed) if changes.len() == 1 => vec![Err(failed)],
            Err(failed) => {
                log::debug!("a group of {} changes failed, each is made alone: {failed}", changes.len());
                let alone = |change| self.attempt(std::slice::from_ref(change), locks, context);
                changes.iter().map(alone).map(|alone| alone.and_then(|mut one| one.remove(0))).collect()
            }
        }
    }

    fn attempt(&mut self, changes: &[Change<'_>], locks: &Locks, context: &Context<'_>) -> Result<Vec<Result<Done>>> {
        let context = match changes {
            [Change::Flush, ..] | [] => context.clone(),
            [first, ..] => first.session().map_or_else(|| context.clone(), |id| context.clone().session(id)),
        };
        let failed = |e| context.sqlite(e);
        let flushes = changes.iter().any(|change| matches!(change, Change::Flush));
        if flushes && changes.len() == 1 && !self.unsynced {
            return Ok(vec![Ok(Done::Flushed)]);
        }
        let always = self.synchronous == Synchronous::Always;
        if always && self.unsynced {
            // Nothing more is stored on a folder that cannot be synced.
            counter::raise(&self.connection, 1).map_err(failed)?;
            self.unsynced = false;
        }
        let waits = always || changes.iter().any(|change| change.waits_for_disk(self.durability));
        self.set_synchronous(if waits { Synchronous::Full } else { Synchronous::Normal }).map_err(failed)?;
        let first = self.turnstile.pass(self.patience.left());
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        drop(first);
        if always && Journal::of(&transaction).map_err(failed)? == Journal::Wal {
            // Another program has switched it since: this connection holds no lock while it does nothing.
            transaction.rollback().map_err(failed)?;
            self.keep_wal_short().map_err(failed)?;
            return self.attempt(changes, locks, &context);
        }
        if waits || self.wal.is_held_up() {
            match self.wal.recover() {
                Err(e) if waits => return Err(context.io("writing the WAL once more of", e)),
                Err(e) => log::warn!("writing the WAL once more after a failed sync: {e}; it grows until that works"),
                Ok(()) => {}
            }
        }

        let mut outcomes = Vec::with_capacity(changes.len());
        let written_before = transaction.total_changes();
        for change in changes {
            let context = change.session().map_or_else(|| context.clone(), |id| context.clone().session(id));
            match change.make(&transaction, locks, &context) {
                Ok(made) => outcomes.push(Ok(made)),
                Err(Halt::Refused(refused)) => outcomes.push(Err(refused)),
                Err(Halt::Failed(failed)) => return Err(failed),
            }
        }
        if flushes && self.unsynced && transaction.total_changes() == written_before {
            // A commit that changes nothing syncs nothing.
            counter::raise(&transaction, 1).map_err(failed)?;
        }
        let wrote = transaction.total_changes() != written_before;
        let mark = if always && wrote { Some(Mark::leave(&transaction).map_err(failed)?) } else { None };
        if let Err(e) = transaction.commit() {
            if mark.is_some_and(|mark| mark.is_left(&self.connection)) {
                log::warn!("{}: what was committed is there, and SQLite says: {e}", self.path.display());
                return Ok(self.settle_late(changes, outcomes, &context));
            }
            if waits {
                self.wal.suspect();
            }
            if !always {
                self.bury_failed_commit();
            }
            return Err(failed(e));
        }
        if wrote {
            self.unsynced = !waits;
            self.wal.tend(&self.connection, &self.patience);
        }
        Ok(outcomes.into_iter().map(|made| made.map(|made| made.committed())).collect())
    }

    /// Tells what came of changes that are there, whole, while it is not known whether they survive a loss of power: the
    /// journal is deleted, which commits them, and its folder could not be synced. Another commit syncs it too; where that
    /// fails as well, only a flush is told: an append that is told as failed has to have stored nothing.
    fn settle_late(
        &mut self,
        changes: &[Change<'_>],
        outcomes: Vec<Result<Made>>,
        context: &Context<'_>,
    ) -> Vec<Result<Done>> {
        let synced = counter::raise(&self.connection, 1);
        self.unsynced = synced.is_err();
        let told = |(change, made): (&Change<'_>, Result<Made>)| match (change, &synced) {
            (Change::Flush, Err(e)) => Err(context.io("syncing the folder of", std::io::Error::other(e.to_string()))),
            _ => made.map(Made::committed),
        };
        changes.iter().zip(outcomes).map(told).collect()
    }

    /// Does `work` that copies the WAL into the database, first in line, once a sync that failed is made good for; and
    /// takes it for one that failed if it does.
    pub(super) fn copy_wal<T>(
        &mut self,
        context: &Context<'_>,
        work: impl FnOnce(&Connection, &Patience) -> Result<T>,
    ) -> Result<T> {
        self.recover(context)?;
        self.patience.renew();
        let first = self.turnstile.pass(self.patience.left());
        let done = work(&self.connection, &self.patience);
        drop(first);
        // Somebody in the way is no failed sync.
        if done.as_ref().is_err_and(|e| e.kind() != ErrorKind::StoreBusy) {
            self.wal.suspect();
        }
        done
    }

    /// Makes good for a sync that failed, where one did.
    fn recover(&mut self, context: &Context<'_>) -> Result<()> {
        if !self.wal.is_suspect() {
            return Ok(());
        }
        let failed = |e| context.sqlite(e);
        self.patience.renew();
        let alone = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        self.wal.recover().map_err(|e| context.io("writing the WAL once more of", e))?;
        alone.commit().map_err(failed)
    }

    fn set_synchronous(&mut self, wanted: Synchronous) -> Result<(), rusqlite::Error> {
        if self.synchronous != wanted && self.synchronous != Synchronous::Always {
            let mode = if wanted == Synchronous::Full { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", mode)?;
            self.synchronous = wanted;
        }
        Ok(())
    }

    /// A commit that failed to reach the disk, or for which the index of the WAL had no room, may stand in the WAL all the
    /// same, whole: a process that dies now would leave it to be found, though its writer was told that it failed, and so
    /// would a loss of power. Another commit takes its place, durably where the disk lets it.
    fn bury_failed_commit(&mut self) {
        let buried = self.set_synchronous(Synchronous::Full).and_then(|()| counter::raise(&self.connection, 1));
        if let Err(e) = buried {
            log::warn!("a commit that failed could not be overwritten: {e}; the next one does");
        }
    }
}

/// Refuses a file that has another name: SQLite and the owners of sessions go by what lies beside the name that they know, so
/// that a writer by the other one is not seen, and what one of the two stores is lost.
fn refuse_second_name(path: &Path, context: &Context<'_>) -> Result<()> {
    let started = Instant::now();
    let mut tries = 0;
    loop {
        let found = fs::metadata(path).map_err(|e| context.io("looking at", e))?;
        let names = names_of(&found);
        if names <= 1 {
            return Ok(());
        }
        // Whoever just made it takes the name of the draft away.
        if started.elapsed() > NAMED {
            let reason = format!(
                "the file has {names} names (hard links), and two programs that write it by different names lose what \
                 they store; nothing was changed: remove the other names, or copy the store and write the copy"
            );
            return Err(context.unsupported(reason, None));
        }
        pause(tries);
        tries += 1;
    }
}

#[cfg(unix)]
fn names_of(file: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    file.nlink()
}

#[cfg(not(unix))]
fn names_of(_: &fs::Metadata) -> u64 {
    1
}

/// What a transaction leaves in the store by which it is known again, once it is committed.
struct Mark(i64);

impl Mark {
    /// The most that one transaction raises the counter by: it lasts for 2^32 of them. Random, so that two transactions hardly
    /// ever end at the same value.
    const MOST: u64 = 1 << 16;

    fn leave(transaction: &Connection) -> Result<Self, rusqlite::Error> {
        let random = RandomState::new().build_hasher().finish() % Self::MOST;
        counter::raise(transaction, 1 + random.cast_signed())?;
        counter::read(transaction).map(Self)
    }

    /// Whether nothing else was committed since.
    fn is_left(&self, connection: &Connection) -> bool {
        counter::read(connection).is_ok_and(|found| found == self.0)
    }
}

impl Drop for Writer {
    /// Closing copies the WAL into the database.
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.path);
        if let Err(e) = self.recover(&Context::store(&path)) {
            log::warn!("a sync failed and could not be made good for: {e}; the WAL stays beside the database");
            if let Err(e) = keep_wal(&self.connection) {
                log::warn!("the WAL is copied into the database all the same: {e}");
            }
        }
    }
}
