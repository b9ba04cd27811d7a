//! Stores that keep every promise but one, and the cases of the contract suite that catch them: every case catches a
//! store, so none is a test that cannot fail.

mod caught;
mod fault;
mod handle;
mod live;
mod place;
mod store;

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};

use fault::Fault;
use place::Place;
use session_persistence::contract::{CASES, Fixture};

/// A case: what it is about, its name, and the check.
type Case = (&'static str, &'static str, fn(&dyn Fixture));

/// Runs cases over a store with `fault`; gives those that it fails, or those that it passes.
fn with_outcome(fails: bool, fault: Fault, cases: &[Case]) -> Vec<(&'static str, &'static str)> {
    let has_failed = |verb, run: fn(&dyn Fixture)| {
        let place = Place::for_cases_of(verb, fault);
        panic::catch_unwind(AssertUnwindSafe(|| run(&place))).is_err()
    };
    let wanted = cases.iter().filter(|(verb, _, run)| has_failed(verb, *run) == fails);
    wanted.map(|(verb, name, _)| (*verb, *name)).collect()
}

/// A test for each fault, with the cases that catch it, and a list of all these cases.
#[macro_export]
macro_rules! caught {
    ($($name:ident: $fault:ident => { $($verb:ident { $($case:ident),* $(,)? })* })*) => {
        $(
            #[test]
            fn $name() {
                let cases: &[$crate::Case] =
                    &[$($((stringify!($verb), stringify!($case), session_persistence::contract::$verb::$case)),*),*];
                assert_eq!($crate::with_outcome(false, $crate::fault::Fault::$fault, cases), []);
            }
        )*

        /// The cases that catch a store.
        pub(crate) const CATCHING: &[(&str, &str)] = &[$($($((stringify!($verb), stringify!($case))),*),*),*];
    };
}

#[test]
fn every_case_catches_a_store() {
    let catching: BTreeSet<_> = caught::CATCHING.iter().chain(live::CATCHING).collect();
    let all = CASES.iter().map(|case| (case.verb, case.name));
    assert_eq!(all.filter(|case| !catching.contains(case)).collect::<Vec<_>>(), []);
}

#[test]
fn a_store_without_a_fault_fails_no_case_in_the_same_places() {
    let cases: Vec<Case> = CASES.iter().map(|case| (case.verb, case.name, case.run)).collect();
    assert_eq!(with_outcome(true, Fault::None, &cases), []);
}
