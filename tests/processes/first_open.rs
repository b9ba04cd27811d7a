//! Many processes that open a store which is not there yet, all at once.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::log::{assert_log, list, read, stat};
use super::peer::Peer;
use super::place::{Kind, Place};
use super::rounds::{chance, rounds};

const PROCESSES: usize = 20;

/// How many events each process stores.
const EVENTS: u64 = 5;

fn names() -> Vec<String> {
    (0..PROCESSES).map(|number| format!("s{number}")).collect()
}

fn processes() -> Vec<Peer> {
    (0..PROCESSES).map(|_| Peer::start()).collect()
}

/// Nothing is left but what is stored. Where the last two processes leave in the same moment each of them may see the other
/// still there, and SQLite's files stay, whole, for the next one to put away.
fn assert_finished(place: &Place, sessions: &[String], what: &str) {
    let files = place.leftovers(sessions);
    let is_sqlites =
        |path: &PathBuf| path.to_str().unwrap().ends_with(".db-wal") || path.to_str().unwrap().ends_with(".db-shm");
    if !files.is_empty() && files.iter().all(is_sqlites) {
        eprintln!("{what}: the last two processes left in the same moment");
        let mut next = Peer::at(place);
        next.tell("count").done();
        next.end();
    }
    place.assert_holds(sessions, &format!("{what}: nothing else is left"));
}

#[test]
fn twenty_processes_that_open_a_fresh_path_at_once_all_store_their_session() {
    for kind in Kind::ALL {
        let mut peers = processes();
        for round in 0..rounds(5, 100) {
            let place = Place::new(*kind);
            peers.iter_mut().for_each(|peer| peer.go_to(&place));
            peers.iter_mut().zip(names()).for_each(|(peer, name)| peer.send(&format!("first {name} {EVENTS}")));
            for peer in &mut peers {
                peer.answer().done();
            }
            assert_finished(&place, &names(), &format!("{kind:?}, round {round}"));
            let store = place.open();
            assert_eq!(list(&*store).len(), PROCESSES, "{kind:?}, round {round}");
            names().iter().for_each(|name| assert_log(&*store, name, EVENTS));
        }
    }
}

/// A store as version 1 made it, without a session.
#[cfg(feature = "sqlite")]
fn make_version_1(place: &Place) {
    let connection = rusqlite::Connection::open(place.path()).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    connection.execute_batch(include_str!("../schemas/1.sql")).unwrap();
    // As the writer of a store does: the triggers keep all others off.
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    connection.execute("INSERT INTO store VALUES (1, lower(hex(randomblob(16))), 0, 0)", []).unwrap();
    connection.close().unwrap();
}

#[cfg(feature = "sqlite")]
#[test]
fn twenty_processes_that_open_a_store_of_an_earlier_version_at_once_all_store_their_session() {
    let mut peers = processes();
    for round in 0..rounds(5, 100) {
        let (seed, mut chance) = chance(3, round);
        let place = Place::new(Kind::Sqlite);
        make_version_1(&place);
        peers.iter_mut().for_each(|peer| peer.go_to(&place));
        peers.iter_mut().zip(names()).for_each(|(peer, name)| peer.send(&format!("first {name} {EVENTS}")));
        // In every other round one of them is killed on the way.
        let victim = chance.usize(..PROCESSES);
        let dies = round % 2 == 1;
        if dies {
            std::thread::sleep(Duration::from_micros(chance.u64(..50_000)));
            std::mem::replace(&mut peers[victim], Peer::start()).kill();
        }
        for (_, peer) in peers.iter_mut().enumerate().filter(|(number, _)| !dies || *number != victim) {
            peer.answer().done();
        }
        let mut others = names();
        if dies {
            let killed = others.remove(victim);
            assert_cleaned(&place, &others, &killed, &format!("seed {seed}"));
        }
        assert_finished(&place, &names(), &format!("seed {seed}"));
        let store = place.open();
        others.iter().for_each(|name| assert_log(&*store, name, EVENTS));
    }
}

#[test]
fn twenty_processes_that_only_list_a_fresh_path_all_find_an_empty_store() {
    for kind in Kind::ALL {
        let mut peers = processes();
        for round in 0..rounds(5, 100) {
            let place = Place::new(*kind);
            peers.iter_mut().for_each(|peer| peer.go_to(&place));
            peers.iter_mut().for_each(|peer| peer.send("count"));
            for peer in &mut peers {
                assert_eq!(peer.answer().done(), "0", "{kind:?}, round {round}");
            }
            peers.iter_mut().for_each(|peer| peer.send("leave"));
            for peer in &mut peers {
                peer.answer().done();
            }
            assert_finished(&place, &[], &format!("{kind:?}, round {round}"));
            assert!(list(&*place.open()).is_empty());
        }
    }
}

/// What a killed process left of its session: nothing, or the first events of it.
fn assert_prefix(place: &Place, name: &str) -> bool {
    let store = place.open();
    let is_there = list(&*store).iter().any(|snapshot| snapshot.id.as_str() == name);
    if is_there {
        let count = read(&*store, name).len() as u64;
        assert!(count <= EVENTS);
        assert_log(&*store, name, count);
        assert!(stat(&*store, name).header.is_some());
    }
    is_there
}

/// Opens the store once more, and the session that the killed process may have created: after that nothing may be left
/// but what is stored.
fn assert_cleaned(place: &Place, others: &[String], killed: &str, what: &str) {
    let is_there = assert_prefix(place, killed);
    let mut next = Peer::at(place);
    let what_next = if is_there { format!("open {killed}") } else { format!("first {killed} {EVENTS}") };
    next.tell(&what_next).done();
    next.end();
    let mut sessions = others.to_vec();
    sessions.push(killed.to_owned());
    place.assert_holds(&sessions, &format!("{what}: what was left is cleaned up"));
}

#[test]
fn a_process_killed_while_it_sets_a_store_up_leaves_nothing_or_a_finished_one() {
    for kind in Kind::ALL {
        let mut strays = 0;
        let mut usual = Duration::from_millis(1);
        for round in 0..rounds(20, 300) {
            let (seed, mut chance) = chance(1, round);
            let what = format!("{kind:?}, seed {seed}");
            let place = Place::new(*kind);
            let mut victim = Peer::at(&place);
            let started = Instant::now();
            victim.send(&format!("first s0 {EVENTS}"));
            if round == 0 {
                // The first round is let through, to know how long there is to be killed.
                victim.answer().done();
                usual = started.elapsed();
                continue;
            }
            std::thread::sleep(usual.mul_f64(chance.f64()));
            victim.kill();
            strays += usize::from(!place.leftovers(&["s0".to_owned()]).is_empty());
            assert_cleaned(&place, &[], "s0", &what);
        }
        eprintln!("{kind:?}: {strays} killed processes left files that the next one cleaned up");
    }
}

#[test]
fn a_process_killed_among_twenty_that_set_a_store_up_disturbs_none_of_them() {
    for kind in Kind::ALL {
        let mut peers = processes();
        let mut usual = Duration::from_millis(100);
        for round in 0..rounds(5, 100) {
            let (seed, mut chance) = chance(2, round);
            let what = format!("{kind:?}, seed {seed}");
            let place = Place::new(*kind);
            peers.iter_mut().for_each(|peer| peer.go_to(&place));
            let victim = chance.usize(..PROCESSES);
            let started = Instant::now();
            peers.iter_mut().zip(names()).for_each(|(peer, name)| peer.send(&format!("first {name} {EVENTS}")));
            if round > 0 {
                std::thread::sleep(usual.mul_f64(chance.f64()));
                std::mem::replace(&mut peers[victim], Peer::start()).kill();
            }
            for (_, peer) in peers.iter_mut().enumerate().filter(|(number, _)| round == 0 || *number != victim) {
                peer.answer().done();
            }
            if round == 0 {
                usual = started.elapsed();
                continue;
            }
            let mut others = names();
            let killed = others.remove(victim);
            assert_cleaned(&place, &others, &killed, &what);
            let store = place.open();
            others.iter().for_each(|name| assert_log(&*store, name, EVENTS));
        }
    }
}
