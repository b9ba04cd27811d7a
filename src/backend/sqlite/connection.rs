//! Connections: one way to set one up, and a pool of those that read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use r2d2::{ManageConnection, Pool};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use scheduled_thread_pool::ScheduledThreadPool;

use super::failure::Context;
use super::schema;
use crate::seam::Result;

/// More readers than this at once wait for each other.
const MAX_READERS: u32 = 8;

/// How long a read waits for its turn while all readers are in use. It is no matter of other programs, so that
/// `busy_timeout` has no say in it.
const TURN: Duration = Duration::from_secs(60);

/// The one thread in which the pools of all stores of the process work; each would start three of its own.
fn opening_thread() -> Arc<ScheduledThreadPool> {
    static THREAD: LazyLock<Arc<ScheduledThreadPool>> = LazyLock::new(|| {
        Arc::new(ScheduledThreadPool::builder().num_threads(1).thread_name_pattern("sessions-readers").build())
    });
    THREAD.clone()
}

/// How long a store that is dropped waits for its reading connections to close.
const CLOSING: Duration = Duration::from_secs(5);

/// The connections that read.
pub(super) struct Readers {
    pool: Pool<Reading>,
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

/// Waits, when it is dropped, until no reading connection is open. The pool works in a thread of its own too, and the last
/// thread to know the pool closes what it holds: without the wait the process may end before SQLite has put away the
/// files beside the database.
struct Closing(Arc<Open>);

impl Drop for Closing {
    fn drop(&mut self) {
        let open = self.0.count.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = self.0.closed.wait_timeout_while(open, CLOSING, |open| *open > 0);
        if closed.is_ok_and(|(_, waited)| waited.timed_out()) {
            log::warn!("reading connections are still open after {CLOSING:?}");
        }
    }
}

/// A connection that reads.
pub(super) struct Reader {
    pub(super) connection: Connection,
    // Dropped behind the connection.
    _counted: Counted,
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
    /// Opens the first one, so that what is wrong with the database is told here and not at the first call.
    pub(super) fn open(path: &Path, busy_timeout: Duration) -> Result<Self> {
        let reading = Reading { path: path.to_owned(), busy_timeout, open: Arc::default() };
        let first = reading.open().map_err(|e| Context::store(path).sqlite(e))?;
        schema::check_connection(&first.connection, &Context::store(path))?;
        first
            .connection
            .query_row("SELECT store_id FROM store", [], |_| Ok(()))
            .map_err(|e| Context::store(path).sqlite(e))?;
        let pool = Pool::builder()
            .max_size(MAX_READERS)
            .min_idle(Some(0))
            .test_on_check_out(false)
            .connection_timeout(TURN)
            .thread_pool(opening_thread())
            .build_unchecked(reading.clone());
        Ok(Self { pool, _closing: Closing(reading.open.clone()), reading })
    }

    /// Runs `work` on a connection that no other thread uses meanwhile.
    pub(super) fn with<T>(&self, context: &Context<'_>, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let mut place = self.pool.get().map_err(|timeout| crate::seam::Error::StoreBusy {
            session: None,
            store: self.reading.path.display().to_string(),
            source: Some(timeout.into()),
        })?;
        let reader = match &mut *place {
            Some(reader) => reader,
            empty => empty.insert(self.reading.open().map_err(|e| context.sqlite(e))?),
        };
        work(&reader.connection)
    }
}

/// Opens connections.
#[derive(Clone)]
pub(super) struct Reading {
    path: PathBuf,
    busy_timeout: Duration,
    open: Arc<Open>,
}

impl Reading {
    fn open(&self) -> Result<Reader, rusqlite::Error> {
        let counted = Counted::new(&self.open);
        Ok(Reader { connection: open_reading(&self.path, self.busy_timeout)?, _counted: counted })
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

/// Opens the one connection that writes.
pub(super) fn open_writer(path: &Path, busy_timeout: Duration, context: &Context<'_>) -> Result<Connection> {
    let connection = open(path, busy_timeout).map_err(|e| context.sqlite(e))?;
    schema::check_connection(&connection, context)?;
    set_wal(&connection, context)?;
    set_up_writer(&connection).map_err(|e| context.sqlite(e))?;
    Ok(connection)
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
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(busy_timeout)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Switches a database to WAL mode and reads the mode back: SQLite answers a refusal with the mode that it keeps.
pub(super) fn set_wal(connection: &Connection, context: &Context<'_>) -> Result<()> {
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
        .map_err(|e| context.sqlite(e))?;
    if mode != "wal" {
        return Err(context.unsupported(
            format!("the file system does not take WAL mode, SQLite keeps {mode:?}; move the store to a local disk"),
            None,
        ));
    }
    Ok(())
}
