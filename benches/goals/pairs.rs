//! Two ways of doing the same, in turn.

use std::fmt;
use std::time::Duration;

/// How often each side runs.
pub(crate) const PAIRS: usize = 9;

/// What came of it: the medians of both sides, and how the pairs compare.
pub(crate) struct Compared {
    pub(crate) ours: Duration,
    pub(crate) yardstick: Duration,
    /// Our time by that of the yardstick, a pair each, sorted.
    ratios: Vec<f64>,
}

/// Runs both in turn. Which goes first changes from pair to pair, so that neither profits from what the other left warm. A pair
/// is compared within itself: what else the machine does changes from one pair to the next, and hits both alike.
pub(crate) fn alternate(
    pairs: usize,
    mut ours: impl FnMut() -> Duration,
    mut yardstick: impl FnMut() -> Duration,
) -> Compared {
    let mut times: Vec<(Duration, Duration)> = Vec::with_capacity(pairs);
    for pair in 0..pairs {
        if pair % 2 == 0 {
            let first = ours();
            times.push((first, yardstick()));
        } else {
            let first = yardstick();
            times.push((ours(), first));
        }
    }
    let mut ratios: Vec<f64> = times.iter().map(|(ours, other)| ours.as_secs_f64() / other.as_secs_f64()).collect();
    ratios.sort_by(f64::total_cmp);
    let ours = median(times.iter().map(|pair| pair.0).collect());
    Compared { ours, yardstick: median(times.iter().map(|pair| pair.1).collect()), ratios }
}

pub(crate) fn median<T: Ord + Copy>(mut values: Vec<T>) -> T {
    values.sort();
    values[values.len() / 2]
}

impl Compared {
    /// Our time by that of the yardstick.
    pub(crate) fn time(&self) -> Ratio {
        Ratio::of(&self.ratios)
    }

    /// Our throughput by that of the yardstick.
    pub(crate) fn throughput(&self) -> Ratio {
        Ratio::of(&self.ratios.iter().rev().map(|ratio| 1.0 / ratio).collect::<Vec<_>>())
    }
}

/// A median, and where the middle half lies.
#[derive(Clone, Copy)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    low: f64,
    high: f64,
}

impl Ratio {
    fn of(sorted: &[f64]) -> Self {
        let at = |part: usize| sorted[(sorted.len() - 1) * part / 4];
        Self { median: at(2), low: at(1), high: at(3) }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} x ({:.2} to {:.2})", self.median, self.low, self.high)
    }
}
