//! The schema: making a new database, and telling a store of ours from anything else before a byte of it changes.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::failure::Context;
use super::migration::is_known;
use super::uri::{Mode, open_read_only};
use crate::private;
use crate::seam::{Error, Result};

const SCHEMA: &str = include_str!("../../../schema.sql");

/// `PRAGMA application_id` of our stores.
pub(crate) const APPLICATION_ID: i64 = 0x5365_5065;

/// `PRAGMA user_version` of the schema that this build reads and writes.
pub(super) const VERSION: i64 = 2;

/// `PRAGMA application_id` of the databases in which DeepSeek Harness keeps sessions.
pub(crate) const DSH_APPLICATION_ID: i64 = 0x4453_4850;

/// `PRAGMA application_id` of its search indexes.
const DSH_SEARCH_APPLICATION_ID: i64 = 0x4453_4851;

/// A page holds about eight events of the usual size. In measurements 8 KiB wrote and read faster than 4 KiB, and larger
/// pages made single commits slower.
const PAGE_SIZE: u32 = 8192;

/// Makes the tables of a new store in an empty database.
pub(super) fn create(connection: &mut Connection, context: &Context<'_>) -> Result<()> {
    let create = |connection: &mut Connection| {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        connection.pragma_update(None, "page_size", PAGE_SIZE)?;
        let transaction = connection.transaction()?;
        transaction.execute_batch(SCHEMA)?;
        transaction.execute("INSERT INTO store VALUES (1, lower(hex(randomblob(16))), 0, 0)", [])?;
        transaction.commit()
    };
    create(connection).map_err(|e| context.sqlite(e))
}

/// Makes a store in a new file at `path`, finished before it has that name: other processes see no file or a whole store,
/// and of several that make one at the same time the first wins.
pub(super) fn create_file(path: &Path) -> Result<()> {
    let context = Context::store(path);
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if has_wal(path, &context)? {
        return Err(context.unsupported(
            "there is no such file, but its -wal lies there, with what was written last; bring the file back to it, or \
             move the -wal away if a new store is wanted",
            None,
        ));
    }
    private::create_lasting_folder(folder).map_err(|e| context.io("making the folder of", e))?;
    // Closed before SQLite opens it: closing a descriptor drops the locks that SQLite holds on the same file.
    let temporary = tempfile::Builder::new()
        .prefix(".sessions-")
        .suffix(".new")
        .tempfile_in(folder)
        .map_err(|e| context.io("making", e))?
        .into_temp_path();
    // Dropped behind the connection.
    let _beside = Beside(temporary.to_path_buf());
    let mut connection = Connection::open(&temporary).map_err(|e| context.sqlite(e))?;
    create(&mut connection, &context)?;
    super::connection::set_wal(&connection, &context)?;
    connection.close().map_err(|(_, e)| context.sqlite(e))?;
    match temporary.persist_noclobber(path) {
        Ok(()) => {}
        Err(lost) if lost.error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(failed) => return Err(context.io("making", failed.error)),
    }
    private::sync_folder(folder).map_err(|e| context.io("making durable the folder of", e))
}

/// The files that SQLite puts beside a database which is being made; what a failure leaves of them goes with this.
struct Beside(PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        for side in ["-journal", "-wal", "-shm"] {
            let mut file = self.0.as_os_str().to_owned();
            file.push(side);
            match fs::remove_file(&file) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    log::warn!("{}: left behind: {e}", Path::new(&file).display());
                }
                _ => {}
            }
        }
    }
}

/// Whether the file in which SQLite keeps the newest pages lies beside a database.
fn has_wal(database: &Path, context: &Context<'_>) -> Result<bool> {
    let mut wal = database.as_os_str().to_owned();
    wal.push("-wal");
    Path::new(&wal).try_exists().map_err(|e| context.io("looking beside", e))
}

/// Checks that the file at `path` is a store that this build can use, without a lock, and without making the files that
/// SQLite puts beside a database in use. Its version, which may be an earlier one.
pub(super) fn check_file(path: &Path) -> Result<i64> {
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
    // Seen as it lies there a database may look malformed while its newest pages are still in the WAL: then a connection
    // that knows the WAL decides. A foreign database is told by the first and never touched by the second.
    let open = |mode| open_read_only(path, mode).map_err(|e| context.sqlite(e));
    let seen = open(Mode::Immutable).and_then(|connection| identity(&connection, &context));
    let found = match seen {
        Ok(found) => found,
        Err(_) if has_wal(path, &context)? => {
            open(Mode::WithWal).and_then(|connection| identity(&connection, &context))?
        }
        Err(malformed) => return Err(malformed),
    };
    check(found, &context)
}

/// The application and the version that a database names.
fn identity(connection: &Connection, context: &Context<'_>) -> Result<(i64, i64)> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get(0)).map_err(|e| context.sqlite(e));
    Ok((pragma("application_id")?, pragma("user_version")?))
}

/// Checks that an open database is still the store that it was opened as, and of the version of this build.
pub(super) fn check_connection(connection: &Connection, context: &Context<'_>) -> Result<()> {
    match check_migratable(connection, context)? {
        VERSION => Ok(()),
        earlier => Err(unknown_version(earlier, context)),
    }
}

/// Checks that an open database is a store of this version, or of an earlier one that can be brought to it: which.
pub(super) fn check_migratable(connection: &Connection, context: &Context<'_>) -> Result<i64> {
    check(identity(connection, context)?, context)
}

fn check((application, version): (i64, i64), context: &Context<'_>) -> Result<i64> {
    let refuse = |reason: &str| Err(context.unsupported(reason, None));
    match application {
        APPLICATION_ID if version == VERSION || is_known(version) => Ok(version),
        APPLICATION_ID => Err(unknown_version(version, context)),
        DSH_APPLICATION_ID | DSH_SEARCH_APPLICATION_ID => refuse("it is a database of DeepSeek Harness"),
        _ => refuse("it is a SQLite database of another program"),
    }
}

/// What is said of a store of a version that this build cannot use.
pub(super) fn unknown_version(version: i64, context: &Context<'_>) -> Error {
    let reason = if version > VERSION {
        format!("it is a store of version {version}, and this build knows version {VERSION}; use a newer build")
    } else {
        format!("it is a store of version {version}, which was never released")
    };
    context.unsupported(reason, None)
}
