//! A history of a store, from its making on, which ends where the power is cut.

use rusqlite::Connection;
use session_persistence::{OpenOptions, SessionHandle, SessionPersistence, SqliteStore};

use super::disk::Disk;
use super::ledger::Ledger;
use super::sample::{self, Mode, create, events, id};

/// The power is off.
struct Off;

/// A history on a disk, with what was promised in it.
struct History<'a> {
    disk: &'a Disk,
    ledger: Ledger,
}

/// Makes a store on an empty disk and uses it until the end, or until the power is cut. Tells what it promised.
pub(crate) fn run(disk: &Disk, mode: Mode) -> Ledger {
    let mut history = History { disk, ledger: Ledger::new(mode) };
    let ended = history.all(mode);
    assert!(ended.is_ok() || disk.is_off(), "only the power can end it");
    history.ledger
}

impl History<'_> {
    fn all(&mut self, mode: Mode) -> Result<(), Off> {
        let path = self.disk.store();
        {
            let store = self.go(sample::open(&path, mode))?;
            self.ledger.made();
            let a = self.go(create(&store, "a"))?;
            self.append(&*a, 2)?;
            self.flush(a.flush())?;
            self.append(&*a, 3)?;
            let b = self.go(create(&store, "b"))?;
            self.append(&*b, 1)?;
            self.append(&*b, 5)?;
            self.flush(store.flush())?;
            let c = self.go(create(&store, "c"))?;
            self.ledger.storing("c", 0);
            self.flush_created(&store, "c")?;
            self.append(&*a, 1)?;
            self.checkpoint()?;
            self.append(&*a, 2)?;
            self.append(&*b, 1)?;
            self.flush(b.flush())?;
            self.append(&*c, 1)?;
            self.go(a.close())?;
            drop((a, b, c));
        }
        {
            let store = self.go(sample::open(&path, mode))?;
            let a = self.go(store.open(&id("a"), OpenOptions::write()))?;
            self.append(&*a, 2)?;
            self.ledger.removing("b");
            self.go(store.remove(&id("b")))?;
            self.ledger.removed("b");
            self.append(&*a, 1)?;
            self.flush(store.flush())?;
            self.checkpoint()?;
            self.append(&*a, 4)?;
        }
        // Closed without a flush: closing brings the WAL into the database.
        let store = self.go(sample::open(&path, mode))?;
        let c = self.go(store.open(&id("c"), OpenOptions::write()))?;
        self.append(&*c, 3)?;
        self.flush(c.flush())
    }

    /// Goes on with what a call gave.
    fn go<T>(&self, done: session_persistence::Result<T>) -> Result<T, Off> {
        done.map_err(|e| {
            assert!(self.disk.is_off(), "{e}");
            Off
        })
    }

    fn append(&mut self, handle: &dyn SessionHandle, count: u64) -> Result<(), Off> {
        let name = handle.id().as_str();
        let length = self.ledger.length(name);
        self.ledger.storing(name, length + count);
        self.go(handle.append(&events(name, length, count)))?;
        self.ledger.stored(name, length + count);
        Ok(())
    }

    fn flush(&mut self, done: session_persistence::Result<()>) -> Result<(), Off> {
        self.go(done)?;
        self.ledger.flushed();
        Ok(())
    }

    /// A flush that stores a session which has no events.
    fn flush_created(&mut self, store: &SqliteStore, session: &str) -> Result<(), Off> {
        self.go(store.flush())?;
        self.ledger.stored(session, 0);
        self.ledger.flushed();
        Ok(())
    }

    /// Another program brings the WAL into the database.
    fn checkpoint(&self) -> Result<(), Off> {
        let done = Connection::open(self.disk.store())
            .and_then(|connection| connection.query_row("PRAGMA wal_checkpoint", [], |row| row.get::<_, i64>(0)));
        match done {
            Ok(busy) => assert!(busy == 0),
            Err(e) => {
                assert!(self.disk.is_off(), "{e}");
                return Err(Off);
            }
        }
        Ok(())
    }
}
