//! The locks of sessions: those who look for a writer keep none out, and a killed writer is not told as an owner.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use session_persistence::{Error, ErrorKind, Holder, OpenOptions, SessionPersistence as _, SqliteStore};

use super::place::{beside, counts, events, id, of, open, put};

/// A record of an earlier release, of a process on a machine that is not named.
const SIGNED: &str = "{\"process\":7,\"since\":5}\n";

/// A store with one session.
fn store(path: &Path) -> SqliteStore {
    let store = SqliteStore::open(path).unwrap();
    put(&store, "s", 1, 100);
    store
}

/// The lock of the session as a writer leaves it that is killed.
fn leave_lock(database: &Path, record: &str) -> PathBuf {
    let path = beside(database, "-locks").join("1.lock");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, record).unwrap();
    path
}

#[test]
fn looking_for_a_writer_keeps_no_writer_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let (one, others) = (store(&path), open(&path));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let lookers = [(); 3].map(|()| {
            let (store, is_over) = (open(&path), &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    store.stat(&id("s")).unwrap();
                }
            })
        });
        let mut refused = Vec::new();
        for _ in 0..300 {
            leave_lock(&path, SIGNED);
            match one.open(&id("s"), OpenOptions::write()) {
                Ok(handle) => {
                    let second = others.open(&id("s"), OpenOptions::write()).map(drop).unwrap_err();
                    assert_eq!(second.kind(), ErrorKind::AlreadyOwned);
                    handle.close().unwrap();
                }
                Err(e) => refused.push(e),
            }
        }
        is_over.store(true, Ordering::Relaxed);
        lookers.into_iter().for_each(|looker| looker.join().unwrap());
        assert!(refused.is_empty(), "{refused:?}");
    });
}

#[test]
fn a_writer_waits_for_those_who_look_and_not_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = store(&path);
    let looker = File::open(leave_lock(&path, SIGNED)).unwrap();
    looker.lock_shared().unwrap();
    let busy = [store.open(&id("s"), OpenOptions::write()).map(drop), store.remove(&id("s")).map(drop)];
    for busy in busy.map(Result::unwrap_err) {
        assert!(matches!(&busy, Error::StoreBusy { session: Some(session), .. } if *session == id("s")), "{busy:?}");
        assert!(busy.is_retryable());
    }
    assert_eq!(store.stat(&id("s")).unwrap().unwrap().owner, None);
    assert_eq!(counts(&store).unwrap(), of(&[("s", 1)]));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            looker.unlock().unwrap();
        });
        let writer = store.open(&id("s"), OpenOptions::write()).unwrap();
        writer.append(&events(1..2, 100)).unwrap();
    });
    assert_eq!(counts(&store).unwrap(), of(&[("s", 2)]));
    assert!(store.remove(&id("s")).unwrap());
}

#[test]
fn the_record_of_a_killed_writer_is_not_told_for_that_of_who_has_the_lock_now() {
    if !Path::new("/proc/self").exists() {
        eprintln!("skipped: this system does not tell which processes there are");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = store(&path);
    let host = gethostname::gethostname().to_string_lossy().into_owned();
    let record = format!("{{\"process\":{},\"host\":\"{host}\",\"since\":5}}\n", u32::MAX);
    let lock = File::open(leave_lock(&path, &record)).unwrap();
    assert_eq!(store.stat(&id("s")).unwrap().unwrap().owner, None);
    lock.lock().unwrap();
    assert_eq!(store.stat(&id("s")).unwrap().unwrap().owner, Some(Holder::new(0, "", 0)));
    let refused = store.open(&id("s"), OpenOptions::write()).map(drop).unwrap_err();
    assert!(matches!(&refused, Error::AlreadyOwned { holder, .. } if holder.process == 0), "{refused:?}");
    leave_lock(&path, SIGNED);
    assert_eq!(store.stat(&id("s")).unwrap().unwrap().owner, Some(Holder::new(7, "", 5)));
}
