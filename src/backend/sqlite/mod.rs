//! The SQLite backend: queryable storage in one file.

mod backup;
mod batch;
mod change;
mod commits;
mod compaction;
mod connection;
mod connections;
mod counter;
mod creation;
mod database;
mod draft;
mod events;
mod failure;
mod file_system;
mod in_place;
mod inspection;
mod journal;
mod lease;
mod listing;
mod look;
mod migration;
mod options;
mod patience;
mod reader;
mod readers;
mod row;
mod schema;
mod session_row;
mod side_files;
#[cfg(feature = "cli")]
pub(crate) mod sql;
mod turnstile;
mod uri;
mod view;
mod visit;
mod wal;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use self::commits::Commits;
use self::connections::{Connections, Reading};
use self::database::Database;
use self::failure::Context;
use self::in_place::{InPlace, Stamp};
pub use self::journal::Journal;
use self::lease::Locks;
use self::look::Look;
pub use self::options::SqliteOptions;
use self::readers::Readers;
pub(crate) use self::schema::APPLICATION_ID as SQLITE_APPLICATION_ID;
pub(crate) use self::schema::DSH_APPLICATION_ID;
pub(crate) use self::side_files::beside;
pub(crate) use self::uri::{Mode, open_read_only};
use self::visit::Visit;
use self::writer::Writer;
use super::runtime::{Runtime, store_over_runtime};
use crate::seam::Result;

/// A store in one SQLite file, which `sqlite3` and any other program can read while it is in use.
///
/// The file is in WAL mode: `-wal` and `-shm` stand beside it while it is open. [`SqliteOptions::journal`] chooses rollback
/// mode, in which `-journal` stands there while a commit is written. A folder `-locks` is there while the store is open for
/// writing, with a file for each session that is being written, and `queue`, which processes that commit line up at. New
/// files have mode 0600, new folders 0700.
///
/// [`Snapshot::size_bytes`](crate::Snapshot::size_bytes) is the size of the exported text. An event may take up to
/// [`SqliteOptions::max_event_bytes`]; a session holds at most 2^32 events.
///
/// A page of a list costs as much in a large store as in a small one: of all sessions, and of those of some working
/// directories, in either order; by creation also of those with some parents, origins or versions. By activity up to 500
/// sessions that such a part lets through, or that were created in a range, are sorted; where it lets more through the list
/// is gone through until the page is full. That is how every other part is found too: who asks for damaged sessions or for
/// times of activity may have the whole list gone through.
///
/// The views of the schema (`session_events`, `session_turns`, `session_tool_calls`, `session_messages`,
/// `session_overview`) are the public SQL surface. No other program can change what is stored: triggers refuse it, and
/// what is changed behind SQLite's back is found by the checksum of its row when it is read. Such a row is damage wherever it
/// stands, and never a torn tail: a commit of SQLite is there whole or not at all, so that it was acknowledged once.
///
/// # Where it can be
///
/// In WAL mode SQLite needs memory that all who use the file share. On NFS, SMB, 9p, FUSE and other file systems whose files
/// may come from another machine it is refused: `UnsupportedStore` names the file system. The ways out are a local disk, or
/// rollback mode where one machine alone uses the store. Only Linux and Android tell the file system; elsewhere keep the
/// store on a local disk.
///
/// # Where it cannot be written
///
/// A store whose file or folder this process cannot write is opened for reading, and leaves nothing behind there: what
/// would write is `StorageReadOnly`. What somebody else writes meanwhile is seen from the next read on. `StorageReadOnly` is
/// also what opening gives, or a read, where the newest state cannot be had without writing: the `-wal` of a process that was
/// killed holds writes that the file does not have, a `-journal` a change that was not finished, or the store is of
/// version 1. It says what to do; an older state is never given instead.
///
/// # Files that belong together
///
/// SQLite takes whatever `-wal` or `-journal` lies beside a file for that file's own, and copies it in. So to move, copy or
/// restore a store by hand, close all who use it and take the three as one, or use [`SqliteStore::backup`]. What does not
/// belong together is refused, with nothing changed: a WAL of another store or database, one that goes on from a longer file
/// or is older than the file, a journal of another kind of database. A file that is replaced or removed while it is open is
/// noticed at the next call; one that is cut or written over too, in WAL mode, and nothing is copied into it then. In
/// rollback mode what stands there now is what is read. What cannot be told apart:
///
/// - an older state of the same store, as long as the newer one, put under the newer one's `-wal`;
/// - the `-wal` of another store that holds no page with its identity, has the same pages and no more than the file;
/// - the hot `-journal` of another store.
///
/// What does not fit together then is damage that the checksums of rows find, and
/// [`upkeep::verify`](crate::upkeep::verify()).
///
/// # Processes that fork
///
/// A forked process has no part in what its parent opened: calls are `InvalidArgument`, and to drop it changes nothing of the
/// parent's. It may open the store again, unless another thread of the parent was using the store during the fork. Opening
/// is then refused or, rarely, blocks forever on a lock that thread held. Fork before there are threads, or start a program
/// instead.
pub struct SqliteStore {
    runtime: Runtime<Database>,
}

impl SqliteStore {
    /// Opens the store in the file at `path`, and makes a new one where there is no file.
    ///
    /// # Errors
    ///
    /// `UnsupportedStore` for a file that is anything else than a store of this version or an earlier one, an empty file
    /// included; for files beside it that belong to another database; for a file system where its mode loses data.
    /// Nothing is changed then. Later calls give it too, once the file was replaced, removed or written over under the open
    /// store. `StoreBusy` when another program locks it for longer than [`SqliteOptions::busy_timeout`]: the same call can
    /// be made again. `StorageReadOnly`, `StorageFull`, `Io`; `InvalidArgument` in a forked process whose parent was using
    /// the store at that moment.
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
            creation::create_file(path, options.journal.unwrap_or(Journal::Wal))?;
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
        look::check_file(path)?;
        // SQLite puts its files beside the one that a link leads to, and locks that stood elsewhere would lock nobody out.
        let path = &path.canonicalize().map_err(|e| Context::store(path).io("finding", e))?;
        let database = Database {
            locks: Locks::beside(path),
            connections: connect(path, &options)?,
            path: path.to_owned(),
            commits: Commits::default(),
            journal: options.journal,
            durability: options.durability,
            busy_timeout: options.busy_timeout,
            max_event_bytes: options.max_event_bytes.min(SqliteOptions::MAX_EVENT_BYTES),
            store_id: OnceLock::new(),
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
            connections: Connections::in_memory(writer),
            commits: Commits::default(),
            journal: None,
            durability: options.durability,
            busy_timeout: options.busy_timeout,
            max_event_bytes: options.max_event_bytes.min(SqliteOptions::MAX_EVENT_BYTES),
            store_id: OnceLock::new(),
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

/// Opens what reads the database in an existing file, once that is known to be a store.
fn connect(path: &Path, options: &SqliteOptions) -> Result<Arc<Connections>> {
    let context = Context::store(path);
    let looking = |e| context.io("looking at", e);
    let file = Stamp::of(path).map_err(looking)?;
    Connections::let_inherited_go(file.and_then(|file| file.identity), &context)?;
    let look = Look::at(path, options.journal, options.busy_timeout)?;
    let in_place = InPlace::of(path).map_err(looking)?;
    if !look.is_writable {
        look.check_version(&context)?;
        return Ok(Connections::of(in_place, Reading::Visit(Visit::open(path, options.busy_timeout)?)));
    }
    if look.must_leave_wal {
        journal::leave_wal_alone(path, options.busy_timeout, &context)?;
    }
    if look.version != schema::VERSION {
        migration::migrate(path, options.busy_timeout)?;
    }
    in_place.watch(look.journal);
    let reading = match Readers::open(look, path, options.busy_timeout, in_place.is_overwritten())? {
        Some(readers) => Reading::Pool(readers),
        None => Reading::Visit(Visit::open(path, options.busy_timeout)?),
    };
    Ok(Connections::of(in_place, reading))
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
