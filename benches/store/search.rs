//! The search index: bringing it up to date, finding text by it, and statistics. Behind the feature `search`.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion};
use session_persistence::query::index::{GroupBy, SearchIndex, SearchQuery};
use session_persistence::{Durability, OpenOptions};

use crate::sample;
use crate::stores::{KINDS, create, open};

const SESSIONS: u64 = 200;
const EVENTS: u64 = 50;

/// A word that many events have, a part of words, one and two characters, which the index has no entry for, and what nothing
/// holds.
const TEXTS: [&str; 5] = ["the", "ession", "a", "zq", "not to be found anywhere"];

pub(crate) fn groups(criterion: &mut Criterion) {
    for kind in KINDS {
        let folder = sample::scratch();
        let store = open(kind, &folder.path().join("store"), Durability::OnFlush);
        let events = sample::events(EVENTS + 20_000);
        for n in 0..SESSIONS {
            let handle = create(&*store, &format!("session-{n}"));
            handle.append(&events[..EVENTS as usize]).expect("appended");
            handle.close().expect("closed");
        }
        let index = SearchIndex::open(folder.path().join("index")).expect("an index");
        index.update(&*store).expect("brought up to date");

        let mut group = criterion.benchmark_group("search, first update of 200 sessions");
        group.sample_size(10);
        group.bench_function(kind, |bencher| {
            bencher.iter_batched(
                || {
                    let folder = sample::scratch();
                    (SearchIndex::open(folder.path().join("index")).expect("an index"), folder)
                },
                |(index, folder)| {
                    index.update(&*store).expect("brought up to date");
                    (index, folder)
                },
                BatchSize::PerIteration,
            );
        });
        group.finish();
        let mut group = criterion.benchmark_group("search, update");
        group.bench_function(BenchmarkId::new(kind, "nothing new"), |bencher| {
            bencher.iter(|| index.update(&*store).expect("brought up to date"));
        });
        let handle = store.open(&sample::id("session-7"), OpenOptions::write()).expect("the session");
        let mut next = EVENTS as usize;
        group.bench_function(BenchmarkId::new(kind, "one event"), |bencher| {
            bencher.iter_batched(
                || {
                    handle.append(&events[next..=next]).expect("appended");
                    next += 1;
                },
                |()| index.update(&*store).expect("brought up to date"),
                BatchSize::PerIteration,
            );
        });
        group.finish();
        if kind != "sqlite" {
            // From here on only the index is at work.
            continue;
        }
        let mut group = criterion.benchmark_group("search, a page of 20");
        for text in TEXTS {
            let query = SearchQuery::new(text).with_limit(20);
            group.bench_function(text, |bencher| bencher.iter(|| black_box(index.search(&query).expect("searched"))));
        }
        group.finish();
        let mut group = criterion.benchmark_group("statistics of 200 sessions");
        for (name, by) in [("by day", GroupBy::Day), ("by session", GroupBy::Session)] {
            group.bench_function(name, |bencher| bencher.iter(|| black_box(index.statistics(by).expect("counted"))));
        }
        group.finish();
    }
}
