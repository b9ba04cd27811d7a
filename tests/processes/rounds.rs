//! How often a suite repeats itself, and by which chance.

/// `short` in the everyday run, `full` where `SESSIONS_FULL` is set.
pub(crate) fn rounds(short: u64, full: u64) -> u64 {
    if std::env::var_os("SESSIONS_FULL").is_some() { full } else { short }
}

/// The chance of one round: the same in every run, and another in each round.
pub(crate) fn chance(suite: u64, round: u64) -> (u64, fastrand::Rng) {
    let seed = suite.wrapping_mul(1_000_003).wrapping_add(round);
    (seed, fastrand::Rng::with_seed(seed))
}
