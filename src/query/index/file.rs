//! [`IndexFile`]: the file of an index, and when it is made anew.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{IndexError, IndexResult};
use crate::private;

/// `PRAGMA application_id` of an index, which stands at byte 68 of its file.
const APPLICATION_ID: u32 = 0x5365_4964;
/// `PRAGMA user_version` of the tables that this build reads and writes.
const VERSION: i64 = 1;
const SCHEMA: &str = include_str!("schema.sql");

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// What SQLite puts beside a database.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];
/// Files that were no index are set aside under so many names.
const ASIDE: u32 = 100;

/// The file of an index, open.
pub(super) struct IndexFile {
    pub(super) connection: Connection,
    path: PathBuf,
    /// The name that was given to the file when it was made.
    pub(super) name: String,
    /// Locked for sharing: nobody puts another file in the place of this one.
    _shared: File,
    identity: Option<(u64, u64)>,
}

/// What lies at a path.
enum Found {
    Usable(Connection),
    /// Nothing, or an index that cannot be used any more.
    Replaceable,
    /// No index and no database: somebody may miss it.
    Strange,
}

impl IndexFile {
    /// Opens the index at a path; makes it where there is none that can be used.
    pub(super) fn open(path: &Path, patience: Duration) -> IndexResult<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private::create_folder(folder).map_err(|e| failed(path, &e))?;
        }
        let lock = private::file().open(beside(path, "-lock")).map_err(|e| failed(path, &e))?;
        for _ in 0..2 {
            lock.lock_shared().map_err(|e| failed(path, &e))?;
            if let Found::Usable(connection) = look(path, patience)? {
                let name = connection.query_row("SELECT name FROM file", [], |row| row.get(0));
                let name = name.map_err(|e| sqlite(path, &e))?;
                return Ok(Self { connection, path: path.to_owned(), name, _shared: lock, identity: identity(path) });
            }
            lock.unlock().map_err(|e| failed(path, &e))?;
            Self::make(path, &lock, patience)?;
        }
        Err(IndexError::Busy { path: path.to_owned() })
    }

    /// Puts a new index in the place of what cannot be used, while nobody else uses it.
    fn make(path: &Path, lock: &File, patience: Duration) -> IndexResult<()> {
        lock_alone(path, lock, patience)?;
        // Another process may have made it meanwhile.
        let made = match look(path, patience)? {
            Found::Usable(_) => Ok(()),
            Found::Replaceable => remove(path).map_err(|e| failed(path, &e)).and_then(|()| create(path)),
            Found::Strange => set_aside(path).map_err(|e| failed(path, &e)).and_then(|()| create(path)),
        };
        lock.unlock().map_err(|e| failed(path, &e))?;
        made
    }

    /// Removes the file, which was found to be damaged, unless others use it.
    pub(super) fn discard(self, patience: Duration) -> IndexResult<()> {
        let Self { connection, path, _shared: lock, identity: opened, .. } = self;
        let kept = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        kept.map_err(|e| sqlite(&path, &e))?;
        drop(connection);
        lock.unlock().map_err(|e| failed(&path, &e))?;
        lock_alone(&path, &lock, patience)?;
        // Whoever was faster made a new one.
        if identity(&path) == opened {
            remove(&path).map_err(|e| failed(&path, &e))?;
        }
        lock.unlock().map_err(|e| failed(&path, &e))
    }

    /// Whether it is still the file that others find.
    pub(super) fn is_in_place(&self) -> bool {
        self.identity == identity(&self.path)
    }

    /// Closes a file that others do not find any more, without touching what lies beside the one that they do.
    pub(super) fn leave(self) -> IndexResult<()> {
        let kept = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        kept.map(drop).map_err(|e| sqlite(&self.path, &e))
    }
}

/// Tells what went wrong in SQLite.
pub(super) fn sqlite(path: &Path, error: &rusqlite::Error) -> IndexError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => IndexError::Busy { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            IndexError::Damaged { path, reason: error.to_string() }
        }
        // Tables that are not there, and values of another kind than this build stores.
        Some(ErrorCode::Unknown) => IndexError::Damaged { path, reason: error.to_string() },
        None => IndexError::Damaged { path, reason: error.to_string() },
        Some(_) => IndexError::Failed { path, reason: error.to_string() },
    }
}

fn failed(path: &Path, error: &io::Error) -> IndexError {
    IndexError::Failed { path: path.to_owned(), reason: error.to_string() }
}

/// Waits until nobody else uses the file.
fn lock_alone(path: &Path, lock: &File, patience: Duration) -> IndexResult<()> {
    let started = std::time::Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if started.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => return Err(IndexError::Busy { path: path.to_owned() }),
            Err(TryLockError::Error(e)) => return Err(failed(path, &e)),
        }
    }
}

fn look(path: &Path, patience: Duration) -> IndexResult<Found> {
    let mut start = Vec::new();
    match File::open(path).and_then(|file| file.take(100).read_to_end(&mut start)) {
        Ok(0) => return Ok(Found::Replaceable),
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Found::Replaceable),
        Err(e) => return Err(failed(path, &e)),
    }
    let Some(number) = start.get(68..72).filter(|_| start.starts_with(MAGIC)) else { return Ok(Found::Strange) };
    let is_ours = number == APPLICATION_ID.to_be_bytes();
    let connection = match open(path, patience) {
        Ok(opened) => opened,
        Err(error) if !is_ours => {
            return Err(IndexError::NotAnIndex { path: path.to_owned(), reason: error.to_string() });
        }
        Err(error) => return gone_or(sqlite(path, &error)),
    };
    match identify(&connection) {
        Ok((id, _, tables)) if id != i64::from(APPLICATION_ID) && !(id == 0 && tables == 0) => {
            let reason = "it is a SQLite database of another kind".to_owned();
            Err(IndexError::NotAnIndex { path: path.to_owned(), reason })
        }
        Ok((_, version, _)) if version > VERSION => {
            let reason = format!("it is one of version {version}, and this build knows version {VERSION}");
            Err(IndexError::NotAnIndex { path: path.to_owned(), reason })
        }
        Ok((_, VERSION, _)) => match connection.query_row("SELECT name FROM file", [], |_| Ok(())) {
            Ok(()) => Ok(Found::Usable(connection)),
            Err(error) => gone_or(sqlite(path, &error)),
        },
        Ok(_) => Ok(Found::Replaceable),
        Err(error) if !is_ours => Err(IndexError::NotAnIndex { path: path.to_owned(), reason: error.to_string() }),
        Err(error) => gone_or(sqlite(path, &error)),
    }
}

/// A damaged index is made anew.
fn gone_or(error: IndexError) -> IndexResult<Found> {
    match error {
        IndexError::Damaged { path, reason } => {
            log::warn!("{}: the search index is damaged and made anew: {reason}", path.display());
            Ok(Found::Replaceable)
        }
        other => Err(other),
    }
}

fn identify(connection: &Connection) -> Result<(i64, i64, i64), rusqlite::Error> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get(0));
    let tables = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok((pragma("application_id")?, pragma("user_version")?, tables))
}

fn open(path: &Path, patience: Duration) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(patience)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Makes an index where there is nothing. One that was not finished is an empty file or has no tables.
fn create(path: &Path) -> IndexResult<()> {
    // Closed before SQLite opens it: closing a descriptor drops the locks that SQLite holds on the same file.
    private::file().open(path).map(drop).map_err(|e| failed(path, &e))?;
    let create = || {
        let mut connection = open(path, Duration::ZERO)?;
        let transaction = connection.transaction()?;
        transaction.execute_batch(SCHEMA)?;
        transaction.execute("INSERT INTO file VALUES (1, lower(hex(randomblob(16))))", [])?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()?;
        // Now: what the file is stands in the file itself, and not only in what lies beside it.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.close().map_err(|(_, e)| e)
    };
    create().map_err(|e| sqlite(path, &e))
}

fn remove(path: &Path) -> io::Result<()> {
    for suffix in BESIDE.iter().chain(&[""]) {
        match fs::remove_file(beside(path, suffix)) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Gives a file another name that nothing has yet.
fn set_aside(path: &Path) -> io::Result<()> {
    for number in 1..=ASIDE {
        let aside = beside(path, &format!(".was-no-index-{number}"));
        if !aside.try_exists()? {
            log::warn!("{}: this is no search index, and is now {}", path.display(), aside.display());
            fs::rename(path, aside)?;
            return remove(path);
        }
    }
    Err(io::Error::new(ErrorKind::AlreadyExists, "too many files were set aside here; remove them"))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Elsewhere a file that is open cannot be removed.
#[cfg(not(unix))]
fn identity(_: &Path) -> Option<(u64, u64)> {
    None
}
