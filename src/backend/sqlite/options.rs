//! [`SqliteOptions`]: how to open a store.

use std::time::Duration;

use super::journal::Journal;
use crate::log::Vocabulary;
use crate::seam::Durability;

/// How to open a [`SqliteStore`](crate::SqliteStore).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// What the host can interpret. Default: [`Vocabulary::v3`].
    pub vocabulary: Vocabulary,
    /// How the database keeps a commit whole. Default: as it does already, and [`Journal::Wal`] in a new one. A store that is
    /// in another mode is switched to this one when it is first written, and keeps it; as long as it is only read it stays
    /// as it is.
    pub journal: Option<Journal>,
    /// What an acknowledged append survives. Default: [`Durability::OnFlush`]. In [`Journal::Rollback`] mode every append
    /// survives a loss of power, but for one: where the folder of the database cannot be synced once an append is stored,
    /// that append succeeds, and all that follow, flushes too, fail until it can be.
    pub durability: Durability,
    /// How long to wait for another program before `StoreBusy`. Default: 5 seconds.
    pub busy_timeout: Duration,
    /// The most bytes that the text of one event may have. Default and maximum: 999,999,000, just below what SQLite
    /// takes in a row.
    pub max_event_bytes: usize,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            vocabulary: Vocabulary::default(),
            journal: None,
            durability: Durability::default(),
            busy_timeout: Duration::from_secs(5),
            max_event_bytes: Self::MAX_EVENT_BYTES,
        }
    }
}

impl SqliteOptions {
    /// The same options with another vocabulary.
    #[must_use]
    pub fn with_vocabulary(mut self, vocabulary: Vocabulary) -> Self {
        self.vocabulary = vocabulary;
        self
    }

    /// The same options with a journal mode that a new store gets, and another one when it is written.
    #[must_use]
    pub fn with_journal(mut self, journal: Journal) -> Self {
        self.journal = Some(journal);
        self
    }

    /// The same options with another durability.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The same options with another wait for other programs.
    #[must_use]
    pub fn with_busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout;
        self
    }

    /// The same options with a lower limit for the text of one event, in bytes.
    #[must_use]
    pub fn with_max_event_bytes(mut self, max_event_bytes: usize) -> Self {
        self.max_event_bytes = max_event_bytes;
        self
    }

    /// SQLite's limit of 1,000,000,000 bytes a row, less room for the numbers of the row.
    pub(super) const MAX_EVENT_BYTES: usize = 999_999_000;
}
