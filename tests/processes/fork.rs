//! A process that forks: what the child does with what it has of its parent harms nothing.

#![allow(unsafe_code, reason = "there is no safe fork, and a child has to leave without running what is its parent's")]

use std::io::{Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use session_persistence::{CreateOptions, ListQuery, OpenOptions, Result, SessionPersistence as _};

use super::end::End;
use super::log::{assert_log, event, header, id, list};
use super::peer::Peer;
use super::place::{Kind, Place};
use super::role::{Role, refusal};
use super::rounds::rounds;

/// After so many seconds a forked child that waits for a lock of a thread that it does not have is killed.
const CHILD_SECONDS: u32 = 20;

/// Runs `work` in a forked child, which leaves at once, and gives what came of it.
pub(crate) fn in_child(work: impl FnOnce() -> Result<String>) -> String {
    let (mut heard, mut told) = std::io::pipe().unwrap();
    // SAFETY: the child calls nothing that waits for a thread which it does not have, or is killed for it.
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
    // What is appended is what comes next, so that nothing else than the fork speaks against it.
    let fork = |next| if what == "append" { format!("fork s append-{next}") } else { format!("fork s {what}") };
    let said = parent.tell(&fork(5)).done();
    let lock = place.lock("s");
    assert!(lock.exists(), "{kind:?}, {what}: {}", lock.display());
    let refused = store.open(&id("s"), OpenOptions::write()).expect_err("the parent owns the session").to_string();
    assert!(refused.contains(&format!("process {}", parent.pid())), "{kind:?}, {what}: {refused}");
    assert_log(&*store, "s", 5);
    parent.tell("each s 5 8").done();
    parent.tell("flush s").done();
    // A second time, behind what the parent wrote meanwhile.
    let again = parent.tell(&fork(8)).done();
    assert_eq!(again.split(' ').nth(1), said.split(' ').nth(1), "{kind:?}, {what}");
    parent.tell("append s 8 10").done();
    assert_eq!(store.open(&id("s"), OpenOptions::write()).map(|_| ()).unwrap_err().kind().name(), "AlreadyOwned");
    parent.tell("close s").done();
    parent.end();
    let next = store.open(&id("s"), OpenOptions::write()).unwrap();
    assert_log(&*store, "s", 10);
    drop((next, store));
    assert_eq!(list(&*place.open()).len(), 1, "{kind:?}, {what}");
    place.assert_holds(&["s".to_owned()], &format!("{kind:?}, {what}"));
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
            assert!(said.starts_with("refused: InvalidArgument "), "{kind:?}, {what}: {said}");
            assert!(said.contains("forked") && said.contains("open the store anew"), "{kind:?}, {what}: {said}");
        }
    }
}

/// Forks `count` times while threads of the process write to another store at the same place, and gives what the children
/// said: each has tried everything with both stores and dropped what it has of the first.
pub(crate) fn at_work(role: &mut Role, name: &str, count: u64) -> Result<String> {
    let busy = role.second_store()?;
    let end = End::default();
    let said = std::thread::scope(|scope| -> Result<Vec<String>> {
        let write = |thread: u64| -> Result<u64> {
            let session = format!("busy{thread}");
            let handle = busy.create(&header(&session), CreateOptions::default())?;
            let mut next = 0;
            while !end.is_told() {
                handle.append(&[event(&session, next)])?;
                next += 1;
            }
            handle.close()?;
            assert_log(&*busy, &session, next);
            Ok(next)
        };
        let writers: Vec<_> = (0..3).map(|thread| scope.spawn(move || write(thread))).collect();
        let told = end.told_by_drop();
        let mut said = Vec::new();
        for _ in 0..count {
            said.push(in_child(|| {
                let refusals = [
                    busy.list(&ListQuery::default()).map(drop),
                    busy.flush(),
                    role.forked(name, "list").map(drop),
                    role.forked(name, "append-5").map(drop),
                ];
                role.forked(name, "drop")?;
                let kinds = refusals.map(|refusal| refusal.map_or_else(|e| e.kind().name(), |()| "done"));
                Ok(kinds.join("+"))
            }));
        }
        drop(told);
        let written = writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Result<Vec<_>>>()?;
        assert!(written.iter().all(|count| *count > 0));
        Ok(said)
    })?;
    Ok(said.join(" "))
}

#[test]
fn a_child_forked_while_threads_write_waits_for_none_of_them() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let mut parent = Peer::at(&place);
        parent.tell("create s").done();
        parent.tell("append s 0 5").done();
        let said = parent.tell(&format!("forks s {}", rounds(20, 300))).done();
        for one in said.split(' ') {
            assert_eq!(one, ["InvalidArgument"; 4].join("+"), "{kind:?}: {said}");
        }
        parent.tell("append s 5 8").done();
        parent.tell("close s").done();
        parent.end();
        let store = place.open();
        assert_log(&*store, "s", 8);
        assert_eq!(list(&*store).len(), 4, "{kind:?}");
    }
}

#[test]
fn a_forked_child_that_opens_the_store_anew_reads_what_its_parent_wrote() {
    for kind in Kind::ALL {
        // What a thread of the parent has locked at that moment stays locked in the child: so from many moments.
        for _ in 0..rounds(8, 100) {
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
}
