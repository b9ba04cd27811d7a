//! The contract suite: every promise of the seam as a test, for any backend.
//!
//! A backend describes itself as a [`Fixture`] and runs all cases in one line; each becomes a test of its own, named
//! after the promise that it checks:
//!
//! ```
//! use std::sync::Arc;
//!
//! use session_persistence::contract::{Capabilities, Fixture, Unsupported};
//! use session_persistence::{MemoryStore, SessionId, SessionPersistence};
//!
//! /// A backend whose sessions live as long as the value of the store.
//! struct InMemory;
//!
//! impl Fixture for InMemory {
//!     fn capabilities(&self) -> Capabilities {
//!         Capabilities::default()
//!     }
//!     fn store(&self) -> Arc<dyn SessionPersistence> {
//!         Arc::new(MemoryStore::new())
//!     }
//!     fn elsewhere(&self) -> Arc<dyn SessionPersistence> {
//!         Arc::new(MemoryStore::new())
//!     }
//!     fn reopen(&self) -> Result<Arc<dyn SessionPersistence>, Unsupported> {
//!         Err(Unsupported)
//!     }
//!     fn beside(&self) -> Result<Arc<dyn SessionPersistence>, Unsupported> {
//!         Err(Unsupported)
//!     }
//!     fn tear_tail(&self, _: &SessionId) -> Result<(), Unsupported> {
//!         Err(Unsupported)
//!     }
//! }
//!
//! session_persistence::contract_tests!(InMemory);
//! # fn main() {}
//! ```
//!
//! In the package of the backend, the crate is a dev-dependency with the feature `contract`. What a backend cannot do
//! is not passed over: its fixture has to refuse it, and the cases check that it does.
//!
//! The cases check what a store does with its data. That they survive the death of a process or a loss of power, and
//! that a failing disk loses and doubles nothing, needs means of the backend's own.

mod cases;
mod fixture;
mod sample;
mod steps;
mod watched;

#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod append;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod append_from;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod close;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod create;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod event;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod flush;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod header;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod instance;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod lifecycle;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod list;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod list_filter;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod live;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod open;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod read;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod refusal;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod remove;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod revision;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod stat;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod tail;
#[expect(missing_docs, reason = "the name of each case is the promise that it checks")]
pub mod thread;

pub use cases::{CASES, Case};
pub use fixture::{Capabilities, Fixture, Unsupported};

/// Runs the contract suite over a backend: one `#[test]` for each case, in a module `contract`, or in one of another
/// name where it is used several times: `contract_tests!(MyFixture::new())`, or
/// `contract_tests!(compressed, MyFixture::compressed())`.
///
/// The expression makes a fresh [`Fixture`](crate::contract::Fixture) for each case.
#[macro_export]
macro_rules! contract_tests {
    ($module:ident, $fixture:expr $(,)?) => {
        #[cfg(test)]
        mod $module {
            fn fixture() -> impl $crate::contract::Fixture {
                #[allow(unused_imports, reason = "the expression may need nothing of its surroundings")]
                use super::*;
                $fixture
            }
            $crate::__contract_cases! { $crate::__contract_modules, [] }
        }
    };
    ($fixture:expr $(,)?) => {
        $crate::contract_tests! { contract, $fixture }
    };
}

/// Makes a module of tests for each verb, beside a function `fixture`.
#[doc(hidden)]
#[macro_export]
macro_rules! __contract_modules {
    ([] $($verb:ident { $($case:ident,)* })*) => {$(
        mod $verb {$(
            #[test]
            fn $case() {
                $crate::contract::$verb::$case(&super::fixture());
            }
        )*}
    )*};
}
