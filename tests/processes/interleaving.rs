//! One session and all who want it at once: its writer, a reader that comes cold, another store of the same process, and
//! another process.

use std::sync::Barrier;

use session_persistence::{ErrorKind, OpenOptions, SeqRange, SessionEvent, SessionPersistence};

use super::end::End;
use super::log::{id, read, writer_of, written_by};
use super::peer::Peer;
use super::place::{Kind, Place};
use super::role::take_turn;
use super::rounds::{chance, rounds};

/// How far the log goes before the others come.
const BEFORE: u64 = 41;

/// The log is dense; each event names its writer.
fn assert_dense(log: &[SessionEvent], what: &str) {
    for (seq, event) in (0..).zip(log) {
        assert_eq!(event.seq().get(), seq, "{what}");
        assert!(*event == written_by("s", &writer_of(event), seq), "{what}: {event:?}");
    }
}

/// What a reader does that knows nothing: opens and reads, and never sees less than before.
fn read_cold(store: &dyn SessionPersistence, end: &End, what: &str) {
    let mut seen = BEFORE as usize;
    loop {
        let is_last = end.is_told();
        let log = read(store, "s");
        assert!(log.len() >= seen, "{what}: {} events after {seen}", log.len());
        assert_dense(&log, what);
        seen = log.len();
        if is_last {
            return;
        }
    }
}

fn pause(chance: &mut fastrand::Rng) {
    (0..chance.u32(..4)).for_each(|_| std::thread::yield_now());
}

/// One round. The writer keeps its handle to the end, or closes it somewhere on the way and takes its turns like the others.
fn round(kind: Kind, peer: &mut Peer, number: u64) {
    let (seed, mut chance) = chance(12, number);
    let what = format!("{kind:?}, seed {seed}");
    let place = Place::new(kind);
    let (own, second) = (place.open(), place.open());
    let writer = own.create(&super::log::header("s"), Default::default()).unwrap();
    writer.append(&(0..BEFORE).map(|seq| written_by("s", "own", seq)).collect::<Vec<_>>()).unwrap();
    peer.go_to(&place);
    let keeps = chance.bool();
    let turns = chance.u64(5..20);
    let closes_after = if keeps { turns } else { chance.u64(..turns) };
    let tries = chance.u64(5..30);
    let (mut others, mut own_chance, end, barrier) = (chance.fork(), chance.fork(), End::default(), Barrier::new(3));
    peer.send(&format!("contend s {tries}"));
    let (mut stored, by_second, by_peer) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            barrier.wait();
            read_cold(&*second, &end, &what);
        });
        let opener = scope.spawn(|| {
            barrier.wait();
            let take = |_| {
                pause(&mut others);
                take_turn(&*second, "s", "second").unwrap_or_else(|e| panic!("{what}: {e:?}"))
            };
            (0..tries).filter_map(take).collect::<Vec<_>>()
        });
        let told = end.told_by_drop();
        barrier.wait();
        let mut stored: Vec<_> = (0..BEFORE).collect();
        let mut next = BEFORE;
        for _ in 0..closes_after {
            pause(&mut own_chance);
            let batch = own_chance.u64(1..4);
            let events: Vec<_> = (next..next + batch).map(|seq| written_by("s", "own", seq)).collect();
            writer.append(&events).unwrap_or_else(|e| panic!("{what}: {e:?}"));
            stored.extend(next..next + batch);
            next += batch;
        }
        let mut by_second = Vec::new();
        let mut by_peer = String::new();
        if keeps {
            // All have been refused by the time that it closes.
            by_second = opener.join().unwrap();
            by_peer = peer.answer().done();
            writer.close().unwrap();
            assert_eq!((by_second.len(), by_peer.as_str()), (0, ""), "{what}: the writer had it all the time");
        } else {
            writer.close().unwrap();
            for _ in closes_after..turns {
                pause(&mut own_chance);
                stored.extend(take_turn(&*own, "s", "own").unwrap_or_else(|e| panic!("{what}: {e:?}")));
            }
            by_second.extend(opener.join().unwrap());
            by_peer.push_str(&peer.answer().done());
        }
        drop(told);
        reader.join().unwrap();
        (stored, by_second, by_peer)
    });
    let by_peer: Vec<u64> = by_peer.split(',').filter(|seq| !seq.is_empty()).map(|seq| seq.parse().unwrap()).collect();
    let log = read(&*place.open(), "s");
    assert_dense(&log, &what);
    for (name, seqs) in [("own", &stored), ("second", &by_second), ("peer", &by_peer)] {
        let found: Vec<_> = log.iter().filter(|e| writer_of(e) == name).map(|e| e.seq().get()).collect();
        assert_eq!(found, *seqs, "{what}: what was acknowledged to {name:?}");
    }
    stored.extend(by_second);
    stored.extend(by_peer);
    stored.sort();
    assert_eq!(stored, (0..log.len() as u64).collect::<Vec<_>>(), "{what}");
    // A handle of before is one of before.
    let late = writer.append(&[written_by("s", "own", log.len() as u64)]).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::HandleClosed, "{what}");
}

#[test]
fn whoever_comes_in_whatever_order_no_seq_is_stored_twice_and_none_is_lost() {
    for kind in Kind::ALL {
        let mut peer = Peer::start();
        for number in 0..rounds(10, 200) {
            round(*kind, &mut peer, number);
        }
    }
}

#[test]
fn a_writer_that_was_overtaken_in_its_own_process_is_refused() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let (own, second) = (place.open(), place.open());
        let writer = own.create(&super::log::header("s"), Default::default()).unwrap();
        writer.append(&(0..BEFORE).map(|seq| written_by("s", "own", seq)).collect::<Vec<_>>()).unwrap();
        let refused = second.open(&id("s"), OpenOptions::write()).expect_err("the first store writes it");
        assert_eq!(refused.kind(), ErrorKind::AlreadyOwned, "{kind:?}");
        // The lock goes, as no program of ours takes it away, and the second path repairs the open turn.
        std::fs::remove_file(place.lock("s")).unwrap();
        let overtaken = second.open(&id("s"), OpenOptions::write());
        if !kind.goes_by_the_lock_alone() {
            assert_eq!(overtaken.err().unwrap().kind(), ErrorKind::AlreadyOwned, "{kind:?}");
            writer.append(&[written_by("s", "own", BEFORE)]).unwrap();
            continue;
        }
        let repair = overtaken.unwrap();
        repair.append(&[written_by("s", "second", BEFORE)]).unwrap();
        for seq in [BEFORE, BEFORE + 1] {
            let lost = writer.append(&[written_by("s", "own", seq)]).unwrap_err();
            assert_eq!(lost.kind(), ErrorKind::OwnershipLost, "{kind:?}: {lost:?}");
        }
        writer.close().unwrap();
        repair.append(&[written_by("s", "second", BEFORE + 1)]).unwrap();
        let log = repair.read(SeqRange::ALL).unwrap();
        assert_dense(&log, "overtaken");
        assert_eq!(log.len() as u64, BEFORE + 2, "{kind:?}");
    }
}
