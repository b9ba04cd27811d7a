//! A sync that fails, after which the system takes for written what never was: no later sync writes it.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, ffi};
use session_persistence::ErrorKind;

use super::disk::{Disk, scratch};
use super::fault::{Effect, Fault, Kind, Part};
use super::is_full;
use super::ledger::{Ledger, Through, chain};
use super::sample::{self, Mode, create, events};
use super::scene::{Call, Scene};

const FORGET: Effect = Effect::Forget(ffi::SQLITE_IOERR_FSYNC);

const SEED: u64 = 0xf5_7c;

#[test]
fn the_flush_after_a_failed_one_makes_all_durable() {
    for failures in 1..4 {
        let mut scene = Scene::before(Call::Append, Mode::OnFlush);
        scene.append(3).unwrap();
        for failure in 0..failures {
            scene.disk.inject(Fault::new(Kind::Sync, FORGET));
            assert!(scene.flush().unwrap_err().kind() == ErrorKind::Io);
            scene.disk.mend();
            if failure > 0 {
                scene.append(2).unwrap();
            }
        }
        scene.flush().unwrap();
        let what = format!("{failures} flushes failed and one did not");
        scene.check_left(&what);
        scene.go_on(&what);
    }
}

#[test]
fn an_append_after_a_failed_one_makes_all_durable_that_was_acknowledged() {
    let mut scene = Scene::before(Call::Append, Mode::EveryAppend);
    scene.append(2).unwrap();
    scene.disk.inject(Fault::new(Kind::Sync, FORGET).on(Part::Wal));
    assert!(scene.append(2).unwrap_err().kind() == ErrorKind::Io);
    scene.check_left("an append failed");
    scene.append(2).unwrap();
    scene.check_left("an append failed and the next did not");
    scene.go_on("an append failed");
}

#[test]
fn a_store_that_is_closed_while_no_sync_goes_well_loses_nothing_to_the_next_process() {
    let mut scene = Scene::before(Call::Append, Mode::OnFlush);
    scene.disk.inject(Fault::new(Kind::Sync, FORGET).lasting());
    scene.flush().unwrap_err();
    let (disk, ledger) = scene.close();
    disk.mend();
    ledger.check(&disk.store(), Through::Death, "closed while no sync went well");
}

fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint", [], |_| Ok(()))
}

/// A store whose database has pages that its WAL on the disk does not have, once it was brought into it: the WAL was
/// started anew, flushed, and then grew by what no sync wrote.
fn with_a_wal_that_was_not_synced() -> Scene {
    let mut scene = Scene::before(Call::Append, Mode::OnFlush);
    scene.append(60).unwrap();
    scene.flush().unwrap();
    checkpoint(&Connection::open(scene.disk.store()).unwrap()).unwrap();
    scene.append(1).unwrap();
    scene.flush().unwrap();
    scene.append(30).unwrap();
    scene.disk.inject(Fault::new(Kind::Sync, FORGET).on(Part::Wal));
    scene.flush().unwrap_err();
    assert!(scene.disk.mend() == 1);
    scene
}

#[test]
fn a_loss_of_power_after_a_failed_flush_and_a_close_takes_nothing_that_was_flushed() {
    let scene = with_a_wal_that_was_not_synced();
    let (disk, ledger) = scene.close();
    for (survive, how) in [(false, "nothing"), (true, "all")] {
        let folder = scratch();
        disk.outage().surviving(|_| survive, None).write_to(folder.path());
        let what = format!("closed after a failed flush, then an outage, {how} unsynced is left");
        ledger.check(&folder.path().join("sessions.db"), Through::Outage, &what);
    }
}

/// A WAL that another one took the place of is nobody's to write.
#[test]
fn a_wal_that_is_not_the_one_that_was_opened_is_left_alone_and_told_of() {
    let scene = with_a_wal_that_was_not_synced();
    let wal = scene.disk.folder().join("sessions.db-wal");
    fs::rename(&wal, scene.disk.folder().join("moved")).unwrap();
    fs::write(&wal, "of somebody else").unwrap();
    let mut scene = scene;
    let told = scene.flush().unwrap_err();
    assert!(told.kind() == ErrorKind::Io && chain(&told).contains("-wal"), "{}", chain(&told));
    assert!(fs::read(&wal).unwrap() == b"of somebody else");
    // So that closing does not take it away.
    fs::rename(scene.disk.folder().join("moved"), &wal).unwrap();
    let (disk, ledger) = scene.close();
    ledger.check(&disk.store(), Through::Death, "its own WAL is back");
}

/// Two misfortunes: a sync fails, and then the power goes while that is made good.
#[test]
fn a_loss_of_power_while_a_failed_sync_is_made_good_takes_nothing_that_was_flushed() {
    let mut met = 0;
    for changes in 0.. {
        let mut scene = with_a_wal_that_was_not_synced();
        scene.disk.cut_power_after(changes);
        let made_good = scene.flush();
        assert!(made_good.is_ok() || scene.disk.is_off());
        scene.check_left(&format!("power cut {changes} changes after a failed sync"));
        scene.check_partly_left(&format!("power cut {changes} changes after a failed sync"));
        if !scene.disk.is_off() {
            break;
        }
        met += 1;
    }
    assert!(met > 1, "{met} changes were made");
}

/// Several writers, whose syncs fail now and then and who try again, until the power goes.
#[test]
fn many_writers_through_failing_syncs_keep_what_was_acknowledged() {
    for round in 0..if is_full() { 300 } else { 4 } {
        for mode in [Mode::OnFlush, Mode::EveryAppend] {
            let seed = SEED + round;
            let what = format!("{mode:?}, seed {seed}");
            let disk = Disk::new();
            let ledger = Mutex::new(Ledger::new(mode));
            let store = sample::open(&disk.store(), mode).unwrap();
            ledger.lock().unwrap().made();
            disk.cut_power_after(fastrand::Rng::with_seed(seed).u64(20..400));
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for (writer, name) in ["a", "b", "c", "d"].iter().enumerate() {
                    let (disk, ledger, store, is_over) = (&disk, &ledger, &store, &is_over);
                    scope.spawn(move || {
                        let mut random = fastrand::Rng::with_seed(seed << 8 ^ writer as u64);
                        let handle = create(store, name);
                        let mut length = 0;
                        while let Ok(handle) = &handle
                            && !is_over.load(Ordering::Relaxed)
                        {
                            let count = random.u64(1..4);
                            ledger.lock().unwrap().storing(name, length + count);
                            while handle.append(&events(name, length, count)).is_err() && !disk.is_off() {}
                            if disk.is_off() {
                                break;
                            }
                            length += count;
                            ledger.lock().unwrap().stored(name, length);
                            if random.u8(..4) == 0 {
                                ledger.lock().unwrap().flushing(name);
                                if handle.flush().is_ok() {
                                    ledger.lock().unwrap().flushed_by(name);
                                }
                            }
                        }
                        is_over.store(true, Ordering::Relaxed);
                    });
                }
                let mut random = fastrand::Rng::with_seed(!seed);
                while !is_over.load(Ordering::Relaxed) {
                    disk.inject(Fault::new(Kind::Sync, FORGET).after(random.u64(..4)));
                    std::thread::sleep(std::time::Duration::from_micros(random.u64(..3_000)));
                    disk.mend();
                }
            });
            drop(store);
            let outage = disk.outage();
            for (files, through) in [(outage.everything(), Through::Death), (outage.least(), Through::Outage)] {
                let folder = scratch();
                files.write_to(folder.path());
                ledger.lock().unwrap().check(&folder.path().join("sessions.db"), through, &what);
            }
        }
    }
}
