//! Every kind of failure at every operation of every call: a typed error, nothing changed, and the same call succeeds later.

use rusqlite::ffi;
use session_persistence::ErrorKind;

use super::disk::scratch;
use super::fault::{Effect, Fault, Kind};
use super::is_full;
use super::ledger::Through;
use super::sample::Mode;
use super::scene::{Call, Scene, play};

const SEED: u64 = 0xfa_0175;

/// What goes wrong.
const FAILURES: [(Kind, Effect); 19] = [
    (Kind::Write, Effect::Fail(ffi::SQLITE_IOERR_WRITE)),
    (Kind::Write, Effect::Fail(ffi::SQLITE_FULL)),
    (Kind::Write, Effect::Half(ffi::SQLITE_IOERR_WRITE)),
    (Kind::Write, Effect::Half(ffi::SQLITE_FULL)),
    (Kind::Write, Effect::Fail(ffi::SQLITE_READONLY)),
    (Kind::Sync, Effect::Fail(ffi::SQLITE_IOERR_FSYNC)),
    (Kind::Sync, Effect::Forget(ffi::SQLITE_IOERR_FSYNC)),
    (Kind::Sync, Effect::Fail(ffi::SQLITE_FULL)),
    (Kind::Truncate, Effect::Fail(ffi::SQLITE_IOERR_TRUNCATE)),
    (Kind::Read, Effect::Fail(ffi::SQLITE_IOERR_READ)),
    (Kind::Open, Effect::Fail(ffi::SQLITE_CANTOPEN)),
    (Kind::Open, Effect::Fail(ffi::SQLITE_PERM)),
    (Kind::Delete, Effect::Fail(ffi::SQLITE_IOERR_DELETE)),
    (Kind::Delete, Effect::Late(ffi::SQLITE_IOERR_DIR_FSYNC)),
    (Kind::Size, Effect::Fail(ffi::SQLITE_IOERR_FSTAT)),
    (Kind::Access, Effect::Fail(ffi::SQLITE_IOERR_ACCESS)),
    (Kind::Lock, Effect::Fail(ffi::SQLITE_IOERR_LOCK)),
    (Kind::Map, Effect::Fail(ffi::SQLITE_IOERR_SHMMAP)),
    (Kind::Map, Effect::Fail(ffi::SQLITE_IOERR_SHMSIZE)),
];

/// Deleting the journal makes a commit, whatever SQLite says when the folder cannot be synced behind it.
#[test]
fn an_append_in_rollback_mode_that_cannot_sync_the_folder_is_stored_and_nothing_behind_it_before_it_can() {
    let fault = Fault::new(Kind::Delete, Effect::Late(ffi::SQLITE_IOERR_DIR_FSYNC));
    for fault in [fault, fault.lasting()] {
        assert!(play(Call::Append, fault, Mode::Rollback, "the folder cannot be synced"));
        let mut scene = Scene::before(Call::Append, Mode::Rollback);
        scene.disk.inject(fault);
        scene.append(3).unwrap();
        let then = if fault.lasts() { Err(ErrorKind::Io) } else { Ok(()) };
        assert!(scene.append(2).map_err(|e| e.kind()) == then);
        assert!(scene.flush().map_err(|e| e.kind()) == then);
        scene.disk.mend();
        scene.append(2).unwrap();
        scene.flush().unwrap();
        scene.check_left("mended and flushed");
    }
}

/// Plays a call under every failure: in full at every operation that it does, otherwise a few at one of them.
fn every_failure_at(call: Call, mode: Mode) {
    let mut random = fastrand::Rng::with_seed(SEED ^ (call as u64) << 8 ^ mode as u64);
    let mut met = 0;
    for (kind, effect) in FAILURES {
        for lasts in [false, true] {
            let meets = |spared: u64| {
                let fault = Fault::new(kind, effect).after(spared);
                let how = if lasts { "from then on" } else { "once" };
                let what = format!("{call:?}, {mode:?}, {effect:x?} of {kind:?} {how} after {spared}");
                play(call, if lasts { fault.lasting() } else { fault }, mode, &what)
            };
            if is_full() {
                met += (0..).take_while(|spared| meets(*spared)).count();
            } else if random.u8(..8) == 0 {
                met += usize::from(meets(random.u64(1..10)) || meets(0));
            }
        }
    }
    if met == 0 {
        let fault = |(kind, effect)| Fault::new(kind, effect);
        let meets = |failure| play(call, fault(failure), mode, &format!("{call:?}, {mode:?}, {failure:x?}"));
        met += FAILURES.into_iter().filter(|failure| meets(*failure)).count();
    }
    // What is durable already is not written by a flush.
    let is_nothing = mode != Mode::OnFlush && matches!(call, Call::Flush | Call::FlushOfTheStore);
    assert!((met == 0) == is_nothing, "{call:?}, {mode:?}: {met} failures met");
}

macro_rules! failures {
    ($($name:ident: $call:ident;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn with_appends_that_survive_the_process() {
                every_failure_at(Call::$call, Mode::OnFlush);
            }

            #[test]
            fn with_appends_that_survive_a_loss_of_power() {
                every_failure_at(Call::$call, Mode::EveryAppend);
            }

            #[test]
            fn in_rollback_mode() {
                every_failure_at(Call::$call, Mode::Rollback);
            }
        }
    )*};
}

failures! {
    an_opening_for_writing_under_a_fault_changes_nothing_and_succeeds_later: OpenForWriting;
    an_opening_for_reading_under_a_fault_changes_nothing_and_succeeds_later: OpenForReading;
    an_append_under_a_fault_changes_nothing_and_succeeds_later: Append;
    an_append_of_a_given_batch_under_a_fault_changes_nothing_and_succeeds_later: AppendFrom;
    a_flush_under_a_fault_changes_nothing_and_succeeds_later: Flush;
    a_flush_of_the_store_under_a_fault_changes_nothing_and_succeeds_later: FlushOfTheStore;
    a_creation_under_a_fault_changes_nothing_and_succeeds_later: Create;
    a_creation_without_events_under_a_fault_changes_nothing_and_succeeds_later: CreateEmpty;
    a_removal_under_a_fault_changes_nothing_and_succeeds_later: Remove;
    a_compaction_under_a_fault_changes_nothing_and_succeeds_later: Compact;
    a_backup_under_a_fault_changes_nothing_and_succeeds_later: Backup;
}

/// Closing tells no error: what it could not do is left to the next opening.
#[test]
fn a_store_that_is_closed_under_a_fault_loses_nothing() {
    let mut random = fastrand::Rng::with_seed(SEED);
    for mode in Mode::ALL {
        let mut met = 0;
        for (kind, effect) in FAILURES {
            for spared in if is_full() { 0..20 } else { 0..1 } {
                let spared = if is_full() { spared } else { random.u64(..3) };
                let mut scene = Scene::before(Call::Append, mode);
                scene.append(3).unwrap();
                let what = format!("closed, {mode:?}, {effect:x?} of {kind:?} after {spared}");
                scene.disk.inject(Fault::new(kind, effect).after(spared).lasting());
                let (disk, ledger) = scene.close();
                let outage = disk.outage();
                let meets = disk.mend() > 0;
                for (files, through) in [(outage.everything(), Through::Death), (outage.least(), Through::Outage)] {
                    let folder = scratch();
                    files.write_to(folder.path());
                    ledger.check(&folder.path().join("sessions.db"), through, &what);
                }
                ledger.check(&disk.store(), Through::Death, &what);
                if !meets {
                    break;
                }
                met += 1;
            }
        }
        assert!((met > 0) == (mode != Mode::Rollback), "{mode:?}: {met} failures met");
    }
}
