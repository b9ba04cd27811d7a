//! An append after which the WAL is copied into the database, on a disk that fails meanwhile: the append stands.

use rusqlite::{Connection, ffi};
use session_persistence::ErrorKind;

use super::fault::{Effect, Fault, Kind, Part};
use super::is_full;
use super::sample::Mode;
use super::scene::{Call, Scene};

const SEED: u64 = 0x1001;

/// What goes wrong, and in which file.
const FAILURES: [(Kind, Part, Effect); 10] = [
    (Kind::Write, Part::Database, Effect::Fail(ffi::SQLITE_IOERR_WRITE)),
    (Kind::Write, Part::Database, Effect::Fail(ffi::SQLITE_FULL)),
    (Kind::Write, Part::Database, Effect::Half(ffi::SQLITE_IOERR_WRITE)),
    (Kind::Read, Part::Wal, Effect::Fail(ffi::SQLITE_IOERR_READ)),
    (Kind::Sync, Part::Database, Effect::Fail(ffi::SQLITE_IOERR_FSYNC)),
    (Kind::Sync, Part::Database, Effect::Forget(ffi::SQLITE_IOERR_FSYNC)),
    (Kind::Sync, Part::Wal, Effect::Fail(ffi::SQLITE_IOERR_FSYNC)),
    (Kind::Sync, Part::Wal, Effect::Forget(ffi::SQLITE_IOERR_FSYNC)),
    (Kind::Truncate, Part::Database, Effect::Fail(ffi::SQLITE_IOERR_TRUNCATE)),
    (Kind::Size, Part::Database, Effect::Fail(ffi::SQLITE_IOERR_FSTAT)),
];

/// A store whose WAL is about to be copied.
fn with_a_long_wal(mode: Mode) -> Scene {
    let scene = Scene::before(Call::Append, mode);
    let other = Connection::open(scene.disk.store()).unwrap();
    // Up to 1000 pages SQLite leaves it alone, and so does the store.
    other.execute_batch("CREATE TABLE mine (x); INSERT INTO mine VALUES (zeroblob(960 * 8192))").unwrap();
    scene
}

/// Appends until pages are written into the database, or are tried to.
fn append_until_copied(scene: &mut Scene, what: &str) {
    let before = scene.disk.counts();
    for _ in 0..100 {
        if let Err(e) = scene.append(1) {
            // Where the append waits for the disk itself, the failure may be its own.
            assert!(e.kind() == ErrorKind::Io, "{what}: {e}");
            return;
        }
        let done = scene.disk.counts() - before.clone();
        if done.of(Kind::Write, Part::Database) > 0 || scene.disk.fired() > 0 {
            return;
        }
    }
    panic!("{what}: the WAL was never copied");
}

#[test]
fn an_append_whose_checkpoint_fails_is_stored_all_the_same() {
    let mut all: Vec<_> = FAILURES
        .into_iter()
        .flat_map(|failure| [Mode::OnFlush, Mode::EveryAppend].map(|mode| (failure, mode)))
        .flat_map(|(failure, mode)| [false, true].map(|lasts| (failure, mode, lasts)))
        .collect();
    if !is_full() {
        fastrand::Rng::with_seed(SEED).shuffle(&mut all);
        all.truncate(4);
    }
    for ((kind, part, effect), mode, lasts) in all {
        let what = format!("{mode:?}, {effect:x?} of {kind:?} of {part:?}, lasts {lasts}");
        let mut scene = with_a_long_wal(mode);
        let fault = Fault::new(kind, effect).on(part);
        scene.disk.inject(if lasts { fault.lasting() } else { fault });
        append_until_copied(&mut scene, &what);
        if kind != Kind::Read {
            scene.check_shown(&what);
        }
        scene.check_left(&what);
        scene.disk.mend();
        scene.check_shown(&what);
        scene.append(3).unwrap();
        scene.flush().unwrap();
        scene.check_left(&format!("{what}, then flushed"));
        scene.go_on(&what);
    }
}

#[test]
fn a_loss_of_power_while_the_wal_is_copied_after_an_append_takes_nothing_that_was_flushed() {
    for mode in [Mode::OnFlush, Mode::EveryAppend] {
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut changes = 0;
        loop {
            let mut scene = with_a_long_wal(mode);
            scene.disk.cut_power_after(changes);
            let mut appended = Ok(());
            for _ in 0..60 {
                appended = appended.and_then(|()| scene.append(1));
            }
            let what = format!("{mode:?}, power cut after {changes} changes");
            assert!(appended.is_ok() || scene.disk.is_off(), "{what}");
            match mode {
                Mode::EveryAppend if appended.is_err() => scene.check_cut_off(&what),
                _ => scene.check_left(&what),
            }
            if !scene.disk.is_off() {
                break;
            }
            changes += random.u64(1..if is_full() { 40 } else { 800 });
        }
        assert!(changes > 500, "{changes}: the WAL was copied");
    }
}
