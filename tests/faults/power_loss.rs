//! The power is cut at every change of a file, and what may be left of the disk is opened.

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::disk::{Disk, scratch};
use super::ledger::{Ledger, Through};
use super::outage::{Files, Outage};
use super::sample::{self, Mode, create, events};
use super::{history, is_full};

const SEED: u64 = 0x5e55_1035;

#[test]
fn what_a_flush_acknowledged_survives_a_loss_of_power_at_every_change() {
    at_every_change(Mode::OnFlush);
}

#[test]
fn what_an_append_acknowledged_survives_a_loss_of_power_where_every_append_waits_for_the_disk() {
    at_every_change(Mode::EveryAppend);
}

#[test]
fn what_an_append_acknowledged_survives_a_loss_of_power_in_rollback_mode() {
    at_every_change(Mode::Rollback);
}

fn at_every_change(mode: Mode) {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut changes = 0;
    loop {
        let disk = Disk::new();
        disk.cut_power_after(changes);
        let ledger = history::run(&disk, mode);
        let what = format!("{mode:?}, power cut after {changes} changes");
        check(&disk.outage(), &ledger, changes, &what);
        if !disk.is_off() {
            break;
        }
        changes += if is_full() { 1 } else { random.u64(1..=24) };
    }
    assert!(changes > 100, "the history made {changes} changes only");
}

#[test]
fn a_store_whose_migration_loses_its_power_keeps_all_and_is_migrated_at_the_next_opening() {
    let (files, ledger) = of_version_1();
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut changes = 0;
    loop {
        let disk = Disk::holding(&files);
        disk.cut_power_after(changes);
        let opened = sample::open(&disk.store(), Mode::OnFlush);
        assert!(opened.is_ok() || disk.is_off());
        drop(opened);
        check(&disk.outage(), &ledger, changes, &format!("migrated, power cut after {changes} changes"));
        if !disk.is_off() {
            break;
        }
        changes += if is_full() { 1 } else { random.u64(1..=4) };
    }
    assert!(changes > 5, "{changes} changes migrated it");
}

/// A closed store as the first version made it.
fn of_version_1() -> (Files, Ledger) {
    let folder = scratch();
    let path = folder.path().join("sessions.db");
    let mut ledger = Ledger::new(Mode::OnFlush);
    ledger.made();
    let store = sample::open(&path, Mode::OnFlush).unwrap();
    for session in ["a", "b"] {
        create(&store, session).unwrap().append(&events(session, 0, 9)).unwrap();
        ledger.storing(session, 9);
        ledger.stored(session, 9);
    }
    ledger.flushed();
    drop(store);
    let older = "DROP INDEX sessions_by_cwd;
        DROP INDEX sessions_by_cwd_and_creation;
        DROP INDEX sessions_by_parent;
        DROP INDEX sessions_by_origin;
        DROP INDEX sessions_by_version;
        DROP INDEX sessions_told_otherwise;
        DROP VIEW session_overview;
        ALTER TABLE sessions DROP COLUMN written_at;
        ALTER TABLE sessions DROP COLUMN fence;
        CREATE VIEW session_overview AS
        SELECT id AS session_id, version, created_at, cwd, parent_session, origin, delegation_depth, agent_preset,
               inherited_count, event_count, size_bytes, last_time, activity
        FROM sessions;
        PRAGMA user_version = 1;";
    let connection = Connection::open(&path).unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    connection.execute_batch(older).unwrap();
    // The checksum of a row did not yet cover the time of the last write.
    let row = "SELECT number, incarnation, created_at, header_checksum, inherited_count, event_count, size_bytes, \
               last_time IS NOT NULL, ifnull(last_time, 0), revision, chain, activity, types_checksum FROM sessions";
    let rows: Vec<[i64; 13]> = {
        let mut rows = connection.prepare(row).unwrap();
        let values = rows.query_map([], |row| Ok(std::array::from_fn(|column| row.get(column).unwrap())));
        values.unwrap().map(Result::unwrap).collect()
    };
    for [number, incarnation, counted @ ..] in rows {
        let checksum = xxh3_64_with_seed(&counted.map(i64::to_le_bytes).concat(), incarnation as u64) as i64;
        connection.execute("UPDATE sessions SET checksum = ?2 WHERE number = ?1", [number, checksum]).unwrap();
    }
    connection.close().unwrap();
    (Files::of(folder.path()), ledger)
}

/// Opens what may be left.
fn check(outage: &Outage, ledger: &Ledger, seed: u64, what: &str) {
    let left = |files: &Files, through, how: &str| {
        let folder = scratch();
        files.write_to(folder.path());
        ledger.check(&folder.path().join("sessions.db"), through, &format!("{what}, {how}"));
    };
    left(&outage.everything(), Through::Death, "everything is left");
    left(&outage.least(), Through::Outage, "nothing unsynced is left");
    let count = outage.unsynced.len();
    if count == 0 {
        return;
    }
    let mut random = fastrand::Rng::with_seed(SEED ^ seed);
    let prefixes: Vec<usize> = if is_full() { (1..=count).collect() } else { vec![random.usize(1..=count)] };
    for length in prefixes {
        left(
            &outage.surviving(|n| n < length, None),
            Through::Outage,
            &format!("the first {length} of {count} are left"),
        );
    }
    for subset in 0..if is_full() { 8 } else { 1 } {
        let seed = SEED ^ seed ^ (subset << 32);
        let mut random = fastrand::Rng::with_seed(seed);
        let chosen: Vec<bool> = (0..count).map(|_| random.bool()).collect();
        left(
            &outage.surviving(|n| chosen[n], None),
            Through::Outage,
            &format!("of {count} are left {chosen:?}, seed {seed}"),
        );
    }
    let last = outage.length(count - 1);
    let odd = [1, 7, 23, 24, 25, 511, 513, 4095, last.saturating_sub(1)];
    let mut tears: Vec<usize> = (0..last).step_by(512).chain(odd).filter(|bytes| *bytes < last).collect();
    if !is_full() {
        random.shuffle(&mut tears);
        tears.truncate(1);
    }
    for bytes in tears {
        let how = format!("of the last of {count} are left {bytes} of {last} bytes");
        left(&outage.surviving(|_| true, Some(bytes)), Through::Outage, &how);
    }
}
