//! How often the disk is waited for, and who waits.

use std::sync::mpsc;
use std::time::Duration;

use session_persistence::{ListQuery, OpenOptions, SeqRange, SessionHandle, SessionPersistence, SqliteStore};

use super::disk::{Disk, scratch};
use super::fault::{Counts, Kind, Part};
use super::sample::{self, Mode, create, events, id};

/// What `work` makes the disk do.
fn counted(disk: &Disk, work: impl FnOnce()) -> Counts {
    let before = disk.counts();
    work();
    disk.counts() - before
}

fn append_one(handle: &dyn SessionHandle, seq: u64) {
    handle.append(&events(handle.id().as_str(), seq, 1)).unwrap();
}

#[test]
fn a_flush_of_the_store_is_one_sync_however_many_sessions_have_something_new() {
    let disk = Disk::new();
    let store = sample::open(&disk.store(), Mode::OnFlush).unwrap();
    let handles: Vec<_> = (0..64).map(|n| create(&store, &format!("s{n}")).unwrap()).collect();
    handles.iter().for_each(|handle| append_one(&**handle, 0));
    store.flush().unwrap();
    for sessions in [1, 8, 64] {
        for handle in &handles[..sessions] {
            append_one(&**handle, store.stat(handle.id()).unwrap().unwrap().event_count.unwrap());
        }
        let done = counted(&disk, || store.flush().unwrap());
        assert!((done.of(Kind::Sync, Part::Wal), done.all(Kind::Sync)) == (1, 1), "{sessions} sessions: {done:?}");
        // One page, to have something to commit.
        assert!(done.of(Kind::Write, Part::Database) == 0 && done.bytes(Part::Wal) < 10_000, "{done:?}");
    }
    let nothing_new = counted(&disk, || store.flush().unwrap());
    assert!(nothing_new.all(Kind::Sync) == 0 && nothing_new.all(Kind::Write) == 0, "{nothing_new:?}");
}

#[test]
fn a_new_store_is_synced_before_it_has_its_name() {
    for mode in Mode::ALL {
        let disk = Disk::new();
        let made = counted(&disk, || drop(sample::open(&disk.store(), mode).unwrap()));
        assert!(
            made.of(Kind::Sync, Part::Database) > 0 && made.of(Kind::Write, Part::Database) > 10,
            "{mode:?}: {made:?}"
        );
        let least = scratch();
        disk.outage().least().write_to(least.path());
        let store = SqliteStore::open_existing(least.path().join("sessions.db")).unwrap();
        assert!(store.list(&ListQuery::default()).unwrap().items.is_empty());
    }
}

#[test]
fn appends_sync_only_where_that_is_asked_for() {
    for (mode, syncs) in [(Mode::OnFlush, 0), (Mode::EveryAppend, 100)] {
        let disk = Disk::new();
        let store = sample::open(&disk.store(), mode).unwrap();
        let handle = create(&store, "a").unwrap();
        // The first write of a new WAL syncs its header.
        append_one(&*handle, 0);
        let single = counted(&disk, || (1..101).for_each(|seq| append_one(&*handle, seq)));
        assert!(single.all(Kind::Sync) == syncs, "{mode:?}: {single:?}");
        let batch = counted(&disk, || handle.append(&events("a", 101, 100)).unwrap());
        assert!(batch.all(Kind::Sync) == syncs.min(1), "{mode:?}: {batch:?}");
    }
}

#[test]
fn nobody_who_reads_waits_for_a_sync_that_is_under_way() {
    for mode in [Mode::OnFlush, Mode::EveryAppend] {
        let disk = Disk::new();
        let store = sample::open(&disk.store(), mode).unwrap();
        let handle = create(&store, "a").unwrap();
        (0..50).for_each(|seq| append_one(&*handle, seq));
        std::thread::scope(|scope| {
            let (store, handle) = (&store, &handle);
            let held = disk.hold_syncs();
            let writing = scope.spawn(move || match mode {
                Mode::EveryAppend => handle.append(&events("a", 50, 1)),
                _ => handle.flush(),
            });
            held.wait_for_one();
            let (finished, reads) = mpsc::channel();
            scope.spawn(move || {
                for _ in 0..20 {
                    let reader = store.open(&id("a"), OpenOptions::read()).unwrap();
                    assert!(reader.read(SeqRange::ALL).unwrap().len() == 50);
                    assert!(handle.read(SeqRange::ALL).unwrap().len() == 50);
                    assert!(store.list(&ListQuery::default()).unwrap().items.len() == 1);
                    assert!(store.stat(&id("a")).unwrap().unwrap().event_count == Some(50));
                }
                finished.send(()).unwrap();
            });
            let read = reads.recv_timeout(Duration::from_secs(60));
            assert!(read.is_ok() && held.is_one_waiting(), "{mode:?}: the reads wait for the sync");
            drop(held);
            writing.join().unwrap().unwrap();
        });
    }
}
