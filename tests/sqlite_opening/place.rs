//! What the tests put into stores, and what they find there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use session_persistence::{
    CreateOptions, Error, Journal, ListQuery, OpenOptions, Result, SeqRange, SessionEvent, SessionHandle,
    SessionHeader, SessionId, SessionPersistence as _, SqliteOptions, SqliteStore,
};

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

/// An event of about `bytes` bytes.
pub(crate) fn event(seq: u64, bytes: usize) -> SessionEvent {
    SessionEvent::of("todo/write", seq, 1, &format!("{seq} {}", "x".repeat(bytes))).unwrap()
}

pub(crate) fn events(seqs: std::ops::Range<u64>, bytes: usize) -> Vec<SessionEvent> {
    seqs.map(|seq| event(seq, bytes)).collect()
}

pub(crate) fn create(store: &SqliteStore, name: &str) -> Box<dyn SessionHandle> {
    store.create(&SessionHeader::new(id(name), 1).unwrap(), CreateOptions::default()).unwrap()
}

/// A session of `count` events of about `bytes` bytes, in one batch.
pub(crate) fn put(store: &SqliteStore, name: &str, count: u64, bytes: usize) {
    create(store, name).append(&events(0..count, bytes)).unwrap();
}

/// How many events each session has, as it is read whole.
pub(crate) fn counts(store: &SqliteStore) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for listed in store.list(&ListQuery::default())?.items {
        let log = store.open(&listed.id, OpenOptions::read())?.read(SeqRange::ALL)?;
        assert!(log.iter().zip(0..).all(|(event, seq)| event.seq().get() == seq), "{:?}", listed.id);
        let count = log.len() as u64;
        // It may be written meanwhile.
        let (before, after) = (listed.event_count, store.stat(&listed.id)?.and_then(|now| now.event_count));
        assert!(before <= Some(count) && Some(count) <= after, "{:?}: {before:?} {count} {after:?}", listed.id);
        counts.insert(listed.id.to_string(), count);
    }
    Ok(counts)
}

pub(crate) fn of(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

pub(crate) fn rollback() -> SqliteOptions {
    SqliteOptions::default().with_journal(Journal::Rollback)
}

pub(crate) fn open(path: &Path) -> SqliteStore {
    SqliteStore::open_existing(path).unwrap()
}

pub(crate) fn refused(path: &Path) -> Error {
    SqliteStore::open_existing(path).map(drop).unwrap_err()
}

/// The mode of a database, in SQLite's words.
pub(crate) fn mode(path: &Path) -> String {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap()
}

pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Copies a database with the files beside it that are named, as a killed process leaves them.
pub(crate) fn copy(from: &Path, to: &Path, suffixes: &[&str]) {
    for suffix in [""].iter().chain(suffixes) {
        std::fs::copy(beside(from, suffix), beside(to, suffix)).unwrap();
    }
}

/// Every file below a folder with its bytes.
pub(crate) fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(content(&path));
        } else {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    files
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
