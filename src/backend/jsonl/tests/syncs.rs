//! Syncs that fail: what the system then counts as written, and was not, is written again before the next one.

use std::sync::atomic::{AtomicBool, Ordering};

use super::machine::{Chance, Fault, Loss, Machine, Which};
use super::power_loss::{DURABILITIES, event, events, log_of, open, root};
use super::watch::Call;
use super::{ENCODINGS, header, id};
use crate::backend::jsonl::{Encoding, JsonlStore};
use crate::seam::{CreateOptions, Durability, ErrorKind, OpenOptions, SeqRange, SessionHandle, SessionPersistence};

fn machine() -> Machine {
    Machine::with_folder(&root())
}

fn every(call: Call) -> Fault {
    Fault { which: Which::Every(call), errno: 5, is_short: false }
}

fn create(store: &JsonlStore, name: &str) -> Box<dyn SessionHandle> {
    store.create(&header(name), CreateOptions::default()).unwrap()
}

fn writer(store: &JsonlStore, name: &str) -> Box<dyn SessionHandle> {
    store.open(&id(name), OpenOptions::write()).unwrap()
}

/// How much of a session is there after a loss of power that takes all that it may.
fn lasting(machine: &Machine, encoding: Encoding) -> usize {
    let store = open(&machine.after(Loss::All), encoding, Durability::OnFlush).unwrap();
    match store.open(&id("s"), OpenOptions::read()) {
        Ok(reader) => {
            let log = reader.read(SeqRange::ALL).unwrap();
            assert!(log == events("s", 0..log.len() as u64));
            log.len()
        }
        Err(e) if e.kind() == ErrorKind::NotFound => 0,
        Err(e) => panic!("{e:?}"),
    }
}

#[test]
fn what_a_failed_sync_has_not_written_is_written_again_by_the_next() {
    for encoding in ENCODINGS {
        for failures in 1..4 {
            let machine = machine();
            let store = open(&machine, encoding, Durability::OnFlush).unwrap();
            let writer = create(&store, "s");
            for seq in 0..100 {
                writer.append(&[event("s", seq)]).unwrap();
            }
            writer.flush().unwrap();
            writer.append(&events("s", 100..102)).unwrap();
            machine.fail(every(Call::Sync));
            for _ in 0..failures {
                assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::Io);
                assert_eq!(store.stat(&id("s")).unwrap().unwrap().last_failure.unwrap().operation, "flush");
                assert_eq!(lasting(&machine, encoding), 100);
            }
            machine.heal();
            // What is appended meanwhile is no reason to forget what came before.
            writer.append(&events("s", 102..103)).unwrap();
            machine.written();
            let activity = store.stat(&id("s")).unwrap().unwrap().activity;
            writer.flush().unwrap();
            assert_eq!(lasting(&machine, encoding), 103);
            assert!(machine.written() < 8000, "only what came behind the last sync that succeeded");
            let snapshot = store.stat(&id("s")).unwrap().unwrap();
            assert_eq!((snapshot.activity, snapshot.last_failure), (activity, None));
            writer.flush().unwrap();
            assert_eq!(machine.written(), 0);
            writer.append(&events("s", 103..104)).unwrap();
            writer.flush().unwrap();
            assert_eq!(lasting(&machine, encoding), 104);
        }
    }
}

#[test]
fn what_was_not_synced_when_its_handle_was_closed_is_written_again_all_the_same() {
    for encoding in ENCODINGS {
        let machine = machine();
        let store = open(&machine, encoding, Durability::OnFlush).unwrap();
        let first = create(&store, "s");
        first.append(&events("s", 0..3)).unwrap();
        first.append(&events("s", 3..6)).unwrap();
        machine.fail(every(Call::Sync));
        first.flush().unwrap_err();
        machine.heal();
        first.close().unwrap();
        // Another process has it now, and only that one may change it.
        let others = open(&machine, encoding, Durability::OnFlush).unwrap();
        let theirs = writer(&others, "s");
        let refused = store.flush().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Io);
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert!(cause.contains("process"), "{cause}");
        theirs.append(&events("s", 6..7)).unwrap();
        theirs.close().unwrap();
        store.flush().unwrap();
        assert!(lasting(&machine, encoding) >= 6);
        assert_eq!(others.stat(&id("s")).unwrap().unwrap().owner, None, "it is locked for that only");
        let again = writer(&store, "s");
        assert_eq!(again.read(SeqRange::ALL).unwrap(), events("s", 0..7));
        again.flush().unwrap();
        assert_eq!(lasting(&machine, encoding), 7);
    }
}

#[test]
fn what_the_system_has_let_go_of_is_never_told_to_survive() {
    for encoding in ENCODINGS {
        let machine = machine();
        let store = open(&machine, encoding, Durability::OnFlush).unwrap();
        let writer = create(&store, "s");
        writer.append(&events("s", 0..3)).unwrap();
        writer.append(&events("s", 3..6)).unwrap();
        machine.fail(every(Call::Sync));
        writer.flush().unwrap_err();
        machine.heal();
        machine.forget_unwritten(&log_of("s", encoding));
        for _ in 0..3 {
            let refused = writer.flush().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Io);
            let cause = std::error::Error::source(&refused).unwrap().to_string();
            assert!(cause.contains("gone from memory"), "{cause}");
        }
        assert_eq!(lasting(&machine, encoding), 3, "what was synced before it was published");
    }
}

#[test]
fn a_folder_that_could_not_be_synced_is_synced_by_the_next_flush() {
    for encoding in ENCODINGS {
        let machine = machine();
        let store = open(&machine, encoding, Durability::OnFlush).unwrap();
        let writer = create(&store, "s");
        writer.append(&events("s", 0..3)).unwrap();
        machine.fail(every(Call::SyncDir));
        for _ in 0..2 {
            writer.flush().unwrap_err();
            assert_eq!(lasting(&machine, encoding), 0);
        }
        machine.heal();
        writer.flush().unwrap();
        assert_eq!(lasting(&machine, encoding), 3);
        writer.close().unwrap();
        assert!(store.remove(&id("s")).unwrap());
        machine.fail(every(Call::SyncDir));
        store.flush().unwrap_err();
        assert_eq!(lasting(&machine, encoding), 3);
        machine.heal();
        store.flush().unwrap();
        assert_eq!(lasting(&machine, encoding), 0);
    }
}

#[test]
fn an_append_that_waits_for_the_disk_and_fails_is_taken_back() {
    for encoding in ENCODINGS {
        let machine = machine();
        let store = open(&machine, encoding, Durability::EveryAppend).unwrap();
        let writer = create(&store, "s");
        for call in [Call::SyncDir, Call::Sync] {
            machine.fail(every(call));
            assert_eq!(writer.append(&events("s", 0..3)).unwrap_err().kind(), ErrorKind::Io);
            machine.heal();
            let others = open(&machine, encoding, Durability::EveryAppend).unwrap();
            assert_eq!((others.stat(&id("s")).unwrap(), lasting(&machine, encoding)), (None, 0), "{call:?}");
        }
        writer.append(&events("s", 0..3)).unwrap();
        assert_eq!(lasting(&machine, encoding), 3);
        let before = machine.content(&log_of("s", encoding)).unwrap();
        machine.fail(every(Call::Sync));
        for _ in 0..3 {
            assert_eq!(writer.append(&events("s", 3..6)).unwrap_err().kind(), ErrorKind::Io);
            assert!(machine.content(&log_of("s", encoding)).unwrap() == before);
            assert_eq!(writer.read(SeqRange::ALL).unwrap(), events("s", 0..3));
        }
        machine.heal();
        // Another batch than the one that failed: nothing of that one may be left below it.
        writer.append(&[event("s", 3)]).unwrap();
        assert_eq!(lasting(&machine, encoding), 4);
        writer.append(&events("s", 4..6)).unwrap();
        assert_eq!(lasting(&machine, encoding), 6);
        // All of what leads to a log that another process wrote and did not sync.
        let lazy = open(&machine, encoding, Durability::OnFlush).unwrap();
        create(&lazy, "other").append(&events("other", 0..3)).unwrap();
        writer.close().unwrap();
        let other = super::syncs::writer(&store, "other");
        other.append(&events("other", 3..4)).unwrap();
        let after = open(&machine.after(Loss::All), encoding, Durability::OnFlush).unwrap();
        let log = after.open(&id("other"), OpenOptions::read()).unwrap().read(SeqRange::ALL).unwrap();
        assert!(log == events("other", 0..4));
    }
}

/// A batch that failed and was cut off must not mix with the one that is written in its place.
#[test]
fn what_was_cut_off_is_gone_from_the_disk_before_something_else_is_written_there() {
    for encoding in ENCODINGS {
        for durability in DURABILITIES {
            let machine = machine();
            let store = open(&machine, encoding, durability).unwrap();
            let writer = create(&store, "s");
            writer.append(&events("s", 0..2)).unwrap();
            writer.flush().unwrap();
            machine.fail(Fault { which: Which::Every(Call::Write), errno: 28, is_short: true });
            assert_eq!(writer.append(&events("s", 2..6)).unwrap_err().kind(), ErrorKind::StorageFull);
            machine.heal();
            writer.append(&events("s", 2..3)).unwrap();
            for seed in 0..20 {
                for loss in [Loss::Some(seed), Loss::Sectors(seed)] {
                    let after = open(&machine.after(loss), encoding, durability).unwrap();
                    let reader = after.open(&id("s"), OpenOptions::read()).unwrap();
                    let log = reader.read(SeqRange::ALL).unwrap_or_else(|e| panic!("{loss:?}: {e:?}"));
                    assert!(log.len() >= 2 && log == events("s", 0..log.len() as u64), "{loss:?}");
                }
            }
        }
    }
}

#[test]
fn writers_that_flush_at_the_same_time_are_each_told_the_truth() {
    let encoding = Encoding::Zstd;
    let machine = machine();
    let store = open(&machine, encoding, Durability::OnFlush).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let works: Vec<_> = ["a", "b", "c"]
            .map(|name| {
                let (store, machine) = (&store, &machine);
                scope.spawn(move || {
                    let handle = create(store, name);
                    for seq in 0..120 {
                        // Its creation syncs too, and may fail by that.
                        while handle.append(&[event(name, seq)]).is_err() {}
                        if handle.flush().is_ok() {
                            let after = machine.after(Loss::All);
                            let content = after.content(&log_of(name, encoding)).unwrap_or_default();
                            // The log is what it is on the disk, and no shorter.
                            assert!(content == machine.content(&log_of(name, encoding)).unwrap(), "{name} {seq}");
                        }
                    }
                })
            })
            .into();
        let (machine, is_over) = (&machine, &is_over);
        let trouble = scope.spawn(move || {
            let mut chance = Chance::new(3);
            while !is_over.load(Ordering::Relaxed) {
                machine.fail(every(Call::Sync));
                std::thread::sleep(std::time::Duration::from_micros(chance.below(300)));
                machine.heal();
                std::thread::sleep(std::time::Duration::from_micros(chance.below(2000)));
            }
        });
        let ended: Vec<_> = works.into_iter().map(|work| work.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        trouble.join().unwrap();
        ended.into_iter().for_each(|ended| ended.unwrap());
        machine.heal();
    });
    store.flush().unwrap();
}

#[test]
fn what_was_lost_while_its_file_was_closed_is_written_again() {
    for encoding in ENCODINGS {
        let machine = machine();
        let store = open(&machine, encoding, Durability::OnFlush).unwrap();
        for n in 0..70 {
            let handle = create(&store, &format!("s{n:02}"));
            handle.append(&events("s", 0..1)).unwrap();
            handle.append(&events("s", 1..9)).unwrap();
        }
        let others = open(&machine, encoding, Durability::OnFlush).unwrap();
        let theirs = writer(&others, "s01");
        // Of the first ones the files are closed by now.
        machine.lose_unwritten(&log_of("s00", encoding));
        store.flush().unwrap();
        theirs.flush().unwrap();
        let after = open(&machine.after(Loss::All), encoding, Durability::OnFlush).unwrap();
        for n in 0..70 {
            let reader = after.open(&id(&format!("s{n:02}")), OpenOptions::read()).unwrap();
            assert!(reader.read(SeqRange::ALL).unwrap() == events("s", 0..9), "{encoding:?} {n}");
        }
        machine.written();
        store.flush().unwrap();
        assert_eq!(machine.written(), 0, "once");
    }
}

#[test]
fn many_sessions_that_are_closed_and_not_flushed_keep_few_files_open() {
    let machine = machine();
    let store = open(&machine, Encoding::Raw, Durability::OnFlush).unwrap();
    for n in 0..300 {
        let handle = create(&store, &format!("s{n:03}"));
        handle.append(&events("s", 0..1)).unwrap();
        handle.append(&events("s", 1..2)).unwrap();
    }
    assert!(machine.open_files() <= 130, "{}", machine.open_files());
    store.flush().unwrap();
    assert_eq!(machine.open_files(), 0);
    let after = open(&machine.after(Loss::All), Encoding::Raw, Durability::OnFlush).unwrap();
    for n in 0..300 {
        let reader = after.open(&id(&format!("s{n:03}")), OpenOptions::read()).unwrap();
        assert_eq!(reader.read(SeqRange::ALL).unwrap(), events("s", 0..2));
    }
}

#[test]
fn syncs_are_counted_by_flushes_and_not_by_events_unless_every_append_waits() {
    for encoding in ENCODINGS {
        for durability in DURABILITIES {
            let machine = machine();
            let store = open(&machine, encoding, durability).unwrap();
            let (first, second) = (create(&store, "s"), create(&store, "t"));
            first.append(&events("s", 0..1)).unwrap();
            second.append(&events("t", 0..1)).unwrap();
            store.flush().unwrap();
            let syncs = |work: &dyn Fn()| {
                let before = machine.calls();
                work();
                let calls = machine.calls_from(before);
                calls.iter().filter(|(call, _)| matches!(call, Call::Sync | Call::SyncDir)).count()
            };
            let appends = syncs(&|| (1..101).for_each(|seq| first.append(&[event("s", seq)]).unwrap()));
            let batch = syncs(&|| second.append(&events("t", 1..101)).unwrap());
            let flush = syncs(&|| store.flush().unwrap());
            let again = syncs(&|| store.flush().unwrap());
            let expected = if durability == Durability::EveryAppend { (100, 1, 0, 0) } else { (0, 0, 2, 0) };
            assert_eq!((appends, batch, flush, again), expected);
        }
    }
}
