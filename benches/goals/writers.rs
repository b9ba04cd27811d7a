//! Many writers at once, each on a session of its own.

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};
use session_persistence::{
    CreateOptions, Durability, SessionEvent, SessionHandle, SessionPersistence, SqliteOptions, SqliteStore,
};

use crate::floor::{PlainFile, bare_append, bare_database, set_up};
use crate::pairs::{PAIRS, alternate};
use crate::sample;
use crate::table::{Goal, Shown, Table};

/// How long each side writes in a pair.
const TIME: Duration = Duration::from_millis(700);

pub(crate) fn rows(table: &mut Table) {
    for (writers, goal) in [(16, 2.5), (64, 3.5)] {
        compare(table, writers, goal);
    }
}

fn compare(table: &mut Table, writers: usize, goal: f64) {
    let folder = sample::scratch();
    let options = SqliteOptions::default().with_durability(Durability::EveryAppend);
    let store = SqliteStore::open_with(folder.path().join("store.db"), options).expect("a store");
    let mut ours: Vec<_> = (0..writers)
        .map(|n| Ours {
            handle: store.create(&sample::header(&format!("s{n}")), CreateOptions::default()).expect("a session"),
            next: 0,
        })
        .collect();
    let bare = folder.path().join("bare.db");
    let connection = bare_database(&bare);
    let pool = r2d2::Pool::builder().max_size(10).connection_timeout(Duration::from_secs(60));
    let pool = pool.build(Connections(bare)).expect("a pool");
    let mut pooled: Vec<_> =
        (0..writers).map(|n| Pooled { pool: pool.clone(), number: 1 + n as i64, next: 0 }).collect();
    let (mut worst, mut worst_pooled) = (Duration::ZERO, Duration::ZERO);
    run(&mut ours);
    run(&mut pooled);
    let compared = alternate(
        PAIRS,
        || {
            let (each, longest) = run(&mut ours);
            worst = worst.max(longest);
            each
        },
        || {
            let (each, longest) = run(&mut pooled);
            worst_pooled = worst_pooled.max(longest);
            each
        },
    );
    drop(connection);
    let work = format!("{writers} writers, every append durable");
    table.throughput(&work, Goal::AtLeast(goal), "a commit for each append on a pool", &compared);
    let mut plain = PlainFile::create(&folder.path().join("plain"));
    let floor = (0..1000).map(|_| timed(|| plain.append_durably())).max().unwrap_or_default();
    let note = format!("on the pool {}, of 1,000 plain syncs {}", Shown(worst_pooled), Shown(floor));
    let work = format!("{writers} writers, the worst append");
    table.number(&work, Goal::AtMost(50.0), "ms", worst.as_secs_f64() * 1e3, &note);
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

trait Writing: Send {
    fn next(&mut self) -> &mut u64;
    fn append(&mut self, event: &[SessionEvent]);
}

struct Ours {
    handle: Box<dyn SessionHandle>,
    next: u64,
}

impl Writing for Ours {
    fn next(&mut self) -> &mut u64 {
        &mut self.next
    }
    fn append(&mut self, event: &[SessionEvent]) {
        self.handle.append(event).expect("appended");
    }
}

struct Pooled {
    pool: r2d2::Pool<Connections>,
    number: i64,
    next: u64,
}

impl Writing for Pooled {
    fn next(&mut self) -> &mut u64 {
        &mut self.next
    }
    fn append(&mut self, event: &[SessionEvent]) {
        let mut connection = self.pool.get().expect("a connection");
        bare_append(&mut connection, self.number, event).expect("appended");
    }
}

/// All append for a while: the time by the number of appends, and the longest of them.
fn run<W: Writing>(writers: &mut [W]) -> (Duration, Duration) {
    let barrier = Barrier::new(writers.len());
    let results: Vec<(u64, Duration, Duration)> = std::thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let first = *writer.next();
                    let events = sample::kilobytes(first, 1500);
                    barrier.wait();
                    let start = Instant::now();
                    let (mut count, mut longest) = (0, Duration::ZERO);
                    while start.elapsed() < TIME && count < 1500 {
                        let began = Instant::now();
                        writer.append(&events[count..=count]);
                        longest = longest.max(began.elapsed());
                        count += 1;
                    }
                    *writer.next() += count as u64;
                    (count as u64, start.elapsed(), longest)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a writer")).collect()
    });
    let appends: u64 = results.iter().map(|result| result.0).sum();
    let elapsed = results.iter().map(|result| result.1).max().unwrap_or_default();
    let longest = results.iter().map(|result| result.2).max().unwrap_or_default();
    (elapsed.div_f64(appends as f64), longest)
}

/// Connections as a program makes them that leaves waiting to SQLite.
struct Connections(PathBuf);

impl r2d2::ManageConnection for Connections {
    type Connection = Connection;
    type Error = rusqlite::Error;

    fn connect(&self) -> Result<Connection, rusqlite::Error> {
        let mut connection = Connection::open(&self.0)?;
        connection.busy_timeout(Duration::from_secs(60))?;
        set_up(&connection);
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.set_transaction_behavior(TransactionBehavior::Immediate);
        Ok(connection)
    }
    fn is_valid(&self, _: &mut Connection) -> Result<(), rusqlite::Error> {
        Ok(())
    }
    fn has_broken(&self, _: &mut Connection) -> bool {
        false
    }
}
