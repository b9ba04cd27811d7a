//! How much memory work takes, each in a process of its own.

use std::fs::File;
use std::io::{BufWriter, sink};

use session_persistence::export::{self, ImportOptions};
use session_persistence::{Encoding, JsonlOptions, JsonlStore, OpenOptions, SeqRange, SessionPersistence, SqliteStore};

use crate::processes::{self, numbers, open};
use crate::read::{EVENTS, fill};
use crate::sample;
use crate::table::{Goal, Table};

const FEWER: u64 = 10_000;

pub(crate) fn rows(table: &mut Table) {
    if peak().is_none() {
        return table.skipped("memory", "the system does not tell how much a process used at most");
    }
    let folder = sample::scratch();
    let at = |name: &str| folder.path().join(name);
    let events = sample::events(EVENTS);
    let text = sample::bytes(&events) as f64;
    let stores = [("sqlite", "store.db"), ("zstd", "zstd"), ("raw", "raw")];
    for (fewer, events) in [("", &events[..]), ("fewer-", &events[..FEWER as usize])] {
        for (kind, name) in stores {
            fill(&*made(kind, &at(&format!("{fewer}{name}"))), events);
        }
        let mut log = BufWriter::new(File::create(at(&format!("{fewer}log.jsonl"))).expect("a file"));
        let store = SqliteStore::open_existing(at(&format!("{fewer}store.db"))).expect("the store");
        export::jsonl(&store, &sample::id("s"), &mut log).expect("exported");
    }
    drop(events);
    let used = |work: &str, kind: &str, name: &str, log: &str| {
        let log = at(log);
        numbers(processes::child("memory").args([work, kind]).arg(at(name)).arg(log))[0] as f64
    };
    let megabytes = |bytes: f64| bytes / 1e6;
    for (kind, name) in stores {
        let bytes = used("read", kind, name, "");
        let note = format!("{:.0} MB of {:.0} MB of text", megabytes(bytes), megabytes(text));
        table.number(
            &format!("{kind}: memory of a read of 100,000 events"),
            Goal::AtMost(1.5),
            "x its text",
            bytes / text,
            &note,
        );
    }
    for (kind, name) in stores {
        let (all, fewer) = (used("export", kind, name, ""), used("export", kind, &format!("fewer-{name}"), ""));
        constant(table, &format!("{kind}: memory of an export of 100,000 events"), all, fewer);
    }
    for kind in ["sqlite", "zstd"] {
        let all = used("import", kind, &format!("{kind}-imported"), "log.jsonl");
        let fewer = used("import", kind, &format!("{kind}-fewer-imported"), "fewer-log.jsonl");
        constant(table, &format!("{kind}: memory of an import of 100,000 events"), all, fewer);
    }
}

/// Ten times the log may take no more than a little more.
fn constant(table: &mut Table, work: &str, all: f64, fewer: f64) {
    let note = format!("{:.1} MB, of {FEWER} events {:.1} MB", all / 1e6, fewer / 1e6);
    // What is below this is noise of the allocator.
    let least = 4e6;
    let goal = Goal::AtMost(1.5);
    table.number(work, goal, "x that of 10,000", all.max(least) / fewer.max(least), &note);
}

fn made(kind: &str, path: &std::path::Path) -> Box<dyn SessionPersistence> {
    match kind {
        "sqlite" => Box::new(SqliteStore::open(path).expect("a store")),
        _ => {
            let encoding = if kind == "raw" { Encoding::Raw } else { Encoding::Zstd };
            Box::new(JsonlStore::open_with(path, JsonlOptions::default().with_encoding(encoding)).expect("a store"))
        }
    }
}

/// Prints by how many bytes the memory of the process was larger at most.
pub(crate) fn child(arguments: &[String]) {
    let [work, kind, path, log] = arguments else { panic!("four arguments") };
    let before;
    match work.as_str() {
        "read" => {
            let store = open(kind, path);
            before = peak();
            let handle = store.open(&sample::id("s"), OpenOptions::read()).expect("the session");
            assert!(handle.read(SeqRange::ALL).expect("read").len() as u64 == EVENTS);
        }
        "export" => {
            // What files remember is bounded by an option; with less of it the bound is seen sooner.
            let store: Box<dyn SessionPersistence> = match kind.as_str() {
                "sqlite" => open(kind, path),
                _ => Box::new(
                    JsonlStore::open_existing_with(path, JsonlOptions::default().with_memo_bytes(4 << 20))
                        .expect("the store"),
                ),
            };
            before = peak();
            export::jsonl(&*store, &sample::id("s"), &mut sink()).expect("exported");
        }
        "import" => {
            let store = made(kind, path.as_ref());
            before = peak();
            export::import_file(&*store, log.as_ref(), ImportOptions::default()).expect("imported");
        }
        other => panic!("no work is called {other}"),
    }
    println!("{}", peak().zip(before).map_or(0, |(after, before)| after - before));
}

/// The most memory that this process has had so far, in bytes.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
