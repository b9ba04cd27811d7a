//! The SQLite backend: queryable storage in one file.

mod connection;
mod failure;
mod lease;
mod migration;
mod reader;
mod row;
mod schema;
mod session_row;
#[cfg(feature = "cli")]
pub(crate) mod sql;
mod uri;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use self::connection::Readers;
use self::failure::Context;
use self::lease::{Lease, Locks};
use self::row::SessionKey;
pub(crate) use self::schema::APPLICATION_ID as SQLITE_APPLICATION_ID;
pub(crate) use self::schema::DSH_APPLICATION_ID;
pub(crate) use self::uri::{Mode, open_read_only};
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
/// what is changed behind SQLite's back is found by the checksum of its row when it is read. Such a row is damage wherever it
/// stands, and never a torn tail: a commit of SQLite is there whole or not at all, so that it was acknowledged once.
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
    /// The same options with another vocabulary.
    #[must_use]
    pub fn with_vocabulary(mut self, vocabulary: Vocabulary) -> Self {
        self.vocabulary = vocabulary;
        self
    }

    /// The same options with another wait for other programs.
    #[must_use]
    pub fn with_busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout;
        self
    }

    /// The same options with a lower limit for the text of one event, in bytes.
    #[must_use]
    pub fn with_max_event_bytes(mut self, max_event_bytes: usize) -> Self {
        self.max_event_bytes = max_event_bytes;
        self
    }

    /// SQLite's limit of 1,000,000,000 bytes a row, less room for the numbers of the row.
    const MAX_EVENT_BYTES: usize = 999_999_000;
}

impl SqliteStore {
    /// Opens the store in the file at `path`, and makes a new one where there is no file.
    ///
    /// # Errors
    ///
    /// `UnsupportedStore` for a file that is anything else than a store of this version, an empty file included; nothing in
    /// it is changed. Later calls give it too, once the file was replaced or removed under the open store. `StorageReadOnly`, `StorageFull`, `StoreBusy`, `Io`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, SqliteOptions::default())
    }

    /// [`SqliteStore::open`] with options.
    ///
    /// # Errors
    ///
    /// As for [`SqliteStore::open`].
    pub fn open_with(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self> {
        let path = &absolute(path.as_ref())?;
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
        // A connection that is opened later must find the same file, whatever the working folder is by then.
        let path = &absolute(path.as_ref())?;
        if schema::check_file(path)? != schema::VERSION {
            migration::migrate(path, options.busy_timeout)?;
        }
        // SQLite puts its files beside the one that a link leads to, and locks that stood elsewhere would lock nobody out.
        let path = &path.canonicalize().map_err(|e| Context::store(path).io("finding", e))?;
        let identity = Identity::of(path).map_err(|e| Context::store(path).io("looking at", e))?;
        let readers = Readers::open(path, options.busy_timeout)?;
        let database = Database {
            path: path.to_owned(),
            identity,
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
            identity: None,
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

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.runtime.storage().path).finish_non_exhaustive()
    }
}

/// The absolute form of a path, and no name that SQLite would take for something else than a file.
fn absolute(path: &Path) -> Result<PathBuf> {
    let context = Context::store(path);
    let name = path.as_os_str().as_encoded_bytes();
    if name.is_empty() {
        return Err(context.unsupported("the path is empty; name a file", None));
    }
    if name == b":memory:" {
        return Err(context.unsupported("a store in memory is made with SqliteStore::in_memory; name a file", None));
    }
    if name.starts_with(b"file:") {
        return Err(context.unsupported("it is a URI; give the path alone", None));
    }
    std::path::absolute(path).map_err(|e| context.io("finding", e))
}

/// Which file a path names.
#[derive(PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> std::io::Result<Option<Self>> {
        use std::os::unix::fs::MetadataExt;
        match std::fs::metadata(path) {
            Ok(found) => Ok(Some(Self { device: found.dev(), inode: found.ino() })),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Elsewhere a file that is open can be neither replaced nor removed.
    #[cfg(not(unix))]
    fn of(_: &Path) -> std::io::Result<Option<Self>> {
        Ok(None)
    }
}

/// One database: many readers, one writer.
struct Database {
    path: PathBuf,
    /// Which file it was when it was opened.
    identity: Option<Identity>,
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
        self.check_in_place()?;
        match &self.readers {
            Some(readers) => in_view(&readers.get(context)?.connection),
            None => self.write(context, |writer| in_view(writer.connection())),
        }
    }

    /// What is acknowledged must be found under the path: connections that are open still see a file that was replaced or
    /// removed, and those that are opened later do not.
    fn check_in_place(&self) -> Result<()> {
        if self.identity.is_none() {
            return Ok(());
        }
        if self.identity == Identity::of(&self.path).map_err(|e| self.context().io("looking at", e))? {
            return Ok(());
        }
        Err(self
            .context()
            .unsupported("the file was replaced or removed while it was open; open the store again", None))
    }

    /// Runs `work` on the one writer.
    fn write<T>(&self, context: &Context<'_>, work: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        self.check_in_place()?;
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

    fn contains(&self, id: &SessionId) -> Result<bool> {
        let context = self.context().session(id);
        self.read(&context, |view| reader::contains(view, id).map_err(|e| context.sqlite(e)))
    }

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
            let row = reader::session(view, id, key, &context)?;
            reader::check_interpretable(view, id, key, &row, vocabulary, &context)
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
