//! [`Holder`]: who writes a session.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Who writes a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The process; 0 where it left no record of itself.
    pub process: u32,
    /// The name of the machine on which it runs; empty where it left none.
    pub host: String,
    /// Since when, in milliseconds since 1970.
    pub since: i64,
}

impl Holder {
    /// A holder.
    pub fn new(process: u32, host: impl Into<String>, since: i64) -> Self {
        Self { process, host: host.into(), since }
    }

    /// Somebody who left no record.
    #[cfg(any(feature = "sqlite", feature = "jsonl"))]
    pub(crate) fn unknown() -> Self {
        Self::new(0, "", 0)
    }

    /// This process, from now on.
    pub(crate) fn this_process() -> Self {
        Self::new(std::process::id(), gethostname::gethostname().to_string_lossy(), now())
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    i64::try_from(since).unwrap_or(i64::MAX)
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.process == 0 {
            return f.write_str("another program");
        }
        write!(f, "process {}", self.process)?;
        if !self.host.is_empty() {
            write!(f, " on {:?}", self.host)?;
        }
        write!(f, " for {} s", now().saturating_sub(self.since).max(0) / 1000)
    }
}
