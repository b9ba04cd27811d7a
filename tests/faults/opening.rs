//! A store that is opened, or made, on a disk that fails.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::ffi;
use session_persistence::{ErrorKind, ListQuery, OpenOptions, SessionPersistence, SqliteStore};

use super::disk::{Disk, scratch};
use super::fault::{Effect, Fault, Kind, Part};
use super::is_full;
use super::ledger::{Ledger, Through, chain};
use super::outage::Files;
use super::sample::{self, Mode, create, events, id};

const SEED: u64 = 0x09_e47;

/// What goes wrong, with the kind of error that it is told as.
const FAILURES: [(Kind, i32); 14] = [
    (Kind::Open, ffi::SQLITE_CANTOPEN),
    (Kind::Open, ffi::SQLITE_PERM),
    (Kind::Read, ffi::SQLITE_IOERR_READ),
    (Kind::Write, ffi::SQLITE_IOERR_WRITE),
    (Kind::Write, ffi::SQLITE_FULL),
    (Kind::Truncate, ffi::SQLITE_IOERR_TRUNCATE),
    (Kind::Sync, ffi::SQLITE_IOERR_FSYNC),
    (Kind::Delete, ffi::SQLITE_IOERR_DELETE),
    (Kind::Size, ffi::SQLITE_IOERR_FSTAT),
    (Kind::Access, ffi::SQLITE_IOERR_ACCESS),
    (Kind::Lock, ffi::SQLITE_IOERR_LOCK),
    (Kind::Map, ffi::SQLITE_IOERR_SHMMAP),
    (Kind::Map, ffi::SQLITE_IOERR_SHMOPEN),
    (Kind::Map, ffi::SQLITE_IOERR_SHMSIZE),
];

/// Opens a store under every failure, at every operation or a few of them. What `after` does must hold each time.
fn under_every_failure(disk: impl Fn() -> std::sync::Arc<Disk>, after: impl Fn(&Disk, bool, &str)) {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut met = 0;
    for (kind, code) in FAILURES {
        for lasts in [false, true] {
            let mut spared = 0;
            loop {
                let disk = disk();
                let fault = Fault::new(kind, Effect::Fail(code)).after(spared);
                disk.inject(if lasts { fault.lasting() } else { fault });
                let what = format!("{kind:?} fails with {code:x} after {spared}, lasts {lasts}");
                let opened = SqliteStore::open(disk.store());
                if disk.mend() == 0 {
                    break;
                }
                met += 1;
                if let Err(e) = &opened {
                    assert!(e.kind() == fault.effect().told_as(), "{what}: told {:?}: {}", e.kind(), chain(e));
                }
                let is_open = opened.is_ok();
                drop(opened);
                after(&disk, is_open, &what);
                spared += if is_full() { 1 } else { random.u64(1..12) };
            }
        }
    }
    assert!(met > 20, "{met} failures were met");
}

#[test]
fn a_store_that_cannot_be_made_leaves_nothing_and_is_made_later() {
    under_every_failure(Disk::new, |disk, is_open, what| {
        // A failure that is told may have come behind the making: that of looking at what was made.
        let left = fs::read_dir(disk.folder()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let left: Vec<_> = left.collect();
        assert!(left.iter().all(|name| name.starts_with("sessions.db")), "{what}: {left:?}");
        assert!(!is_open || disk.store().exists(), "{what}: {left:?}");
        let store = SqliteStore::open(disk.store()).unwrap_or_else(|e| panic!("{what}: later: {}", chain(&e)));
        create(&store, "a").unwrap().append(&events("a", 0, 3)).unwrap();
        store.flush().unwrap();
    });
}

#[test]
fn a_store_that_cannot_be_opened_is_as_it_was() {
    let (files, ledger) = left_by_a_kill();
    under_every_failure(|| Disk::holding(&files), |disk, _, what| ledger.check(&disk.store(), Through::Death, what));
}

/// Files with a WAL that must be recovered.
fn left_by_a_kill() -> (Files, Ledger) {
    let disk = Disk::new();
    let mut ledger = Ledger::new(Mode::OnFlush);
    let store = sample::open(&disk.store(), Mode::OnFlush).unwrap();
    ledger.made();
    let handle = create(&store, "a").unwrap();
    for length in [4, 8] {
        ledger.storing("a", length);
        handle.append(&events("a", length - 4, 4)).unwrap();
        ledger.stored("a", length);
    }
    (disk.outage().everything(), ledger)
}

#[test]
fn a_reader_that_cannot_be_opened_tells_so_at_once() {
    let disk = Disk::new();
    let store = sample::open(&disk.store(), Mode::OnFlush).unwrap();
    disk.inject(Fault::new(Kind::Open, Effect::Fail(ffi::SQLITE_CANTOPEN)).lasting());
    let started = Instant::now();
    // One connection is open: who reads while another thread does needs a second one.
    let refused = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while refused.load(Ordering::Relaxed) < 20 && started.elapsed() < Duration::from_secs(10) {
                    for read in [store.list(&ListQuery::default()).map(drop), store.stat(&id("a")).map(drop)] {
                        let Err(told) = read else { continue };
                        assert!(told.kind() == ErrorKind::StorageReadOnly, "{}", chain(&told));
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    disk.mend();
    assert!(store.list(&ListQuery::default()).unwrap().items.is_empty());
    assert!(started.elapsed() < Duration::from_secs(10), "a failure is no reason to wait");
    assert!(refused.into_inner() >= 20);
}

#[test]
fn a_file_system_without_shared_memory_is_refused_and_nothing_is_made() {
    let disk = Disk::new();
    disk.give_no_shared_memory();
    let refused = SqliteStore::open(disk.store()).unwrap_err();
    assert!(refused.kind() == ErrorKind::UnsupportedStore, "{}", chain(&refused));
    assert!(refused.to_string().contains("WAL"), "{refused}");
    assert!(fs::read_dir(disk.folder()).unwrap().count() == 0);
}

#[test]
fn a_store_that_came_to_a_file_system_without_shared_memory_is_refused_and_as_it_was() {
    let (files, ledger) = left_by_a_kill();
    let disk = Disk::holding(&files);
    disk.give_no_shared_memory();
    let refused = SqliteStore::open(disk.store()).unwrap_err();
    // SQLite says no more than that it cannot open the database.
    let kinds = [ErrorKind::UnsupportedStore, ErrorKind::StorageReadOnly];
    assert!(kinds.contains(&refused.kind()), "{:?}: {}", refused.kind(), chain(&refused));
    assert!(Files::of(disk.folder()) == files);
    let elsewhere = scratch();
    files.write_to(elsewhere.path());
    ledger.check(&elsewhere.path().join("sessions.db"), Through::Death, "moved back");
}

#[test]
fn a_shared_memory_that_fails_under_an_open_store_is_told_and_harms_nothing() {
    for (code, kind) in [
        (ffi::SQLITE_IOERR_SHMMAP, ErrorKind::Io),
        (ffi::SQLITE_IOERR_SHMOPEN, ErrorKind::Io),
        (ffi::SQLITE_IOERR_SHMSIZE, ErrorKind::StorageFull),
    ] {
        let (files, ledger) = left_by_a_kill();
        let disk = Disk::holding(&files);
        let store = sample::open(&disk.store(), Mode::OnFlush).unwrap();
        disk.inject(Fault::new(Kind::Map, Effect::Fail(code)).on(Part::Database).lasting());
        // What reads has it mapped, and the connection that writes maps it anew.
        store.stat(&id("a")).unwrap();
        store.open(&id("a"), OpenOptions::read()).unwrap();
        for told in [store.open(&id("a"), OpenOptions::write()).map(drop), store.remove(&id("a")).map(drop)] {
            let told = told.unwrap_err();
            assert!(told.kind() == kind, "{code:x}: {}", chain(&told));
        }
        ledger.check_shown(&store, "while it fails");
        disk.mend();
        ledger.check_shown(&store, "mended");
        drop(store);
        ledger.check(&disk.store(), Through::Death, "mended and closed");
    }
}
