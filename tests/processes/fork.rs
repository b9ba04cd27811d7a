//! A process that forks: what the child does with what it has of its parent harms nothing.

#![allow(
    unsafe_code,
    reason = "there is no safe fork, and a forked child has to leave without running what its parent left"
)]

use std::io::{Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use session_persistence::{OpenOptions, Result, SessionPersistence as _};

use super::log::{assert_log, id, list};
use super::peer::Peer;
use super::place::{Kind, Place};
use super::role::refusal;

/// After so many seconds a forked child that waits for a lock of a thread that it does not have is killed.
const CHILD_SECONDS: u32 = 20;

/// Runs `work` in a forked child, which leaves at once, and gives what came of it.
pub(crate) fn in_child(work: impl FnOnce() -> Result<String>) -> String {
    let (mut heard, mut told) = std::io::pipe().unwrap();
    // SAFETY: the other thread of this process, the test runner's, waits for this one and holds no lock.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: sets a timer of this process.
            unsafe { libc::alarm(CHILD_SECONDS) };
            let said = match catch_unwind(AssertUnwindSafe(work)) {
                Ok(Ok(what)) => what,
                Ok(Err(error)) => refusal(&error),
                Err(_) => "panicked".to_owned(),
            };
            let written = told.write_all(said.as_bytes());
            // SAFETY: ends this process.
            unsafe { libc::_exit(written.is_err().into()) }
        }
        child => {
            assert!(child > 0, "{}", std::io::Error::last_os_error());
            drop(told);
            let mut said = String::new();
            heard.read_to_string(&mut said).unwrap();
            let pid = rustix::process::Pid::from_raw(child).unwrap();
            let (_, status) =
                rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap().unwrap();
            if status.exit_status() == Some(0) { said } else { format!("ended by {status:?} after {said:?}") }
        }
    }
}

/// Forks a writer, has the child do `what` with the parent's store or handle, and checks that the parent still owns, goes
/// on, and loses nothing.
fn fork_and(kind: Kind, what: &str) -> String {
    let place = Place::new(kind);
    let store = place.open();
    let mut parent = Peer::at(&place);
    parent.tell("create s").done();
    parent.tell("append s 0 5").done();
    let said = parent.tell(&format!("fork s {what}")).done();
    let lock = place.lock("s");
    assert!(lock.exists(), "{kind:?}, {what}: {}", lock.display());
    let refused = store.open(&id("s"), OpenOptions::write()).expect_err("the parent owns the session").to_string();
    assert!(refused.contains(&format!("process {}", parent.pid())), "{kind:?}, {what}: {refused}");
    assert_log(&*store, "s", 5);
    parent.tell("each s 5 8").done();
    parent.tell("flush s").done();
    // A second time, behind what the parent wrote meanwhile.
    let again = parent.tell(&format!("fork s {what}")).done();
    assert_eq!(again.split(' ').nth(1), said.split(' ').nth(1), "{kind:?}, {what}");
    parent.tell("append s 8 10").done();
    assert_eq!(store.open(&id("s"), OpenOptions::write()).map(|_| ()).unwrap_err().kind().name(), "AlreadyOwned");
    parent.tell("close s").done();
    parent.end();
    let next = store.open(&id("s"), OpenOptions::write()).unwrap();
    assert_log(&*store, "s", 10);
    drop((next, store));
    assert_eq!(list(&*place.open()).len(), 1, "{kind:?}, {what}");
    assert_eq!(place.files(), place.expected(&["s".to_owned()]), "{kind:?}, {what}");
    #[cfg(feature = "sqlite")]
    if kind == Kind::Sqlite {
        let connection = rusqlite::Connection::open(place.path()).unwrap();
        let found: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(found, "ok", "{what}");
    }
    said
}

#[test]
fn a_forked_child_that_drops_or_closes_what_its_parent_has_takes_nothing_from_it() {
    for kind in Kind::ALL {
        assert_eq!(fork_and(*kind, "nothing"), "done");
        assert_eq!(fork_and(*kind, "drop"), "done");
        let closed = fork_and(*kind, "close");
        assert!(closed == "done" || closed.starts_with("refused: "), "{kind:?}: {closed}");
    }
}

#[test]
fn a_forked_child_is_refused_by_its_parents_store_and_handle() {
    for kind in Kind::ALL {
        for what in ["append", "flush", "read", "stat", "list", "create", "open", "remove", "flush-all"] {
            let said = fork_and(*kind, what);
            assert!(said.starts_with("refused: "), "{kind:?}, {what}: {said}");
        }
    }
}

#[test]
fn a_forked_child_that_opens_the_store_anew_reads_what_its_parent_wrote() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let mut parent = Peer::at(&place);
        parent.tell("create s").done();
        parent.tell("append s 0 5").done();
        assert_eq!(parent.tell("fork s anew").done(), "looked", "{kind:?}");
        parent.tell("append s 5 6").done();
        parent.end();
        assert_log(&*place.open(), "s", 6);
    }
}
