//! The power is cut at every change of a file, and what may be left of the disk is opened.

use session_persistence::Durability;

use super::disk::{Disk, scratch};
use super::ledger::{Ledger, Through};
use super::outage::{Files, Outage};
use super::{history, is_full};

const SEED: u64 = 0x5e55_1035;

#[test]
fn what_a_flush_acknowledged_survives_a_loss_of_power_at_every_change() {
    at_every_change(Durability::OnFlush);
}

#[test]
fn what_an_append_acknowledged_survives_a_loss_of_power_where_every_append_waits_for_the_disk() {
    at_every_change(Durability::EveryAppend);
}

fn at_every_change(durability: Durability) {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut changes = 0;
    loop {
        let disk = Disk::new();
        disk.cut_power_after(changes);
        let ledger = history::run(&disk, durability);
        let what = format!("{durability:?}, power cut after {changes} changes");
        check(&disk.outage(), &ledger, changes, &what);
        if !disk.is_off() {
            break;
        }
        changes += if is_full() { 1 } else { random.u64(1..=24) };
    }
    assert!(changes > 100, "the history made {changes} changes only");
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
