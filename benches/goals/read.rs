//! Reading one long session of SQLite: all of it, its end, one event.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use session_persistence::{CreateOptions, OpenOptions, SeqRange, SessionEvent, SessionPersistence, SqliteStore};

use crate::floor::{SELECT_EVENTS, bare_slice, plain_bulk, plain_read};
use crate::pairs::{PAIRS, alternate};
use crate::sample;
use crate::table::{Goal, Table};

pub(crate) const EVENTS: u64 = 100_000;

/// How many small reads a side makes before the other has its turn.
const READS: u64 = 300;

pub(crate) fn rows(table: &mut Table) {
    let folder = sample::scratch();
    let (path, text) = (folder.path().join("store.db"), folder.path().join("plain.jsonl"));
    let header = sample::header("s");
    let store = SqliteStore::open(&path).expect("a store");
    {
        let events = sample::events(EVENTS);
        fill(&store, &events);
        plain_bulk(&text, &(header.to_line() + "\n"), &events, 1000);
    }
    let bare = Connection::open(&path).expect("the database");
    let number: i64 = bare.query_row("SELECT number FROM sessions", [], |row| row.get(0)).expect("the session");
    assert!(number == 1, "the bare loop reads session 1");
    let mut select = bare.prepare(SELECT_EVENTS).expect("the statement");
    let handle = store.open(header.id(), OpenOptions::read()).expect("the session");
    let all = || timed(|| handle.read(SeqRange::ALL).expect("read"));

    let strings = alternate(PAIRS, all, || timed(|| bare_slice(&mut select, 0, EVENTS)));
    let work = "full read of 100,000 events, warm";
    table.throughput(work, Goal::AtLeast(0.8), "a bare loop that selects strings", &strings);
    let plain = alternate(PAIRS, all, || timed(|| plain_read(std::fs::File::open(&text).expect("the text"))));
    table.throughput(work, Goal::AtLeast(1.5), "a reader of plain JSONL that checks it", &plain);

    let last = alternate(
        PAIRS,
        || many(|_| handle.read(SeqRange::from(EVENTS - 100..)).expect("read").len()),
        || many(|_| bare_slice(&mut select, EVENTS - 100, EVENTS).len()),
    );
    table.time("last 100 of 100,000", Goal::AtMost(2.0), "a bare select of those rows", &last);
    // Somewhere else each time.
    let at = |n: u64| n.wrapping_mul(0x9e37_79b9) % EVENTS;
    let one = alternate(
        PAIRS,
        || many(|n| handle.read(SeqRange::from(at(n)..=at(n))).expect("read").len()),
        || many(|n| bare_slice(&mut select, at(n), at(n) + 1).len()),
    );
    table.time("one event of 100,000", Goal::AtMost(2.0), "a bare select of its row", &one);
}

pub(crate) fn fill(store: &dyn SessionPersistence, events: &[SessionEvent]) {
    let handle = store.create(&sample::header("s"), CreateOptions::default()).expect("a session");
    for batch in events.chunks(1000) {
        handle.append(batch).expect("appended");
    }
    handle.flush().expect("flushed");
    handle.close().expect("closed");
}

/// What was read is dropped outside the time.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let done = black_box(work());
    let elapsed = start.elapsed();
    drop(done);
    elapsed
}

fn many(mut work: impl FnMut(u64) -> usize) -> Duration {
    let start = Instant::now();
    for n in 0..READS {
        assert!(black_box(work(n)) > 0);
    }
    start.elapsed() / READS as u32
}
