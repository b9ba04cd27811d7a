//! Reading a session, going on with it in a new process, and moving it.

use std::hint::black_box;
use std::io::sink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use session_persistence::export::{self, ImportOptions};
use session_persistence::query::SessionReader;
use session_persistence::{Durability, OpenOptions, SeqRange, SessionPersistence};

use crate::sample;
use crate::stores::{self, KINDS, fill, open};

const EVENTS: u64 = 20_000;

pub(crate) fn groups(criterion: &mut Criterion) {
    let folder = sample::scratch();
    let events = sample::events(EVENTS);
    let bytes = sample::bytes(&events);
    for kind in KINDS {
        fill(&*open(kind, &folder.path().join(kind), Durability::OnFlush), &events);
    }
    drop(events);
    reads(criterion, folder.path(), bytes);
    cold_cache(criterion, folder.path());
    moves(criterion, folder.path(), bytes);
    new_process(criterion);
}

fn reads(criterion: &mut Criterion, folder: &Path, bytes: u64) {
    let id = sample::id("s");
    let mut group = criterion.benchmark_group("full read of 20,000 events");
    group.throughput(Throughput::Bytes(bytes));
    for kind in KINDS {
        let path = folder.join(kind);
        let store = open(kind, &path, Durability::OnFlush);
        let handle = store.open(&id, OpenOptions::read()).expect("the session");
        group.bench_function(BenchmarkId::new(kind, "warm"), |bencher| {
            bencher.iter_with_large_drop(|| handle.read(SeqRange::ALL).expect("read"));
        });
        group.bench_function(BenchmarkId::new(kind, "by a new store"), |bencher| {
            bencher.iter_with_large_drop(|| {
                let store = open(kind, &path, Durability::OnFlush);
                let handle = store.open(&id, OpenOptions::read()).expect("the session");
                (handle.read(SeqRange::ALL).expect("read"), store)
            });
        });
    }
    group.finish();
    for (name, count) in [("last 100", 100), ("one event", 1)] {
        let mut group = criterion.benchmark_group(format!("{name} of 20,000"));
        for kind in KINDS {
            let store = open(kind, &folder.join(kind), Durability::OnFlush);
            let handle = store.open(&id, OpenOptions::read()).expect("the session");
            group.bench_function(kind, |bencher| {
                bencher.iter_with_large_drop(|| handle.read(SeqRange::from(EVENTS - count..)).expect("read"));
            });
        }
        group.finish();
    }
}

fn cold_cache(criterion: &mut Criterion, folder: &Path) {
    let id = sample::id("s");
    let mut group = criterion.benchmark_group("cold cache hit");
    for kind in KINDS {
        let store: Arc<dyn SessionPersistence> = open(kind, &folder.join(kind), Durability::OnFlush).into();
        let reader = SessionReader::new(store);
        let _loaded = reader.observe(&id).expect("observed");
        group.bench_function(kind, |bencher| bencher.iter(|| black_box(reader.observe(&id).expect("observed"))));
    }
    group.finish();
}

fn moves(criterion: &mut Criterion, folder: &Path, bytes: u64) {
    let id = sample::id("s");
    let log = folder.join("log.jsonl");
    let mut group = criterion.benchmark_group("export of 20,000 events");
    group.throughput(Throughput::Bytes(bytes));
    for kind in KINDS {
        let store = open(kind, &folder.join(kind), Durability::OnFlush);
        let mut file = std::fs::File::create(&log).expect("a file");
        export::jsonl(&*store, &id, &mut file).expect("exported");
        group.bench_function(kind, |bencher| {
            bencher.iter(|| export::jsonl(&*store, &id, &mut sink()).expect("exported"));
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("import of 20,000 events");
    group.throughput(Throughput::Bytes(bytes));
    for kind in KINDS {
        group.bench_function(kind, |bencher| {
            bencher.iter_batched(
                || {
                    let folder = sample::scratch();
                    (open(kind, &folder.path().join("store"), Durability::OnFlush), folder)
                },
                |kept| {
                    export::import_file(&*kept.0, &log, ImportOptions::default()).expect("imported");
                    kept
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// What a process takes from the opening of a store to its first append; its own start is not counted.
fn new_process(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("first append in a new process");
    group.sample_size(10);
    for kind in KINDS {
        for count in [10, EVENTS] {
            let folder = sample::scratch();
            let path = folder.path().join("store");
            fill(&*open(kind, &path, Durability::OnFlush), &sample::events(count));
            group.bench_function(BenchmarkId::new(kind, count), |bencher| {
                bencher.iter_custom(|times| (0..times).map(|_| timed_child(kind, &path)).sum());
            });
        }
    }
    group.finish();
}

fn timed_child(kind: &str, path: &Path) -> Duration {
    let output = stores::child(kind, path).output().expect("a process");
    let nanoseconds = String::from_utf8_lossy(&output.stdout).trim().parse();
    Duration::from_nanos(nanoseconds.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))))
}

/// Goes on with session `s`, as a process of its own, and prints how long that took.
pub(crate) fn first_append(kind: &str, path: &Path) {
    let id = sample::id("s");
    let start = Instant::now();
    let store = open(kind, path, Durability::OnFlush);
    let handle = store.open(&id, OpenOptions::write()).expect("the session");
    let opened = start.elapsed();
    // Not a part of it: a host knows where its log ends.
    let (mut next, mut beyond) = (0, 1 << 32);
    while next < beyond {
        let middle = (next + beyond) / 2;
        match handle.read((middle..=middle).into()).expect("read").is_empty() {
            true => beyond = middle,
            false => next = middle + 1,
        }
    }
    let event = sample::kilobytes(next, 1);
    let start = Instant::now();
    handle.append(&event).expect("appended");
    println!("{}", (opened + start.elapsed()).as_nanos());
}
