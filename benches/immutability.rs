//! What it costs to keep stored events unalterable: a bulk append of 50,000 events in batches of 1,000, as a bare loop over
//! the same table, the same with triggers that check each row, and through the store, which keeps its triggers for other
//! programs and checks once a batch. Prints medians as ratios to the bare loop: `cargo bench --bench immutability`.

use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior, params};
use session_persistence::{
    CreateOptions, Json, SessionEvent, SessionHeader, SessionId, SessionPersistence, SqliteStore,
};

const EVENTS: u64 = 50_000;
const BATCH: usize = 1_000;
const RUNS: usize = 7;

const TABLE: &str = "
    PRAGMA page_size = 8192; PRAGMA journal_mode = wal; PRAGMA synchronous = normal;
    CREATE TABLE sessions (number INTEGER PRIMARY KEY, event_count INTEGER NOT NULL) STRICT;
    INSERT INTO sessions VALUES (1, 0);
    CREATE TABLE events (key INTEGER PRIMARY KEY, type TEXT NOT NULL, time INTEGER NOT NULL, data TEXT NOT NULL,
        source_event_seqs TEXT, surface_op TEXT, ignorable INTEGER, envelope TEXT, checksum INTEGER NOT NULL) STRICT;";

/// No change, no removal, no row over another, no row without the one before.
const TRIGGERS: &str = "
    CREATE TRIGGER u BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, ''); END;
    CREATE TRIGGER d BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, ''); END;
    CREATE TRIGGER i BEFORE INSERT ON events
    WHEN EXISTS (SELECT 1 FROM events WHERE key = NEW.key)
      OR (NEW.key & 4294967295 > 0 AND NOT EXISTS (SELECT 1 FROM events WHERE key = NEW.key - 1))
    BEGIN SELECT RAISE(ABORT, ''); END;";

type Way = fn(&[SessionEvent]) -> Duration;

fn main() {
    let events: Vec<SessionEvent> = (0..EVENTS).map(event).collect();
    let ways: [(&str, Way); 3] = [
        ("bare loop", |events| bare("", events)),
        ("bare loop, triggers that check each row", |events| bare(TRIGGERS, events)),
        ("the store", store),
    ];
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..RUNS {
        for (way, times) in ways.iter().zip(&mut times) {
            times.push(way.1(&events));
        }
    }
    let medians: Vec<_> = times
        .iter_mut()
        .map(|t| {
            t.sort();
            t[RUNS / 2].as_secs_f64()
        })
        .collect();
    for (way, median) in ways.iter().zip(&medians) {
        println!("{:<42} {:.2} x the throughput of the bare loop", way.0, medians[0] / median);
    }
}

/// About 1 KB, between 60 bytes and 2 KB.
fn event(seq: u64) -> SessionEvent {
    let data = format!(r#"{{"text":"{}"}}"#, "lorem ipsum ".repeat(4 + (seq as usize * 37) % 160));
    SessionEvent::new("assistant/message", seq, 1_700_000_000_000 + seq as i64, Json::parse(&data).expect("JSON"))
        .expect("an event")
}

fn bare(triggers: &str, events: &[SessionEvent]) -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let mut connection = Connection::open(folder.path().join("bare.db")).expect("a database");
    connection.execute_batch(TABLE).expect("the table");
    connection.execute_batch(triggers).expect("the triggers");
    let start = Instant::now();
    for batch in events.chunks(BATCH) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).expect("BEGIN");
        {
            let mut insert = transaction
                .prepare_cached("INSERT INTO events VALUES (?1, ?2, ?3, ?4, NULL, NULL, NULL, NULL, ?5)")
                .expect("the statement");
            for event in batch {
                let key = (1 << 32) | event.seq().get() as i64;
                let row = params![key, event.event_type(), event.time(), event.data().as_str(), key];
                insert.execute(row).expect("INSERT");
            }
        }
        transaction.execute("UPDATE sessions SET event_count = event_count + ?1", [batch.len()]).expect("UPDATE");
        transaction.commit().expect("COMMIT");
    }
    start.elapsed()
}

fn store(events: &[SessionEvent]) -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path().join("store.db")).expect("a store");
    let header = SessionHeader::new(SessionId::new("s").expect("an id"), 1).expect("a header");
    let handle = store.create(&header, CreateOptions::default()).expect("a session");
    let start = Instant::now();
    for batch in events.chunks(BATCH) {
        handle.append(batch).expect("append");
    }
    start.elapsed()
}
