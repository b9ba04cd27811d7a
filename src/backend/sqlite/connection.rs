//! One way to set up each kind of connection.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::failure::Context;
use super::journal::Journal;
use super::patience;
use super::schema;
use crate::seam::Result;

/// Opens a connection that reads. Not as a read-only one: the last connection to close would then leave the files beside
/// the database behind.
pub(super) fn open_reading(path: &Path, busy_timeout: Duration) -> Result<Connection, rusqlite::Error> {
    let connection = open(path, busy_timeout)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Opens the one connection that writes, and switches the database to the mode that is wanted; which mode it is in.
pub(super) fn open_writer(
    path: &Path,
    journal: Option<Journal>,
    busy_timeout: Duration,
    context: &Context<'_>,
) -> Result<(Connection, Journal)> {
    let connection = open(path, busy_timeout).map_err(|e| context.sqlite(e))?;
    schema::check_connection(&connection, context)?;
    if let Some(journal) = journal {
        journal.set(&connection, busy_timeout, context)?;
    }
    let journal = Journal::of(&connection).map_err(|e| context.sqlite(e))?;
    set_up_writer(&connection).map_err(|e| context.sqlite(e))?;
    Ok((connection, journal))
}

/// What a writing connection needs beside what all have.
pub(super) fn set_up_writer(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "foreign_keys", true)?;
    // The triggers keep other programs off; this connection makes their checks once a batch.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.pragma_update(None, "synchronous", "NORMAL")
}

/// Opens a connection to an existing database.
pub(super) fn open(path: &Path, busy_timeout: Duration) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    patience::wait(&mut connection, busy_timeout)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}
