//! Work that two cores share.

use std::sync::OnceLock;
use std::thread::{self, Builder};

/// From so many events on a part of a log is read in two threads: it takes longer to start the second one than to read a few.
pub(crate) const LONG: u64 = 1 << 13;

/// From so many items on they are parted between two threads, where each takes a few calls of the system.
#[cfg(feature = "jsonl")]
const MANY: usize = 256;

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

/// What `work` gives for each of `items`, in their order: in two threads where there are many and several cores.
#[cfg(feature = "jsonl")]
pub(crate) fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let each = |items: &[T]| items.iter().map(&work).collect::<Vec<_>>();
    if items.len() < MANY || !are_several() {
        return each(items);
    }
    let (front, back) = items.split_at(items.len() / 2);
    let (mut front, back) = both(|| each(front), || each(back));
    front.extend(back);
    front
}

#[cfg(all(test, feature = "jsonl"))]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_answered_in_its_place_however_many_there_are() {
        for count in [0, 1, MANY - 1, MANY, 10 * MANY + 1] {
            let items: Vec<_> = (0..count).collect();
            assert_eq!(each(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
