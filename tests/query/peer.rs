//! [`Peer`]: another process at the same store.
//!
//! It is this very program, told by lines what to do.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use session_persistence::{CreateOptions, OpenOptions};

use super::place::{Kind, Store};
use super::sample::{header, id, plains, store_session};

/// How long an answer may take before the other process counts as hung.
const PATIENCE: Duration = Duration::from_secs(120);
/// In the environment of the other process.
const MARK: &str = "SESSIONS_QUERY_PEER";

/// Another process, killed when it is dropped.
pub(crate) struct Peer {
    process: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Peer {
    pub(crate) fn start() -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "peer::another_process", "--nocapture"])
            .env(MARK, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (answered, answers) = channel();
        std::thread::spawn(move || {
            let done = output.lines().map_while(Result::ok);
            let done = done.filter_map(|line| line.strip_prefix("done: ").map(str::to_owned));
            // Nobody listens any more once the peer is dropped.
            done.map(|answer| answered.send(answer)).take_while(Result::is_ok).for_each(drop);
        });
        Self { process, input, answers }
    }

    /// Has it do something, and waits until that is done. The words of a command are joined by tabs.
    #[track_caller]
    pub(crate) fn tell(&mut self, words: &[&str]) {
        writeln!(self.input, "{}", words.join("\t")).and_then(|()| self.input.flush()).unwrap();
        let answer = self.answers.recv_timeout(PATIENCE);
        assert!(answer.is_ok(), "{words:?}: {answer:?}, its end: {:?}", self.process.try_wait());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already, and is waited for so that no zombie stays.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The other process; nothing where this is not one.
#[test]
fn another_process() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    let mut stores = Stores::default();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        stores.obey(&line.split('\t').collect::<Vec<_>>());
        // In front of the line stands what the test runner says.
        println!("\ndone: {line}");
    }
}

/// What the other process has open: it does not have to open a store before it writes.
#[derive(Default)]
struct Stores(HashMap<String, Store>);

impl Stores {
    fn at(&mut self, kind: &str, path: &str) -> &Store {
        let kind = Kind::ALL.iter().copied().find(|known| format!("{known:?}") == kind).unwrap();
        self.0.entry(path.to_owned()).or_insert_with(|| kind.open(Path::new(path)))
    }

    fn obey(&mut self, words: &[&str]) {
        let number = |word: &str| word.parse::<u64>().unwrap();
        match *words {
            ["store", kind, path, count, mark] => {
                store_session(&**self.at(kind, path), "s", &plains(0..number(count), mark));
            }
            ["append", kind, path, from, to, mark] => {
                let writer = self.at(kind, path).open(&id("s"), OpenOptions::write()).unwrap();
                writer.append(&plains(number(from)..number(to), mark)).unwrap();
                writer.close().unwrap();
            }
            ["anew", kind, path, count, mark] => {
                let store = self.at(kind, path);
                assert!(store.remove(&id("s")).unwrap());
                let writer = store.create(&header("s"), CreateOptions::default()).unwrap();
                writer.append(&plains(0..number(count), mark)).unwrap();
                writer.close().unwrap();
            }
            #[cfg(feature = "sqlite")]
            ["backup", "Sqlite", path, to] => {
                session_persistence::SqliteStore::open(path).unwrap().backup(to).unwrap();
            }
            #[cfg(feature = "jsonl")]
            ["backup", _, path, to] => {
                session_persistence::JsonlStore::open(path).unwrap().backup(to).unwrap();
            }
            #[cfg(feature = "sqlite")]
            ["vacuum", "Sqlite", path] => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
            }
            ["replace", path, by] => {
                self.0.clear();
                replace(Path::new(path), Path::new(by));
            }
            ["touch", path] => touch(Path::new(path)),
            _ => panic!("{words:?}"),
        }
    }
}

/// Puts a store in the place of another one, with all that belongs to it.
fn replace(path: &Path, by: &Path) {
    if path.is_dir() {
        std::fs::remove_dir_all(path).unwrap();
    } else {
        for end in ["-wal", "-shm"] {
            let beside = format!("{}{end}", path.display());
            match std::fs::remove_file(&beside) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => panic!("{beside}: {e}"),
                _ => {}
            }
        }
    }
    std::fs::rename(by, path).unwrap();
}

/// Sets the times of every file to now, without a change to any.
fn touch(path: &Path) {
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| touch(&entry.unwrap().path()));
    } else {
        let file = std::fs::File::options().append(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::now()).unwrap();
    }
}
