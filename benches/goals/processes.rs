//! Work in processes of its own: this program again, told what to do by its arguments.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use session_persistence::{
    CreateOptions, Durability, JsonlStore, OpenOptions, SessionPersistence, SqliteOptions, SqliteStore,
};

use crate::pairs::{PAIRS, alternate, median};
use crate::read::{EVENTS, fill};
use crate::sample;
use crate::table::{Goal, Shown, Table};

/// The first argument of a process that works for another one.
pub(crate) const CHILD: &str = "--child";

/// How long two processes append at once.
const TIME: Duration = Duration::from_millis(1500);

/// Sessions that a flush makes durable.
const SESSIONS: usize = 64;

pub(crate) fn rows(table: &mut Table) {
    two_at_once(table);
    first_appends(table);
    one_sync(table);
}

pub(crate) fn child(work: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([CHILD, work]).stdin(Stdio::null()).stderr(Stdio::inherit());
    command
}

/// What a process prints, as numbers.
pub(crate) fn numbers(command: &mut Command) -> Vec<u64> {
    let output = command.output().expect("a process");
    assert!(output.status.success(), "{command:?} failed");
    told(&output.stdout)
}

fn told(output: &[u8]) -> Vec<u64> {
    String::from_utf8_lossy(output).split_whitespace().map(|number| number.parse().expect("a number")).collect()
}

fn first_appends(table: &mut Table) {
    let folder = sample::scratch();
    let (long, short) = (folder.path().join("long.db"), folder.path().join("short.db"));
    for (path, count) in [(&long, EVENTS), (&short, 10)] {
        fill(&SqliteStore::open(path).expect("a store"), &sample::events(count));
    }
    let first = |path: &Path| timed_first_append("sqlite", path).0;
    let sizes = alternate(PAIRS + 6, || first(&long), || first(&short));
    table.time(
        "SQLite: open and first append in a new process, 100,000 events",
        Goal::AtMost(3.0),
        "the same with 10 events",
        &sizes,
    );
}

/// A first append in a new process: its time, and the bytes that were read for it where the system tells.
pub(crate) fn timed_first_append(kind: &str, path: &Path) -> (Duration, u64) {
    let told = numbers(child("first-append").arg(kind).arg(path));
    (Duration::from_nanos(told[0]), told[1])
}

pub(crate) fn open(kind: &str, path: &str) -> Box<dyn SessionPersistence> {
    match kind {
        "sqlite" => Box::new(SqliteStore::open_existing(path).expect("the store")),
        _ => Box::new(JsonlStore::open_existing(path).expect("the store")),
    }
}

pub(crate) fn first_append(arguments: &[String]) {
    let (kind, path) = (&arguments[0], &arguments[1]);
    let id = sample::id("s");
    let read = bytes_read();
    let start = Instant::now();
    let store = open(kind, path);
    let handle = store.open(&id, OpenOptions::write()).expect("the session");
    let next = store.stat(&id).expect("told").and_then(|told| told.event_count);
    let next = next.unwrap_or_else(|| count_of(&*handle));
    let event = sample::kilobytes(next, 1);
    handle.append(&event).expect("appended");
    println!("{} {}", start.elapsed().as_nanos(), bytes_read() - read);
}

/// Of a file of which the store tells no count.
fn count_of(handle: &dyn session_persistence::SessionHandle) -> u64 {
    let (mut low, mut high) = (0, 1 << 32);
    while low < high {
        let middle = (low + high) / 2;
        match handle.read((middle..=middle).into()).expect("read").is_empty() {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    low
}

/// How many bytes this process has read, from whatever file.
fn bytes_read() -> u64 {
    let counts = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    counts.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).unwrap_or(0)
}

fn two_at_once(table: &mut Table) {
    let folder = sample::scratch();
    let path = folder.path().join("store.db");
    drop(SqliteStore::open(&path).expect("a store"));
    let (mut shares, mut ninety_nines, mut worst, mut rates) = (Vec::new(), Vec::new(), 0, Vec::new());
    for round in 0..7 {
        let processes: Vec<_> = (0..2)
            .map(|n| {
                let mut command = child("appends");
                command.arg(&path).arg(format!("s{round}-{n}")).stdin(Stdio::piped()).stdout(Stdio::piped());
                command.spawn().expect("a process")
            })
            .collect();
        // Told to start once both are there.
        std::thread::sleep(Duration::from_millis(100));
        let outputs: Vec<_> = processes
            .into_iter()
            .map(|mut process| {
                process.stdin.take().expect("its input").write_all(b"go\n").expect("told");
                process
            })
            .collect::<Vec<_>>()
            .into_iter()
            .map(|process| told(&process.wait_with_output().expect("a process").stdout))
            .collect();
        let (a, b) = (outputs[0][0] as f64, outputs[1][0] as f64);
        shares.push((a.min(b) / a.max(b) * 1e6) as u64);
        rates.push(((a + b) / TIME.as_secs_f64()) as u64);
        ninety_nines.push(outputs[0][1].max(outputs[1][1]));
        worst = worst.max(outputs[0][2]).max(outputs[1][2]);
    }
    let note = format!("{} durable appends a second together", median(rates));
    let share = median(shares) as f64 / 1e6;
    table.number("two processes at once: the slower", Goal::AtLeast(0.33), "x the faster", share, &note);
    let note = format!("the worst {}", Shown(Duration::from_nanos(worst)));
    let milliseconds = median(ninety_nines) as f64 / 1e6;
    table.number("two processes at once: 99 of 100 appends", Goal::AtMost(20.0), "ms", milliseconds, &note);
}

pub(crate) fn appends(arguments: &[String]) {
    let options = SqliteOptions::default().with_durability(Durability::EveryAppend);
    let store = SqliteStore::open_with(&arguments[0], options).expect("the store");
    let handle = store.create(&sample::header(&arguments[1]), CreateOptions::default()).expect("a session");
    let events = sample::kilobytes(0, 20_000);
    std::io::stdin().read_line(&mut String::new()).expect("a line");
    let (start, mut times) = (Instant::now(), Vec::new());
    for event in events.chunks(1) {
        if start.elapsed() >= TIME {
            break;
        }
        let began = Instant::now();
        handle.append(event).expect("appended");
        times.push(began.elapsed());
    }
    times.sort();
    println!("{} {} {}", times.len(), times[times.len() * 99 / 100].as_nanos(), times[times.len() - 1].as_nanos());
}

/// Counted below the program, by strace where there is one.
fn one_sync(table: &mut Table) {
    let work = format!("a flush with {SESSIONS} sessions pending");
    let folder = sample::scratch();
    let trace = folder.path().join("trace");
    let child = child("flush");
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=fsync,fdatasync,sync_file_range,msync,write", "-o"]).arg(&trace);
    command.arg(child.get_program()).args(child.get_args()).arg(folder.path().join("store.db"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if !command.status().is_ok_and(|status| status.success()) {
        table.skipped(&work, "strace cannot run here; tests/faults/syncs.rs counts the same");
        return;
    }
    let trace = std::fs::read_to_string(trace).expect("the trace");
    let within = trace.split(FLUSHES).nth(1).and_then(|rest| rest.split(FLUSHED).next()).expect("the flush");
    let syncs = within.lines().filter(|line| line.contains("sync")).count();
    table.number(&work, Goal::AtMost(1.0), "sync", syncs as f64, "counted by strace");
}

const FLUSHES: &str = "the flush begins";
const FLUSHED: &str = "the flush ends";

pub(crate) fn flush_many(arguments: &[String]) {
    let store = SqliteStore::open(&arguments[0]).expect("a store");
    let handles: Vec<_> = (0..SESSIONS)
        .map(|n| {
            let handle = store.create(&sample::header(&format!("s{n}")), CreateOptions::default()).expect("a session");
            handle.append(&sample::kilobytes(0, 2)).expect("appended");
            handle
        })
        .collect();
    println!("{FLUSHES}");
    store.flush().expect("flushed");
    println!("{FLUSHED}");
    drop(handles);
}
