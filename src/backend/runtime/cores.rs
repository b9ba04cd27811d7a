//! Work that two cores share.

use std::sync::OnceLock;
use std::thread::{self, Builder};

/// From so many events on a part of a log is read in two threads: it takes longer to start the second one than to read a few.
pub(crate) const LONG: u64 = 1 << 13;

/// Whether this process may use more than one core.
pub(crate) fn are_several() -> bool {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from)) > 1
}

/// Does both, in two threads where the system has another one. No thread outlives the call, so that a process which is
/// forked behind it has what it had before.
pub(crate) fn both<A, B: Send>(front: impl FnOnce() -> A, back: impl Fn() -> B + Sync) -> (A, B) {
    thread::scope(|scope| {
        let other = Builder::new().spawn_scoped(scope, &back);
        let front = front();
        let back = match other {
            Ok(other) => other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(e) => {
                log::debug!("working in one thread, for there is no other: {e}");
                back()
            }
        };
        (front, back)
    })
}
