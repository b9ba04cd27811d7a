//! The SQLite backend: queryable storage in one file.

mod connection;
mod failure;
mod lease;
mod reader;
mod row;
mod schema;
#[cfg(feature = "cli")]
pub(crate) mod sql;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use self::connection::Readers;
use self::failure::Context;
use self::lease::{Lease, Locks};
use self::row::SessionKey;
use self::writer::Writer;
use super::runtime::{Listed, Runtime, Slice, Storage, Stored, store_over_runtime};
use crate::log::{SessionEvent, SessionHeader, SessionId, Vocabulary};
use crate::seam::{ListOrder, Position, Result, SeqRange, Snapshot};

/// A store in one SQLite file, which `sqlite3` and any other program can read while it is in use.
///
/// The file is in WAL mode: `-wal` and `-shm` stand beside it while it is open, and a folder `-locks` while sessions are
/// being written. New files have mode 0600, new folders
/// 0700. [`Snapshot::size_bytes`] is the size of the exported text. An event may take up to
/// [`SqliteOptions::max_event_bytes`]; a session holds at most 2^32 events.
///
/// The views of the schema (`session_events`, `session_turns`, `session_tool_calls`, `session_messages`,
/// `session_overview`) are the public SQL surface. No other program can change what is stored: triggers refuse it, and
/// what is changed behind SQLite's back is found by the checksum of its row when it is read.
pub struct SqliteStore {
    runtime: Runtime<Database>,
}

/// How to open a [`SqliteStore`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// What the host can interpret. Default: [`Vocabulary::v3`].
    pub vocabulary: Vocabulary,
    /// How long to wait for another program before `StoreBusy`. Default: 5 seconds.
    pub busy_timeout: Duration,
    /// The most bytes that the text of one event may have. Default and maximum: 999,999,000, just below what SQLite
    /// takes in a row.
    pub max_event_bytes: usize,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            vocabulary: Vocabulary::default(),
            busy_timeout: Duration::from_secs(5),
            max_event_bytes: Self::MAX_EVENT_BYTES,
        }
    }
}

impl SqliteOptions {
    /// SQLite's limit of 1,000,000,000 bytes a row, less room for the numbers of the row.
    const MAX_EVENT_BYTES: usize = 999_999_000;
}

impl SqliteStore {
    /// Opens the store in the file at `path`, and makes a new one where there is no file.
    ///
    /// # Errors
    ///
    /// `UnsupportedStore` for a file that is anything else than a store of this or an older version, an empty file
    /// included; nothing in it is changed. `StorageReadOnly`, `StorageFull`, `StoreBusy`, `Io`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, SqliteOptions::default())
    }

    /// [`SqliteStore::open`] with options.
    ///
    /// # Errors
    ///
    /// As for [`SqliteStore::open`].
    pub fn open_with(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self> {
        let path = path.as_ref();
        if !path.try_exists().map_err(|e| Context::store(path).io("looking for the store", e))? {
            schema::create_file(path)?;
        }
        Self::open_existing_with(path, options)
    }

    /// Opens the store in the file at `path`, which must exist.
    ///
    /// # Errors
    ///
    /// As for [`SqliteStore::open`]; `UnsupportedStore` where there is no file.
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_existing_with(path, SqliteOptions::default())
    }

    /// [`SqliteStore::open_existing`] with options.
    ///
    /// # Errors
    ///
    /// As for [`SqliteStore::open_existing`].
    pub fn open_existing_with(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self> {
        let path = path.as_ref();
        schema::check_file(path)?;
        let readers = Readers::open(path, options.busy_timeout)?;
        let database = Database {
            path: path.to_owned(),
            locks: Locks::beside(path),
            readers: Some(readers),
            writer: Mutex::new(None),
            busy_timeout: options.busy_timeout,
            max_event_bytes: options.max_event_bytes.min(SqliteOptions::MAX_EVENT_BYTES),
        };
        Ok(Self { runtime: Runtime::new(database, options.vocabulary) })
    }

    /// A store in memory, gone with its value, with everything else as in a file.
    ///
    /// # Errors
    ///
    /// `Io` when SQLite cannot start.
    pub fn in_memory() -> Result<Self> {
        Self::in_memory_with(SqliteOptions::default())
    }

    /// [`SqliteStore::in_memory`] with options.
    ///
    /// # Errors
    ///
    /// As for [`SqliteStore::in_memory`].
    pub fn in_memory_with(options: SqliteOptions) -> Result<Self> {
        let path = PathBuf::from(":memory:");
        let writer = Writer::in_memory(&Context::store(&path))?;
        let database = Database {
            path,
            locks: Locks::none(),
            readers: None,
            writer: Mutex::new(Some(writer)),
            busy_timeout: options.busy_timeout,
            max_event_bytes: options.max_event_bytes.min(SqliteOptions::MAX_EVENT_BYTES),
        };
        Ok(Self { runtime: Runtime::new(database, options.vocabulary) })
    }
}

store_over_runtime!(SqliteStore);

/// One database: many readers, one writer.
struct Database {
    path: PathBuf,
    locks: Locks,
    /// None for a database in memory, which belongs to its one connection.
    readers: Option<Readers>,
    /// Opened by the first write: a visit that only reads needs no lock for writing.
    writer: Mutex<Option<Writer>>,
    busy_timeout: Duration,
    max_event_bytes: usize,
}

impl Database {
    fn context(&self) -> Context<'_> {
        Context::store(&self.path)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` in one view of the database.
    fn read<T>(&self, context: &Context<'_>, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let in_view = |connection: &Connection| {
            let view = connection.unchecked_transaction().map_err(|e| context.sqlite(e))?;
            work(&view)
        };
        match &self.readers {
            Some(readers) => in_view(&readers.get(context)?.connection),
            None => self.write(context, |writer| in_view(writer.connection())),
        }
    }

    /// Runs `work` on the one writer.
    fn write<T>(&self, context: &Context<'_>, work: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        let mut writer = self.lock();
        match &mut *writer {
            Some(writer) => work(writer),
            none => work(none.insert(Writer::open(&self.path, self.busy_timeout, context)?)),
        }
    }
}

impl Storage for Database {
    type Key = SessionKey;
    type Lease = Lease;

    fn find(&self, id: &SessionId) -> Result<Option<Stored<SessionKey>>> {
        let context = self.context().session(id);
        self.read(&context, |view| reader::find(view, id, &context))
    }

    fn lease(&self, id: &SessionId, key: &SessionKey) -> Result<Lease> {
        self.locks.take(key.number, id, &self.context().session(id))
    }

    fn materialize(
        &self,
        header: &SessionHeader,
        inherited: u64,
        events: &[SessionEvent],
    ) -> Result<(SessionKey, Lease)> {
        let context = self.context().session(header.id());
        row::check_sizes(events, self.max_event_bytes, header.id())?;
        self.write(&context, |writer| writer.materialize(header, inherited, events, &self.locks, &context))
    }

    fn append(&self, id: &SessionId, key: &SessionKey, _: &mut Lease, events: &[SessionEvent]) -> Result<()> {
        let context = self.context().session(id);
        row::check_sizes(events, self.max_event_bytes, id)?;
        self.write(&context, |writer| writer.append(id, key, events, &context))
    }

    fn check_interpretable(&self, id: &SessionId, key: &SessionKey, vocabulary: &Vocabulary) -> Result<()> {
        let context = self.context().session(id);
        self.read(&context, |view| {
            let log = reader::log(view, id, key, &context)?;
            reader::check_interpretable(view, id, key, &log, vocabulary, &context)
        })
    }

    fn read(
        &self,
        id: &SessionId,
        key: &SessionKey,
        range: SeqRange,
        vocabulary: Option<&Vocabulary>,
    ) -> Result<Slice> {
        let context = self.context().session(id);
        self.read(&context, |view| reader::read(view, id, key, range, vocabulary, &context))
    }

    fn stat(&self, id: &SessionId, vocabulary: &Vocabulary) -> Result<Option<Snapshot>> {
        let context = self.context().session(id);
        self.read(&context, |view| reader::stat(view, id, vocabulary, &context))
    }

    fn list(
        &self,
        order: ListOrder,
        after: Option<&Position>,
        limit: Option<usize>,
        vocabulary: &Vocabulary,
    ) -> Result<Vec<Listed>> {
        let context = self.context();
        self.read(&context, |view| reader::list(view, order, after, limit, vocabulary, &context))
    }

    fn remove(&self, id: &SessionId) -> Result<bool> {
        let context = self.context().session(id);
        self.write(&context, |writer| writer.remove(id, &self.locks, &context))
    }

    fn sync(&self) -> Result<()> {
        let context = self.context();
        self.write(&context, |writer| writer.sync(&context))
    }
}
