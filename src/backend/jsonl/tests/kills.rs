//! Processes that are killed at any moment: what they were told is there, and so is, after a loss of power at the same
//! moment, what was to survive one.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::machine::Chance;
use super::power_loss::{events, in_full};
use super::shadow::ShadowDisk;
use super::{ENCODINGS, header, id};
use crate::backend::jsonl::disk::RealDisk;
use crate::backend::jsonl::{Encoding, JsonlOptions, JsonlStore};
use crate::seam::{CreateOptions, Durability, ErrorKind, OpenOptions, SeqRange, SessionHandle, SessionPersistence};
use crate::upkeep::{Progress, verify};

const NAMES: [&str; 3] = ["s", "t", "u"];

/// What the process that is to be killed works on: the folders and the options, one a line.
const WORK: &str = "SESSIONS_TEST_KILLED";

/// How long the sessions of a killed process may stay out of reach.
const SOON: Duration = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });

struct Work {
    folder: String,
    encoding: Encoding,
    durability: Durability,
    seed: u64,
}

impl Work {
    fn to_text(&self) -> String {
        let raw = self.encoding == Encoding::Raw;
        let every_append = self.durability == Durability::EveryAppend;
        format!("{}\n{raw}\n{every_append}\n{}", self.folder, self.seed)
    }

    fn parse(text: &str) -> Self {
        let [folder, raw, every_append, seed] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text:?}") };
        Self {
            folder: folder.to_owned(),
            encoding: if raw == "true" { Encoding::Raw } else { Encoding::Zstd },
            durability: if every_append == "true" { Durability::EveryAppend } else { Durability::OnFlush },
            seed: seed.parse().unwrap(),
        }
    }

    fn open(&self) -> JsonlStore {
        let root = Path::new(&self.folder).join("root");
        let disk = ShadowDisk::new(&root, &Path::new(&self.folder).join("shadow"));
        JsonlStore::over(Arc::new(disk), root, self.options()).unwrap()
    }

    fn options(&self) -> JsonlOptions {
        JsonlOptions::default().with_encoding(self.encoding).with_durability(self.durability)
    }
}

/// The process that is killed: it writes, and says what it was told. Nothing where this is another one.
#[test]
#[ignore = "run by other tests as a process of its own"]
fn a_process_that_is_killed() {
    let Ok(work) = std::env::var(WORK) else { return };
    let work = Work::parse(&work);
    let mut chance = Chance::new(work.seed);
    let store = work.open();
    let names = &NAMES[..1 + chance.below(3) as usize];
    let mut handles: BTreeMap<&str, (Box<dyn SessionHandle>, u64)> = BTreeMap::new();
    println!("\nready");
    loop {
        let name = names[chance.below(names.len() as u64) as usize];
        if !handles.contains_key(name) {
            let (handle, count) = match store.open(&id(name), OpenOptions::write()) {
                Ok(handle) => {
                    let count = handle.read(SeqRange::ALL).unwrap().len() as u64;
                    (handle, count)
                }
                Err(_) => (store.create(&header(name), CreateOptions::default()).unwrap(), 0),
            };
            handles.insert(name, (handle, count));
        }
        let (handle, count) = handles.get_mut(name).unwrap();
        match chance.below(20) {
            0 | 1 => {
                handle.flush().unwrap();
                println!("\nflushed {name} {count}");
            }
            2 => {
                store.flush().unwrap();
                handles.iter().for_each(|(name, (_, count))| println!("\nflushed {name} {count}"));
            }
            3 => drop(handles.remove(name)),
            _ => {
                let until = *count + 1 + chance.below(4);
                handle.append(&events(name, *count..until)).unwrap();
                *count = until;
                println!("\nappended {name} {count}");
            }
        }
    }
}

/// What a process said before it was killed: for each session how much was appended, and how much was to survive a loss
/// of power.
#[derive(Debug, Default)]
struct Said {
    appended: BTreeMap<String, u64>,
    lasting: BTreeMap<String, u64>,
}

fn run_and_kill(work: &Work, said: &mut Said, after: Duration) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "backend::jsonl::tests::kills::a_process_that_is_killed", "--nocapture"])
        .env(WORK, work.to_text())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert!(lines.any(|line| line == "ready"), "it has ended before");
    std::thread::sleep(after);
    child.kill().unwrap();
    for line in lines {
        let [what, name, count] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        let count = count.parse().unwrap();
        if what == "appended" {
            said.appended.insert(name.to_owned(), count);
        }
        if what == "flushed" || work.durability == Durability::EveryAppend {
            said.lasting.insert(name.to_owned(), count);
        }
    }
    child.wait().unwrap();
}

/// Checks that a store has what was said, and nothing else than what is written to it.
fn check(store: &JsonlStore, said: &BTreeMap<String, u64>, what: &str) {
    for name in NAMES {
        let said = said.get(name).copied().unwrap_or(0);
        let snapshot = store.stat(&id(name)).unwrap();
        match store.open(&id(name), OpenOptions::read()) {
            Ok(reader) => {
                let log = reader.read(SeqRange::ALL).unwrap_or_else(|e| panic!("{what}: {name}: {e:?}"));
                let count = log.len() as u64;
                assert!(log == events(name, 0..count), "{what}: {name}");
                assert!(count >= said, "{what}: {name} has {count} of {said}");
                let snapshot = snapshot.unwrap_or_else(|| panic!("{what}: {name} is not told"));
                assert_eq!(snapshot.event_count, Some(count), "{what}: {name}");
                assert_eq!(snapshot.owner, None, "{what}: {name}");
                assert_eq!(store.stat(&id(name)).unwrap(), Some(snapshot), "{what}: {name}");
            }
            Err(e) => assert_eq!((e.kind(), said, &snapshot), (ErrorKind::NotFound, 0, &None), "{what}: {name}"),
        }
    }
    let mut faults = Vec::new();
    let verified = verify(store, None, &mut |progress| {
        if let Progress::Fault(fault) = progress
            && !fault.kind.is_harmless()
        {
            faults.push(fault.to_string());
        }
    });
    assert!(verified.is_ok() && faults.is_empty(), "{what}: {faults:?}");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.as_ref().unwrap().file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

fn kill_again_and_again(encoding: Encoding, durability: Durability, kills: u64) {
    // After a few kills a new root: the first moments of one are to be met as well.
    const KILLS_A_ROOT: u64 = 5;
    for first in (0..kills).step_by(KILLS_A_ROOT as usize) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        let mut said = Said::default();
        for seed in first..kills.min(first + KILLS_A_ROOT) {
            let what = format!("{encoding:?}, {durability:?}, seed {seed}");
            let work = Work { folder: folder.path().to_str().unwrap().to_owned(), encoding, durability, seed };
            let mut chance = Chance::new(seed);
            run_and_kill(&work, &mut said, Duration::from_micros(chance.below(40_000)));

            let after_power_loss = folder.path().join(format!("after {seed}"));
            copy(&ShadowDisk::left_of(&folder.path().join("shadow")), &after_power_loss);
            let left = JsonlStore::over(Arc::new(RealDisk), after_power_loss, work.options()).unwrap();
            check(&left, &said.lasting, &format!("{what}, without power"));

            let killed = Instant::now();
            let store = work.open();
            check(&store, &said.appended, &what);
            for (name, count) in &mut said.appended {
                let writer = store.open(&id(name), OpenOptions::write()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                *count = writer.read(SeqRange::ALL).unwrap().len() as u64 + 1;
                writer.append(&events(name, *count - 1..*count)).unwrap();
            }
            assert!(killed.elapsed() < SOON, "{what}: {:?}", killed.elapsed());
            store.flush().unwrap();
            said.lasting.clone_from(&said.appended);
            check(&store, &said.appended, &what);
        }
    }
}

#[test]
fn what_was_acknowledged_outlives_its_process_and_what_was_flushed_a_loss_of_power() {
    let kills = if in_full() { 125 } else { 10 };
    for encoding in ENCODINGS {
        for durability in [Durability::OnFlush, Durability::EveryAppend] {
            kill_again_and_again(encoding, durability, kills);
        }
    }
}
