//! [`IndexFile`]: the file of an index, and when it is made anew.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::claim::Claim;
use super::{IndexError, IndexResult};
use crate::private;

/// `PRAGMA application_id` of an index.
const APPLICATION_ID: u32 = 0x5365_4964;
/// `PRAGMA user_version` of the tables that this build reads and writes.
const VERSION: i64 = 1;
const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
const SCHEMA: &str = include_str!("schema.sql");

/// So often a file is looked at and made before it is given up.
const ATTEMPTS: u32 = 8;
/// What SQLite puts beside a database.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// The file of an index, open.
pub(super) struct IndexFile {
    pub(super) connection: Connection,
    path: PathBuf,
    /// The name that was given to the file when it was made.
    pub(super) name: String,
    /// Locked for sharing: nobody puts another file in the place of this one. None where none was ever made.
    shared: Option<File>,
    /// Given up when the connection is closed.
    claim: Claim,
}

/// Why what lies at a path cannot be used, and may be put another file in the place of.
pub(super) enum Unusable {
    /// There is nothing, or an index of an older build.
    Outdated,
    /// It is an index, and damaged.
    Damaged(String),
}

/// An index, and its name.
type Opened = (Connection, String, Claim);

impl IndexFile {
    /// Opens the index at a path; makes it where there is none that can be used.
    pub(super) fn open(path: &Path, patience: Duration) -> IndexResult<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private::create_folder(folder).map_err(|e| failed(path, &e))?;
        }
        let path = &resolved(path)?;
        let mut told = Ok(());
        for _ in 0..ATTEMPTS {
            match Self::find(path, patience, Some(lock_file(path)?)) {
                Ok(Ok(file)) => return Ok(file),
                Ok(Err(_)) => told = Self::make(path, patience),
                Err(error) => told = Err(error),
            }
            // Whoever removes the lock too has two processes make the file at the same time.
            match told {
                Ok(()) => {}
                Err(IndexError::Failed { .. }) => std::thread::sleep(Duration::from_millis(5)),
                Err(error) => return Err(error),
            }
        }
        told.and(Err(IndexError::Busy { path: path.to_owned() }))
    }

    /// Opens the index at a path without making anything, or tells why it cannot be used. Closing it leaves all as it was.
    pub(super) fn look_at(path: &Path, patience: Duration) -> IndexResult<Result<Self, Unusable>> {
        let path = &resolved(path)?;
        let lock = match File::open(beside(path, "-lock")) {
            Ok(lock) => Some(lock),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(failed(path, &e)),
        };
        // What another process left there when it was killed would be brought into the file, and an empty one be left behind.
        let has_log = fs::metadata(beside(path, "-wal")).is_ok_and(|found| found.len() > 0);
        let found = Self::find(path, patience, lock)?;
        if let (Ok(file), true) = (&found, has_log) {
            file.leave_as_is()?;
        }
        Ok(found)
    }

    fn find(path: &Path, patience: Duration, lock: Option<File>) -> IndexResult<Result<Self, Unusable>> {
        if let Some(lock) = &lock {
            take(path, patience, || lock.try_lock_shared())?;
        }
        let opened = |(connection, name, claim)| Self { connection, path: path.to_owned(), name, shared: lock, claim };
        Ok(look(path, patience)?.map(opened))
    }

    /// Puts a new index in the place of what cannot be used, while nobody else uses it.
    fn make(path: &Path, patience: Duration) -> IndexResult<()> {
        let lock = lock_file(path)?;
        take(path, patience, || lock.try_lock())?;
        // Another process may have made it meanwhile.
        let Err(unusable) = look(path, patience)? else { return Ok(()) };
        if let Unusable::Damaged(reason) = unusable {
            log::warn!("{}: the search index is damaged and made anew: {reason}", path.display());
        }
        // Made under another name: at the path there is never half an index, which looks like a file of somebody.
        let new = beside(path, "-new");
        remove(&new).map_err(|e| failed(path, &e))?;
        create(&new)?;
        remove(path).and_then(|()| fs::rename(&new, path)).map_err(|e| failed(path, &e))
    }

    /// Removes the file, which was found to be damaged, unless others use it.
    pub(super) fn discard(self, patience: Duration) -> IndexResult<()> {
        self.leave_as_is()?;
        let Self { connection, path, shared, claim, .. } = self;
        drop(connection);
        drop(shared);
        let lock = lock_file(&path)?;
        take(&path, patience, || lock.try_lock())?;
        // Whoever was faster made a new one.
        if claim.is_at(&path) {
            remove(&path).map_err(|e| failed(&path, &e))?;
        }
        Ok(())
    }

    /// Has what lies beside the file stay when it is closed.
    pub(super) fn leave_as_is(&self) -> IndexResult<()> {
        let kept = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        kept.map(drop).map_err(|e| sqlite(&self.path, &e))
    }

    /// Takes the index for a store, unless it is that of another one.
    pub(super) fn belong_to(&mut self, store: Option<&str>) -> IndexResult<()> {
        let Some(store) = store else { return Ok(()) };
        let found = |connection: &Connection| {
            connection.query_row("SELECT store FROM file", [], |row| row.get::<_, Option<String>>(0))
        };
        let mut known = found(&self.connection).map_err(|e| self.failure(&e))?;
        if known.is_none() {
            let sql = "UPDATE file SET store = ? WHERE store IS NULL";
            let claimed = self.connection.execute(sql, [store]).and_then(|_| found(&self.connection));
            known = claimed.map_err(|e| self.failure(&e))?;
        }
        match known.as_deref() == Some(store) {
            true => Ok(()),
            false => Err(IndexError::OtherStore { path: self.path.clone() }),
        }
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
        if !is_doubtful(error) {
            return sqlite(&self.path, error);
        }
        match faults(&self.connection) {
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
        self.claim.is_at(&self.path)
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

/// The file that a path leads to. What is no file, and what belongs to a database, is no place for an index.
fn resolved(path: &Path) -> IndexResult<PathBuf> {
    let refused = |reason: &str| Err(IndexError::NotAnIndex { path: path.to_owned(), reason: reason.to_owned() });
    let is_link = match fs::symlink_metadata(path) {
        Ok(found) => found.is_symlink(),
        Err(e) if e.kind() == ErrorKind::NotFound => false,
        Err(e) => return Err(failed(path, &e)),
    };
    let place = match fs::canonicalize(path) {
        Ok(place) => place,
        Err(e) if e.kind() == ErrorKind::NotFound && is_link => return refused("it is a link that leads nowhere"),
        Err(e) if e.kind() == ErrorKind::NotFound => path.to_owned(),
        Err(e) => return Err(failed(path, &e)),
    };
    if fs::metadata(&place).is_ok_and(|found| !found.is_file()) {
        return refused("it is no file that holds something");
    }
    if BESIDE.iter().any(|suffix| place.as_os_str().as_encoded_bytes().ends_with(suffix.as_bytes())) {
        return refused("a name with this end is that of what lies beside a database");
    }
    Ok(place)
}

/// Opens what lies at a path, or tells why it cannot be used.
fn look(path: &Path, patience: Duration) -> IndexResult<Result<Opened, Unusable>> {
    match fs::metadata(path) {
        Ok(file) if file.len() == 0 => return Ok(Err(Unusable::Outdated)),
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Err(Unusable::Outdated)),
        Err(e) => return Err(failed(path, &e)),
    }
    // What may be somebody's is neither changed nor put another file in the place of.
    let refused = |reason| Err(IndexError::NotAnIndex { path: path.to_owned(), reason });
    let damaged = |reason: &str| Ok(Err(Unusable::Damaged(reason.to_owned())));
    let Some(claim) = Claim::of(path, APPLICATION_ID).map_err(|e| failed(path, &e))? else {
        return refused("it is of another kind".to_owned());
    };
    let looked = open(path, patience).and_then(|connection| Ok((Labels::of(&connection)?, connection)));
    let (Labels { version, page, name }, connection) = match looked {
        Ok(found) => found,
        Err(error) => {
            return match sqlite(path, &error) {
                IndexError::Damaged { reason, .. } => damaged(&reason),
                other => Err(other),
            };
        }
    };
    match version {
        // What SQLite reads behind the end of a file that was cut inside a page is zeros.
        VERSION if !is_whole(path, page).map_err(|e| failed(path, &e))? => damaged("it ends inside a page"),
        VERSION => match name {
            Some(name) => Ok(Ok((connection, name, claim))),
            None => damaged("it does not say which file it is"),
        },
        newer if newer > VERSION => {
            refused(format!("it is one of version {newer}, and this build knows version {VERSION}"))
        }
        _ => Ok(Err(Unusable::Outdated)),
    }
}

fn is_whole(path: &Path, page: u64) -> io::Result<bool> {
    Ok(fs::metadata(path)?.len().is_multiple_of(page.max(1)))
}

/// What a database says that it is.
struct Labels {
    version: i64,
    /// The size of its pages, in bytes.
    page: u64,
    name: Option<String>,
}

impl Labels {
    fn of(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let name = match connection.query_row("SELECT name FROM file", [], |row| row.get(0)) {
            Err(error) if !is_doubtful(&error) => return Err(error),
            named => named.ok(),
        };
        Ok(Self { version: pragma("user_version")?, page: pragma("page_size")?.cast_unsigned(), name })
    }
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

/// Makes an index where there is nothing.
fn create(path: &Path) -> IndexResult<()> {
    // Closed before SQLite opens it: closing a descriptor drops the locks that SQLite holds on the same file.
    private::file().open(path).map(drop).map_err(|e| failed(path, &e))?;
    let made = || {
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
    made().map_err(|e| sqlite(path, &e))
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

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
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

    #[cfg(target_os = "linux")]
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
        assert!(before > 0);
    }

    #[cfg(target_os = "linux")]
    /// How many locks of the system this process holds on a file.
    fn held(all: &str, path: &Path) -> usize {
        use std::os::unix::fs::MetadataExt as _;
        let (process, inode) = (std::process::id().to_string(), fs::metadata(path).unwrap().ino());
        let is_ours = |line: &&str| line.contains("POSIX") && line.split_whitespace().any(|word| word == process);
        all.lines().filter(is_ours).filter(|line| line.contains(&format!(":{inode} "))).count()
    }
}
