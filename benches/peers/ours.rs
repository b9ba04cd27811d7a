//! One piece of work by a store of ours, timed from its opening; the counterpart of `dsh.mjs`.

use std::time::{Duration, Instant};

use session_persistence::{
    CreateOptions, Durability, Encoding, JsonlOptions, JsonlStore, ListQuery, OpenOptions, SeqRange, SessionEvent,
    SessionHeader, SessionId, SessionPersistence, SqliteOptions, SqliteStore, text,
};

pub(crate) fn open(kind: &str, place: &str) -> Box<dyn SessionPersistence> {
    // As theirs: every append is durable when it answers.
    let durability = Durability::EveryAppend;
    match kind {
        "sqlite" => {
            let options = SqliteOptions::default().with_durability(durability);
            Box::new(SqliteStore::open_with(place, options).expect("a store"))
        }
        _ => {
            let encoding = if kind == "raw" { Encoding::Raw } else { Encoding::Zstd };
            let options = JsonlOptions::default().with_encoding(encoding).with_durability(durability);
            Box::new(JsonlStore::open_with(place, options).expect("a store"))
        }
    }
}

/// Does `work` on the store in `place`, with the events of the plain log in the file `log`.
pub(crate) fn run(work: &str, kind: &str, place: &str, log: &str, argument: &str) -> Duration {
    let lines = std::fs::read(log).expect("the log");
    let mut lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let header = SessionHeader::parse(lines.next().expect("a header")).expect("a header");
    let count = lines.clone().count() as u64;
    let events =
        || -> Vec<SessionEvent> { lines.clone().map(|line| text::parse_event(line).expect("an event")).collect() };
    let id = header.id().clone();
    let number = || argument.parse::<u64>().expect("a number");
    let named = |name: &str| {
        SessionHeader::new(SessionId::new(name).expect("an id"), 1_700_000_000_000).expect("a header").with_cwd("/srv")
    };
    match work {
        "append" => {
            // The first batch makes the session, and its files as large as they stay.
            let events = events();
            let (first, one_by_one) = events.split_at(number() as usize);
            let store = open(kind, place);
            let handle = store.create(&named(id.as_str()), CreateOptions::default()).expect("a session");
            handle.append(first).expect("appended");
            let start = Instant::now();
            one_by_one.chunks(1).for_each(|event| handle.append(event).expect("appended"));
            start.elapsed()
        }
        "batches" | "bulk" => {
            let events = events();
            let store = open(kind, place);
            let handle = store.create(&named(id.as_str()), CreateOptions::default()).expect("a session");
            let start = Instant::now();
            events.chunks(number() as usize).for_each(|batch| handle.append(batch).expect("appended"));
            start.elapsed()
        }
        "read" => {
            let start = Instant::now();
            let store = open(kind, place);
            let handle = store.open(&id, OpenOptions::read()).expect("the session");
            let read = handle.read(SeqRange::ALL).expect("read");
            let elapsed = start.elapsed();
            assert!(read.len() as u64 >= count);
            elapsed
        }
        "suffix" | "suffix-again" => {
            let mut start = Instant::now();
            let store = open(kind, place);
            let handle = store.open(&id, OpenOptions::read()).expect("the session");
            let suffix = || handle.read((count - 100..).into()).expect("read");
            if work == "suffix-again" {
                suffix();
                start = Instant::now();
            }
            let read = suffix();
            let elapsed = start.elapsed();
            assert!(read.len() >= 100);
            elapsed
        }
        "first-append" => {
            let template = events().swap_remove(1);
            let event = SessionEvent::new(template.event_type(), number(), template.time(), template.data().clone());
            let event = event.expect("an event");
            let start = Instant::now();
            let store = open(kind, place);
            let handle = store.open(&id, OpenOptions::write()).expect("the session");
            handle.append(&[event]).expect("appended");
            start.elapsed()
        }
        "make" => {
            let mut events = events();
            events.truncate(2);
            let start = Instant::now();
            let store = open(kind, place);
            for n in 0..number() {
                let handle = store.create(&named(&format!("session-{n}")), CreateOptions::default());
                let handle = handle.expect("a session");
                handle.append(&events).expect("appended");
                handle.close().expect("closed");
            }
            start.elapsed()
        }
        "list" | "page" | "page-again" => {
            let mut start = Instant::now();
            let store = open(kind, place);
            let query = if work == "list" { ListQuery::default() } else { ListQuery::default().with_limit(50) };
            let list = || store.list(&query).expect("listed");
            if work == "page-again" {
                list();
                start = Instant::now();
            }
            let listed = list();
            let elapsed = start.elapsed();
            assert!(listed.items.len() >= 50);
            elapsed
        }
        "revision" => {
            let start = Instant::now();
            let store = open(kind, place);
            let told = store.stat(&SessionId::new(argument).expect("an id")).expect("told").expect("the session");
            let elapsed = start.elapsed();
            assert!(!told.revision.as_str().is_empty());
            elapsed
        }
        other => panic!("no work is called {other}"),
    }
}
