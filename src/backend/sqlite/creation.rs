//! Making a new database: whole before it has its name.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

pub(super) use super::draft::clean_up_beside;
use super::draft::{Draft, folder_of};
use super::failure::Context;
use super::journal::Journal;
use super::side_files::beside;
use super::{file_system, schema};
use crate::private;
use crate::seam::Result;

/// Makes a store in a new file at `path`: other processes see no file or a whole store, and of several that make one at the
/// same time the first wins.
pub(super) fn create_file(path: &Path, journal: Journal) -> Result<()> {
    let context = Context::store(path);
    let folder = folder_of(path);
    file_system::remote_wal(path, Some(journal), &context)?;
    for (suffix, holds) in [("-wal", "what was written last"), ("-journal", "a change that was not finished")] {
        // Another process may have made the store since it was looked for, and use it.
        if beside(path, suffix).try_exists().map_err(|e| context.io("looking beside", e))?
            && !path.try_exists().map_err(|e| context.io("looking for", e))?
        {
            return Err(context.unsupported(
                format!(
                    "there is no such file, but its {suffix} lies there, with {holds}; bring the file back to it, or move \
                     the {suffix} away if a new store is wanted"
                ),
                None,
            ));
        }
    }
    private::create_lasting_folder(folder).map_err(|e| context.io("making the folder of", e))?;
    let draft = Draft::beside(path).map_err(|e| context.io("making", e))?;
    let mut connection = Connection::open(draft.path()).map_err(|e| context.sqlite(e))?;
    schema::create(&mut connection, &context)?;
    journal.set(&connection, Duration::ZERO, &context)?;
    connection.close().map_err(|(_, e)| context.sqlite(e))?;
    // Where another process was first, its store is as good.
    draft.publish(path).map_err(|e| context.io("making", e))?;
    private::sync_folder(folder).map_err(|e| context.io("making durable the folder of", e))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn many_who_make_the_same_store_at_once_make_one_and_leave_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = folder.path().join(format!("{round}.db"));
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| create_file(&path, Journal::Wal).unwrap());
                }
            });
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 20);
    }
}
