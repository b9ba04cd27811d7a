//! [`MemoryStore`]: the reference model.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::runtime::{Batch, Listed, Runtime, Slice, Storage, Stored, Wanted, store_over_runtime};
use crate::log::{LogDigest, SessionEvent, SessionHeader, SessionId, Vocabulary};
use crate::seam::{Error, ListOrder, Removal, Result, Revision, SeqRange, Snapshot, checks};

/// A store in memory, gone with its value: the reference model that the other backends are held against, and a fast
/// store for tests.
///
/// [`Snapshot::size_bytes`] is the size of the exported text.
pub struct MemoryStore {
    runtime: Runtime<Memory>,
}

impl MemoryStore {
    /// An empty store that knows the types of [`Vocabulary::v3`].
    pub fn new() -> Self {
        Self::with_vocabulary(Vocabulary::default())
    }

    /// An empty store with another vocabulary.
    pub fn with_vocabulary(vocabulary: Vocabulary) -> Self {
        Self { runtime: Runtime::new(Memory::new(), vocabulary) }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

store_over_runtime!(MemoryStore);

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

struct Memory {
    /// Which store of this process it is; a part of its revisions.
    number: u64,
    /// Another process may have had its number and that of this process.
    random: u64,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    by_id: BTreeMap<SessionId, Log>,
    /// Numbers the writes: the source of incarnations, revisions and activities.
    writes: u64,
}

struct Log {
    incarnation: u64,
    header: SessionHeader,
    inherited: u64,
    events: Vec<SessionEvent>,
    size_bytes: u64,
    digest: LogDigest,
    last_write: u64,
}

impl Memory {
    fn new() -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        Self { number, random: RandomState::new().hash_one(number), sessions: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    fn log(&self, id: &SessionId, incarnation: u64) -> Result<&Log> {
        let log = self.by_id.get(id).filter(|log| log.incarnation == incarnation);
        log.ok_or_else(|| Error::NotFound { session: id.clone() })
    }
}

impl Log {
    fn store(&mut self, events: &[SessionEvent], write: u64) {
        self.size_bytes += events.iter().map(|e| e.to_line().len() as u64 + 1).sum::<u64>();
        if checks::has_seed_mark(&self.header)
            && let Some(mark) = events.iter().rev().find_map(checks::inherited_mark)
        {
            self.inherited = mark.get();
        }
        events.iter().for_each(|event| self.digest.push(event));
        self.events.extend_from_slice(events);
        self.last_write = write;
    }

    fn check_interpretable(&self, vocabulary: &Vocabulary) -> Result<()> {
        let id = self.header.id();
        checks::check_version(id, self.header.version(), vocabulary)?;
        let required = self.events.iter().filter(|e| !e.is_ignorable());
        checks::check_types(id, required.map(|e| (e.event_type(), e.seq())), vocabulary)
    }

    fn revision(&self, store: u64) -> Revision {
        Revision::new(format!("memory:{}:{store}:{}", std::process::id(), self.last_write))
    }

    fn snapshot(&self, store: u64, vocabulary: &Vocabulary) -> Snapshot {
        let mut snapshot = Snapshot::new(self.header.clone(), self.revision(store), vocabulary);
        snapshot.digest = Some(self.digest);
        snapshot.event_count = Some(self.events.len() as u64);
        snapshot.size_bytes = Some(self.size_bytes);
        snapshot.last_time = self.events.last().map(SessionEvent::time);
        snapshot.activity = self.last_write;
        snapshot
    }
}

impl Storage for Memory {
    type Key = u64;
    type Lease = ();

    fn contains(&self, id: &SessionId) -> Result<bool> {
        Ok(self.lock().by_id.contains_key(id))
    }

    fn find(&self, id: &SessionId) -> Result<Option<Stored<u64>>> {
        let sessions = self.lock();
        Ok(sessions.by_id.get(id).map(|log| Stored {
            key: log.incarnation,
            header: log.header.clone(),
            inherited: log.inherited,
        }))
    }

    fn lease(&self, _: &SessionId, _: &u64) -> Result<()> {
        Ok(())
    }

    fn materialize(&self, header: &SessionHeader, inherited: u64, events: Batch<'_>) -> Result<(u64, ())> {
        let events = events.into_held()?;
        let mut sessions = self.lock();
        if sessions.by_id.contains_key(header.id()) {
            return Err(Error::AlreadyExists { session: header.id().clone() });
        }
        checks::check_contiguous(header.id(), 0, &events)?;
        sessions.writes += 1;
        let write = sessions.writes;
        let mut log = Log {
            incarnation: write,
            header: header.clone(),
            inherited,
            events: Vec::new(),
            size_bytes: header.to_line().len() as u64 + 1,
            digest: LogDigest::new(header, write),
            last_write: write,
        };
        log.store(&events, write);
        sessions.by_id.insert(header.id().clone(), log);
        Ok((write, ()))
    }

    fn append(&self, id: &SessionId, key: &u64, (): &mut (), events: Batch<'_>) -> Result<()> {
        let events = events.into_held()?;
        let mut sessions = self.lock();
        checks::check_contiguous(id, sessions.log(id, *key)?.events.len() as u64, &events)?;
        sessions.writes += 1;
        let write = sessions.writes;
        if let Some(log) = sessions.by_id.get_mut(id) {
            log.store(&events, write);
        }
        Ok(())
    }

    fn check_interpretable(&self, id: &SessionId, key: &u64, vocabulary: &Vocabulary) -> Result<()> {
        self.lock().log(id, *key)?.check_interpretable(vocabulary)
    }

    fn read(&self, id: &SessionId, key: &u64, range: SeqRange, vocabulary: Option<&Vocabulary>) -> Result<Slice> {
        let sessions = self.lock();
        let log = sessions.log(id, *key)?;
        if let Some(vocabulary) = vocabulary {
            log.check_interpretable(vocabulary)?;
        }
        let count = log.events.len() as u64;
        let range = range.within(count);
        Ok(Slice { events: log.events[range.start as usize..range.end as usize].to_vec(), count })
    }

    fn stat(&self, id: &SessionId, vocabulary: &Vocabulary) -> Result<Option<Snapshot>> {
        Ok(self.lock().by_id.get(id).map(|log| log.snapshot(self.number, vocabulary)))
    }

    fn identity(&self) -> Result<String> {
        Ok(format!("memory:{}:{}:{:x}", std::process::id(), self.number, self.random))
    }

    fn list(&self, wanted: &Wanted<'_>) -> Result<Vec<Listed>> {
        let sessions = self.lock();
        let key = |log: &Log| match wanted.order {
            ListOrder::Activity => log.last_write,
            ListOrder::Created => log.header.created_at(),
        };
        let logs = sessions.by_id.iter().map(|(id, log)| (key(log), id, log));
        let may_pass = |log: &Log| wanted.filter.matches_header(&log.header);
        let mut behind: Vec<_> = logs.filter(|(key, id, log)| wanted.is_behind(*key, id) && may_pass(log)).collect();
        behind.sort_by_key(|(key, id, _)| (Reverse(*key), *id));
        let snapshots = behind.into_iter().map(|(key, _, log)| (key, log.snapshot(self.number, wanted.vocabulary)));
        let listed = snapshots.filter_map(|(key, told)| Some(Listed { key, snapshot: wanted.let_through(told)? }));
        Ok(listed.take(wanted.most()).collect())
    }

    fn remove(&self, id: &SessionId, only: Option<&Revision>) -> Result<Removal> {
        let mut sessions = self.lock();
        let store = self.number;
        match (sessions.by_id.get(id), only) {
            (None, _) => return Ok(Removal::Absent),
            (Some(log), Some(revision)) if log.revision(store) != *revision => return Ok(Removal::Changed),
            _ => {}
        }
        sessions.by_id.remove(id);
        Ok(Removal::Removed)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}
