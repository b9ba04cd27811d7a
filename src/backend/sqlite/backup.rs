//! A backup: the whole store as it is at one moment, in another file.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode};

use super::super::report::BackupReport;
use super::connections::Reading;
use super::draft::Draft;
use super::failure::Context;
use super::journal::Journal;
use super::side_files::{beside, side_files};
use super::visit::Visitor;
use super::{Database, SqliteStore, absolute, connection, file_system, schema};
use crate::private;
use crate::seam::{Error, Result};

impl SqliteStore {
    /// Writes the whole store, as it is at one moment, into a new file, while it is being read and written: a store of
    /// its own, with the same identity, so that each session has the revision that it had. The file has its name only
    /// when it is whole, was checked and survives a loss of power. Until then it is `.sessions-*.new` in the same folder; what
    /// is left of that by a process that was killed is removed by the next backup beside it, or the next store that is made
    /// or first written there.
    ///
    /// What is checked is SQLite's structure and how many events there are, not the checksum of each: a damaged event is
    /// copied as it is. [`upkeep::verify`](crate::upkeep::verify()) reads all of them; call it before an older backup is given up.
    ///
    /// While it is made, the WAL of the store can grow: a read transaction is held from the start to the end. It is as
    /// large as what the store holds, without the room that removed sessions left.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a name that is taken, by whatever; for a part of the store itself; and for one beside
    /// which the `-wal` or `-journal` of another database lies. `UnsupportedStore` for a store that is malformed, or
    /// that holds other events than it counts, of which [`upkeep::verify`](crate::upkeep::verify()) tells more.
    /// `StoreBusy`, and for the file: `StorageFull`, `StorageReadOnly`, `Io`. Nothing of the backup is left then.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        let database = self.runtime.own_storage()?;
        let to = absolute(to.as_ref())?;
        let target = Context::store(&to);
        let folder = to.parent().unwrap_or(Path::new("/"));
        refuse_parts(database, &to, folder)?;
        refuse_taken(&to, &target)?;
        let journal = database.journal()?;
        file_system::remote_wal(&to, Some(journal), &target)?;

        let draft = Draft::beside(&to).map_err(|e| target.io("making", e))?;
        database.copy_into(draft.path(), &target)?;
        let report = database.check_copy(draft.path(), journal, &target)?;
        let written = File::options().write(true).open(draft.path()).and_then(|file| file.sync_all());
        written.map_err(|e| target.io("writing", e))?;
        refuse_taken(&to, &target)?;
        if !draft.publish(&to).map_err(|e| target.io("naming", e))? {
            return Err(taken(&to));
        }
        if let Err(e) = private::sync_folder(folder) {
            // A name that may be gone tomorrow is no backup.
            fs::remove_file(&to).map_err(|e| target.io("removing", e))?;
            return Err(target.io("making durable the folder of", e));
        }
        Ok(report)
    }
}

impl Database {
    fn copy_into(&self, draft: &Path, target: &Context<'_>) -> Result<()> {
        let source = self.context();
        let name = ToSqlOutput::Borrowed(ValueRef::Text(draft.as_os_str().as_encoded_bytes()));
        let copy = |connection: &Connection| match connection.execute("VACUUM INTO ?1", [&name]) {
            Ok(_) => Ok(()),
            // Who is at fault is told by the failure alone: the two files are used by one statement.
            Err(e) => match e.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                    Err(source.sqlite(e))
                }
                _ => Err(target.sqlite(e)),
            },
        };
        match self.connections.reading {
            Reading::Writer => return self.write(&source, |writer| copy(writer.connection())),
            Reading::Visit(_) => return self.copy_visited(copy),
            Reading::Pool(_) => self.check_in_place()?,
        }
        // A connection of its own: those that read may not write, and the one that writes is not to be kept waiting.
        let connection = connection::open(&self.path, self.busy_timeout).map_err(|e| source.sqlite(e))?;
        schema::check_connection(&connection, &source)?;
        copy(&connection)?;
        connection.close().map_err(|(_, e)| source.sqlite(e))
    }

    /// Copies a store that this process cannot write.
    fn copy_visited(&self, copy: impl FnOnce(&Connection) -> Result<()>) -> Result<()> {
        let source = self.context();
        self.check_in_place()?;
        let visitor = Visitor::connect(&self.path, self.busy_timeout, &source)?;
        copy(&visitor.connection)?;
        // Read without a lock, it may be of two states.
        if visitor.is_unchanged(&self.path, &source)? { Ok(()) } else { Err(source.busy()) }
    }

    /// The mode of the database, which its backup has too.
    fn journal(&self) -> Result<Journal> {
        let context = self.context();
        match &self.connections.reading {
            Reading::Writer => Ok(Journal::Wal),
            Reading::Visit(visit) => Ok(visit.journal()),
            Reading::Pool(readers) => {
                readers.with(&context, |connection| Journal::of(connection).map_err(|e| context.sqlite(e)))
            }
        }
    }

    /// Makes a store of the copy, and checks that it is whole and that of this store.
    fn check_copy(&self, draft: &Path, journal: Journal, target: &Context<'_>) -> Result<BackupReport> {
        let failed = |e| target.sqlite(e);
        let mut copy = connection::open(draft, self.busy_timeout).map_err(failed)?;
        schema::check_connection(&copy, target)?;
        journal.set(&copy, Duration::ZERO, target)?;
        if problem(&copy).map_err(failed)?.is_some() {
            // SQLite's check tells a page that could not be read as one that is malformed. A connection that remembers no page
            // finds it again, or fails to read the file.
            copy = connection::open(draft, self.busy_timeout).map_err(failed)?;
            if let Some(problem) = problem(&copy).map_err(failed)? {
                return Err(self.unsound(format!("SQLite finds its copy malformed: {problem}")));
            }
        }
        let store_id = |connection: &Connection| -> rusqlite::Result<String> {
            connection.query_row("SELECT store_id FROM store", [], |row| row.get(0))
        };
        let context = self.context();
        let own = self.read(&context, |view| store_id(view).map_err(|e| context.sqlite(e)))?;
        if store_id(&copy).map_err(failed)? != own {
            return Err(self.unsound("its identity changed meanwhile".to_owned()));
        }
        let (sessions, counted, events): (u64, u64, u64) = copy
            .query_row(
                "SELECT count(*), ifnull(sum(event_count), 0), (SELECT count(*) FROM events) FROM sessions",
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .map_err(failed)?;
        if counted != events {
            return Err(self.unsound(format!("its sessions count {counted} events together, and it holds {events}")));
        }
        copy.close().map_err(|(_, e)| failed(e))?;
        let bytes = fs::metadata(draft).map_err(|e| target.io("looking at", e))?.len();
        Ok(BackupReport::new(sessions, events, bytes))
    }

    fn unsound(&self, what: String) -> Error {
        let reason =
            format!("{what}; no backup was made: verify it, and copy the sessions that are sound into a new store");
        self.context().unsupported(reason, None)
    }
}

/// The first problem that SQLite finds in the structure of a database.
fn problem(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(Some(found).filter(|found| found != "ok"))
}

/// Refuses the files and folders that the store is made of, and names whose own side files would be those.
fn refuse_parts(database: &Database, to: &Path, folder: &Path) -> Result<()> {
    if database.is_in_memory() {
        return Ok(());
    }
    let Some(name) = to.file_name() else { return Err(refused(to, "it names no file")) };
    // As the store's own path is, so that one file has one name.
    let to = folder.canonicalize().map_err(|e| Context::store(to).io("finding the folder of", e))?.join(name);
    let is_part = |path: &Path, of: &Path| path == of || side_files(of).iter().any(|part| part == path);
    if is_part(&to, &database.path) || is_part(&database.path, &to) || to.starts_with(beside(&database.path, "-locks"))
    {
        return Err(refused(&to, "it is a part of the store itself; name another file"));
    }
    Ok(())
}

/// Refuses a name that is taken, or that would take over what SQLite left beside another database of that name.
fn refuse_taken(to: &Path, target: &Context<'_>) -> Result<()> {
    if is_there(to, target)? {
        return Err(taken(to));
    }
    for end in ["-wal", "-journal"] {
        let part = beside(to, end);
        if is_there(&part, target)? {
            let reason = format!("{} lies there, which belongs to another database; name another file", part.display());
            return Err(refused(to, &reason));
        }
    }
    Ok(())
}

/// Whether anything has a name, a link that leads nowhere included.
fn is_there(path: &Path, target: &Context<'_>) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(target.io("looking at", e)),
    }
}

fn taken(to: &Path) -> Error {
    refused(to, "there is something of that name already; name another file, or move it away")
}

fn refused(to: &Path, reason: &str) -> Error {
    Error::InvalidArgument { session: None, reason: format!("{} cannot be the backup: {reason}", to.display()) }
}
