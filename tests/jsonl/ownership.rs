//! One writer a session: across stores of one process, across processes, paused and killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use session_persistence::{
    CreateOptions, Encoding, Error, ErrorKind, JsonlStore, OpenOptions, SeqRange, SessionPersistence,
};

use super::place::{ENCODINGS, Place, event, events, header, id, list, read, stat, store, writer};

#[test]
fn two_stores_of_one_process_keep_each_other_out_and_read_each_other() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let (first, second) = (place.open(), place.open());
        store(&first, "s", &[&events(0..1)]);
        let holder = writer(&first, "s");
        let before = place.files();
        match second.open(&id("s"), OpenOptions::write()).expect_err("the first store writes it") {
            Error::AlreadyOwned { session, holder } => {
                assert_eq!((session, holder.process), (id("s"), std::process::id()));
                assert!(holder.since > 1_600_000_000_000, "milliseconds since 1970");
            }
            other => panic!("{other}"),
        }
        assert_eq!(second.remove(&id("s")).unwrap_err().kind(), ErrorKind::AlreadyOwned);
        assert_eq!(place.files(), before);
        let reader = second.open(&id("s"), OpenOptions::read()).unwrap();
        holder.append(&events(1..2)).unwrap();
        assert_eq!(reader.read(SeqRange::ALL).unwrap(), events(0..2));
        holder.close().unwrap();
        let next = writer(&second, "s");
        assert_eq!(first.open(&id("s"), OpenOptions::write()).err().unwrap().kind(), ErrorKind::AlreadyOwned);
        next.append(&events(2..3)).unwrap();
        assert_eq!(read(&first, "s"), events(0..3));
        drop(next);
        writer(&first, "s").append(&events(3..4)).unwrap();
        assert_eq!(read(&second, "s"), events(0..4));
        assert!(place.session("s").join("session.lock").exists(), "the lock file stays");
    }
}

#[test]
fn of_two_creators_the_first_that_stores_wins_whatever_their_folders() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let (first, second, third) = (place.open(), place.open(), place.open());
        let here = first.create(&header("s"), CreateOptions::default()).unwrap();
        let same = second.create(&header("s"), CreateOptions::default()).unwrap();
        let elsewhere = third.create(&header("s").with_cwd("/elsewhere"), CreateOptions::default()).unwrap();
        here.append(&events(0..1)).unwrap();
        assert_eq!(same.append(&events(0..2)).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(elsewhere.append(&events(0..2)).unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop(same);
        drop(elsewhere);
        here.append(&events(1..2)).unwrap();
        assert_eq!(read(&second, "s"), events(0..2));
        assert_eq!((list(&third).len(), place.root().join("--elsewhere--").exists()), (1, false));
    }
}

#[test]
fn a_lock_record_of_a_stranger_keeps_nobody_out() {
    let place = Place::new(Encoding::Raw);
    store(&place.open(), "s", &[&events(0..1)]);
    std::fs::write(place.session("s").join("session.lock"), "{\"process\":1,\"since\":0}\n").unwrap();
    writer(&place.open(), "s").append(&events(1..2)).unwrap();
    let file = std::fs::File::options().write(true).open(place.session("s").join("session.lock")).unwrap();
    file.lock().unwrap();
    file.set_len(0).unwrap();
    let refused = place.open().open(&id("s"), OpenOptions::write()).expect_err("another program has the lock");
    assert!(refused.to_string().contains("another program"), "{refused}");
}

#[test]
fn the_draft_of_a_writer_that_was_killed_behind_its_publication_goes_with_the_next_writer() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        store(&place.open(), "s", &[&events(0..1)]);
        let before = place.files();
        let log = place.log("s");
        let name = log.file_name().unwrap().to_str().unwrap();
        std::fs::hard_link(&log, log.with_file_name(format!("{name}.0123456789ab.tmp"))).unwrap();
        let other = log.with_file_name("notes.tmp");
        std::fs::write(&other, "not ours").unwrap();
        assert_eq!(read(&place.open(), "s"), events(0..1));
        assert_eq!(place.files().len(), before.len() + 2, "whoever reads removes nothing");
        writer(&place.open(), "s").append(&events(1..2)).unwrap();
        assert_eq!(place.files().len(), before.len() + 1);
        assert!(other.exists());
        assert_eq!(read(&place.open(), "s"), events(0..2));
    }
}

#[test]
fn an_append_goes_by_the_real_end_of_the_file() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let at = place.open();
        store(&at, "s", &[&events(0..2)]);
        let shorter = std::fs::read(place.log("s")).unwrap();
        let writer = writer(&at, "s");
        writer.append(&events(2..3)).unwrap();
        let longer = std::fs::read(place.log("s")).unwrap();
        // A program that honours no lock put an older file, and then the newer one, in the place of the log.
        std::fs::write(place.log("s"), &shorter).unwrap();
        match writer.append(&events(3..4)).unwrap_err() {
            Error::NotContiguous { expected: 2, found: 3, .. } => {}
            other => panic!("{other}"),
        }
        std::fs::write(place.log("s"), &longer).unwrap();
        writer.append(&events(3..4)).unwrap();
        assert_eq!(read(&place.open(), "s"), events(0..4));
        // Another file in its place is another session.
        std::fs::remove_file(place.log("s")).unwrap();
        std::fs::write(place.log("s"), &shorter).unwrap();
        let refused = writer.append(&events(2..3)).unwrap_err();
        let cause = std::error::Error::source(&refused).map(ToString::to_string).unwrap_or_default();
        assert_eq!(refused.kind(), ErrorKind::Io, "{refused:?}");
        assert!(cause.contains("another file") && cause.contains("open the session again"), "{cause}");
        assert_eq!(read(&place.open(), "s"), events(0..2));
        std::fs::remove_file(place.log("s")).unwrap();
        assert_eq!(writer.append(&events(2..3)).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn a_flush_of_a_log_that_is_gone_says_what_happened_and_other_sessions_are_flushed() {
    type Harm = fn(&Place);
    let harms: [(&str, Harm); 4] = [
        ("removed", |place| std::fs::remove_file(place.log("s")).unwrap()),
        ("removed", |place| std::fs::remove_dir_all(place.session("s")).unwrap()),
        ("cut to", |place| {
            std::fs::File::options().write(true).open(place.log("s")).unwrap().set_len(20).unwrap();
        }),
        ("in its place", |place| {
            let copy = place.root().join("copy");
            std::fs::copy(place.log("s"), &copy).unwrap();
            std::fs::rename(copy, place.log("s")).unwrap();
        }),
    ];
    for encoding in ENCODINGS {
        for (what, harm) in harms {
            for is_flushed in [false, true] {
                let place = Place::new(encoding);
                let at = place.open();
                store(&at, "s", &[&events(0..2)]);
                store(&at, "other", &[&events(0..2)]);
                let (handle, other) = (writer(&at, "s"), writer(&at, "other"));
                handle.append(&events(2..3)).unwrap();
                other.append(&events(2..3)).unwrap();
                if is_flushed {
                    at.flush().unwrap();
                }
                harm(&place);
                for refused in [handle.flush().unwrap_err(), at.flush().unwrap_err(), handle.flush().unwrap_err()] {
                    assert_eq!(refused.kind(), ErrorKind::Io, "{what}: {refused:?}");
                    assert_eq!(refused.session(), Some(&id("s")), "{what}: {refused:?}");
                    let cause = std::error::Error::source(&refused).unwrap().to_string();
                    assert!(cause.contains(what) && cause.contains("restore"), "{what}: {cause}");
                }
                if let Some(told) = at.stat(&id("s")).ok().flatten() {
                    assert_eq!(told.last_failure.map(|failure| failure.operation), Some("flush"), "{what}");
                }
                other.flush().unwrap();
                other.close().unwrap();
                drop(handle);
                at.flush().unwrap();
            }
        }
        let place = Place::new(encoding);
        let at = place.open();
        store(&at, "s", &[&events(0..2)]);
        writer(&at, "s").append(&events(2..3)).unwrap();
        assert!(at.remove(&id("s")).unwrap());
        at.flush().unwrap();
    }
}

#[test]
fn a_reader_of_a_removed_session_never_reads_its_successor() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let at = place.open();
        for _ in 0..20 {
            store(&at, "s", &[&events(0..2)]);
            let before = stat(&at, "s").revision;
            let reader = at.open(&id("s"), OpenOptions::read()).unwrap();
            assert!(at.remove(&id("s")).unwrap());
            store(&at, "s", &[&events(0..2)]);
            assert_eq!(reader.read(SeqRange::ALL).unwrap_err().kind(), ErrorKind::NotFound);
            assert_ne!(stat(&at, "s").revision, before);
            assert!(at.remove(&id("s")).unwrap());
        }
    }
}

#[test]
fn readers_of_another_store_follow_a_writer_without_a_gap() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let (writing, reading) = (place.open(), place.open());
        store(&writing, "s", &[&events(0..1)]);
        let writer = writer(&writing, "s");
        std::thread::scope(|scope| {
            let follow = || {
                let reader = reading.open(&id("s"), OpenOptions::read()).unwrap();
                let mut seen = 0;
                while seen < 301 {
                    let log = reader.read(SeqRange::ALL).unwrap();
                    assert!(log.len() >= seen);
                    assert_eq!(log, events(0..log.len() as u64));
                    seen = log.len();
                    assert_eq!(list(&reading).len(), 1);
                }
            };
            let followers = [scope.spawn(follow), scope.spawn(follow)];
            for seq in (1..301).step_by(3) {
                writer.append(&events(seq..seq + 3)).unwrap();
            }
            followers.into_iter().for_each(|follower| follower.join().unwrap());
        });
    }
}

/// A process of its own that does what it is told, a line a time.
struct Other {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

const ROOT: &str = "SESSIONS_TEST_OTHER_ROOT";

impl Other {
    fn start(place: &Place) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "ownership::another_process", "--nocapture"])
            .env(ROOT, place.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    fn tell(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").unwrap();
        self.input.flush().unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the other process has ended");
            if let Some(answer) = line.strip_prefix("answer: ") {
                return answer.trim_end().to_owned();
            }
        }
    }

    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended already, and is waited for so that no zombie stays.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The other process; nothing where this is not one.
#[test]
#[ignore = "run by other tests as a process of its own"]
fn another_process() {
    let Some(root) = std::env::var_os(ROOT) else { return };
    let store = JsonlStore::open(root).unwrap();
    let mut handle = None;
    for line in std::io::stdin().lines() {
        let answer = match line.unwrap().as_str() {
            "open" => store.open(&id("s"), OpenOptions::write()).map(|opened| handle = Some(opened)),
            "create" => store.create(&header("s"), CreateOptions::default()).map(|created| handle = Some(created)),
            "close" => handle.take().unwrap().close(),
            append => handle.as_ref().unwrap().append(&[event(append.parse().unwrap())]),
        };
        println!("\nanswer: {}", answer.map_or_else(|e| e.to_string(), |()| "done".to_owned()));
    }
}

#[cfg(unix)]
#[test]
fn a_process_owns_while_it_lives_paused_or_not_and_no_longer_when_it_is_killed() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let at = place.open();
        store(&at, "s", &[&events(0..1)]);
        let mut other = Other::start(&place);
        assert_eq!(other.tell("open"), "done");
        assert_eq!(other.tell("1"), "done");
        let refused = |at: &JsonlStore| match at.open(&id("s"), OpenOptions::write()).expect_err("it is owned") {
            Error::AlreadyOwned { holder, .. } => assert_eq!(holder.process, other.child.id()),
            other => panic!("{other}"),
        };
        refused(&at);
        let owner = || stat(&at, "s").owner.map(|holder| holder.process);
        assert_eq!(owner(), Some(other.child.id()));
        assert_eq!(at.create(&header("s"), CreateOptions::default()).err().unwrap().kind(), ErrorKind::AlreadyExists);
        other.signal("STOP");
        refused(&at);
        assert_eq!((read(&at, "s"), list(&at).len()), (events(0..2), 1));
        assert_eq!((owner(), list(&at)[0].owner.as_ref().map(|o| o.process)), (Some(other.child.id()), owner()));
        other.signal("CONT");
        assert_eq!(other.tell("2"), "done");
        other.signal("KILL");
        other.child.wait().unwrap();
        let left = std::fs::read(place.session("s").join("session.lock")).unwrap();
        assert!(!left.is_empty(), "who is killed leaves a record");
        assert_eq!((owner(), list(&at)[0].owner.clone()), (None, None));
        assert_eq!(std::fs::read(place.session("s").join("session.lock")).unwrap(), left, "looking changes nothing");
        let next = writer(&at, "s");
        assert_eq!(owner(), Some(std::process::id()));
        assert_eq!(next.read(SeqRange::ALL).unwrap(), events(0..3), "what was acknowledged survives its process");
        next.append(&events(3..4)).unwrap();
        assert_eq!(read(&place.open(), "s"), events(0..4));
        let mut other = Other::start(&place);
        assert!(other.tell("open").contains("being written by process"));
    }
}

#[cfg(unix)]
#[test]
fn a_paused_process_whose_lock_file_was_removed_still_owns_its_session() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let at = place.open();
        store(&at, "s", &[&events(0..1)]);
        let mut other = Other::start(&place);
        assert_eq!((other.tell("open"), other.tell("1")), ("done".to_owned(), "done".to_owned()));
        other.signal("STOP");
        std::fs::remove_file(place.session("s").join("session.lock")).unwrap();
        let bytes = std::fs::read(place.log("s")).unwrap();
        for refused in [at.open(&id("s"), OpenOptions::write()).map(drop), at.remove(&id("s")).map(drop)] {
            match refused.expect_err("it is owned") {
                Error::AlreadyOwned { holder, .. } if cfg!(target_os = "linux") => {
                    assert_eq!(holder.process, other.child.id());
                }
                Error::AlreadyOwned { .. } => {}
                other => panic!("{other}"),
            }
        }
        assert!(std::fs::read(place.log("s")).unwrap() == bytes);
        other.signal("CONT");
        assert_eq!((other.tell("2"), other.tell("3")), ("done".to_owned(), "done".to_owned()));
        assert_eq!(stat(&at, "s").owner.map(|holder| holder.process), Some(other.child.id()));
        std::fs::remove_file(place.session("s").join("session.lock")).unwrap();
        other.signal("KILL");
        other.child.wait().unwrap();
        writer(&at, "s").append(&events(4..5)).unwrap();
        assert_eq!(read(&place.open(), "s"), events(0..5));
    }
}

#[cfg(unix)]
#[test]
fn a_child_process_that_outlives_a_writer_does_not_keep_its_lock() {
    let place = Place::new(Encoding::Raw);
    let at = place.open();
    store(&at, "s", &[&events(0..1)]);
    let holder = writer(&at, "s");
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    holder.append(&events(1..2)).unwrap();
    holder.close().unwrap();
    writer(&place.open(), "s").append(&events(2..3)).unwrap();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}
