//! How many nodes, sources and messages a change touches: tests prove its cost in steps, which no busy machine changes.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
pub(super) fn step() {
    STEPS.set(STEPS.get() + 1);
}

#[cfg(not(test))]
#[inline(always)]
pub(super) fn step() {}

/// What `work` gives, and how many steps it took.
#[cfg(test)]
pub(super) fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = STEPS.get();
    let made = work();
    (made, STEPS.get() - before)
}
