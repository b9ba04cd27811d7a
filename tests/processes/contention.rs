//! Many writers of many sessions in one store, in several processes at once.

use std::sync::mpsc::channel;

use session_persistence::SessionPersistence;

use super::log::{assert_log, list, read, stat};
use super::peer::Peer;
use super::place::{DURABILITIES, Kind, Place};
use super::rounds::rounds;

const SESSIONS: u64 = 16;

fn appends() -> u64 {
    rounds(200, 500)
}

/// A fresh place of each kind, with each durability.
fn places() -> impl Iterator<Item = Place> {
    Kind::ALL.iter().flat_map(|kind| DURABILITIES.map(|durability| Place::with(*kind, durability)))
}

#[test]
fn two_processes_with_sixteen_writing_threads_each_meet_no_busy_store() {
    for place in places() {
        let mut peers = [Peer::at(&place), Peer::at(&place)];
        for (peer, prefix) in peers.iter_mut().zip(["a", "b"]) {
            peer.send(&format!("threads {prefix} 0 {SESSIONS} {}", appends()));
        }
        for peer in &mut peers {
            peer.answer().done();
        }
        peers.into_iter().for_each(Peer::end);
        let store = place.open();
        for number in 0..SESSIONS {
            ["a", "b"].iter().for_each(|prefix| assert_log(&*store, &format!("{prefix}{number}"), appends()));
        }
        assert_eq!(list(&*store).len() as u64, 2 * SESSIONS);
    }
}

#[test]
fn two_processes_that_share_sixteen_sessions_meet_no_busy_store() {
    for place in places() {
        let mut peers = [Peer::at(&place), Peer::at(&place)];
        // Each session changes hands: what one process began the other goes on with.
        for (turn, halves) in [[(0, 8), (8, 16)], [(8, 16), (0, 8)]].into_iter().enumerate() {
            let from = turn as u64 * appends();
            for (peer, (start, end)) in peers.iter_mut().zip(halves) {
                peer.send(&format!("threads s {start} {end} {} {from}", appends()));
            }
            for peer in &mut peers {
                peer.answer().done();
            }
        }
        peers.into_iter().for_each(Peer::end);
        let store = place.open();
        (0..SESSIONS).for_each(|number| assert_log(&*store, &format!("s{number}"), 2 * appends()));
    }
}

/// Two processes that each give one command again and again, `count` times: when the faster has finished, the slower has had
/// its turns too.
fn assert_fair(kind: Kind, command: &str, count: u64) {
    let place = Place::new(kind);
    let mut peers = [Peer::at(&place), Peer::at(&place)];
    for (peer, name) in peers.iter_mut().zip(["s0", "s1"]) {
        peer.tell(&format!("create {name}")).done();
        peer.tell(&format!("append {name} 0 1")).done();
    }
    let store = place.open();
    let (finished, finishes) = channel();
    for (number, peer) in peers.iter_mut().enumerate() {
        peer.send(&format!("{command} s{number} 1 {}", count + 1));
    }
    std::thread::scope(|scope| {
        for (number, peer) in peers.iter_mut().enumerate() {
            let finished = finished.clone();
            scope.spawn(move || {
                peer.answer().done();
                finished.send(number).unwrap();
            });
        }
        let faster = finishes.recv().unwrap();
        let slower = count_of(&*store, &format!("s{}", 1 - faster)) - 1;
        eprintln!("{kind:?}, {command}: when one process had done its {count}, the other had done {slower}");
        assert!(slower * 3 >= count, "{kind:?}, {command}: {slower} of {count}");
        finishes.recv().unwrap();
    });
    peers.into_iter().for_each(Peer::end);
    ["s0", "s1"].iter().for_each(|name| assert_log(&*store, name, count + 1));
}

/// How many events a session has, counted by reading them where the store does not tell.
fn count_of(store: &dyn SessionPersistence, name: &str) -> u64 {
    stat(store, name).event_count.unwrap_or_else(|| read(store, name).len() as u64)
}

#[test]
fn of_two_processes_that_append_and_flush_as_fast_as_they_can_neither_starves() {
    for kind in Kind::ALL {
        assert_fair(*kind, "durably", rounds(150, 1000));
    }
}

/// Plain files have nothing that two writers would have to line up for.
#[cfg(feature = "sqlite")]
#[test]
fn of_two_processes_that_append_as_fast_as_they_can_neither_starves() {
    // Shorter, it would say more of how the machine shares its processors.
    assert_fair(Kind::Sqlite, "each", rounds(10_000, 50_000));
}
