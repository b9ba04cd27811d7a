//! Two processes that want to write one session at the same moment.

use super::log::{assert_log, read};
use super::peer::{Answer, Peer};
use super::place::{Kind, Place};
use super::rounds::rounds;

#[test]
fn of_two_processes_that_race_for_a_session_one_owns_it_and_the_other_is_told_which() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let mut peers = [Peer::at(&place), Peer::at(&place)];
        peers[0].tell("create s").done();
        peers[0].tell("append s 0 1").done();
        peers[0].tell("close s").done();
        let mut wins = [0, 0];
        for round in 0..rounds(20, 200) {
            // The one that is told first has a head start, so that they take turns with it.
            let first = usize::from(round % 2 == 1);
            for peer in [first, 1 - first] {
                peers[peer].send("open s");
            }
            let answers = [peers[0].answer(), peers[1].answer()];
            let winner = match &answers {
                [Answer::Done(_), Answer::Refused(_)] => 0,
                [Answer::Refused(_), Answer::Done(_)] => 1,
                _ => panic!("{kind:?}, round {round}: {answers:?}"),
            };
            let refusal = answers[1 - winner].clone().refused();
            assert_eq!(refusal.kind, "AlreadyOwned", "{kind:?}, round {round}: {refusal:?}");
            assert_eq!(refusal.holder, Some(peers[winner].pid()), "{kind:?}, round {round}: {refusal:?}");
            peers[winner].tell(&format!("append s {} {}", round + 1, round + 2)).done();
            peers[winner].tell("close s").done();
            wins[winner] += 1;
        }
        eprintln!("{kind:?}: {wins:?} races won");
        peers.into_iter().for_each(Peer::end);
        assert_log(&*place.open(), "s", rounds(20, 200) + 1);
    }
}

#[test]
fn of_two_processes_that_race_for_the_session_of_a_dead_writer_the_loser_is_told_the_living_one() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let mut writer = Peer::at(&place);
        writer.tell("create s").done();
        writer.tell("append s 0 1").done();
        let mut peers = [Peer::at(&place), Peer::at(&place)];
        for round in 0..rounds(20, 200) {
            let dead = writer.pid();
            writer.kill();
            let first = usize::from(round % 2 == 1);
            for peer in [first, 1 - first] {
                peers[peer].send("open s");
            }
            let answers = [peers[0].answer(), peers[1].answer()];
            let winner = usize::from(matches!(answers[0], Answer::Refused(_)));
            assert!(matches!(answers[winner], Answer::Done(_)), "{kind:?}, round {round}: {answers:?}");
            let refusal = answers[1 - winner].clone().refused();
            let told = (refusal.kind.as_str(), refusal.holder);
            let wanted = ("AlreadyOwned", Some(peers[winner].pid()));
            assert_eq!(told, wanted, "{kind:?}, round {round}, after {dead} died: {refusal:?}");
            peers[winner].tell(&format!("append s {} {}", round + 1, round + 2)).done();
            writer = std::mem::replace(&mut peers[winner], Peer::at(&place));
        }
        writer.end();
        assert_log(&*place.open(), "s", rounds(20, 200) + 1);
    }
}

#[test]
fn two_processes_that_take_a_session_from_each_other_again_and_again_never_write_it_together() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let mut peers = [Peer::at(&place), Peer::at(&place)];
        peers[0].tell("create s").done();
        peers[0].tell("flush s").done();
        peers[0].tell("close s").done();
        let tries = rounds(200, 5000);
        for peer in &mut peers {
            peer.send(&format!("contend s {tries}"));
        }
        // An append that meets another writer is refused, which is no answer that counts here.
        let seqs = peers.each_mut().map(|peer| peer.answer().done());
        let seqs = seqs.iter().flat_map(|seqs| seqs.split(',')).filter(|seq| !seq.is_empty());
        let mut stored: Vec<u64> = seqs.map(|seq| seq.parse().unwrap()).collect();
        stored.sort();
        let log = read(&*place.open(), "s");
        assert_eq!(stored, (0..log.len() as u64).collect::<Vec<_>>(), "{kind:?}");
        assert!(log.iter().zip(0..).all(|(event, seq)| event.seq().get() == seq), "{kind:?}");
        eprintln!("{kind:?}: {} of {} tries to become the writer succeeded", log.len(), 2 * tries);
    }
}

#[test]
fn of_two_processes_that_race_to_create_a_session_one_stores_it() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let mut peers = [Peer::at(&place), Peer::at(&place)];
        for round in 0..rounds(20, 200) {
            let name = format!("s{round}");
            let mut answers = Vec::new();
            for command in ["create", "append"] {
                let rest = if command == "append" { " 0 3" } else { "" };
                let first = usize::from(round % 2 == 1);
                for peer in [first, 1 - first] {
                    peers[peer].send(&format!("{command} {name}{rest}"));
                }
                answers = peers.iter_mut().map(Peer::answer).collect();
                if command == "create" {
                    answers.iter().for_each(|answer| drop(answer.clone().done()));
                }
            }
            let winners = answers.iter().filter(|answer| matches!(answer, Answer::Done(_))).count();
            assert_eq!(winners, 1, "{kind:?}, round {round}: {answers:?}");
            let refusal = answers.into_iter().find(|a| matches!(a, Answer::Refused(_))).unwrap().refused();
            assert_eq!(refusal.kind, "AlreadyExists", "{kind:?}, round {round}: {refusal:?}");
            for peer in &mut peers {
                peer.tell(&format!("drop {name}")).done();
            }
        }
        peers.into_iter().for_each(Peer::end);
        let store = place.open();
        (0..rounds(20, 200)).for_each(|round| assert_log(&*store, &format!("s{round}"), 3));
    }
}
