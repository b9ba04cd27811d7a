//! Programs that a host starts while it writes: none of them keeps a session of its parent.

use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};
use session_persistence::{CreateOptions, OpenOptions};

use super::end::End;
use super::log::{assert_log, events, header, id};
use super::peer::Peer;
use super::place::{Kind, Place};
use super::rounds::rounds;

/// The most programs that run at once.
const MOST: usize = 200;

/// Programs that run until they are dropped.
struct Sleepers(Vec<Child>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        for sleeper in &mut self.0 {
            drop(sleeper.kill());
            drop(sleeper.wait());
        }
    }
}

#[test]
fn a_program_started_while_an_append_runs_does_not_keep_the_session() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let (store, other) = (place.open(), place.open());
        let first = store.create(&header("s"), CreateOptions::default()).unwrap();
        first.append(&events("s", 0..1)).unwrap();
        first.close().unwrap();
        let end = End::default();
        let mut count = 1;
        std::thread::scope(|scope| {
            // They start at every moment of the opening, the appends and the closing below.
            let starter = scope.spawn(|| {
                let mut sleepers = Sleepers(Vec::new());
                while !end.is_told() {
                    if sleepers.0.len() < MOST {
                        sleepers.0.push(Command::new("sleep").arg("60").spawn().unwrap());
                    } else {
                        std::thread::yield_now();
                    }
                }
                sleepers
            });
            let told = end.told_by_drop();
            for round in 0..rounds(20, 200) {
                let (now, next) = if round % 2 == 0 { (&store, &other) } else { (&other, &store) };
                let writer = now.open(&id("s"), OpenOptions::write()).expect("at the first try");
                for _ in 0..3 {
                    writer.append(&events("s", count..count + 1)).unwrap();
                    count += 1;
                }
                assert_eq!(next.open(&id("s"), OpenOptions::write()).err().unwrap().kind().name(), "AlreadyOwned");
                writer.close().unwrap();
            }
            drop(told);
            let sleepers = starter.join().unwrap();
            assert!(!sleepers.0.is_empty());
            // They still run, and the next writer is another process.
            let mut next = Peer::at(&place);
            next.tell("open s").done();
            next.tell(&format!("append s {count} {}", count + 1)).done();
            next.end();
        });
        assert_log(&*store, "s", count + 1);
    }
}

#[test]
fn a_program_that_outlives_a_killed_writer_does_not_keep_its_session() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let mut writer = Peer::at(&place);
        writer.tell("create s").done();
        writer.tell("append s 0 3").done();
        let sleeper = writer.tell("spawn").done().parse().unwrap();
        writer.kill();
        let store = place.open();
        let next = store.open(&id("s"), OpenOptions::write()).expect("at the first try");
        next.append(&events("s", 3..4)).unwrap();
        next.close().unwrap();
        assert_log(&*store, "s", 4);
        kill_process(Pid::from_raw(sleeper).unwrap(), Signal::KILL).expect("it was still running");
    }
}
