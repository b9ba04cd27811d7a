//! Stores of earlier versions, as those versions wrote them: brought to this one when they are opened, as a whole.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};
use session_persistence::{
    Json, ListQuery, OpenOptions, SeqRange, SessionEvent, SessionHeader, SessionPersistence as _, SqliteStore,
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::place::{beside, copy, counts, event, id, names, of, open};

const CHILD: &str = "SESSIONS_OPENING_MIGRATION";

/// A session as version 1 stored it.
struct Old {
    name: &'static str,
    incarnation: i64,
    activity: i64,
    events: Vec<SessionEvent>,
}

impl Old {
    fn header(&self) -> SessionHeader {
        SessionHeader::new(id(self.name), 1_700_000_000_000).unwrap().with_cwd("/srv/app")
    }

    /// Its text.
    fn lines(&self) -> Vec<String> {
        let events = self.events.iter().map(SessionEvent::to_line);
        std::iter::once(self.header().to_line()).chain(events).collect()
    }

    fn hash(&self, bytes: &[u8]) -> i64 {
        xxh3_64_with_seed(bytes, self.incarnation.cast_unsigned()).cast_signed()
    }

    fn insert(&self, connection: &Connection, number: i64) {
        let header = self.header().to_line();
        let header_checksum = self.hash(header.as_bytes());
        let mut chain = header_checksum;
        let (mut types, mut types_checksum) = (Vec::<&str>::new(), 0_i64);
        for event in &self.events {
            let seq = event.seq().get();
            let checksum = self.hash(event.to_line().as_bytes());
            chain = xxh3_64_with_seed(&checksum.to_le_bytes(), chain.cast_unsigned()).cast_signed();
            if !event.is_ignorable() && !types.contains(&event.event_type()) {
                types.push(event.event_type());
                let noted = [event.event_type().as_bytes(), &seq.to_le_bytes()].concat();
                types_checksum = types_checksum.wrapping_add(self.hash(&noted));
                connection
                    .execute("INSERT INTO session_types VALUES (?1, ?2, ?3)", params![number, event.event_type(), seq])
                    .unwrap();
            }
            connection
                .execute(
                    "INSERT INTO events (key, type, time, data, ignorable, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                    params![
                        (number << 32) + seq.cast_signed(),
                        event.event_type(),
                        event.time(),
                        event.data().as_str(),
                        event.is_ignorable().then_some(1),
                        checksum,
                    ],
                )
                .unwrap();
        }
        let count = self.events.len() as i64;
        let size: i64 = self.lines().iter().map(|line| line.len() as i64 + 1).sum();
        let last = self.events.last().map(SessionEvent::time);
        let (created, inherited, revision) = (1_700_000_000_000_i64, 0_i64, count);
        let told = [
            created,
            header_checksum,
            inherited,
            count,
            size,
            last.is_some().into(),
            last.unwrap_or(0),
            revision,
            chain,
            self.activity,
            types_checksum,
        ];
        let checksum = self.hash(&told.into_iter().flat_map(i64::to_le_bytes).collect::<Vec<_>>());
        connection
            .execute(
                "INSERT INTO sessions (number, id, incarnation, created_at, header, header_checksum, inherited_count, \
                 event_count, size_bytes, last_time, revision, chain, activity, types_checksum, checksum) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
                params![
                    number,
                    self.name,
                    self.incarnation,
                    created,
                    header,
                    header_checksum,
                    inherited,
                    count,
                    size,
                    last,
                    revision,
                    chain,
                    self.activity,
                    types_checksum,
                    checksum,
                ],
            )
            .unwrap();
    }
}

fn sessions() -> [Old; 3] {
    let json = |text: &str| Json::parse(text).unwrap();
    let events = vec![
        SessionEvent::new("turn/start", 0, -5, json(r#"{"turn":1,"n":1e400,"s":"\ud83d"}"#)).unwrap(),
        SessionEvent::new("note", 1, 7, json(r#"{"b":1,"a":2}"#)).unwrap().into_ignorable(),
        SessionEvent::new("turn/end", 2, 9, json(r#"{"turn":1,"reason":{"kind":"completed"}}"#)).unwrap(),
    ];
    [
        Old { name: "mixed", incarnation: -77, activity: 3, events },
        Old { name: "long", incarnation: i64::MAX, activity: 1, events: (0..50).map(|seq| event(seq, 900)).collect() },
        Old { name: "none", incarnation: 5, activity: 2, events: Vec::new() },
    ]
}

/// A store that version 1 wrote and closed.
fn old_store(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA page_size = 8192; PRAGMA journal_mode = wal").unwrap();
    connection.execute_batch(include_str!("../schemas/1.sql")).unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    connection
        .execute_batch("BEGIN; PRAGMA defer_foreign_keys = ON; INSERT INTO store VALUES (1, '0123456789abcdef', 4, 0)")
        .unwrap();
    sessions().iter().zip(1..).for_each(|(session, number)| session.insert(&connection, number));
    connection.execute_batch("COMMIT").unwrap();
}

fn version(path: &Path) -> i64 {
    Connection::open(path).unwrap().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

/// Checks that a store has what version 1 stored, to the byte.
fn assert_whole(store: &SqliteStore) {
    let listed: Vec<_> =
        store.list(&ListQuery::default()).unwrap().items.into_iter().map(|s| s.id.to_string()).collect();
    assert_eq!(listed, ["mixed", "none", "long"]);
    for session in sessions() {
        let handle = store.open(&id(session.name), OpenOptions::read()).unwrap();
        let events = handle.read(SeqRange::ALL).unwrap();
        let lines: Vec<_> =
            std::iter::once(handle.header().to_line()).chain(events.iter().map(SessionEvent::to_line)).collect();
        assert_eq!(lines, session.lines());
        let told = store.stat(&id(session.name)).unwrap().unwrap();
        assert_eq!(told.event_count, Some(session.events.len() as u64));
        assert_eq!(told.size_bytes, Some(lines.iter().map(|line| line.len() as u64 + 1).sum()));
    }
}

#[test]
fn what_version_1_wrote_is_read_continued_and_exported_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    old_store(&path);
    assert_eq!(version(&path), 1);
    let store = open(&path);
    assert_whole(&store);
    let revision = store.stat(&id("long")).unwrap().unwrap().revision;
    drop(store);
    assert_eq!(version(&path), 3);
    assert_eq!(names(folder.path()), ["s.db"]);
    let store = open(&path);
    assert_whole(&store);
    assert_eq!(store.stat(&id("long")).unwrap().unwrap().revision, revision, "nothing that is stored has changed");
    let handle = store.open(&id("long"), OpenOptions::write()).unwrap();
    handle.append(&[event(50, 10)]).unwrap();
    drop(handle);
    assert!(store.remove(&id("none")).unwrap());
    drop(store);
    assert_eq!(counts(&open(&path)).unwrap(), of(&[("mixed", 3), ("long", 51)]));
}

#[test]
fn twenty_threads_that_open_a_store_of_version_1_at_once_all_find_it_whole() {
    for round in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        old_store(&path);
        let start = std::sync::Barrier::new(20);
        std::thread::scope(|scope| {
            for thread in 0..20 {
                let (path, start) = (&path, &start);
                scope.spawn(move || {
                    start.wait();
                    let store = open(path);
                    assert_eq!(store.stat(&id("mixed")).unwrap().unwrap().event_count, Some(3));
                    super::place::put(&store, &format!("s{thread}"), 2, 10);
                });
            }
        });
        assert_eq!(counts(&open(&path)).unwrap().len(), 23, "round {round}");
    }
}

/// Opens a store, and tells so.
#[test]
#[ignore = "run by other tests as a process of its own"]
fn child_that_opens_an_earlier_version() {
    if let Some(path) = std::env::var_os(CHILD) {
        assert_whole(&SqliteStore::open_existing(path).unwrap());
    }
}

fn child(path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "versions::child_that_opens_an_earlier_version"])
        .env(CHILD, path)
        .stdout(Stdio::null());
    command
}

#[test]
fn many_processes_that_open_a_store_of_version_1_at_once_all_find_it_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    old_store(&path);
    let children: Vec<_> = (0..20).map(|_| child(&path).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(version(&path), 3);
    assert_whole(&open(&path));
    assert_eq!(names(folder.path()), ["s.db"]);
}

/// Each state in which a process can be killed that brings a store to this version: SQLite only ever adds to the WAL, and
/// what is torn off its end it was not there to write.
#[test]
fn a_store_is_of_the_old_or_the_new_version_wherever_its_migration_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.db");
    old_store(&path);
    // Keeps the WAL from being put away.
    let other = Connection::open(&path).unwrap();
    other.query_row("SELECT count(*) FROM sessions", [], |_| Ok(())).unwrap();
    drop(open(&path));
    let wal = std::fs::read(beside(&path, "-wal")).unwrap();
    let frames = (wal.len() - 32) / (8192 + 24);
    assert!(frames >= 3, "{frames} pages were changed");
    let mut found = [0; 4];
    for end in (0..=frames).flat_map(|frame| [32 + frame * 8216, 32 + frame * 8216 + 4000]) {
        let place = tempfile::tempdir().unwrap();
        let killed = place.path().join("s.db");
        copy(&path, &killed, &[]);
        std::fs::write(beside(&killed, "-wal"), &wal[..end.min(wal.len())]).unwrap();
        // Looked at as SQLite finds it, in a copy: a store is brought to this version as soon as it is opened.
        let looked_at = place.path().join("looked-at.db");
        copy(&killed, &looked_at, &["-wal"]);
        found[usize::try_from(version(&looked_at)).unwrap()] += 1;
        assert_whole(&open(&killed));
        assert_eq!(version(&killed), 3);
    }
    assert!(found[0] == 0 && found[1] >= frames && found[2] == 0 && found[3] >= 1, "{found:?}");
}

#[test]
fn a_process_killed_while_it_opens_an_earlier_version_leaves_it_whole() {
    let rounds = if std::env::var_os("SESSIONS_FULL").is_some() { 200 } else { 12 };
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("original.db");
    old_store(&original);
    let mut found = [0; 4];
    for round in 0..rounds {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s.db");
        copy(&original, &path, &[]);
        let mut child = child(&path).spawn().unwrap();
        // It starts by making the files beside the database, or has finished already.
        while names(place.path()).len() < 2 && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(round * 331 % 2500));
        child.kill().unwrap();
        child.wait().unwrap();
        let looked_at = place.path().join("looked-at.db");
        copy(&path, &looked_at, if beside(&path, "-wal").exists() { &["-wal"] } else { &[] });
        found[usize::try_from(version(&looked_at)).unwrap()] += 1;
        assert_whole(&open(&path));
        assert_eq!(version(&path), 3, "round {round}");
    }
    eprintln!("{} killed before and {} after", found[1], found[3]);
    assert_eq!(found[0], 0);
}
