//! [`LogDigest`]: what tells a log from any other, and goes on as the log grows.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{SessionEvent, SessionHeader};

/// A running digest of a log: of the line of its header and of each event's line, in their order. That of a log that grew
/// follows from the one before and the events that came behind, so that whoever kept it can tell growth from anything else
/// by reading what is new. XXH3-64, which guards against mistakes and not against forgers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogDigest {
    seed: u64,
    value: u64,
}

impl LogDigest {
    /// That of a log without events. A store may give each log a seed of its own, so that equal logs differ.
    pub fn new(header: &SessionHeader, seed: u64) -> Self {
        Self { seed, value: of_line(&header.to_line(), seed) }
    }

    /// From its parts, as a store or an index keeps them.
    pub fn from_parts(seed: u64, value: u64) -> Self {
        Self { seed, value }
    }

    /// Its seed and its value.
    pub fn parts(&self) -> (u64, u64) {
        (self.seed, self.value)
    }

    /// Goes on by an event.
    pub fn push(&mut self, event: &SessionEvent) {
        self.value = chained(self.value, of_line(&event.to_line(), self.seed));
    }
}

/// The checksum of a line.
pub(crate) fn of_line(line: &str, seed: u64) -> u64 {
    xxh3_64_with_seed(line.as_bytes(), seed)
}

/// The value behind one more line.
pub(crate) fn chained(value: u64, checksum: u64) -> u64 {
    xxh3_64_with_seed(&checksum.to_le_bytes(), value)
}
