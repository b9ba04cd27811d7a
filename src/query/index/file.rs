//! [`IndexFile`]: the file of an index, and when it is made anew.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{IndexError, IndexResult};
use crate::private;

/// `PRAGMA application_id` of an index.
const APPLICATION_ID: u32 = 0x5365_4964;
/// `PRAGMA user_version` of the tables that this build reads and writes.
const VERSION: i64 = 1;
const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
const SCHEMA: &str = include_str!("schema.sql");

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
pub(super) enum Found {
    /// An index, and its name.
    Usable(Connection, String),
    /// Nothing, or an index of an older build.
    Replaceable,
    /// An index that cannot be used any more.
    Damaged(String),
    /// No index and no database: somebody may miss it.
    Strange,
}

impl IndexFile {
    /// Opens the index at a path; makes it where there is none that can be used.
    pub(super) fn open(path: &Path, patience: Duration) -> IndexResult<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private::create_folder(folder).map_err(|e| failed(path, &e))?;
        }
        for _ in 0..2 {
            match Self::find(path, patience)? {
                Ok(file) => return Ok(file),
                Err(_) => Self::make(path, patience)?,
            }
        }
        Err(IndexError::Busy { path: path.to_owned() })
    }

    /// Opens the index at a path, or tells what lies there instead.
    pub(super) fn find(path: &Path, patience: Duration) -> IndexResult<Result<Self, Found>> {
        let lock = lock_file(path)?;
        take(path, patience, || lock.try_lock_shared())?;
        Ok(match look(path, patience)? {
            Found::Usable(connection, name) => {
                Ok(Self { connection, path: path.to_owned(), name, _shared: lock, identity: identity(path) })
            }
            other => Err(other),
        })
    }

    /// Puts a new index in the place of what cannot be used, while nobody else uses it.
    fn make(path: &Path, patience: Duration) -> IndexResult<()> {
        let lock = lock_file(path)?;
        take(path, patience, || lock.try_lock())?;
        // Another process may have made it meanwhile.
        match look(path, patience)? {
            Found::Usable(..) => Ok(()),
            Found::Replaceable => remove(path).map_err(|e| failed(path, &e)).and_then(|()| create(path)),
            Found::Damaged(reason) => {
                log::warn!("{}: the search index is damaged and made anew: {reason}", path.display());
                remove(path).map_err(|e| failed(path, &e)).and_then(|()| create(path))
            }
            Found::Strange => set_aside(path).map_err(|e| failed(path, &e)).and_then(|()| create(path)),
        }
    }

    /// Removes the file, which was found to be damaged, unless others use it.
    pub(super) fn discard(self, patience: Duration) -> IndexResult<()> {
        let Self { connection, path, _shared: lock, identity: opened, .. } = self;
        let kept = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        kept.map_err(|e| sqlite(&path, &e))?;
        drop(connection);
        lock.unlock().map_err(|e| failed(&path, &e))?;
        take(&path, patience, || lock.try_lock())?;
        // Whoever was faster made a new one.
        if identity(&path) == opened {
            remove(&path).map_err(|e| failed(&path, &e))?;
        }
        lock.unlock().map_err(|e| failed(&path, &e))
    }

    /// Refuses a file that was never brought up to a store: nothing is found in it, whatever the store holds.
    pub(super) fn filled(&self) -> IndexResult<()> {
        let filled = self.connection.query_row("SELECT is_filled FROM file", [], |row| row.get(0));
        match filled.map_err(|e| self.failure(&e))? {
            true => Ok(()),
            false => Err(IndexError::NotFilled { path: self.path.clone() }),
        }
    }

    /// Tells what went wrong in SQLite.
    pub(super) fn failure(&self, error: &rusqlite::Error) -> IndexError {
        match faults(&self.connection) {
            _ if !is_doubtful(error) => sqlite(&self.path, error),
            Ok(faults) if faults.is_empty() => sqlite(&self.path, error),
            Ok(_) => self.damaged(error.to_string()),
            Err(error) => sqlite(&self.path, &error),
        }
    }

    pub(super) fn damaged(&self, reason: String) -> IndexError {
        IndexError::Damaged { path: self.path.clone(), reason }
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
fn sqlite(path: &Path, error: &rusqlite::Error) -> IndexError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => IndexError::Busy { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            IndexError::Damaged { path, reason: error.to_string() }
        }
        _ => IndexError::Failed { path, reason: error.to_string() },
    }
}

/// Tables that are not there, or values of another kind than this build stores: damage, or a mistake of ours.
fn is_doubtful(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), None | Some(ErrorCode::Unknown))
}

/// What is wrong with the tables and pages of an index, as far as the file alone tells.
pub(super) fn faults(connection: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    let expected = Connection::open_in_memory()?;
    expected.execute_batch(SCHEMA)?;
    if tables(connection)? != tables(&expected)? {
        return Ok(vec!["its tables are not those of this build".to_owned()]);
    }
    let mut statement = connection.prepare("PRAGMA integrity_check(20)")?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(if lines == ["ok"] { Vec::new() } else { lines })
}

fn tables(connection: &Connection) -> Result<Vec<(String, Option<String>)>, rusqlite::Error> {
    let mut statement = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn lock_file(path: &Path) -> IndexResult<File> {
    private::file().open(beside(path, "-lock")).map_err(|e| failed(path, &e))
}

fn failed(path: &Path, error: &io::Error) -> IndexError {
    IndexError::Failed { path: path.to_owned(), reason: error.to_string() }
}

/// Waits until nobody has the lock in a way that keeps this one out.
fn take(path: &Path, patience: Duration, mut lock: impl FnMut() -> Result<(), TryLockError>) -> IndexResult<()> {
    let started = std::time::Instant::now();
    loop {
        match lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if started.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => return Err(IndexError::Busy { path: path.to_owned() }),
            Err(TryLockError::Error(e)) => return Err(failed(path, &e)),
        }
    }
}

/// Only SQLite reads the file: a descriptor of ours would drop, when it is closed, the locks that this process holds on it.
fn look(path: &Path, patience: Duration) -> IndexResult<Found> {
    match fs::metadata(path) {
        Ok(file) if file.len() == 0 => return Ok(Found::Replaceable),
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Found::Replaceable),
        Err(e) => return Err(failed(path, &e)),
    }
    let refused = |reason| Err(IndexError::NotAnIndex { path: path.to_owned(), reason });
    let looked = open(path, patience).and_then(|connection| Ok((identify(&connection)?, connection)));
    let (Identity { id, version, tables, page, name }, connection) = match looked {
        Ok(found) => found,
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => return Ok(Found::Strange),
        Err(error) => {
            return match sqlite(path, &error) {
                IndexError::Damaged { reason, .. } if is_ours(path, patience) => Ok(Found::Damaged(reason)),
                IndexError::Damaged { reason, .. } => refused(reason),
                other => Err(other),
            };
        }
    };
    match (id, version) {
        (0, _) if tables == 0 => Ok(Found::Replaceable),
        (id, _) if id != i64::from(APPLICATION_ID) => refused("it is a SQLite database of another kind".to_owned()),
        // What SQLite reads behind the end of a file that was cut inside a page is zeros.
        (_, VERSION) if !is_whole(path, page).map_err(|e| failed(path, &e))? => {
            Ok(Found::Damaged("it ends inside a page".to_owned()))
        }
        (_, VERSION) => Ok(match name {
            Some(name) => Found::Usable(connection, name),
            None => Found::Damaged("it does not say which file it is".to_owned()),
        }),
        (_, version) if version > VERSION => {
            refused(format!("it is one of version {version}, and this build knows version {VERSION}"))
        }
        _ => Ok(Found::Replaceable),
    }
}

/// Whether the start of a damaged database says that it is an index.
fn is_ours(path: &Path, patience: Duration) -> bool {
    let id = || {
        // One that may only read would leave its side files behind.
        let connection = Connection::open_with_flags(path, FLAGS)?;
        connection.busy_timeout(patience)?;
        // A file that was cut short is not read otherwise.
        connection.pragma_update(None, "writable_schema", true)?;
        connection.pragma_query_value(None, "application_id", |row| row.get::<_, i64>(0))
    };
    id().is_ok_and(|id| id == i64::from(APPLICATION_ID))
}

fn is_whole(path: &Path, page: u64) -> io::Result<bool> {
    Ok(fs::metadata(path)?.len().is_multiple_of(page.max(1)))
}

/// What a database says that it is.
struct Identity {
    id: i64,
    version: i64,
    tables: u64,
    /// The size of its pages, in bytes.
    page: u64,
    name: Option<String>,
}

fn identify(connection: &Connection) -> Result<Identity, rusqlite::Error> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get(0));
    let name = match connection.query_row("SELECT name FROM file", [], |row| row.get(0)) {
        Err(error) if !is_doubtful(&error) => return Err(error),
        named => named.ok(),
    };
    Ok(Identity {
        id: pragma("application_id")?,
        version: pragma("user_version")?,
        tables: connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?,
        page: pragma("page_size")?.cast_unsigned(),
        name,
    })
}

fn open(path: &Path, patience: Duration) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_with_flags(path, FLAGS)?;
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
        transaction.execute("INSERT INTO file (one, name) VALUES (1, lower(hex(randomblob(16))))", [])?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_that_fails_in_a_sound_file_is_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.index");
        let file = IndexFile::open(&path, Duration::ZERO).unwrap();
        let failing = |file: &IndexFile| file.failure(&file.connection.prepare("SELECT a FROM document").unwrap_err());
        assert!(matches!(failing(&file), IndexError::Failed { .. }));
        let wrong = file.connection.query_row("SELECT name FROM file", [], |row| row.get::<_, i64>(0)).unwrap_err();
        assert!(matches!(file.failure(&wrong), IndexError::Failed { .. }));
        file.connection.execute_batch("DROP TABLE count").unwrap();
        assert!(matches!(failing(&file), IndexError::Damaged { .. }));
    }

    #[test]
    fn looking_at_a_file_drops_no_lock_of_another_who_has_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.index");
        let file = IndexFile::open(&path, Duration::ZERO).unwrap();
        let locks = || std::fs::read_to_string("/proc/locks").map_or(0, |all| held(&all, &path));
        file.filled().unwrap_err();
        let before = locks();
        let again = IndexFile::open(&path, Duration::ZERO).unwrap();
        drop(again);
        assert_eq!(locks(), before);
        if cfg!(target_os = "linux") {
            assert!(before > 0);
        }
    }

    /// How many locks of the system this process holds on a file.
    fn held(all: &str, path: &Path) -> usize {
        let (process, inode) = (std::process::id().to_string(), identity(path).unwrap().1.to_string());
        let is_ours = |line: &&str| line.contains("POSIX") && line.split_whitespace().any(|word| word == process);
        all.lines().filter(is_ours).filter(|line| line.contains(&format!(":{inode} "))).count()
    }
}
