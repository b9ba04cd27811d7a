//! `show --follow` of sessions that other processes write.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::folder::{Folder, STORES, event, header, log};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that follows a session, and the lines that it gives.
struct Following {
    child: Child,
    lines: Receiver<String>,
}

impl Following {
    fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let mut child = folder.start(arguments);
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        // It ends with the pipe, or when nobody receives.
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// The next lines, as they come.
    #[track_caller]
    fn expect(&self, log: &str, lines: std::ops::Range<usize>) {
        for expected in log.lines().skip(1).skip(lines.start).take(lines.len()) {
            assert_eq!(self.lines.recv_timeout(PATIENCE).as_deref(), Ok(expected));
        }
    }

    /// The exit code, and what was written beside the data; no line came that was not expected.
    #[track_caller]
    fn end(mut self) -> (i32, String) {
        let started = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if started.elapsed() > PATIENCE {
                self.child.kill().unwrap();
                panic!("it does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut err = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let code = self.child.wait().unwrap().code().expect("an exit code");
        let rest: Vec<_> = self.lines.iter().collect();
        assert!(rest.is_empty(), "{rest:?}");
        (code, err)
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).unwrap();
    }
}

/// Another process makes the log so long.
fn extend(folder: &Folder, store: &str, count: u64) {
    folder.write("log.jsonl", log("s", count));
    folder.run(&["--store", store, "import", "--extend", "log.jsonl"]).done();
}

#[cfg(unix)]
#[test]
fn each_event_is_shown_once_as_another_process_writes_it_until_ctrl_c() {
    for store in STORES {
        let folder = Folder::new();
        let whole = log("s", 40);
        extend(&folder, store, 3);
        let following = Following::start(&folder, &["--store", store, "show", "s", "--follow", "--json"]);
        following.expect(&whole, 0..3);
        for (before, count) in [(3, 4), (4, 9), (9, 10), (10, 40)] {
            extend(&folder, store, count);
            following.expect(&whole, before..count as usize);
        }
        following.signal(rustix::process::Signal::INT);
        assert_eq!(following.end(), (0, String::new()), "{store}");
    }
}

#[test]
fn what_was_asked_for_is_awaited_and_ends_it() {
    for store in STORES {
        let folder = Folder::new();
        let whole = log("s", 12);
        extend(&folder, store, 2);
        let arguments = ["show", "s", "--follow", "--json", "--from", "5", "--limit", "2", "--type", "turn/start"];
        let following = Following::start(&folder, &[&["--store", store], &arguments[..]].concat());
        for count in [4, 7, 12] {
            extend(&folder, store, count);
        }
        following.expect(&whole, 6..7);
        following.expect(&whole, 8..9);
        assert_eq!(following.end(), (0, String::new()), "{store}");
    }
}

#[test]
fn for_a_person_it_goes_on_under_the_same_title() {
    let folder = Folder::new();
    extend(&folder, STORES[0], 2);
    let following = Following::start(&folder, &["show", "s", "--follow", "--limit", "4"]);
    let mut shown: Vec<_> = (0..5).map(|_| following.lines.recv_timeout(PATIENCE).unwrap()).collect();
    extend(&folder, STORES[0], 6);
    shown.extend((0..2).map(|_| following.lines.recv_timeout(PATIENCE).unwrap()));
    assert_eq!(following.end(), (0, String::new()));
    assert!(shown[0].starts_with("s · 2 events") && shown[6].ends_with("turn 2 completed"), "{shown:?}");
}

/// Also while nothing is written that could fail.
#[cfg(unix)]
#[test]
fn it_ends_quietly_when_nobody_reads_it_any_more() {
    let folder = Folder::with_session("s", 3);
    let mut child = folder.start(&["show", "s", "--follow", "--json"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    drop(out);
    let following = Following { child, lines: channel().1 };
    assert_eq!(following.end(), (0, String::new()));
}

#[test]
fn a_session_that_is_removed_is_told() {
    for store in STORES {
        let folder = Folder::new();
        extend(&folder, store, 3);
        let following = Following::start(&folder, &["--store", store, "show", "s", "--follow", "--json"]);
        following.expect(&log("s", 3), 0..3);
        folder.run(&["--store", store, "remove", "s"]).done();
        let (code, err) = following.end();
        assert!(code == 1 && err.starts_with("sessions: NotFound: session \"s\" was removed"), "{store}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

/// Whatever the length of the other one; here the follower sleeps while it is put there, so that it sees no absence.
#[cfg(unix)]
#[test]
fn another_session_under_the_same_id_is_told_and_none_of_it_shown() {
    use rustix::process::Signal;
    for store in STORES {
        for count in [1, 3, 8] {
            let folder = Folder::new();
            extend(&folder, store, 3);
            let following = Following::start(&folder, &["--store", store, "show", "s", "--follow", "--json"]);
            following.expect(&log("s", 3), 0..3);
            following.signal(Signal::STOP);
            folder.run(&["--store", store, "remove", "s"]).done();
            extend(&folder, store, count);
            following.signal(Signal::CONT);
            let (code, err) = following.end();
            assert!(code == 1 && err.starts_with("sessions: Replaced: session \"s\""), "{store} {count}: {err}");
            assert_eq!(err.lines().count(), 1, "{err}");
        }
    }
}

/// In the same file, so that only what stands in it tells: other events, fewer, or another header above the same ones.
#[test]
fn a_file_that_is_written_over_with_another_log_is_told() {
    let events = (0..9).map(|seq| event("turn/start", seq, r#"{"turn":77}"#)).collect::<String>();
    let elsewhere = log("s", 9).replacen(r#""isSeeded""#, r#""parentSession":"p","isSeeded""#, 1);
    for other in [header("s") + &events, log("s", 2), header("s"), elsewhere] {
        let folder = Folder::new();
        extend(&folder, STORES[1], 3);
        let following = Following::start(&folder, &["--store", "root", "show", "s", "--follow", "--json"]);
        following.expect(&log("s", 3), 0..3);
        folder.write("root/_no-cwd/s/session.v3.jsonl", &other);
        let (code, err) = following.end();
        assert!(code == 1 && err.starts_with("sessions: Replaced: session \"s\""), "{other}: {err}");
    }
}

#[test]
fn what_is_not_there_is_not_awaited() {
    let folder = Folder::with_session("s", 1);
    folder.run(&["show", "t", "--follow"]).failed("NotFound", &["\"t\""]);
    folder.run(&["--store", "absent.db", "show", "s", "--follow"]).failed("UnsupportedStore", &["absent.db"]);
}
