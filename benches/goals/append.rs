//! One event at a time, by one writer.

use std::time::{Duration, Instant};

use session_persistence::{CreateOptions, Durability, SessionHandle, SessionPersistence, SqliteOptions, SqliteStore};

use crate::floor::PlainFile;
use crate::pairs::{PAIRS, alternate};
use crate::sample;
use crate::table::{Goal, Table};

/// Appends a side makes before the other has its turn; the cost of one is that of all by their number, so that what only some
/// of them pay for, as the copying of the WAL, is in it.
const DURABLE: u64 = 100;
const PLAIN: u64 = 500;

/// Until the WAL starts from its beginning again and again.
const WARMING: u64 = 1500;

pub(crate) fn rows(table: &mut Table) {
    let floor = "append 4 KB and fdatasync";
    let flushed = compare(Durability::OnFlush, DURABLE, |handle| handle.flush().expect("flushed"));
    table.time("append one event and flush", Goal::AtMost(1.25), floor, &flushed);
    let waited = compare(Durability::EveryAppend, DURABLE, |_| ());
    table.time("append one event, every append durable", Goal::AtMost(1.25), floor, &waited);
    let plain = compare(Durability::OnFlush, PLAIN, |_| ());
    table.time("append one event, safe from the death of the process", Goal::AtMost(0.2), floor, &plain);
}

fn compare(durability: Durability, times: u64, after: impl Fn(&dyn SessionHandle)) -> crate::pairs::Compared {
    let folder = sample::scratch();
    let options = SqliteOptions::default().with_durability(durability);
    // Warmed up without waits.
    let path = folder.path().join("store.db");
    let header = sample::header("s");
    {
        let store = SqliteStore::open(&path).expect("a store");
        let handle = store.create(&header, CreateOptions::default()).expect("a session");
        sample::kilobytes(0, WARMING).chunks(1).for_each(|event| handle.append(event).expect("appended"));
    }
    let store = SqliteStore::open_with(&path, options).expect("a store");
    let handle = store.open(header.id(), session_persistence::OpenOptions::write()).expect("the session");
    let mut next = WARMING;
    let mut append = |times| {
        let events = sample::kilobytes(next, times);
        next += times;
        let start = Instant::now();
        for event in events.chunks(1) {
            handle.append(event).expect("appended");
            after(&*handle);
        }
        start.elapsed() / times as u32
    };
    append(times);
    let mut file = PlainFile::create(&folder.path().join("plain"));
    let mut floor = || -> Duration {
        let start = Instant::now();
        (0..DURABLE).for_each(|_| file.append_durably());
        start.elapsed() / DURABLE as u32
    };
    floor();
    alternate(PAIRS + 2, || append(times), floor)
}
