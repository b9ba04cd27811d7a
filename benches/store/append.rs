//! Appending: one event, a batch, many writers at once, a whole log.

use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use session_persistence::{Durability, SessionEvent, SessionHandle};

use crate::sample;
use crate::stores::{KINDS, create, open};

const DURABILITIES: [(&str, Durability); 2] =
    [("process death", Durability::OnFlush), ("power loss", Durability::EveryAppend)];

pub(crate) fn groups(criterion: &mut Criterion) {
    batches(criterion);
    writers(criterion);
    bulk(criterion);
}

/// A session that is gone on with.
struct Growing {
    handle: Box<dyn SessionHandle>,
    next: u64,
}

impl Growing {
    fn next(&mut self, count: u64) -> Vec<SessionEvent> {
        let events = sample::kilobytes(self.next, count);
        self.next += count;
        events
    }
}

fn batches(criterion: &mut Criterion) {
    for size in [1, 50] {
        let mut group = criterion.benchmark_group(format!("append {size}"));
        group.throughput(Throughput::Elements(size));
        for kind in KINDS {
            for (name, durability) in DURABILITIES {
                let folder = sample::scratch();
                let store = open(kind, &folder.path().join("store"), durability);
                let mut session = Growing { handle: create(&*store, "s"), next: 0 };
                // What a file of SQLite costs is settled once its WAL starts from its beginning.
                let warming = session.next(2000);
                session.handle.append(&warming).expect("appended");
                group.bench_function(BenchmarkId::new(kind, name), |bencher| {
                    bencher.iter_custom(|times| {
                        let mut elapsed = Duration::ZERO;
                        for _ in 0..times {
                            let events = session.next(size);
                            let start = Instant::now();
                            session.handle.append(&events).expect("appended");
                            elapsed += start.elapsed();
                        }
                        elapsed
                    });
                });
            }
        }
        group.finish();
    }
}

fn writers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append 1 by each of many writers");
    for kind in KINDS {
        for (name, durability) in DURABILITIES {
            for writers in [1, 16, 64] {
                let folder = sample::scratch();
                let store = open(kind, &folder.path().join("store"), durability);
                let mut sessions: Vec<_> =
                    (0..writers).map(|n| Growing { handle: create(&*store, &format!("s{n}")), next: 0 }).collect();
                group.throughput(Throughput::Elements(writers));
                group.bench_function(BenchmarkId::new(format!("{kind}, {name}"), writers), |bencher| {
                    bencher.iter_custom(|times| at_once(&mut sessions, times));
                });
            }
        }
    }
    group.finish();
}

/// Each appends so many events, one by one.
fn at_once(sessions: &mut [Growing], times: u64) -> Duration {
    let batches: Vec<_> = sessions.iter_mut().map(|session| session.next(times)).collect();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for (session, events) in sessions.iter().zip(&batches) {
            scope.spawn(|| events.chunks(1).for_each(|event| session.handle.append(event).expect("appended")));
        }
    });
    start.elapsed()
}

fn bulk(criterion: &mut Criterion) {
    let events = sample::events(10_000);
    let mut group = criterion.benchmark_group("bulk of 10,000 events in batches of 1,000");
    group.throughput(Throughput::Bytes(sample::bytes(&events)));
    for kind in KINDS {
        group.bench_function(kind, |bencher| {
            bencher.iter_batched(
                || {
                    let folder = sample::scratch();
                    let store = open(kind, &folder.path().join("store"), Durability::OnFlush);
                    (create(&*store, "s"), store, folder)
                },
                |kept| {
                    events.chunks(1000).for_each(|batch| kept.0.append(batch).expect("appended"));
                    kept
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}
