//! [`Memo`]: logs that were read, kept for as long as their files stay as they are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::Stat;
use super::stored_log::Log;

/// Logs that were read, by their files. What is held together stays below a limit, except for logs in use.
pub(super) struct Memo {
    limit: usize,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_path: HashMap<PathBuf, Entry>,
    /// The bytes of all entries.
    held: usize,
    /// Numbers the uses.
    uses: u64,
}

struct Entry {
    slot: Arc<Slot>,
    bytes: usize,
    last_use: u64,
}

/// The place of one file. Locked while the file is read: of several who ask, one reads.
#[derive(Default)]
pub(super) struct Slot(pub(super) Mutex<Option<Known>>);

/// What is known of a file.
pub(super) struct Known {
    /// How the file looked when the log was read or written last.
    pub(super) stat: Stat,
    pub(super) log: Arc<Log>,
    /// Whether this store changes the file now. Until it is done the log is what counts, and not the file.
    pub(super) writing: bool,
}

impl Slot {
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memo {
    /// A memo of at most about `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, entries: Mutex::default() }
    }

    /// The most that the events of one log may take to be held.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a file. It is not given up as long as somebody holds it.
    pub(super) fn slot(&self, path: &Path) -> Arc<Slot> {
        let mut entries = self.entries();
        entries.uses += 1;
        let last_use = entries.uses;
        if let Some(entry) = entries.by_path.get_mut(path) {
            entry.last_use = last_use;
            return entry.slot.clone();
        }
        let slot = Arc::<Slot>::default();
        entries.by_path.insert(path.to_owned(), Entry { slot: slot.clone(), bytes: 0, last_use });
        slot
    }

    /// The place of a file that was read before.
    pub(super) fn known(&self, path: &Path) -> Option<Arc<Slot>> {
        self.entries().by_path.get(path).map(|entry| entry.slot.clone())
    }

    /// Notes what a file's log takes now, and gives up what was not used for longest until the limit is kept.
    pub(super) fn note(&self, path: &Path, bytes: usize) {
        let mut entries = self.entries();
        let Some(entry) = entries.by_path.get_mut(path) else { return };
        let before = std::mem::replace(&mut entry.bytes, bytes);
        entries.held = entries.held - before + bytes;
        if entries.held > self.limit {
            entries.shrink_to(self.limit / 4 * 3);
        }
    }

    pub(super) fn forget(&self, path: &Path) {
        self.entries().remove(path);
    }
}

impl Entries {
    fn remove(&mut self, path: &Path) {
        if let Some(entry) = self.by_path.remove(path) {
            self.held -= entry.bytes;
        }
    }

    /// Well below the limit at once, so that the next few logs do not each look for the oldest.
    fn shrink_to(&mut self, bytes: usize) {
        let unused = self.by_path.iter().filter(|(_, entry)| Arc::strong_count(&entry.slot) == 1);
        let mut oldest: Vec<_> = unused.map(|(path, entry)| (entry.last_use, path.clone())).collect();
        oldest.sort();
        for (_, path) in oldest {
            if self.held <= bytes {
                break;
            }
            self.remove(&path);
        }
    }
}
