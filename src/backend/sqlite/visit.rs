//! [`Visit`]: reads of a store that this process cannot write, which leave nothing behind.
//!
//! In rollback mode the locks of the file system are enough. A database in WAL mode needs a file beside it even for reading,
//! which cannot or must not be made there. So where no WAL lies beside it the file is read as it is, without any lock, and
//! every answer counts only where nothing was written meanwhile; where one does it is read through the files that its
//! writer made.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::failure::Context;
use super::in_place::Stamp;
use super::journal::Journal;
use super::look::{Look, unrecovered};
use super::patience;
use super::reader::store_id;
use super::side_files::SideFiles;
use super::uri::{Mode, open_read_only};
use crate::seam::{Error, Result};

/// How often a read is repeated because somebody wrote meanwhile.
const TRIES: usize = 10;

/// As many connections are kept for the next reads.
const KEPT: usize = 8;

/// A store that this process cannot write.
pub(super) struct Visit {
    path: PathBuf,
    busy_timeout: Duration,
    journal: Journal,
    store_id: String,
    idle: Mutex<Vec<Visitor>>,
}

/// A connection that reads, with what it was opened on.
pub(super) struct Visitor {
    pub(super) connection: Connection,
    seen: Seen,
    way: Way,
}

/// How a connection reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As the file lies there, without a lock.
    Immutable,
    /// Under the locks of rollback mode.
    Locked,
    /// Through the files that a writer made.
    ThroughWal,
}

/// The state of a database and of what lies beside it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    database: Stamp,
    has_wal: bool,
    has_journal: bool,
}

impl Seen {
    fn of(path: &Path, context: &Context<'_>) -> Result<Self> {
        let looking = |e| context.io("looking at", e);
        let beside = SideFiles::of(path).map_err(looking)?;
        let database = Stamp::of(path).map_err(looking)?;
        let database = database.ok_or_else(|| context.unsupported("the file was removed; check the path", None))?;
        Ok(Self { database, has_wal: beside.has_wal(), has_journal: beside.has_journal() })
    }
}

impl Visit {
    /// Opens the first connection, so that what is wrong with the database is told here and not at the first call.
    pub(super) fn open(path: &Path, busy_timeout: Duration) -> Result<Self> {
        let context = Context::store(path);
        let (journal, idle) = (Journal::Wal, Mutex::default());
        let visit = Self { path: path.to_owned(), busy_timeout, journal, store_id: String::new(), idle };
        let look = |visitor: &Visitor, view: &Connection| Ok((visitor.journal(), store_id(view, &context)?));
        let (journal, store_id) = visit.read_through(&context, look)?;
        Ok(Self { journal, store_id, ..visit })
    }

    /// The mode of the database when it was opened.
    pub(super) fn journal(&self) -> Journal {
        self.journal
    }

    /// Runs `work` on one state of the database, more than once where that is written meanwhile.
    pub(super) fn read<T>(&self, context: &Context<'_>, work: impl Fn(&Connection) -> Result<T>) -> Result<T> {
        self.read_through(context, |_, view| work(view))
    }

    fn read_through<T>(&self, context: &Context<'_>, work: impl Fn(&Visitor, &Connection) -> Result<T>) -> Result<T> {
        for _ in 0..TRIES {
            let seen = Seen::of(&self.path, context)?;
            let visitor = match self.kept(&seen).map_or_else(|| self.connect(context), Ok) {
                Ok(visitor) => visitor,
                // Of a file that is being written nothing has to make sense.
                Err(_) if Seen::of(&self.path, context)? != seen => continue,
                Err(failed) => return Err(failed),
            };
            let view = visitor.connection.unchecked_transaction().map_err(|e| context.sqlite(e));
            let done = view.and_then(|view| work(&visitor, &view));
            match visitor.way {
                Way::Immutable if !visitor.is_unchanged(&self.path, context)? => continue,
                // The files that its writer made are gone, or cannot be used.
                Way::ThroughWal if matches!(done, Err(Error::StorageReadOnly { .. })) => {
                    if Seen::of(&self.path, context)? == seen {
                        return Err(unrecovered("-wal", context));
                    }
                    continue;
                }
                // Kept, it would keep the last writer from putting the WAL away.
                Way::ThroughWal => {}
                Way::Immutable | Way::Locked => self.keep(visitor),
            }
            return done;
        }
        Err(context.busy())
    }

    fn connect(&self, context: &Context<'_>) -> Result<Visitor> {
        let visitor = Visitor::connect(&self.path, self.busy_timeout, context)?;
        if !self.store_id.is_empty() && store_id(&visitor.connection, context)? != self.store_id {
            return Err(context.unsupported("the file was replaced while it was open; open the store again", None));
        }
        Ok(visitor)
    }

    /// A connection of an earlier read that has seen the same.
    fn kept(&self, seen: &Seen) -> Option<Visitor> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|visitor| match visitor.way {
            // Other journals come and go.
            Way::Locked => visitor.seen.database == seen.database && !seen.has_wal,
            _ => visitor.seen == *seen,
        });
        idle.pop()
    }

    fn keep(&self, visitor: Visitor) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(visitor);
        }
    }

    /// Closes the connections that a forked process has of its parent; whether that could be done.
    pub(super) fn let_go(&self) -> bool {
        self.idle.try_lock().is_ok_and(|mut idle| {
            idle.clear();
            true
        })
    }
}

impl Visitor {
    pub(super) fn connect(path: &Path, busy_timeout: Duration, context: &Context<'_>) -> Result<Self> {
        let seen = Seen::of(path, context)?;
        let look = Look::at(path, None, busy_timeout)?;
        look.check_version(context)?;
        let way = match look.journal {
            Journal::Rollback => Way::Locked,
            Journal::Wal if seen.has_wal => Way::ThroughWal,
            Journal::Wal => Way::Immutable,
        };
        if way == Way::Immutable
            && let Some(wait) = seen.database.unsettled()
        {
            std::thread::sleep(wait);
        }
        let mode = if way == Way::Immutable { Mode::Immutable } else { Mode::WithWal };
        let connection = open_reading(path, mode, busy_timeout).map_err(|e| context.sqlite(e))?;
        Ok(Self { connection, seen, way })
    }

    /// The mode of the database when this connection was opened.
    fn journal(&self) -> Journal {
        match self.way {
            Way::Locked => Journal::Rollback,
            Way::Immutable | Way::ThroughWal => Journal::Wal,
        }
    }

    /// Whether nothing was written, as far as that counts, since this connection was opened.
    pub(super) fn is_unchanged(&self, path: &Path, context: &Context<'_>) -> Result<bool> {
        Ok(self.way != Way::Immutable || Seen::of(path, context)? == self.seen)
    }
}

fn open_reading(path: &Path, mode: Mode, busy_timeout: Duration) -> Result<Connection, rusqlite::Error> {
    let mut connection = open_read_only(path, mode)?;
    patience::wait(&mut connection, busy_timeout)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}
