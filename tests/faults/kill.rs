//! Processes that are killed while they write, and what is found of their work: at once, and after a loss of power.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use session_persistence::{OpenOptions, SessionPersistence, SqliteStore};

use super::disk::{Disk, scratch};
use super::is_full;
use super::ledger::{Ledger, Through};
use super::outage::Files;
use super::sample::{self, Mode, create, events, id};
use super::shadow::Shadow;

const SEED: u64 = 0x9_5167;

/// What a process is to do that this suite starts of itself.
const TASK: &str = "SESSIONS_FAULTS_TASK";

/// Stands before every line that such a process writes for its parent.
const MARK: &str = "#told ";

/// How long a store may take to open that a killed process left.
const REOPENED: Duration = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });

/// How many processes in a row write to the same store.
const IN_A_ROW: u64 = 5;

#[test]
fn what_was_acknowledged_survives_a_kill_and_what_was_flushed_a_loss_of_power_then() {
    kill_many(Mode::OnFlush);
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_a_loss_of_power_where_every_append_waits_for_the_disk() {
    kill_many(Mode::EveryAppend);
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_a_loss_of_power_in_rollback_mode() {
    kill_many(Mode::Rollback);
}

fn kill_many(mode: Mode) {
    let mut slowest = Duration::ZERO;
    for store in 0..if is_full() { 60 } else { 3 } {
        let folder = scratch();
        let mut ledger = Ledger::new(mode);
        for process in 0..IN_A_ROW {
            let seed = SEED + store * IN_A_ROW + process;
            let mut random = fastrand::Rng::with_seed(seed);
            // Some are killed while they make or open the store.
            let (moment, latest) = if random.u8(..6) == 0 { ("opening", 15_000) } else { ("stored", 40_000) };
            let delay = Duration::from_micros(random.u64(..latest));
            let what = format!("{mode:?}, seed {seed}, killed {delay:?} after the first {moment:?}");
            let shadow = scratch();
            run_and_kill(&mut ledger, folder.path(), shadow.path(), mode, seed, moment, delay, &what);
            slowest = slowest.max(check_death(&ledger, folder.path(), mode, &what));
            let left = scratch();
            Shadow::left_in(shadow.path()).write_to(left.path());
            ledger.check(&left.path().join("sessions.db"), Through::Outage, &format!("{what}, then a loss of power"));
        }
    }
    eprintln!("{mode:?}: opened again within {slowest:?}");
}

/// Opens a copy of what a killed process left, so that the next one finds it as it is. Tells how long opening took.
fn check_death(ledger: &Ledger, folder: &Path, mode: Mode, what: &str) -> Duration {
    let copy = scratch();
    copy_folder(folder, copy.path());
    let path = copy.path().join("sessions.db");
    let started = Instant::now();
    let opened = sample::open(&path, mode).unwrap_or_else(|e| panic!("{what}: {e}"));
    for session in ledger.sessions() {
        match opened.open(&id(session), OpenOptions::write()) {
            Ok(handle) => handle.close().unwrap(),
            Err(e) => assert!(ledger.certain(session, Through::Death) == 0, "{what}: {session}: {e}"),
        }
    }
    let took = started.elapsed();
    assert!(took < REOPENED, "{what}: opening took {took:?}");
    drop(opened);
    ledger.check(&path, Through::Death, what);
    took
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(|e| e.unwrap()) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Starts a process that writes, and kills it `delay` after it said `moment` for the first time.
#[expect(clippy::too_many_arguments, reason = "each is one fact about the run")]
fn run_and_kill(
    ledger: &mut Ledger,
    folder: &Path,
    shadow: &Path,
    mode: Mode,
    seed: u64,
    moment: &'static str,
    delay: Duration,
    what: &str,
) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::a_process_of_this_suite_writes_until_it_is_killed", "--nocapture", "--test-threads=1"])
        .env(TASK, format!("{}|{}|{seed}|{mode:?}", folder.display(), shadow.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let (came, moments) = mpsc::channel();
    let reading = std::thread::spawn(move || {
        let mut lines = Vec::new();
        for line in stdout.lines().map_while(Result::ok) {
            let Some((_, told)) = line.split_once(MARK) else { continue };
            if told.starts_with(moment) {
                // Only the first has somebody who waits for it.
                let _gone = came.send(());
            }
            lines.push(told.to_owned());
        }
        lines
    });
    moments.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{what}: the process said nothing"));
    std::thread::sleep(delay);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(status.signal() == Some(9), "{what}: the process ended by itself: {status}");
    for line in reading.join().unwrap() {
        note(ledger, &line);
    }
}

/// Notes a line of a process.
fn note(ledger: &mut Ledger, line: &str) {
    let words: Vec<_> = line.split(' ').collect();
    match words[..] {
        ["opening"] => {}
        ["made"] => ledger.made(),
        ["found", session, length] => ledger.found(session, length.parse().unwrap()),
        ["storing", session, length] => ledger.storing(session, length.parse().unwrap()),
        ["stored", session, length] => ledger.stored(session, length.parse().unwrap()),
        ["flushing", session] => ledger.flushing(session),
        ["flushed", session] => ledger.flushed_by(session),
        _ => panic!("{line:?}"),
    }
}

/// Tells the parent something. The lines of all threads have one order.
fn tell(line: &str) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{MARK}{line}").unwrap();
    stdout.flush().unwrap();
}

#[test]
fn a_process_of_this_suite_writes_until_it_is_killed() {
    let Ok(task) = std::env::var(TASK) else { return };
    let words: Vec<_> = task.split('|').collect();
    let [folder, shadow, seed, mode] = words[..] else { panic!("{task:?}") };
    let seed: u64 = seed.parse().unwrap();
    let mode = Mode::ALL.into_iter().find(|m| format!("{m:?}") == mode).expect("the parent names one");
    let disk = Disk::shadowed(Path::new(folder), Path::new(shadow));
    tell("opening");
    let store = sample::open(&disk.store(), mode).unwrap();
    tell("made");
    std::thread::scope(|scope| {
        for writer in 0..fastrand::Rng::with_seed(seed).usize(1..=3) {
            let (store, disk) = (&store, &disk);
            scope.spawn(move || write_until_killed(store, disk, ["a", "b", "c"][writer], seed << 8 ^ writer as u64));
        }
    });
}

fn write_until_killed(store: &SqliteStore, disk: &Disk, session: &str, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (handle, mut length) = match store.stat(&id(session)).unwrap() {
        Some(stat) => {
            let length = stat.event_count.unwrap();
            tell(&format!("found {session} {length}"));
            (store.open(&id(session), OpenOptions::write()).unwrap(), length)
        }
        None => {
            // A flush of the store, by another thread, stores it without events.
            tell(&format!("storing {session} 0"));
            (create(store, session).unwrap(), 0)
        }
    };
    // A parent that died does not kill any more.
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        let count = random.u64(1..5);
        tell(&format!("storing {session} {}", length + count));
        handle.append(&events(session, length, count)).unwrap();
        length += count;
        tell(&format!("stored {session} {length}"));
        if random.u8(..5) == 0 {
            tell(&format!("flushing {session}"));
            if random.bool() { handle.flush() } else { store.flush() }.unwrap();
            tell(&format!("flushed {session}"));
        }
        if random.u8(..20) == 0 {
            let other = rusqlite::Connection::open(disk.store()).unwrap();
            let mode = ["PASSIVE", "TRUNCATE"][random.usize(..2)];
            // Busy where others write.
            let _busy = other.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
        }
    }
}

#[test]
fn the_files_of_a_shadow_are_those_that_were_synced() {
    let (folder, shadow) = (scratch(), scratch());
    let disk = Disk::shadowed(folder.path(), shadow.path());
    let store = sample::open(&disk.store(), Mode::OnFlush).unwrap();
    let handle = create(&store, "a").unwrap();
    handle.append(&events("a", 0, 5)).unwrap();
    handle.flush().unwrap();
    handle.append(&events("a", 5, 5)).unwrap();
    let least: Files = disk.outage().least();
    assert!(Shadow::left_in(shadow.path()) == least && least.0.len() == 2, "{:?}", least.0.keys());
}
