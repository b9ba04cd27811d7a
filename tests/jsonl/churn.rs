//! Stores that make and remove the same sessions in different working folders, and others that look on.

use std::sync::atomic::{AtomicBool, Ordering};

use session_persistence::upkeep::{self, Progress};
use session_persistence::{CreateOptions, Error, ErrorKind, FaultKind, ListQuery, SessionPersistence, SessionState};

use super::place::{ENCODINGS, Place, events, header, id, store};

const NAMES: [&str; 2] = ["a", "b"];

/// Makes and removes sessions; what it was told that nobody has to be told.
fn churn(place: &Place, number: usize, rounds: usize) -> Vec<Error> {
    let store = place.open();
    let mut wrong = Vec::new();
    let mut note = |result: Result<(), Error>| {
        use ErrorKind::{AlreadyExists, AlreadyOwned, NotFound, StoreBusy};
        let is_fair = |e: &Error| matches!(e.kind(), AlreadyExists | AlreadyOwned | NotFound | StoreBusy);
        wrong.extend(result.err().filter(|e| !is_fair(e)));
    };
    for round in 0..rounds {
        let name = NAMES[(round + number) % NAMES.len()];
        let new = header(name).with_cwd(format!("/w{}", (round * 7 + number * 3) % 5));
        note(store.create(&new, CreateOptions::default()).and_then(|handle| {
            handle.append(&events(0..2))?;
            handle.close()
        }));
        note(store.remove(&id(name)).map(drop));
    }
    wrong
}

#[test]
fn sessions_that_move_between_working_folders_are_never_told_as_damaged_nor_refused_for_their_names() {
    let rounds = if std::env::var_os("SESSIONS_FULL").is_some() { 3000 } else { 250 };
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        store(&place.open(), "stays", &[&events(0..2)]);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (place, is_over) = (&place, &is_over);
            let look = || {
                let at = place.open();
                while !is_over.load(Ordering::Relaxed) {
                    for listed in at.list(&ListQuery::default()).unwrap().items {
                        assert!(!matches!(listed.state, SessionState::Damaged { .. }), "{listed:?}");
                    }
                    for name in NAMES {
                        let told = at.stat(&id(name)).unwrap();
                        assert!(told.as_ref().is_none_or(|told| told.header.is_some()), "{told:?}");
                    }
                    upkeep::verify(&at, None, &mut |progress| match progress {
                        Progress::Fault(fault) if fault.kind != FaultKind::Leftover => panic!("{fault}"),
                        _ => {}
                    })
                    .unwrap();
                }
            };
            let looker = scope.spawn(look);
            let churning: Vec<_> = (0..3).map(|number| scope.spawn(move || churn(place, number, rounds))).collect();
            let wrong: Vec<_> = churning.into_iter().map(|churning| churning.join()).collect();
            is_over.store(true, Ordering::Relaxed);
            looker.join().unwrap();
            let wrong: Vec<_> = wrong.into_iter().flat_map(|wrong| wrong.unwrap()).collect();
            assert!(wrong.is_empty(), "{encoding:?}: {} in all, the first {:?}", wrong.len(), wrong.first());
        });
    }
}
