//! The schema: making a new database, and telling a store of ours from anything else before a byte of it changes.

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::failure::Context;
use super::migration::is_known;
use crate::seam::{Error, Result};

const SCHEMA: &str = include_str!("../../../schema.sql");

/// `PRAGMA application_id` of our stores.
pub(crate) const APPLICATION_ID: i64 = 0x5365_5065;

/// `PRAGMA user_version` of the schema that this build reads and writes.
pub(super) const VERSION: i64 = 3;

/// The first version whose tables are those of this build: what later ones brought only makes reading faster.
const FIRST_READABLE: i64 = 2;

/// Whether this build reads stores of a version as they are.
pub(super) fn is_readable(version: i64) -> bool {
    (FIRST_READABLE..=VERSION).contains(&version)
}

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

/// The application and the version that a database names.
pub(super) fn identity(connection: &Connection) -> Result<(i64, i64), rusqlite::Error> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get(0));
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
    check(identity(connection).map_err(|e| context.sqlite(e))?, context)
}

/// Whether a database is a store of this version, or of an earlier one that can be brought to it.
pub(super) fn is_store(application: i64, version: i64) -> bool {
    application == APPLICATION_ID && (version == VERSION || is_known(version))
}

/// Refuses what is no such store: which version it is.
pub(super) fn check((application, version): (i64, i64), context: &Context<'_>) -> Result<i64> {
    let refuse = |reason: &str| Err(context.unsupported(reason, None));
    match application {
        APPLICATION_ID if is_store(application, version) => Ok(version),
        APPLICATION_ID => Err(unknown_version(version, context)),
        DSH_APPLICATION_ID | DSH_SEARCH_APPLICATION_ID => {
            refuse("it is a database of DeepSeek Harness; import it into a store with `sessions import`")
        }
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
