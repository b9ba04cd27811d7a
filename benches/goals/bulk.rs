//! Whole logs, in batches.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use session_persistence::{
    CreateOptions, Encoding, JsonlOptions, JsonlStore, SessionEvent, SessionPersistence, SqliteStore,
};

use crate::floor::{bare_bulk, plain_bulk, zstd_bulk};
use crate::pairs::{PAIRS, alternate};
use crate::sample;
use crate::table::{Goal, Table};

const EVENTS: u64 = 20_000;
pub(crate) const BATCH: usize = 1_000;

pub(crate) fn rows(table: &mut Table) {
    let events = sample::events(EVENTS);
    let sqlite = alternate(
        PAIRS,
        || {
            in_folder(|folder| {
                let store = SqliteStore::open(folder.join("store.db")).expect("a store");
                store_bulk(Box::new(store), &events, false)
            })
        },
        || in_folder(|folder| bare_bulk(&folder.join("bare.db"), &events, BATCH)),
    );
    let batches = format!("batches of {BATCH}");
    table.throughput(
        &format!("SQLite: bulk, {batches}"),
        Goal::AtLeast(0.9),
        "a bare loop of inserts into the same tables",
        &sqlite,
    );
    for (name, encoding, write) in [
        ("zstd files", Encoding::Zstd, zstd_bulk as fn(&Path, &str, &[SessionEvent], usize)),
        ("raw files", Encoding::Raw, plain_bulk),
    ] {
        let files = alternate(
            PAIRS,
            || {
                in_folder(|folder| {
                    let options = JsonlOptions::default().with_encoding(encoding);
                    let store = JsonlStore::open_with(folder.join("root"), options).expect("a store");
                    store_bulk(Box::new(store), &events, true)
                })
            },
            || {
                in_folder(|folder| {
                    let (path, header) = (folder.join("log"), sample::header("s").to_line() + "\n");
                    let start = Instant::now();
                    write(&path, &header, &events, BATCH);
                    sync(&path);
                    start.elapsed()
                })
            },
        );
        let what = if encoding == Encoding::Raw { "JSONL" } else { "zstd JSONL" };
        table.throughput(
            &format!("{name}: bulk, {batches}, one flush"),
            Goal::AtLeast(0.8),
            &format!("a bare writer of {what}, one sync"),
            &files,
        );
    }
}

fn in_folder(work: impl FnOnce(&Path) -> Duration) -> Duration {
    let folder = sample::scratch();
    work(folder.path())
}

/// Closing is part of it: of SQLite it copies the WAL.
fn store_bulk(store: Box<dyn SessionPersistence>, events: &[SessionEvent], flush: bool) -> Duration {
    let start = Instant::now();
    let handle = store.create(&sample::header("s"), CreateOptions::default()).expect("a session");
    for batch in events.chunks(BATCH) {
        handle.append(batch).expect("appended");
    }
    if flush {
        handle.flush().expect("flushed");
    }
    handle.close().expect("closed");
    drop(handle);
    drop(store);
    start.elapsed()
}

fn sync(path: &Path) {
    File::open(path).and_then(|file| file.sync_all()).expect("synced");
}
