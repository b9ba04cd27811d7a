//! [`Seq`]: the place of an event in its log.

use std::fmt;

/// The place of an event in its log: 0, 1, 2, ... up to [`Seq::MAX`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(u64);

impl Seq {
    /// 2^53 - 1, the largest whole number that every JSON reader holds exactly.
    pub const MAX: Seq = Seq((1 << 53) - 1);

    /// The place `n`, or nothing past [`Seq::MAX`].
    pub const fn new(n: u64) -> Option<Self> {
        if n <= Self::MAX.0 { Some(Self(n)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<u32> for Seq {
    fn from(n: u32) -> Self {
        Self(n.into())
    }
}

impl From<Seq> for u64 {
    fn from(seq: Seq) -> Self {
        seq.0
    }
}
