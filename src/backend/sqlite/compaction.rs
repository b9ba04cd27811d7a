//! Room that removed sessions took, given back.

use rusqlite::Connection;

use super::super::report::CompactReport;
use super::SqliteStore;
use super::failure::Context;
use super::patience::Patience;
use crate::seam::Result;

impl SqliteStore {
    /// Gives the room that removed sessions took back to the file system. It is never needed: what is written later
    /// uses the same room. Nothing that is stored changes, and no revision does.
    ///
    /// The whole store is written anew, in one transaction, which takes as much room again for as long as it lasts;
    /// writers wait for it.
    ///
    /// # Errors
    ///
    /// `StoreBusy` when another program uses the store, whose room then is given back by a later call, or by SQLite
    /// itself once that program is done; `StorageFull` without room for a second copy; `StorageReadOnly`, `Io`.
    pub fn compact(&self) -> Result<CompactReport> {
        let database = self.runtime.own_storage()?;
        let context = database.context();
        database.write(&context, |writer| {
            writer.copy_wal(&context, |connection, patience| compact(connection, patience, &context))
        })
    }
}

fn compact(connection: &Connection, patience: &Patience, context: &Context<'_>) -> Result<CompactReport> {
    let failed = |e| context.sqlite(e);
    let before = size(connection).map_err(failed)?;
    connection.execute_batch("VACUUM").map_err(failed)?;
    let after = size(connection).map_err(failed)?;
    // The work itself may have taken longer than others are waited for.
    patience.renew();
    // It is a page of the WAL until here. A database in memory has none, and answers that nothing is in the way.
    let is_busy: bool =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(failed)?;
    if is_busy {
        return Err(context.busy());
    }
    Ok(CompactReport::new(before, after))
}

/// The size of the database, in bytes.
fn size(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    Ok(pragma("page_count")? * pragma("page_size")?)
}
