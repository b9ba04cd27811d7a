//! [`Load`]: one reading of a stored session, for all who ask for it meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::QueryError;
use super::cold_session::ColdSession;

/// A reading that is under way.
#[derive(Default)]
pub(super) struct Load {
    /// How many wait for it; it grows only under the lock of the cache.
    joined: AtomicUsize,
    outcome: Mutex<Option<Outcome>>,
    over: Condvar,
}

/// What came of it.
#[derive(Clone)]
pub(super) enum Outcome {
    /// It is held under a number, once for each who waits.
    Loaded {
        number: u64,
        session: Arc<ColdSession>,
    },
    Failed(QueryError),
    /// Another revision is there now: whoever waits asks again.
    Changed,
}

impl Load {
    pub(super) fn join(&self) {
        self.joined.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn joined(&self) -> usize {
        self.joined.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self, outcome: Outcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.over.notify_all();
    }

    pub(super) fn wait(&self) -> Outcome {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*outcome {
                Some(outcome) => return outcome.clone(),
                None => outcome = self.over.wait(outcome).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
