//! Stores in folders of their own, and what a check finds in them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use session_persistence::upkeep::{self, Progress, Report};
use session_persistence::{
    Encoding, Fault, FaultKind, JsonlOptions, JsonlStore, OpenOptions, SeqRange, SessionEvent, SessionId,
    SessionPersistence, SqliteStore,
};
use tempfile::TempDir;

use crate::logs;

pub(crate) const ENCODINGS: [Encoding; 2] = [Encoding::Raw, Encoding::Zstd];

/// A log of each kind but a long one.
pub(crate) fn short_logs() -> Vec<String> {
    let mut all = logs::all();
    all.retain(|log| log.len() < 100_000);
    all
}

/// A folder with a database.
pub(crate) struct Database(TempDir);

impl Database {
    /// A closed store of some logs.
    pub(crate) fn of(logs: &[String]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let store = place.open();
        logs.iter().for_each(|log| drop(logs::import(&store, log)));
        place
    }

    /// A closed store of the sessions `a`, a fork, and `b`.
    pub(crate) fn filled() -> Self {
        Self::of(&[logs::forked("a", "gone"), logs::plain("b", 4)])
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("sessions.db")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn open(&self) -> SqliteStore {
        SqliteStore::open(self.path()).unwrap()
    }

    /// Another program that has switched the triggers off.
    pub(crate) fn intruder(&self) -> Connection {
        let other = Connection::open(self.path()).unwrap();
        other.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
        other.pragma_update(None, "foreign_keys", false).unwrap();
        other
    }

    /// Changes rows as no other program can without switching the triggers off.
    pub(crate) fn change(&self, statements: &str) {
        self.intruder().execute_batch(statements).unwrap_or_else(|e| panic!("{statements}: {e}"));
    }

    /// Changes the file itself.
    pub(crate) fn overwrite(&self, change: impl FnOnce(&mut [u8])) {
        let mut bytes = std::fs::read(self.path()).unwrap();
        change(&mut bytes);
        std::fs::write(self.path(), bytes).unwrap();
    }

    pub(crate) fn one<T: rusqlite::types::FromSql>(&self, query: &str) -> T {
        Connection::open(self.path()).unwrap().query_row(query, [], |row| row.get(0)).unwrap()
    }
}

/// A folder with a store of plain files.
pub(crate) struct Root {
    folder: TempDir,
    pub(crate) encoding: Encoding,
}

impl Root {
    pub(crate) fn of(encoding: Encoding, logs: &[String]) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap(), encoding };
        let store = place.open();
        logs.iter().for_each(|log| drop(logs::import(&store, log)));
        place
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn open(&self) -> JsonlStore {
        let mut options = JsonlOptions::default();
        options.encoding = self.encoding;
        JsonlStore::open_with(self.path(), options).unwrap()
    }

    /// The folder of a session without a working folder.
    pub(crate) fn session(&self, id: &str) -> PathBuf {
        self.path().join("_no-cwd").join(logs::id(id).escaped())
    }

    pub(crate) fn log(&self, id: &str) -> PathBuf {
        let end = if self.encoding == Encoding::Raw { "" } else { ".zstd" };
        self.session(id).join(format!("session.v3.jsonl{end}"))
    }

    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.log(id)).unwrap();
        change(&mut bytes);
        std::fs::write(self.log(id), bytes).unwrap();
    }
}

/// Tells the other threads of a test to stop, also where it fails.
pub(crate) struct Stop<'s>(pub(crate) &'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Appends, creates and removes until it is told to stop. The store grows to a few thousand events and no further.
pub(crate) fn write_without_rest(store: &dyn SessionPersistence, stop: &AtomicBool) {
    let writer = store.open(&logs::id("grows"), OpenOptions::write()).unwrap();
    let mut seq = writer.read(SeqRange::ALL).unwrap().len() as u64;
    for round in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if seq < 4000 {
            let batch: Vec<_> = (seq..seq + 7).map(|n| SessionEvent::of("todo/write", n, 5, &[n]).unwrap()).collect();
            writer.append(&batch).unwrap();
            seq += 7;
        }
        logs::import(store, &logs::forked(&format!("n{round}"), "grows"));
        if let Some(oldest) = round.checked_sub(20) {
            assert!(store.remove(&logs::id(&format!("n{oldest}"))).unwrap());
        }
    }
}

/// What a check of a whole store finds, in its order.
#[track_caller]
pub(crate) fn verify(store: &dyn SessionPersistence) -> (Report, Vec<Fault>) {
    verify_some(store, None)
}

#[track_caller]
pub(crate) fn verify_some(store: &dyn SessionPersistence, sessions: Option<&[SessionId]>) -> (Report, Vec<Fault>) {
    let mut faults = Vec::new();
    let report = upkeep::verify(store, sessions, &mut |progress| {
        if let Progress::Fault(fault) = progress {
            faults.push(fault.clone());
        }
    });
    let report = report.unwrap_or_else(|e| panic!("{e:?}"));
    let harmless = faults.iter().filter(|fault| fault.kind.is_harmless()).count() as u64;
    assert_eq!((report.faults, report.leftovers), (faults.len() as u64 - harmless, harmless));
    assert!(faults.iter().all(|fault| !fault.reason.is_empty() && !fault.advice.is_empty()), "{faults:?}");
    (report, faults)
}

/// Kind, session and seq of each fault.
pub(crate) fn places(faults: &[Fault]) -> Vec<(FaultKind, Option<&str>, Option<u64>)> {
    faults.iter().map(|fault| (fault.kind, fault.session.as_ref().map(SessionId::as_str), fault.seq)).collect()
}

/// Every file below a folder with its bytes, in the order of their names.
pub(crate) fn content(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.push((path.clone(), Vec::new()));
            files.extend(content(&path));
        } else {
            files.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}
