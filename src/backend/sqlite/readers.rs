//! [`Readers`]: the connections that read, each lent to one thread at a time.
//!
//! They are opened and closed in the threads that use them: a pool that works in a thread of its own may be at it when the
//! process is forked, and whatever that thread had locked then stays locked in the child for good.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use rusqlite::Connection;

use super::connection::open_reading;
use super::failure::Context;
use super::look::{Look, keep_wal};
use super::schema;
use crate::seam::Result;

/// More readers than this at once wait for each other.
const MAX_READERS: usize = 8;

/// How long a read waits for its turn while all readers are in use. It is no matter of other programs, so that
/// `busy_timeout` has no say in it.
const TURN: Duration = Duration::from_secs(60);

/// The connections that read.
pub(super) struct Readers {
    path: PathBuf,
    busy_timeout: Duration,
    is_overwritten: Arc<AtomicBool>,
    /// Shared by those that read, and taken alone by who needs all connections closed.
    use_of_all: RwLock<()>,
    held: Mutex<Held>,
    given_back: Condvar,
}

struct Held {
    idle: Vec<Reader>,
    /// How many there are, with those that are lent or being opened.
    count: usize,
}

/// A connection that reads.
struct Reader {
    connection: Connection,
    is_overwritten: Arc<AtomicBool>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.is_overwritten.load(Ordering::Acquire)
            && let Err(e) = keep_wal(&self.connection)
        {
            log::warn!("the WAL of a file that was written over may be copied into it: {e}");
        }
    }
}

/// The place of a connection that is lent, and the connection once it is open.
struct Lent<'r> {
    readers: &'r Readers,
    reader: Option<Reader>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // What a panic left of one is not known.
        let whole = self.reader.take().filter(|_| !std::thread::panicking());
        let mut held = self.readers.held();
        match whole {
            Some(reader) => held.idle.push(reader),
            None => held.count -= 1,
        }
        drop(held);
        self.readers.given_back.notify_one();
    }
}

impl Readers {
    /// Opens the first one, so that what is wrong with the database is told here and not at the first call. Once the file
    /// `is_overwritten`, none of them copies the WAL into it. Nothing where the database can only be read, whatever was said of
    /// it before.
    pub(super) fn open(
        look: Look,
        path: &Path,
        busy_timeout: Duration,
        is_overwritten: &Arc<AtomicBool>,
    ) -> Result<Option<Self>> {
        let context = Context::store(path);
        let readers = Self {
            path: path.to_owned(),
            busy_timeout,
            is_overwritten: is_overwritten.clone(),
            use_of_all: RwLock::default(),
            held: Mutex::new(Held { idle: Vec::new(), count: 0 }),
            given_back: Condvar::new(),
        };
        let first = readers.open_one(&context)?;
        // The last connection puts the files beside the database away, which the one that looked does not.
        drop(look);
        let connection = &first.connection;
        if connection.is_readonly(rusqlite::MAIN_DB).map_err(|e| context.sqlite(e))? {
            return Ok(None);
        }
        schema::check_connection(connection, &context)?;
        connection.query_row("SELECT store_id FROM store", [], |_| Ok(())).map_err(|e| context.sqlite(e))?;
        *readers.held() = Held { idle: vec![first], count: 1 };
        Ok(Some(readers))
    }

    /// Runs `work` on a connection that no other thread uses meanwhile.
    pub(super) fn with<T>(&self, context: &Context<'_>, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let _shared = self.use_of_all.read().unwrap_or_else(PoisonError::into_inner);
        let mut lent = self.lend(TURN, context)?;
        let reader = match &mut lent.reader {
            Some(reader) => reader,
            none => none.insert(self.open_one(context)?),
        };
        work(&reader.connection)
    }

    /// Runs `work` while none of them is open.
    pub(super) fn closed_for<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _alone = self.use_of_all.write().unwrap_or_else(PoisonError::into_inner);
        *self.held() = Held { idle: Vec::new(), count: 0 };
        work()
    }

    /// Closes those that a forked process has of its parent, unless that was using one of them; whether that could be done.
    pub(super) fn let_go(&self) -> bool {
        let (Ok(_shared), Ok(mut held)) = (self.use_of_all.try_read(), self.held.try_lock()) else { return false };
        let idle = std::mem::take(&mut held.idle);
        let is_all = idle.len() == held.count;
        let is_let_go = is_all && idle.iter().all(|reader| keep_wal(&reader.connection).is_ok());
        if !is_let_go {
            std::mem::forget(idle);
        }
        is_let_go
    }

    /// A place, with the connection that was used last, or none where the place is a new one.
    fn lend(&self, patience: Duration, context: &Context<'_>) -> Result<Lent<'_>> {
        let is_all_lent = |held: &mut Held| held.idle.is_empty() && held.count >= MAX_READERS;
        let waited = self.given_back.wait_timeout_while(self.held(), patience, is_all_lent);
        let (mut held, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            let reason = format!("all {MAX_READERS} connections that read were in use for {patience:?}");
            return Err(context.busy_here(reason));
        }
        let reader = held.idle.pop();
        if reader.is_none() {
            held.count += 1;
        }
        Ok(Lent { readers: self, reader })
    }

    fn open_one(&self, context: &Context<'_>) -> Result<Reader> {
        let connection = open_reading(&self.path, self.busy_timeout).map_err(|e| context.sqlite(e))?;
        Ok(Reader { connection, is_overwritten: self.is_overwritten.clone() })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::super::creation::create_file;
    use super::super::journal::Journal;
    use super::*;
    use crate::seam::ErrorKind;

    fn readers(folder: &Path) -> (PathBuf, Readers) {
        let path = folder.join("sessions.db");
        create_file(&path, Journal::Wal).unwrap();
        let look = Look::at(&path, None, Duration::ZERO).unwrap();
        let readers = Readers::open(look, &path, Duration::ZERO, &Arc::default()).unwrap().unwrap();
        (path, readers)
    }

    fn counts(readers: &Readers) -> (usize, usize) {
        let held = readers.held();
        (held.idle.len(), held.count)
    }

    fn store_id(connection: &Connection) -> Result<String> {
        Ok(connection.query_row("SELECT store_id FROM store", [], |row| row.get(0)).unwrap())
    }

    #[test]
    fn a_connection_is_opened_when_all_others_are_lent_and_kept_for_who_comes_next() {
        let folder = tempfile::tempdir().unwrap();
        let (path, readers) = readers(folder.path());
        let context = Context::store(&path);
        assert_eq!(counts(&readers), (1, 1));
        for _ in 0..3 {
            readers.with(&context, store_id).unwrap();
        }
        assert_eq!(counts(&readers), (1, 1));
        let all_read = Barrier::new(MAX_READERS);
        std::thread::scope(|scope| {
            for _ in 0..MAX_READERS {
                scope.spawn(|| {
                    readers.with(&context, |connection| {
                        all_read.wait();
                        store_id(connection)
                    })
                });
            }
        });
        assert_eq!(counts(&readers), (MAX_READERS, MAX_READERS));
    }

    #[test]
    fn who_finds_all_of_them_lent_waits_for_one_and_is_told_when_none_comes() {
        let folder = tempfile::tempdir().unwrap();
        let (path, readers) = readers(folder.path());
        let context = Context::store(&path);
        let lent: Vec<_> = (0..MAX_READERS).map(|_| readers.lend(Duration::ZERO, &context).unwrap()).collect();
        let Err(refused) = readers.lend(Duration::from_millis(1), &context) else {
            panic!("there are more than {MAX_READERS}")
        };
        assert_eq!(refused.kind(), ErrorKind::StoreBusy, "{refused:?}");
        assert!(refused.to_string().contains(path.to_str().unwrap()), "{refused}");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| readers.lend(TURN, &context).map(drop));
            drop(lent);
            waits.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_place_outlives_a_connection_that_cannot_be_opened_and_one_that_is_left_in_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let (path, readers) = readers(folder.path());
        let context = Context::store(&path);
        let panics = || readers.with(&context, |_| -> Result<()> { panic!("while it reads") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(counts(&readers), (0, 0));
        let elsewhere = folder.path().join("elsewhere.db");
        std::fs::rename(&path, &elsewhere).unwrap();
        readers.with(&context, store_id).unwrap_err();
        assert_eq!(counts(&readers), (0, 0));
        std::fs::rename(&elsewhere, &path).unwrap();
        readers.with(&context, store_id).unwrap();
        assert_eq!(counts(&readers), (1, 1));
    }

    #[test]
    fn none_of_them_is_open_for_who_needs_them_closed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, readers) = readers(folder.path());
        let context = Context::store(&path);
        let id = readers.with(&context, store_id).unwrap();
        let has_shm = || path.with_file_name("sessions.db-shm").exists();
        assert!(has_shm());
        assert!(!readers.closed_for(|| Ok(has_shm())).unwrap());
        assert_eq!(readers.with(&context, store_id).unwrap(), id);
    }
}
