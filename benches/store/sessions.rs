//! What is told of sessions without their events.

use std::cell::OnceCell;
use std::hint::black_box;
use std::path::Path;

use criterion::{BenchmarkId, Criterion};
use session_persistence::{Durability, ListQuery, SessionPersistence};

use crate::sample;
use crate::stores::{create, open};

const SIZES: [(&str, &[u64]); 3] = [("sqlite", &[10_000, 100_000]), ("raw", &[10_000]), ("zstd", &[10_000])];

pub(crate) fn groups(criterion: &mut Criterion) {
    for (kind, counts) in SIZES {
        for count in counts {
            // Not made for benches that nobody asked for.
            let made = OnceCell::new();
            let store = || made.get_or_init(|| sessions(kind, *count));
            let mut group = criterion.benchmark_group("stat");
            group.bench_function(BenchmarkId::new(kind, count), |bencher| {
                let (store, id) = (store(), sample::id("session-4711"));
                bencher.iter(|| black_box(store.stat(&id).expect("told")));
            });
            group.finish();
            for (name, query) in [("page of 50", ListQuery::default().with_limit(50)), ("all", ListQuery::default())] {
                let mut group = criterion.benchmark_group(format!("list, {name}"));
                group.sample_size(10);
                group.bench_function(BenchmarkId::new(kind, count), |bencher| {
                    let store = store();
                    bencher.iter_with_large_drop(|| store.list(&query).expect("listed"));
                });
                group.finish();
            }
        }
    }
}

/// A store of so many sessions, made once and kept beside the build.
fn sessions(kind: &str, count: u64) -> Box<dyn SessionPersistence> {
    let path = sample::kept(&format!("{count}-{kind}"));
    if !path.exists() {
        let draft = sample::scratch();
        let unfinished = draft.path().join("store");
        make(&unfinished, kind, count);
        std::fs::rename(unfinished, &path).expect("its name");
    }
    open(kind, &path, Durability::OnFlush)
}

fn make(path: &Path, kind: &str, count: u64) {
    let store = open(kind, path, Durability::OnFlush);
    let events = sample::events(2);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (store, events) = (&*store, &events);
            scope.spawn(move || {
                for n in (thread..count).step_by(8) {
                    let handle = create(store, &format!("session-{n}"));
                    handle.append(events).expect("appended");
                    handle.close().expect("closed");
                }
            });
        }
    });
}
