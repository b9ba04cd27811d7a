//! [`Journal`]: how a database keeps a commit whole.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

use super::failure::Context;
use super::patience::pause;
use crate::seam::{Error, Result};

/// How a [`SqliteStore`](crate::SqliteStore) keeps a commit whole: the journal mode of its database. The database keeps it
/// from one opening to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Journal {
    /// Changes go to a file beside the database, `-wal`, and from there into the database later; all who have it open share
    /// memory in another one, `-shm`. Readers and the writer never wait for each other, and an append need not wait for the
    /// disk. On a file system whose files come from another machine this is refused: the memory is not shared there, and
    /// what is stored would be lost.
    Wal,
    /// Changes go into the database, and what stood there before stands in a file beside it, `-journal`, while they are
    /// made. Nothing is shared but the locks of the file system, so that it works on a network file system too, where one
    /// machine alone uses the store.
    ///
    /// Every append waits for the disk, several times: measured, one event takes about 7 times as long as appending it to a
    /// plain file and syncing that, where WAL takes a seventh of that time. Readers wait while a commit is written, and the
    /// writer while somebody reads, each for [`SqliteOptions::busy_timeout`](crate::SqliteOptions::busy_timeout) at most.
    Rollback,
}

impl Journal {
    /// The mode of an open database.
    pub(super) fn of(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        Ok(if mode == "wal" { Self::Wal } else { Self::Rollback })
    }

    /// What SQLite calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Wal => "wal",
            Self::Rollback => "delete",
        }
    }

    /// Switches a database to this mode and reads the mode back: SQLite answers a refusal with the mode that it keeps. It
    /// leaves WAL mode while nobody else has it open, which is waited for.
    pub(super) fn set(self, connection: &Connection, busy_timeout: Duration, context: &Context<'_>) -> Result<()> {
        let started = Instant::now();
        let mut tries = 0;
        let mode: String = loop {
            match connection.pragma_update_and_check(None, "journal_mode", self.name(), |row| row.get(0)) {
                // SQLite's own wait does not cover this.
                Err(e) if is_busy(&e) && started.elapsed() < busy_timeout => pause(tries),
                Err(e) if is_busy(&e) && self == Self::Rollback => {
                    let reason = "it is switched to rollback mode while nobody else has it open";
                    return match context.busy() {
                        Error::StoreBusy { session, store, holder, .. } => {
                            Err(Error::StoreBusy { session, store, holder, source: Some(reason.into()) })
                        }
                        other => Err(other),
                    };
                }
                told => break told.map_err(|e| context.sqlite(e))?,
            }
            tries += 1;
        };
        if mode == self.name() || Self::of(connection).is_ok_and(|kept| kept == self) {
            return Ok(());
        }
        let way_out = match self {
            Self::Wal => "the file system does not take WAL mode; move the store to a local disk, or use rollback mode",
            Self::Rollback => "another program holds it there; close that, then try again",
        };
        Err(context.unsupported(format!("SQLite keeps journal mode {mode:?}: {way_out}"), None))
    }
}

/// Switches a database to rollback mode where it must not be used in WAL mode: alone on it, SQLite shares no memory.
pub(super) fn leave_wal_alone(path: &Path, busy_timeout: Duration, context: &Context<'_>) -> Result<()> {
    let connection = super::connection::open(path, busy_timeout).map_err(|e| context.sqlite(e))?;
    connection.pragma_update(None, "locking_mode", "exclusive").map_err(|e| context.sqlite(e))?;
    Journal::Rollback.set(&connection, busy_timeout, context)?;
    connection.close().map_err(|(_, e)| context.sqlite(e))
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

#[cfg(all(test, unix))]
mod tests {
    use rusqlite::OpenFlags;

    use super::super::change::Change;
    use super::super::lease::Locks;
    use super::super::writer::Writer;
    use super::*;
    use crate::log::SessionId;
    use crate::seam::{Durability, ErrorKind};

    fn context(path: &Path) -> Context<'_> {
        Context::store(path)
    }

    #[test]
    fn a_mode_is_set_and_lasts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        for journal in [Journal::Wal, Journal::Rollback, Journal::Rollback, Journal::Wal] {
            let connection = Connection::open(&path).unwrap();
            journal.set(&connection, Duration::ZERO, &context(&path)).unwrap();
            drop(connection);
            assert_eq!(Journal::of(&Connection::open(&path).unwrap()).unwrap(), journal);
        }
    }

    #[test]
    fn a_mode_that_sqlite_does_not_take_is_an_error_and_no_other_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        // A way of locking that has no memory to share, as on a file system that cannot map it.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = Connection::open_with_flags_and_vfs(&path, flags, "unix-dotfile").unwrap();
        let refused = Journal::Wal.set(&connection, Duration::ZERO, &context(&path)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::UnsupportedStore);
        assert!(refused.to_string().contains("\"delete\""), "{refused}");
    }

    #[test]
    fn wal_mode_is_left_once_nobody_else_has_the_database_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let connection = Connection::open(&path).unwrap();
        Journal::Wal.set(&connection, Duration::ZERO, &context(&path)).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE t (x)").unwrap();
        let busy = Journal::Rollback.set(&connection, Duration::from_millis(5), &context(&path)).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::StoreBusy);
        assert_eq!(Journal::of(&connection).unwrap(), Journal::Wal);
        let switched = std::thread::scope(|scope| {
            let path = &path;
            let waiting =
                scope.spawn(move || Journal::Rollback.set(&connection, Duration::from_secs(20), &context(path)));
            std::thread::sleep(Duration::from_millis(20));
            drop(other);
            waiting.join().unwrap()
        });
        switched.unwrap();
        assert_eq!(Journal::of(&Connection::open(&path).unwrap()).unwrap(), Journal::Rollback);
    }

    #[test]
    fn in_rollback_mode_every_commit_is_synced_with_the_end_of_its_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        crate::SqliteStore::open_with(&path, crate::SqliteOptions::default().with_journal(Journal::Rollback)).unwrap();
        let locks = Locks::beside(&path);
        for durability in [Durability::OnFlush, Durability::EveryAppend] {
            let context = context(&path);
            let mut writer = Writer::open(&path, &locks, None, durability, Duration::ZERO, &context).unwrap();
            for change in [Change::Remove { id: SessionId::new("absent").unwrap(), only: None }, Change::Flush] {
                let done = writer.commit(&[change], &locks, &context);
                assert!(done.iter().all(Result::is_ok));
                let kept: i64 = writer.connection().pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
                assert_eq!(kept, 3, "EXTRA");
            }
        }
    }
}
