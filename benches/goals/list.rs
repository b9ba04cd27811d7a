//! What is told of sessions without their events: `stat`, and pages of `list`, in SQLite.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Row};
use session_persistence::{CreateOptions, ListQuery, SessionPersistence, SqliteStore};

use crate::pairs::{PAIRS, alternate};
use crate::sample;
use crate::table::{Goal, Table};

const FEW: u64 = 1_000;
const MANY: u64 = 100_000;
const PAGE: usize = 50;

/// What the store keeps of a session, and a bare program would read to tell as much.
const COLUMNS: &str = "SELECT number, id, incarnation, created_at, header, header_checksum, inherited_count, event_count, \
     size_bytes, last_time, revision, chain, activity, types_checksum, checksum, written_at, fence FROM sessions";

pub(crate) fn rows(table: &mut Table) {
    let few = SqliteStore::open(sessions(FEW)).expect("a store");
    let path = sessions(MANY);
    let many = SqliteStore::open(&path).expect("a store");
    let bare = Connection::open(&path).expect("the database");

    let mut one = bare.prepare(&format!("{COLUMNS} WHERE id = ?1")).expect("the statement");
    let name = |n: usize| format!("session-{}", n * 7919 % FEW as usize);
    let stat = alternate(
        PAIRS,
        || each(300, |n| usize::from(many.stat(&sample::id(&name(n))).expect("told").is_some())),
        || each(300, |n| one.query_row([name(n)], bare_row).map(|row| row.1.len()).expect("a row")),
    );
    table.time("stat, of 100,000 sessions", Goal::AtMost(2.0), "a bare select of its row", &stat);

    let select = format!("{COLUMNS} ORDER BY activity DESC LIMIT {PAGE}");
    let mut page = bare.prepare(&select).expect("the statement");
    let list = |store: &SqliteStore| {
        each(50, |_| store.list(&ListQuery::default().with_limit(PAGE)).expect("listed").items.len())
    };
    let paged = alternate(
        PAIRS,
        || list(&many),
        || {
            each(50, |_| {
                let rows = page.query_map([], bare_row).expect("a query");
                rows.map(|row| row.expect("a row")).collect::<Vec<_>>().len()
            })
        },
    );
    table.time("list, a page of 50 of 100,000", Goal::AtMost(2.0), "a bare select of 50 rows", &paged);
    let sizes = alternate(PAIRS, || list(&many), || list(&few));
    table.time("list, a page of 50 of 100,000", Goal::AtMost(1.25), "the same of 1,000", &sizes);
}

type BareRow = ([i64; 14], String, String, Option<i64>);

fn bare_row(row: &Row<'_>) -> rusqlite::Result<BareRow> {
    let at = [0, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16];
    let mut numbers = [0; 14];
    for (number, column) in numbers.iter_mut().zip(at) {
        *number = row.get(column)?;
    }
    Ok((numbers, row.get(1)?, row.get(4)?, row.get(9)?))
}

fn each(times: u32, mut work: impl FnMut(usize) -> usize) -> Duration {
    let start = Instant::now();
    for n in 0..times {
        assert!(black_box(work(n as usize)) > 0);
    }
    start.elapsed() / times
}

/// A store of so many sessions of two events each, made once.
pub(crate) fn sessions(count: u64) -> PathBuf {
    let path = sample::kept(&format!("{count}-sessions.db"));
    if path.exists() {
        return path;
    }
    let draft = sample::scratch();
    let unfinished = draft.path().join("store.db");
    {
        let store = SqliteStore::open(&unfinished).expect("a store");
        make_sessions(&store, count);
    }
    std::fs::rename(unfinished, &path).expect("its name");
    path
}

/// Makes sessions by several threads, so that they share commits.
pub(crate) fn make_sessions(store: &dyn SessionPersistence, count: u64) {
    const THREADS: u64 = 8;
    let events = sample::events(2);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let events = &events;
            scope.spawn(move || {
                for n in (thread..count).step_by(THREADS as usize) {
                    let header = sample::header(&format!("session-{n}"));
                    let handle = store.create(&header, CreateOptions::default()).expect("a session");
                    handle.append(events).expect("appended");
                    handle.close().expect("closed");
                }
            });
        }
    });
}
