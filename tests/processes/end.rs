//! [`End`]: what tells a thread that goes on and on to come to an end.

use std::sync::atomic::{AtomicBool, Ordering};

/// The end of what a thread does until it is told.
#[derive(Default)]
pub(crate) struct End(AtomicBool);

/// Tells the end when it is dropped: where a test fails before, nobody is waited for for ever.
pub(crate) struct Told<'e>(&'e End);

impl End {
    pub(crate) fn is_told(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn told_by_drop(&self) -> Told<'_> {
        Told(self)
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Release);
    }
}
