//! [`Look`]: what is found out about a database before anything in it or beside it changes.
//!
//! SQLite takes a WAL or a journal that lies beside a database for its own and copies what is in it into the database. So a
//! file that was put where another one was, with the WAL of that one still there, is told apart here.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use super::failure::Context;
use super::file_system;
use super::journal::Journal;
use super::patience::{self, pause};
use super::session_row::{SessionRow, session_query};
use super::side_files::SideFiles;
use super::uri::{Mode, open_read_only};
use super::{counter, schema};
use crate::seam::{Error, Result};

/// How often a database is looked at that is malformed or does not fit to what lies beside it: others may be changing both.
const TRIES: usize = 3;

/// How long to wait in between.
const PAUSE: Duration = Duration::from_millis(20);

/// What is found out about a database.
pub(super) struct Look {
    /// The version of its schema, which may be an earlier one.
    pub(super) version: i64,
    pub(super) journal: Journal,
    pub(super) is_writable: bool,
    /// Whether it is in a place where it cannot be used in WAL mode, and is to leave that.
    pub(super) must_leave_wal: bool,
    /// Held so that SQLite need not read a large WAL a second time.
    _view: Option<Connection>,
}

/// A store as a connection sees it.
struct View {
    application: i64,
    version: i64,
    page_size: u64,
    pages: u64,
    /// Nothing where it is no store that is known.
    store: Option<Store>,
}

/// What of a store never goes back.
struct Store {
    id: String,
    counter: i64,
    /// The last activity that it knows of, of a session that is there or was.
    activity: u64,
    /// That of the session that was written last, and how often that was written, where its row is whole.
    newest: Option<(u64, u64)>,
}

/// Why a database is refused.
enum Refusal {
    /// What lies beside it does not fit to it.
    Misfit(String),
    /// It was found as it may be for a moment while others change it.
    Passing(Error),
    Other(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl Look {
    /// Looks at the file at an absolute path without links, which must be a store that this build can use, in a place where
    /// it can be used in the mode that is wanted, or in its own.
    pub(super) fn at(path: &Path, wanted: Option<Journal>, busy_timeout: Duration) -> Result<Self> {
        let context = Context::store(path);
        check_file(path)?;
        let mut tries = 0;
        loop {
            tries += 1;
            match look(path, wanted, busy_timeout, &context) {
                Ok(look) => return Ok(look),
                Err(Refusal::Other(error)) => return Err(error),
                Err(Refusal::Misfit(_) | Refusal::Passing(_)) if tries < TRIES => std::thread::sleep(PAUSE),
                Err(Refusal::Passing(error)) => return Err(error),
                Err(Refusal::Misfit(reason)) => {
                    return Err(context.unsupported(
                        format!(
                            "{reason}; nothing was changed. Was the file replaced or restored while that still lay there? \
                             Then move the -wal or -journal away; else bring the file back that it belongs to"
                        ),
                        None,
                    ));
                }
            }
        }
    }

    /// Refuses a store of an earlier version that cannot be read as it is, where it cannot be brought to this one.
    pub(super) fn check_version(&self, context: &Context<'_>) -> Result<()> {
        if schema::is_readable(self.version) {
            return Ok(());
        }
        let (found, known) = (self.version, schema::VERSION);
        let reason = format!(
            "it is a store of version {found}, which is brought to version {known} by opening it once where it can be written"
        );
        Err(context.read_only(reason))
    }
}

/// A store whose newest state cannot be read because SQLite would have to write for it.
pub(super) fn unrecovered(suffix: &str, context: &Context<'_>) -> Error {
    let holds = match suffix {
        "-wal" => "the newest writes stand in its -wal, which can be read only",
        _ => "a change that was not finished stands in its -journal, which can be taken back only",
    };
    context.read_only(format!(
        "{holds} where the store can be written; open it there once, or copy the file and its {suffix} into a folder that \
         can be written"
    ))
}

/// Refuses a path where no file is, or an empty one.
pub(super) fn check_file(path: &Path) -> Result<()> {
    let context = Context::store(path);
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(context.unsupported("there is no such file; check the path", None));
        }
        Err(e) => return Err(context.io("looking at", e)),
    };
    if found.is_dir() {
        return Err(context.unsupported("it is a folder, and a SQLite store is a file", None));
    }
    if found.len() == 0 {
        return Err(context.unsupported(
            "the file is empty; if its store is lost restore a backup, if a new one is wanted remove the empty file",
            None,
        ));
    }
    Ok(())
}

fn look(path: &Path, wanted: Option<Journal>, busy_timeout: Duration, context: &Context<'_>) -> Result<Look, Refusal> {
    let beside = SideFiles::of(path).map_err(|e| context.io("looking beside", e))?;
    // Seen as it lies there a database may look malformed while its newest pages are still in the WAL: then a connection
    // that knows the WAL decides. A foreign database is told by the first and never touched by the second.
    let alone = || open_read_only(path, Mode::Immutable).and_then(|connection| View::of(&connection));
    let mut found = alone();
    if let Ok(alone) = &found {
        schema::check((alone.application, alone.version), context)?;
    }
    let is_writable = is_writable(path);
    if has_unfinished(&beside, found.as_ref().ok(), context)? {
        // What was written of it so far is taken back, or finished by whoever is at it.
        found = match journal(path, is_writable, busy_timeout, context)? {
            Journal::Rollback => shared(path, busy_timeout).and_then(|connection| View::of(&connection)),
            Journal::Wal => alone(),
        };
    }
    let mut view = None;
    let mut must_leave_wal = false;
    let journal = if beside.has_wal() {
        must_leave_wal = file_system::remote_wal(path, wanted, context)?;
        let read = beside.wal().map_err(|e| context.io("reading the -wal of", e))?;
        if let Some(wal) = read.map_err(misfit)? {
            if found.as_ref().is_ok_and(|found| !wal.has_pages_of(found.page_size)) {
                return Err(misfit("the pages in its -wal have another size"));
            }
            let shares = beside.has_shm && !must_leave_wal;
            if !shares && !is_writable {
                // A writer that leaves removes the files that it shared one after another.
                return Err(Refusal::Passing(unrecovered("-wal", context)));
            }
            let (seen, connection) = through_wal(path, &beside, shares, busy_timeout, context)?;
            compare(found.as_ref().ok(), &seen, context)?;
            found = seen.map(|(seen, _)| seen);
            view = connection;
        }
        Journal::Wal
    } else {
        let journal = journal(path, is_writable, busy_timeout, context)?;
        if journal == Journal::Wal || wanted == Some(Journal::Wal) {
            must_leave_wal = file_system::remote_wal(path, wanted, context)?;
        }
        if journal == Journal::Rollback && found.is_err() {
            // Nobody writes it while it is looked at under its locks.
            found = shared(path, busy_timeout).and_then(|connection| View::of(&connection));
        }
        journal
    };
    let found = found.map_err(|e| failed(e, context))?;
    let version = schema::check((found.application, found.version), context)?;
    Ok(Look { version, journal, is_writable, must_leave_wal, _view: view })
}

fn failed(error: rusqlite::Error, context: &Context<'_>) -> Refusal {
    let is_passing = is_one_of(&error, &[ErrorCode::DatabaseCorrupt]);
    let error = context.sqlite(error);
    if is_passing { Refusal::Passing(error) } else { Refusal::Other(error) }
}

fn misfit(reason: impl Into<String>) -> Refusal {
    Refusal::Misfit(reason.into())
}

/// Whether a change that was not finished, or is being made, stands in a journal beside a database.
fn has_unfinished(beside: &SideFiles, alone: Option<&View>, context: &Context<'_>) -> Result<bool, Refusal> {
    if !beside.has_journal() {
        return Ok(false);
    }
    let read = beside.unfinished().map_err(|e| context.io("reading the -journal of", e))?;
    let Some(unfinished) = read.map_err(misfit)? else { return Ok(false) };
    if beside.has_wal() {
        return Err(misfit("a -wal and a -journal lie beside it, and no database has both"));
    }
    match alone.and_then(|alone| unfinished.misfit(alone.page_size, schema::APPLICATION_ID)) {
        Some(reason) => Err(misfit(reason)),
        None => Ok(true),
    }
}

/// A view through a WAL, and a page that is missing in it.
type Seen = Result<(View, Option<u64>), rusqlite::Error>;

/// Looks at a database with its WAL, which stays as it is; gives the connection where it can be held.
fn through_wal(
    path: &Path,
    beside: &SideFiles,
    mut shares: bool,
    busy_timeout: Duration,
    context: &Context<'_>,
) -> Result<(Seen, Option<Connection>), Refusal> {
    let started = Instant::now();
    let mut tries = 0;
    loop {
        let connection = if shares { shared(path, busy_timeout) } else { alone(path) };
        let seen = connection.and_then(|connection| {
            // While the view is open nobody can start the WAL from its beginning, or cut the file.
            let view = connection.unchecked_transaction()?;
            let seen = View::of(&view)?;
            let missing = missing_page(path, beside, seen.pages);
            view.finish()?;
            Ok((connection, seen, missing))
        });
        match seen {
            Ok((connection, seen, missing)) => {
                let missing = missing.map_err(|e| context.io("reading the -wal of", e))?;
                return Ok((Ok((seen, missing)), shares.then_some(connection)));
            }
            Err(e) if is_one_of(&e, &[ErrorCode::DatabaseBusy]) && !shares && started.elapsed() < busy_timeout => {
                // Somebody has it open, who makes the memory to share.
                pause(tries);
                shares = SideFiles::of(path).map_err(|e| context.io("looking beside", e))?.has_shm;
            }
            Err(e) if is_one_of(&e, &[ErrorCode::DatabaseCorrupt, ErrorCode::NotADatabase]) => {
                return Ok((Err(e), None));
            }
            // Its last writer may just have put it away.
            Err(e) if is_one_of(&e, &[ErrorCode::ReadOnly, ErrorCode::CannotOpen]) => {
                return Err(match context.out_of_files() {
                    Some(failure) => Refusal::Other(failure),
                    None => Refusal::Passing(unrecovered("-wal", context)),
                });
            }
            Err(e) => return Err(context.sqlite(e).into()),
        }
        tries += 1;
    }
}

/// A page that a database has with its WAL, and that is in neither.
fn missing_page(path: &Path, beside: &SideFiles, pages: u64) -> std::io::Result<Option<u64>> {
    match beside.wal()? {
        Ok(Some(wal)) => beside.missing_page(&wal, fs::metadata(path)?.len(), pages),
        _ => Ok(None),
    }
}

/// A connection that shares the index of the WAL with others; a read-only one leaves the WAL as it is.
fn shared(path: &Path, busy_timeout: Duration) -> Result<Connection, rusqlite::Error> {
    let mut connection = open_read_only(path, Mode::WithWal)?;
    patience::wait(&mut connection, busy_timeout)?;
    keep_wal(&connection)?;
    Ok(connection)
}

/// A connection that keeps the index of the WAL to itself, and so makes no file for it. Nobody else may have it open.
fn alone(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    keep_wal(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "locking_mode", "exclusive")?;
    Ok(connection)
}

/// Has a connection leave the WAL as it is when it is closed.
pub(super) fn keep_wal(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}

/// Checks that a database as it lies there and with its WAL are of one store.
fn compare(alone: Option<&View>, seen: &Seen, context: &Context<'_>) -> Result<(), Refusal> {
    let (seen, missing) = match seen {
        Ok(seen) => seen,
        Err(_) if alone.is_some() => return Err(misfit("with its -wal it is malformed, and without it is not")),
        Err(_) => return Ok(()),
    };
    if let Some(page) = missing {
        return Err(misfit(format!("its -wal continues a longer file: page {page} is in neither")));
    }
    if alone.is_some() && seen.application != schema::APPLICATION_ID {
        return Err(misfit("its -wal is of another program's database"));
    }
    schema::check((seen.application, seen.version), context)?;
    let (Some(alone), Some(seen)) = (alone.and_then(|alone| alone.store.as_ref()), &seen.store) else { return Ok(()) };
    if alone.id != seen.id {
        return Err(misfit("its -wal is of another store"));
    }
    // A loss of power may have left pages of the file half written that the WAL has whole.
    let is_later = alone.counter > seen.counter && counter::is_whole(alone.counter);
    let is_written_later = alone.newest.is_some_and(|(activity, revision)| {
        let is_same = |(seen, _): &(u64, u64)| *seen == activity;
        activity > seen.activity || seen.newest.filter(is_same).is_some_and(|(_, seen)| revision > seen)
    });
    if is_later || is_written_later {
        return Err(misfit("its -wal is older than the file"));
    }
    Ok(())
}

/// The mode of a database that has no WAL beside it, which no pragma tells without opening one.
fn journal(path: &Path, is_writable: bool, busy_timeout: Duration, context: &Context<'_>) -> Result<Journal, Refusal> {
    let ask = || {
        let connection = open_read_only(path, Mode::WithoutLocks)?;
        connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
    };
    match ask() {
        Ok(_) => Ok(Journal::Rollback),
        Err(e) if is_one_of(&e, &[ErrorCode::CannotOpen]) => Ok(Journal::Wal),
        // A change was not finished, and is taken back by whoever opens it to write.
        Err(e) if is_one_of(&e, &[ErrorCode::ReadOnly]) && is_writable => {
            let connection = super::connection::open(path, busy_timeout).map_err(|e| context.sqlite(e))?;
            Journal::of(&connection).map_err(|e| failed(e, context))
        }
        Err(e) if is_one_of(&e, &[ErrorCode::ReadOnly]) => Err(Refusal::Passing(unrecovered("-journal", context))),
        Err(e) => Err(failed(e, context)),
    }
}

impl View {
    fn of(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (application, version) = schema::identity(connection)?;
        let store = if schema::is_store(application, version) { Some(Store::of(connection, version)?) } else { None };
        let (page_size, pages) = (pragma("page_size")?, pragma("page_count")?);
        Ok(Self { application, version, page_size: page_size.cast_unsigned(), pages: pages.cast_unsigned(), store })
    }
}

impl Store {
    fn of(connection: &Connection, version: i64) -> Result<Self, rusqlite::Error> {
        // The rows of earlier versions have fewer columns.
        let newest = || {
            connection.query_row(session_query!("ORDER BY activity DESC LIMIT 1"), [], |row| {
                Ok(SessionRow::read(row).ok().map(|newest| (newest.activity(), newest.revision)))
            })
        };
        let newest = if schema::is_readable(version) { newest().optional() } else { Ok(None) };
        let newest = match newest {
            Ok(newest) => newest.flatten(),
            // A row that cannot be read proves nothing, and keeps nobody from the others.
            Err(e) if is_one_of(&e, &[ErrorCode::DatabaseCorrupt]) => None,
            Err(e) => return Err(e),
        };
        let query = "SELECT store_id, flushes, max(removed_activity, ifnull((SELECT max(activity) FROM sessions), 0)) \
             FROM store";
        connection.query_row(query, [], |row| {
            Ok(Self { id: row.get(0)?, counter: row.get(1)?, activity: row.get(2)?, newest })
        })
    }
}

fn is_one_of(error: &rusqlite::Error, codes: &[ErrorCode]) -> bool {
    error.sqlite_error_code().is_some_and(|code| codes.contains(&code))
}

/// Whether this process may write the file and make others beside it.
#[cfg(unix)]
fn is_writable(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let may_write = |path: &Path, how| accessat(CWD, path, how, AtFlags::EACCESS).is_ok();
    may_write(path, Access::WRITE_OK)
        && folder.is_none_or(|folder| may_write(folder, Access::WRITE_OK | Access::EXEC_OK))
}

#[cfg(not(unix))]
fn is_writable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.permissions().readonly())
}
