//! Counters of what reading costs, for tests that hold it against the size of a log.

use std::cell::Cell;
use std::thread::LocalKey;

/// A count of this thread: a store works in the thread that calls it, and other tests run beside.
pub(super) struct Count(&'static LocalKey<Cell<u64>>);

thread_local! {
    static UNPACKED_HERE: Cell<u64> = const { Cell::new(0) };
    static PARSED_HERE: Cell<u64> = const { Cell::new(0) };
}

/// How many bytes came out of frames.
pub(super) const UNPACKED: Count = Count(&UNPACKED_HERE);

/// How many rows were parsed.
pub(super) const PARSED: Count = Count(&PARSED_HERE);

impl Count {
    pub(super) fn add(&self, n: usize) {
        self.0.set(self.0.get() + n as u64);
    }

    /// What was counted since the last call.
    pub(super) fn take(&self) -> u64 {
        self.0.take()
    }
}
