//! What the calls tell that work on a store as a whole.

/// What a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// How many sessions.
    pub sessions: u64,
    /// How many events, of all sessions together.
    pub events: u64,
    /// How many bytes the backup takes.
    pub bytes: u64,
}

impl BackupReport {
    pub(crate) fn new(sessions: u64, events: u64, bytes: u64) -> Self {
        Self { sessions, events, bytes }
    }
}

/// What a store took before and after its unused room was given back.
#[cfg(feature = "sqlite")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// The size of the file before, in bytes.
    pub before: u64,
    /// The size of the file after, in bytes.
    pub after: u64,
}

#[cfg(feature = "sqlite")]
impl CompactReport {
    pub(crate) fn new(before: u64, after: u64) -> Self {
        Self { before, after }
    }
}
