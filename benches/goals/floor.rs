//! The floor: what the same work costs without a store.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Row, Statement, Transaction, TransactionBehavior, params};
use serde::Deserialize;
use serde_json::value::RawValue;
use session_persistence::{SessionEvent, SurfaceOp};

/// The page size that the store chooses.
const PAGE_SIZE: i64 = 8192;

const NUMBER: i64 = 1;

/// A plain file that is only added to.
pub(crate) struct PlainFile {
    file: File,
    block: Vec<u8>,
}

impl PlainFile {
    pub(crate) fn create(path: &Path) -> Self {
        Self { file: File::create(path).expect("a file"), block: vec![b'x'; 4096] }
    }

    /// Appends 4 KB, and waits until they are on the disk.
    pub(crate) fn append_durably(&mut self) {
        self.file.write_all(&self.block).expect("written");
        self.file.sync_data().expect("synced");
    }
}

/// A database with the tables of the store, without its triggers, and with one session.
pub(crate) fn bare_database(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("a database");
    connection.pragma_update(None, "page_size", PAGE_SIZE).expect("page_size");
    connection.execute_batch(include_str!("../../schema.sql")).expect("the schema");
    set_up(&connection);
    connection.execute("INSERT INTO store VALUES (1, 'bare', 0, 0)", []).expect("the store");
    for number in 1..=64 {
        let row = params![number, format!("bare-{number}"), r#"{"type":"session"}"#];
        let insert = "INSERT INTO sessions (number, id, incarnation, created_at, header, header_checksum, \
                      inherited_count, event_count, size_bytes, revision, chain, activity, types_checksum, checksum) \
                      VALUES (?1, ?2, 0, 0, ?3, 0, 0, 0, 0, 0, 0, ?1, 0, 0)";
        connection.execute(insert, row).expect("a session");
    }
    connection
}

/// Sets a connection up as the store does.
pub(crate) fn set_up(connection: &Connection) {
    connection.pragma_update(None, "journal_mode", "wal").expect("journal_mode");
    connection.pragma_update(None, "synchronous", "NORMAL").expect("synchronous");
    connection.pragma_update(None, "journal_size_limit", 32 << 20).expect("journal_size_limit");
    connection.pragma_update(None, "foreign_keys", true).expect("foreign_keys");
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).expect("no triggers");
}

/// Inserts a batch in a transaction of its own.
pub(crate) fn bare_append(connection: &mut Connection, number: i64, events: &[SessionEvent]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    insert(&transaction, number, events)?;
    transaction.commit()
}

fn insert(transaction: &Transaction<'_>, number: i64, events: &[SessionEvent]) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO events (key, type, time, data, source_event_seqs, surface_op, ignorable, envelope, checksum) \
         VALUES (?1, ?2, ?3, ?4, NULL, ?5, NULL, NULL, ?6)",
    )?;
    let mut bytes = 0;
    for event in events {
        let key = (number << 32) + event.seq().get() as i64;
        let surface_op = matches!(event.surface_op(), Some(SurfaceOp::Append)).then_some(r#""append""#);
        // A checksum has about as many bytes.
        let checksum = key.wrapping_mul(0x5851_f42d_4c95_7f2d);
        insert.execute(params![key, event.event_type(), event.time(), event.data().as_str(), surface_op, checksum])?;
        bytes += event.data().as_str().len();
    }
    transaction
        .prepare_cached(
            "UPDATE sessions SET event_count = event_count + ?2, size_bytes = size_bytes + ?3, \
             revision = revision + 1, activity = (SELECT max(activity) + 1 FROM sessions) WHERE number = ?1",
        )?
        .execute(params![number, events.len(), bytes])?;
    Ok(())
}

/// A whole log by bare inserts; the connection is closed at the end, which copies the WAL.
pub(crate) fn bare_bulk(path: &Path, events: &[SessionEvent], batch: usize) -> Duration {
    let mut connection = bare_database(path);
    let start = std::time::Instant::now();
    for batch in events.chunks(batch) {
        bare_append(&mut connection, NUMBER, batch).expect("a batch");
    }
    connection.close().expect("closed");
    start.elapsed()
}

/// An event as a bare loop has it.
pub(crate) type BareEvent = (i64, String, i64, String, Option<String>);

pub(crate) const SELECT_EVENTS: &str =
    "SELECT key, type, time, data, surface_op FROM events WHERE key >= ?1 AND key < ?2 ORDER BY key";

fn bare_event(row: &Row<'_>) -> rusqlite::Result<BareEvent> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
}

/// Selects a slice of the session whose number is 1 into strings.
pub(crate) fn bare_slice(select: &mut Statement<'_>, from: u64, to: u64) -> Vec<BareEvent> {
    let keys = [(NUMBER << 32) + from as i64, (NUMBER << 32) + to as i64];
    let mut events = Vec::with_capacity((to - from) as usize);
    let rows = select.query_map(keys, bare_event).expect("a query");
    events.extend(rows.map(|row| row.expect("a row")));
    events
}

/// The line of an event, its data checked and kept as text.
#[derive(Deserialize)]
#[expect(dead_code, reason = "a reader keeps what it has read")]
pub(crate) struct PlainEvent {
    #[serde(rename = "type")]
    pub(crate) event_type: String,
    pub(crate) seq: u64,
    pub(crate) time: i64,
    pub(crate) data: Box<RawValue>,
    #[serde(rename = "surfaceOp")]
    pub(crate) surface_op: Option<Box<RawValue>>,
}

/// Reads a log of text: each line is parsed, which checks its JSON.
pub(crate) fn plain_read(reader: impl Read) -> Vec<PlainEvent> {
    let mut reader = BufReader::with_capacity(256 << 10, reader);
    let (mut events, mut line) = (Vec::new(), String::new());
    let mut is_header = true;
    while reader.read_line(&mut line).expect("a line") > 0 {
        if !std::mem::replace(&mut is_header, false) {
            events.push(serde_json::from_str(line.trim_end()).expect("JSON"));
        }
        line.clear();
    }
    events
}

/// The text of a batch as any program writes it.
pub(crate) fn push_lines(text: &mut String, events: &[SessionEvent]) {
    use std::fmt::Write as _;
    for event in events {
        let surface_op = if event.surface_op().is_some() { r#","surfaceOp":"append""# } else { "" };
        let (event_type, seq, time, data) = (event.event_type(), event.seq(), event.time(), event.data().as_str());
        writeln!(text, r#"{{"type":"{event_type}","seq":{seq},"time":{time},"data":{data}{surface_op}}}"#)
            .expect("text grows");
    }
}

/// A whole log as text; a write a batch.
pub(crate) fn plain_bulk(path: &Path, header: &str, events: &[SessionEvent], batch: usize) {
    let mut file = File::create(path).expect("a file");
    file.write_all(header.as_bytes()).expect("written");
    let mut text = String::new();
    for batch in events.chunks(batch) {
        text.clear();
        push_lines(&mut text, batch);
        file.write_all(text.as_bytes()).expect("written");
    }
}

/// A whole log as zstd frames with checksums; a frame and a write a batch.
pub(crate) fn zstd_bulk(path: &Path, header: &str, events: &[SessionEvent], batch: usize) {
    let mut file = File::create(path).expect("a file");
    let mut compressor = zstd::bulk::Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL).expect("a compressor");
    compressor.include_checksum(true).expect("a checksum");
    file.write_all(&compressor.compress(header.as_bytes()).expect("packed")).expect("written");
    let mut text = String::new();
    for batch in events.chunks(batch) {
        text.clear();
        push_lines(&mut text, batch);
        file.write_all(&compressor.compress(text.as_bytes()).expect("packed")).expect("written");
    }
}
