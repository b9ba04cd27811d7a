//! The SQLite backend: queryable storage in one file.

mod backup;
mod batch;
mod change;
mod commits;
mod compaction;
mod connection;
mod failure;
mod inspection;
mod lease;
mod migration;
mod patience;
mod reader;
mod row;
mod schema;
mod session_row;
#[cfg(feature = "cli")]
pub(crate) mod sql;
mod turnstile;
mod uri;
mod wal;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use self::change::{Change, Done};
use self::commits::Commits;
use self::connection::Readers;
use self::failure::Context;
use self::lease::{Lease, Locks};
use self::reader::Numbered;
use self::row::SessionKey;
pub(crate) use self::schema::APPLICATION_ID as SQLITE_APPLICATION_ID;
pub(crate) use self::schema::DSH_APPLICATION_ID;
pub(crate) use self::uri::{Mode, open_read_only};
use self::writer::Writer;
use super::runtime::{Listed, Runtime, Slice, Storage, Stored, store_over_runtime};
use crate::log::{SessionEvent, SessionHeader, SessionId, Vocabulary};
use crate::seam::{Durability, Fault, ListOrder, Position, Result, SeqRange, Snapshot};

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
    /// What an acknowledged append survives. Default: [`Durability::OnFlush`].
    pub durability: Durability,
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
            durability: Durability::default(),
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

    /// The same options with another durability.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
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
            commits: Commits::default(),
            writer: Mutex::new(None),
            durability: options.durability,
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
            commits: Commits::default(),
            writer: Mutex::new(Some(writer)),
            durability: options.durability,
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
    /// Who waits for the writer.
    commits: Commits,
    /// Opened by the first write: a visit that only reads needs no lock for writing.
    writer: Mutex<Option<Writer>>,
    durability: Durability,
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
            Some(readers) => readers.with(context, in_view),
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

    /// A snapshot with who writes its session, in whatever process.
    fn with_owner(&self, told: Numbered, context: &Context<'_>) -> Result<Snapshot> {
        let owner = self.locks.owner(told.number).map_err(|e| context.io("looking at a lock of", e))?;
        Ok(Snapshot { owner, ..told.snapshot })
    }

    /// Has a change made, together with those that others want at the same time.
    fn change(&self, change: Change<'_>) -> Result<Done> {
        self.commits.make(change, &|changes| self.commit(changes))
    }

    fn commit(&self, changes: &[Change<'_>]) -> Vec<Result<Done>> {
        let context = self.context();
        // Where there is no writer yet and none can be had, each is told why.
        let alone = |change: &Change<'_>| {
            let context = change.session().map_or_else(|| context.clone(), |id| context.clone().session(id));
            self.write(&context, |writer| writer.commit(std::slice::from_ref(change), &self.locks, &context).remove(0))
        };
        let together = self.write(&context, |writer| Ok(writer.commit(changes, &self.locks, &context)));
        together.unwrap_or_else(|_| changes.iter().map(alone).collect())
    }

    /// Runs `work` on the one writer.
    fn write<T>(&self, context: &Context<'_>, work: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        self.check_in_place()?;
        let mut writer = self.lock();
        match &mut *writer {
            Some(writer) => work(writer),
            none => {
                let opened = Writer::open(&self.path, &self.locks, self.durability, self.busy_timeout, context)?;
                work(none.insert(opened))
            }
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
        let lease = self.locks.take(key.number, id, &self.context().session(id))?;
        match self.change(Change::Own { id: id.clone(), key: key.clone() })? {
            Done::Owned(fence) => Ok(lease.with_fence(fence)),
            _ => unreachable!("{UNASKED}"),
        }
    }

    fn materialize(
        &self,
        header: &SessionHeader,
        inherited: u64,
        events: &[SessionEvent],
    ) -> Result<(SessionKey, Lease)> {
        row::check_sizes(events, self.max_event_bytes, header.id())?;
        match self.change(Change::Materialize { header: header.clone(), inherited, events: events.into() })? {
            Done::Stored(key, lease) => Ok((key, lease)),
            _ => unreachable!("{UNASKED}"),
        }
    }

    fn append(&self, id: &SessionId, key: &SessionKey, lease: &mut Lease, events: &[SessionEvent]) -> Result<()> {
        row::check_sizes(events, self.max_event_bytes, id)?;
        let fence = lease.fence;
        self.change(Change::Append { id: id.clone(), key: key.clone(), fence, events: events.into() }).map(drop)
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
        let told = self.read(&context, |view| reader::stat(view, id, vocabulary, &context))?;
        told.map(|told| self.with_owner(told, &context)).transpose()
    }

    fn list(
        &self,
        order: ListOrder,
        after: Option<&Position>,
        limit: Option<usize>,
        vocabulary: &Vocabulary,
    ) -> Result<Vec<Listed>> {
        let context = self.context();
        let listed = self.read(&context, |view| reader::list(view, order, after, limit, vocabulary, &context))?;
        let locked = self.locks.numbers().map_err(|e| context.io("looking at the locks of", e))?;
        let with_owner = |(key, told): (u64, Numbered)| {
            let is_locked = locked.contains(&told.number);
            let snapshot = if is_locked { self.with_owner(told, &context)? } else { told.snapshot };
            Ok(Listed { key, snapshot })
        };
        listed.into_iter().map(with_owner).collect()
    }

    fn remove(&self, id: &SessionId) -> Result<bool> {
        Ok(matches!(self.change(Change::Remove { id: id.clone() })?, Done::Removed(true)))
    }

    fn sync(&self) -> Result<()> {
        self.change(Change::Flush).map(drop)
    }

    fn inspect(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        self.inspect_all(found)
    }
}

/// Each change has an outcome of its own kind.
const UNASKED: &str = "an outcome of another change";
