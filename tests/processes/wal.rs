//! The file in which SQLite keeps what is not in the database yet: it stays small whoever reads.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use session_persistence::Result;

use super::log::{id, sized};
use super::peer::Peer;
use super::place::{Kind, Place};
use super::role::Role;
use super::rounds::{chance, rounds};

/// What the WAL stays under as long as nobody holds a transaction open, and what it comes back to by the first append
/// after somebody did, in bytes.
const LIMIT: u64 = 64 << 20;

const EVENT_BYTES: usize = 4096;

/// How many events a page has.
const PAGE: u64 = 100;

fn wal(database: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", database.display()))
}

fn wal_bytes(database: &Path) -> u64 {
    wal(database).metadata().map_or(0, |found| found.len())
}

/// In another process: appends events of 4 KiB one by one, and gives the most bytes that the WAL had behind one.
pub(crate) fn fill(role: &mut Role, name: &str, seqs: std::ops::Range<u64>) -> Result<u64> {
    let mut most = 0;
    for seq in seqs {
        role.handle(name).append(&[sized(seq, EVENT_BYTES)])?;
        most = most.max(wal_bytes(role.path()));
    }
    Ok(most)
}

/// In another process: a transaction that has read, and keeps what it has read readable.
pub(crate) fn hold(database: &Path) -> Connection {
    let connection = Connection::open(database).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    connection.query_row("SELECT count(*) FROM sessions", [], |_| Ok(())).unwrap();
    connection
}

/// A session with a few pages of events, and its writer.
fn begun(place: &Place) -> (Peer, u64) {
    let mut writer = Peer::at(place);
    writer.tell("create s").done();
    writer.tell(&format!("fill s 0 {}", 10 * PAGE)).done();
    (writer, 10 * PAGE)
}

#[test]
fn readers_that_stop_between_two_pages_do_not_hold_the_wal() {
    let place = Place::new(Kind::Sqlite);
    let (mut writer, mut count) = begun(&place);
    let (seed, mut chance) = chance(11, 0);
    let (total, steps) = (rounds(40 << 20, 200 << 20) / EVENT_BYTES as u64, rounds(10, 40));
    let (mut readers, mut most): (Vec<(Peer, u64)>, u64) = (Vec::new(), 0);
    for _ in 0..steps {
        // One comes, reads a few pages, and stops; another one goes on from where it was; another one goes for good.
        let mut reader = Peer::at(&place);
        let pages = chance.u64(1..5);
        for page in 0..pages {
            assert_eq!(reader.tell(&format!("page s {} {PAGE}", page * PAGE)).done(), PAGE.to_string());
        }
        reader.stop();
        readers.push((reader, pages));
        if readers.len() > 2 {
            let (reader, pages) = &mut readers[chance.usize(..2)];
            reader.go_on();
            assert_eq!(reader.tell(&format!("page s {} {PAGE}", *pages * PAGE)).done(), PAGE.to_string());
            *pages += 1;
            reader.stop();
            readers.remove(chance.usize(..3)).0.kill();
        }
        let bytes: u64 = writer.tell(&format!("fill s {count} {}", count + total / steps)).done().parse().unwrap();
        count += total / steps;
        most = most.max(bytes);
        assert!(bytes < LIMIT, "seed {seed}: the WAL has {bytes} bytes after {count} events");
    }
    eprintln!("the WAL had at most {most} bytes while {count} events were appended under stopped readers");
    for (reader, _) in readers {
        reader.go_on();
        reader.end();
    }
    writer.end();
    assert_eq!(wal_bytes(&place.path()), 0);
    let connection = Connection::open(place.path()).unwrap();
    let (found, stored): (String, u64) = connection
        .query_row("SELECT integrity_check, (SELECT count(*) FROM events) FROM pragma_integrity_check", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!((found.as_str(), stored), ("ok", count));
}

#[test]
fn a_wal_that_a_reader_held_shrinks_within_one_append_after_it_has_gone() {
    for stopped in [false, true] {
        let place = Place::new(Kind::Sqlite);
        let (mut writer, mut count) = begun(&place);
        let mut reader = Peer::at(&place);
        reader.tell("hold").done();
        if stopped {
            reader.stop();
        }
        let mut bytes = 0;
        while bytes <= LIMIT {
            let before = bytes;
            bytes = writer.tell(&format!("fill s {count} {}", count + 1000)).done().parse().unwrap();
            count += 1000;
            assert!(bytes > before, "a reader holds the WAL, which cannot start anew: {bytes} bytes");
        }
        // What is held is told to nobody as a failure, and read by all.
        assert_eq!(super::log::stat(&*place.open(), "s").event_count, Some(count));
        reader.kill();
        writer.tell(&format!("fill s {count} {}", count + 1)).done();
        let after = wal_bytes(&place.path());
        eprintln!("the WAL had {bytes} bytes under a reader, and {after} by the first append after it");
        assert!(after < LIMIT, "the WAL still has {after} bytes");
        writer.end();
        let store = place.open();
        assert_eq!(super::log::read(&*store, "s").len() as u64, count + 1);
        store.open(&id("s"), session_persistence::OpenOptions::write()).unwrap().close().unwrap();
    }
}
