//! Connections: one way to set one up, and a pool of those that read.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;

use r2d2::{ManageConnection, Pool};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use scheduled_thread_pool::ScheduledThreadPool;

use super::super::runtime::Process;
use super::failure::Context;
use super::journal::Journal;
use super::look::{Look, keep_wal};
use super::patience;
use super::schema;
use crate::seam::Result;

/// More readers than this at once wait for each other.
const MAX_READERS: u32 = 8;

/// How long a read waits for its turn while all readers are in use. It is no matter of other programs, so that
/// `busy_timeout` has no say in it.
const TURN: Duration = Duration::from_secs(60);

/// The one thread in which the pools of all stores of the process work; each would start three of its own.
fn opening_thread() -> Arc<ScheduledThreadPool> {
    static THREAD: Mutex<Option<(Process, Arc<ScheduledThreadPool>)>> = Mutex::new(None);
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((process, thread)) = &*thread
        && process.is_current()
    {
        return thread.clone();
    }
    let started =
        Arc::new(ScheduledThreadPool::builder().num_threads(1).thread_name_pattern("sessions-readers").build());
    // A forked process has no such thread, only what is known of its parent's.
    std::mem::forget(thread.replace((Process::current(), started.clone())));
    started
}

/// How long a store that is dropped waits for its reading connections to close.
const CLOSING: Duration = Duration::from_secs(5);

/// The connections that read.
pub(super) struct Readers {
    pool: RwLock<Pool<Reading>>,
    reading: Reading,
    // Dropped behind the pool.
    _closing: Closing,
}

/// How many reading connections are open.
#[derive(Default)]
struct Open {
    count: Mutex<u64>,
    closed: Condvar,
}

impl Open {
    /// Waits until there is none, for so long at most; whether there is none.
    fn wait_for_none(&self, patience: Duration) -> bool {
        let open = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = self.closed.wait_timeout_while(open, patience, |open| *open > 0);
        !closed.is_ok_and(|(_, waited)| waited.timed_out())
    }
}

/// Waits, when it is dropped, until no reading connection is open. The pool works in a thread of its own too, and the last
/// thread to know the pool closes what it holds: without the wait the process may end before SQLite has put away the
/// files beside the database.
struct Closing(Arc<Open>);

impl Drop for Closing {
    fn drop(&mut self) {
        if !self.0.wait_for_none(CLOSING) {
            log::warn!("reading connections are still open after {CLOSING:?}");
        }
    }
}

/// A connection that reads.
pub(super) struct Reader {
    connection: Connection,
    is_overwritten: Arc<AtomicBool>,
    // Dropped behind the connection.
    _counted: Counted,
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.is_overwritten.load(Ordering::Acquire)
            && let Err(e) = keep_wal(&self.connection)
        {
            log::warn!("the WAL of a file that was written over may be copied into it: {e}");
        }
    }
}

struct Counted(Arc<Open>);

impl Counted {
    fn new(open: &Arc<Open>) -> Self {
        *open.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(open.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.closed.notify_all();
    }
}

impl Readers {
    /// Opens the first one, so that what is wrong with the database is told here and not at the first call. Once the file
    /// `is_overwritten`, none of them copies the WAL into it. Nothing where the database can only be read, whatever was said of
    /// it before.
    pub(super) fn open(
        look: Look,
        path: &Path,
        busy_timeout: Duration,
        is_overwritten: &Arc<AtomicBool>,
    ) -> Result<Option<Self>> {
        let context = Context::store(path);
        let is_overwritten = is_overwritten.clone();
        let reading = Reading { path: path.to_owned(), busy_timeout, open: Arc::default(), is_overwritten };
        let first = reading.open().map_err(|e| context.sqlite(e))?;
        // The last connection puts the files beside the database away, which the one that looked does not.
        drop(look);
        let connection = &first.connection;
        if connection.is_readonly(rusqlite::MAIN_DB).map_err(|e| context.sqlite(e))? {
            return Ok(None);
        }
        schema::check_connection(connection, &context)?;
        connection.query_row("SELECT store_id FROM store", [], |_| Ok(())).map_err(|e| context.sqlite(e))?;
        let pool = RwLock::new(reading.pool());
        Ok(Some(Self { pool, _closing: Closing(reading.open.clone()), reading }))
    }

    /// Runs `work` on a connection that no other thread uses meanwhile.
    pub(super) fn with<T>(&self, context: &Context<'_>, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let pool = self.pool.read().unwrap_or_else(PoisonError::into_inner);
        let mut place = pool.get().map_err(|timeout| crate::seam::Error::StoreBusy {
            session: None,
            store: self.reading.path.display().to_string(),
            holder: None,
            source: Some(timeout.into()),
        })?;
        let reader = match &mut *place {
            Some(reader) => reader,
            empty => empty.insert(self.reading.open().map_err(|e| context.sqlite(e))?),
        };
        work(&reader.connection)
    }

    /// Runs `work` while none of them is open.
    pub(super) fn closed_for<T>(&self, context: &Context<'_>, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut pool = self.pool.write().unwrap_or_else(PoisonError::into_inner);
        *pool = self.reading.pool();
        if self.reading.open.wait_for_none(self.reading.busy_timeout) { work() } else { Err(context.busy()) }
    }

    /// Closes those that a forked process has of its parent, unless that was using one of them; whether that could be done.
    pub(super) fn let_go(&self) -> bool {
        let (Ok(pool), Ok(open)) = (self.pool.try_read(), self.reading.open.count.try_lock().map(|open| *open)) else {
            return false;
        };
        let mut places: Vec<_> = std::iter::from_fn(|| pool.try_get()).take(MAX_READERS as usize).collect();
        let idle: Vec<_> = places.iter_mut().filter_map(|place| place.take()).collect();
        // Given back, the places would be found again.
        std::mem::forget(places);
        let is_all = idle.len() as u64 == open;
        let is_let_go = is_all && idle.iter().all(|reader| keep_wal(&reader.connection).is_ok());
        if !is_let_go {
            std::mem::forget(idle);
        }
        is_let_go
    }
}

/// Opens connections.
#[derive(Clone)]
pub(super) struct Reading {
    path: PathBuf,
    busy_timeout: Duration,
    open: Arc<Open>,
    is_overwritten: Arc<AtomicBool>,
}

impl Reading {
    fn pool(&self) -> Pool<Self> {
        Pool::builder()
            .max_size(MAX_READERS)
            .min_idle(Some(0))
            .test_on_check_out(false)
            .connection_timeout(TURN)
            .thread_pool(opening_thread())
            .build_unchecked(self.clone())
    }

    fn open(&self) -> Result<Reader, rusqlite::Error> {
        let counted = Counted::new(&self.open);
        let connection = open_reading(&self.path, self.busy_timeout)?;
        Ok(Reader { connection, is_overwritten: self.is_overwritten.clone(), _counted: counted })
    }
}

/// What the pool holds are places for connections, which are opened by who first needs them: a pool that cannot open one
/// tries again until the time for a turn is over, keeps the text of the failure only, and lets everybody wait.
impl ManageConnection for Reading {
    type Connection = Option<Reader>;
    type Error = std::convert::Infallible;

    fn connect(&self) -> Result<Option<Reader>, Self::Error> {
        Ok(None)
    }

    fn is_valid(&self, _: &mut Option<Reader>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn has_broken(&self, _: &mut Option<Reader>) -> bool {
        false
    }
}

/// Opens a connection that reads. Not as a read-only one: the last connection to close would then leave the files beside
/// the database behind.
pub(super) fn open_reading(path: &Path, busy_timeout: Duration) -> Result<Connection, rusqlite::Error> {
    let connection = open(path, busy_timeout)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Opens the one connection that writes, and switches the database to the mode that is wanted; which mode it is in.
pub(super) fn open_writer(
    path: &Path,
    journal: Option<Journal>,
    busy_timeout: Duration,
    context: &Context<'_>,
) -> Result<(Connection, Journal)> {
    let connection = open(path, busy_timeout).map_err(|e| context.sqlite(e))?;
    schema::check_connection(&connection, context)?;
    if let Some(journal) = journal {
        journal.set(&connection, busy_timeout, context)?;
    }
    let journal = Journal::of(&connection).map_err(|e| context.sqlite(e))?;
    set_up_writer(&connection).map_err(|e| context.sqlite(e))?;
    Ok((connection, journal))
}

/// What a writing connection needs beside what all have.
pub(super) fn set_up_writer(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "foreign_keys", true)?;
    // The triggers keep other programs off; this connection makes their checks once a batch.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.pragma_update(None, "synchronous", "NORMAL")
}

/// Opens a connection to an existing database.
pub(super) fn open(path: &Path, busy_timeout: Duration) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    patience::wait(&mut connection, busy_timeout)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}
