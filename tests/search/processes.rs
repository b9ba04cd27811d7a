//! Other processes at the same index: killed in the middle of an update, holding its lock, removing it. They are this very
//! program.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use session_persistence::query::index::{IndexError, IndexOptions, SearchIndex, SearchQuery};
use session_persistence::{OpenOptions, SeqRange, SessionPersistence, SqliteStore};
use tempfile::TempDir;

use crate::sample::{all_say, append, faults, found, id, store_session};

/// In the environment of the other process: what it does, and where.
const ROLE: &str = "SESSIONS_SEARCH_ROLE";
const PLACE: &str = "SESSIONS_SEARCH_PLACE";

/// Another process, killed when it is dropped.
struct Peer(Child);

impl Peer {
    fn start(role: &str, folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::another_process"]).env(ROLE, role).env(PLACE, folder);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already, and is waited for so that no zombie stays.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The other process; nothing where this is not one.
#[test]
fn another_process() {
    let (Some(role), Some(place)) = (std::env::var_os(ROLE), std::env::var_os(PLACE)) else { return };
    let place = PathBuf::from(place);
    match role.to_str().unwrap() {
        "update" => {
            let store = SqliteStore::open(place.join("s.db")).unwrap();
            loop {
                let done = SearchIndex::open(place.join("s.index")).and_then(|index| index.update(&store));
                // The file is removed and damaged under it.
                drop(done);
            }
        }
        "lock" => {
            let connection = Connection::open(place.join("s.index")).unwrap();
            connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;").unwrap();
            std::fs::write(place.join("locked"), "").unwrap();
            std::thread::sleep(Duration::from_secs(600));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn an_index_that_is_removed_with_its_lock_while_it_is_used_tells_nothing_wrong_and_is_whole_again_afterwards() {
    let (folder, store) = filled();
    let path = folder.path().join("s.index");
    let peers = [Peer::start("update", folder.path()), Peer::start("update", folder.path())];
    for round in 0..rounds(6, 60) {
        for name in ["s.index", "s.index-wal", "s.index-shm", "s.index-lock"].iter().take(2 + round % 3) {
            drop(std::fs::remove_file(folder.path().join(name)));
        }
        let update = |index: SearchIndex| index.update(&store).map(|_| index);
        let met = SearchIndex::open(&path).and_then(update).and_then(|index| index.search(&SearchQuery::new("needle")));
        assert!(met.as_ref().is_ok_and(|page| page.total == 400) || met.is_err(), "round {round}: {met:?}");
    }
    drop(peers);
    let index = SearchIndex::open(&path).unwrap();
    index.update(&store).unwrap();
    assert_eq!(found(&index, "needle").len(), 400);
    assert_eq!(faults(&path, &store), [""; 0]);
}

fn rounds(few: usize, full: usize) -> usize {
    if std::env::var_os("SESSIONS_FULL").is_some() { full } else { few }
}

fn remove(folder: &Path) {
    for name in ["s.index", "s.index-wal", "s.index-shm"] {
        drop(std::fs::remove_file(folder.join(name)));
    }
}

fn filled() -> (TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
    for session in 0..10 {
        let texts: Vec<_> = (0..40).map(|n| format!("needle {n} of {session} {}", "hay ".repeat(50))).collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        store_session(&store, &format!("s{session}"), &all_say(0, &texts));
    }
    (folder, store)
}

#[test]
fn a_process_that_is_killed_in_the_middle_of_an_update_leaves_an_index_that_goes_on() {
    let (folder, store) = filled();
    let path = folder.path().join("s.index");
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut next = 40;
    for round in 0..rounds(4, 200) {
        if round % 4 == 0 {
            // From the start of the file on.
            remove(folder.path());
        }
        let peers = [Peer::start("update", folder.path()), Peer::start("update", folder.path())];
        std::thread::sleep(Duration::from_millis(random.u64(0..150)));
        append(&store, "s3", &all_say(next, &["needle more"]));
        next += 1;
        std::thread::sleep(Duration::from_millis(random.u64(0..150)));
        drop(peers);
        let index = SearchIndex::open(&path).unwrap();
        index.update(&store).unwrap();
        assert_eq!(found(&index, "needle").len() as u64, 400 - 40 + next, "seed {seed}, round {round}");
        assert_eq!(faults(&path, &store), [""; 0], "seed {seed}, round {round}");
    }
}

#[test]
fn an_index_that_another_process_has_locked_is_told_and_the_store_goes_on() {
    let (folder, store) = filled();
    let path = folder.path().join("s.index");
    SearchIndex::open(&path).unwrap().update(&store).unwrap();
    let peer = Peer::start("lock", folder.path());
    let started = Instant::now();
    while !folder.path().join("locked").exists() {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
    let hasty = IndexOptions::default().with_busy_timeout(Duration::from_millis(20));
    let done = SearchIndex::open_with(&path, hasty).and_then(|index| {
        index.search(&SearchQuery::new("needle"))?;
        index.update(&store)
    });
    assert!(matches!(done, Err(IndexError::Busy { .. })), "{done:?}");
    append(&store, "s3", &all_say(40, &["needle more"]));
    assert_eq!(store.list(&Default::default()).unwrap().items.len(), 10);
    assert_eq!(store.open(&id("s3"), OpenOptions::read()).unwrap().read(SeqRange::ALL).unwrap().len(), 41);
    drop(peer);
    let index = SearchIndex::open(&path).unwrap();
    index.update(&store).unwrap();
    assert_eq!(found(&index, "needle").len(), 401);
}

#[test]
fn an_index_that_is_removed_cut_or_overwritten_while_processes_use_it_is_whole_again_after_the_next_update() {
    let (folder, store) = filled();
    let path = folder.path().join("s.index");
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..rounds(3, 100) {
        let peers = [Peer::start("update", folder.path()), Peer::start("update", folder.path())];
        std::thread::sleep(Duration::from_millis(random.u64(20..150)));
        let length = std::fs::metadata(&path).map_or(0, |file| file.len());
        match round % 3 {
            0 => drop(std::fs::remove_file(&path)),
            1 => {
                let file = std::fs::File::options().write(true).open(&path);
                drop(file.and_then(|file| file.set_len(random.u64(..=length))));
            }
            _ => {
                let mut noise = vec![0; length as usize];
                random.fill(&mut noise);
                drop(std::fs::write(&path, noise));
            }
        }
        std::thread::sleep(Duration::from_millis(random.u64(20..100)));
        drop(peers);
        let update = |index: SearchIndex| index.update(&store).map(|_| index);
        let met = SearchIndex::open(&path).and_then(update).and_then(|index| index.search(&SearchQuery::new("needle")));
        let told = faults(&path, &store);
        let is_right = met.as_ref().is_ok_and(|page| page.total == 400);
        assert!(is_right || met.is_err() || !told.is_empty(), "seed {seed}, round {round}: {met:?}");
        if !told.is_empty() {
            remove(folder.path());
        }
        let index = SearchIndex::open(&path).unwrap();
        index.update(&store).unwrap();
        assert_eq!(found(&index, "needle").len(), 400, "seed {seed}, round {round}");
        assert_eq!(store.list(&Default::default()).unwrap().items.len(), 10);
    }
}
