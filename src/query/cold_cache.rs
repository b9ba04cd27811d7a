//! [`ColdCache`]: stored sessions that were read, kept in memory.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::QueryError;
use super::cold_session::ColdSession;
use super::load::{Load, Outcome};
use crate::log::SessionId;
use crate::seam::{Revision, SessionPersistence};

/// How many sessions are read at once: each takes memory that nothing else bounds yet.
const MAX_READING: usize = 4;

/// Stored sessions that were read, kept in memory. Cheap to clone: every clone is the same cache. Several
/// [`SessionReader`](super::SessionReader)s may share one, also such over different stores.
///
/// A session is kept for one store value, id and revision, so that one which was written, restored, made anew or is
/// another store's is read again. What nobody observes goes when the cache would take more memory than it may, the one
/// first that was not used for longest. What is observed stays, whatever it takes, and counts: while it takes more than all
/// that the cache may, nothing else is kept.
///
/// What a session takes is estimated: the bytes of the data and type of each event, 8 for each event that it cites, and
/// 128, or 320 where it carries more than these, for everything else. That is up to a third more than it was measured to be.
/// While a session is read, it can take twice as much; at most four are read at once, whoever asks.
#[derive(Clone)]
pub struct ColdCache {
    shared: Arc<Shared>,
}

struct Shared {
    max_bytes: u64,
    state: Mutex<State>,
    /// How many more sessions may be read now.
    free_slots: Mutex<usize>,
    slot_freed: Condvar,
}

/// What happened to a [`ColdCache`] since it was made, and what it holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// How many times a session was asked for that was kept at the revision that its store told.
    pub hits: u64,
    /// How many times one was asked for that was not: it was read then, or somebody else was reading it already.
    pub misses: u64,
    /// How many times a session was read from its store, failures and such included that had changed meanwhile.
    pub loads: u64,
    /// How many sessions went to make room.
    pub evictions: u64,
    /// How many sessions are held, those included that are observed at a revision that is past.
    pub sessions: usize,
    /// How many of these are observed.
    pub observed: usize,
    /// How many bytes of memory they take, estimated.
    pub bytes: u64,
}

#[derive(Default)]
struct State {
    held: HashMap<u64, Held>,
    /// The newest that was read of each session. The others are held only as long as they are observed.
    newest: HashMap<Place, u64>,
    /// What nobody observes, by when it was last used.
    idle: BTreeMap<u64, u64>,
    loads: HashMap<(Place, Revision), Arc<Load>>,
    /// Numbers what is held, and the uses.
    next: u64,
    stats: CacheStats,
}

struct Held {
    place: Place,
    session: Arc<ColdSession>,
    pins: usize,
    /// When it was last used, where nobody observes it.
    idle_since: Option<u64>,
}

/// A session of a store value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    store: StoreValue,
    session: SessionId,
}

impl Place {
    pub(super) fn new(store: &Arc<dyn SessionPersistence>, session: &SessionId) -> Self {
        Self { store: StoreValue(Arc::downgrade(store)), session: session.clone() }
    }
}

/// A store, told by its address: as long as this is held no other store can have it.
#[derive(Clone)]
struct StoreValue(Weak<dyn SessionPersistence>);

impl StoreValue {
    fn address(&self) -> *const () {
        self.0.as_ptr().cast()
    }
}

impl PartialEq for StoreValue {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.address(), other.address())
    }
}

impl Eq for StoreValue {}

impl Hash for StoreValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

/// What comes of asking for a session at a revision.
pub(super) enum Asked {
    Kept(Lease),
    /// The caller has to load it.
    Load(LoadTurn),
    /// Somebody else loads it.
    Wait(Arc<Load>),
}

impl ColdCache {
    /// An empty cache that takes up to `max_bytes` bytes of memory for sessions that nobody observes; with 0 it keeps
    /// nothing, and several who ask at once still cause one load.
    pub fn new(max_bytes: u64) -> Self {
        let (free_slots, slot_freed) = (Mutex::new(MAX_READING), Condvar::new());
        Self { shared: Arc::new(Shared { max_bytes, state: Mutex::default(), free_slots, slot_freed }) }
    }

    /// What happened so far, and what is held now.
    pub fn stats(&self) -> CacheStats {
        let state = self.state();
        CacheStats { sessions: state.held.len(), observed: state.held.len() - state.idle.len(), ..state.stats }
    }

    /// Lets go of everything that nobody observes. That is no eviction.
    pub fn clear(&self) {
        let gone: Vec<_> = {
            let mut state = self.state();
            let idle: Vec<_> = state.idle.values().copied().collect();
            idle.into_iter().filter_map(|number| state.drop_held(number)).collect()
        };
        drop(gone);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept of a session that is at a revision now, or who loads it.
    pub(super) fn ask(&self, place: &Place, revision: &Revision) -> Asked {
        let mut state = self.state();
        if let Some(number) = state.newest.get(place).copied()
            && let Some(session) = state.held.get(&number).map(|held| held.session.clone())
            && session.revision == *revision
        {
            state.stats.hits += 1;
            state.pin(number, 1);
            return Asked::Kept(Lease { cache: self.clone(), number, session });
        }
        state.stats.misses += 1;
        let key = (place.clone(), revision.clone());
        if let Some(load) = state.loads.get(&key) {
            load.join();
            return Asked::Wait(load.clone());
        }
        state.stats.loads += 1;
        let load = Arc::new(Load::default());
        state.loads.insert(key.clone(), load.clone());
        Asked::Load(LoadTurn { cache: self.clone(), key, load, is_over: false })
    }

    /// What was loaded by somebody for whom the caller waited; nothing where it has to ask again.
    pub(super) fn wait(&self, load: &Load) -> Result<Option<Lease>, QueryError> {
        match load.wait() {
            Outcome::Loaded { number, session } => Ok(Some(Lease { cache: self.clone(), number, session })),
            Outcome::Failed(error) => Err(error),
            Outcome::Changed => Ok(None),
        }
    }

    /// Waits until a session may be read, which it may as long as what is returned is held.
    pub(super) fn slot(&self) -> Slot<'_> {
        let mut free = self.shared.free_slots.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self.shared.slot_freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Slot(&self.shared)
    }

    /// Lets go of what is kept of a session that is not there any more.
    pub(super) fn forget(&self, place: &Place) {
        let mut state = self.state();
        let gone = state.newest.remove(place).and_then(|number| state.drop_past(number));
        drop(state);
        drop(gone);
    }

    fn release(&self, number: u64) {
        let gone = {
            let mut state = self.state();
            state.unpin(number);
            let past = state.drop_past(number);
            past.into_iter().chain(state.evict(self.shared.max_bytes)).collect::<Vec<_>>()
        };
        // Large logs are freed where nobody waits for it.
        drop(gone);
    }
}

/// The right to read a session.
pub(super) struct Slot<'a>(&'a Shared);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free_slots.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.slot_freed.notify_one();
    }
}

impl Default for ColdCache {
    /// A cache of 256 MiB.
    fn default() -> Self {
        Self::new(256 << 20)
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn pin(&mut self, number: u64, count: usize) {
        if let Some(held) = self.held.get_mut(&number) {
            held.pins += count;
            if let Some(since) = held.idle_since.take() {
                self.idle.remove(&since);
            }
        }
    }

    fn unpin(&mut self, number: u64) {
        let now = self.number();
        if let Some(held) = self.held.get_mut(&number) {
            held.pins -= 1;
            if held.pins == 0 {
                held.idle_since = Some(now);
                self.idle.insert(now, number);
            }
        }
    }

    fn hold(&mut self, place: &Place, session: Arc<ColdSession>, pins: usize) -> (u64, Option<Held>) {
        let number = self.number();
        self.stats.bytes += session.bytes;
        self.held.insert(number, Held { place: place.clone(), session, pins, idle_since: None });
        let past = self.newest.insert(place.clone(), number);
        (number, past.and_then(|past| self.drop_past(past)))
    }

    /// Lets go of what nobody observes and nobody will ask for: another one is newer.
    fn drop_past(&mut self, number: u64) -> Option<Held> {
        let held = self.held.get(&number)?;
        let is_past = held.idle_since.is_some() && self.newest.get(&held.place) != Some(&number);
        if is_past { self.drop_held(number) } else { None }
    }

    fn drop_held(&mut self, number: u64) -> Option<Held> {
        let held = self.held.remove(&number)?;
        self.stats.bytes -= held.session.bytes;
        if let Some(since) = held.idle_since {
            self.idle.remove(&since);
        }
        if self.newest.get(&held.place) == Some(&number) {
            self.newest.remove(&held.place);
        }
        Some(held)
    }

    fn evict(&mut self, max_bytes: u64) -> Vec<Held> {
        let mut gone = Vec::new();
        while self.stats.bytes > max_bytes
            && let Some(number) = self.idle.first_key_value().map(|(_, number)| *number)
        {
            self.stats.evictions += 1;
            gone.extend(self.drop_held(number));
        }
        gone
    }
}

/// The turn to load a session, for all who ask for it.
pub(super) struct LoadTurn {
    cache: ColdCache,
    key: (Place, Revision),
    load: Arc<Load>,
    is_over: bool,
}

impl LoadTurn {
    /// Ends it: all who wait are told. What changed meanwhile is loaded by whoever asks first again.
    pub(super) fn end(mut self, loaded: Result<Option<ColdSession>, QueryError>) -> Result<Option<Lease>, QueryError> {
        match loaded {
            Ok(Some(session)) => {
                let session = Arc::new(session);
                let cache = self.cache.clone();
                let (number, gone) = {
                    let mut state = cache.state();
                    // From here on nobody joins it.
                    state.loads.remove(&self.key);
                    let pins = 1 + self.load.joined();
                    let (number, past) = state.hold(&self.key.0, session.clone(), pins);
                    (number, past.into_iter().chain(state.evict(cache.shared.max_bytes)).collect::<Vec<_>>())
                };
                drop(gone);
                self.is_over = true;
                self.load.end(Outcome::Loaded { number, session: session.clone() });
                Ok(Some(Lease { cache, number, session }))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.tell(Outcome::Failed(error.clone()));
                Err(error)
            }
        }
    }

    fn tell(&mut self, outcome: Outcome) {
        self.is_over = true;
        self.cache.state().loads.remove(&self.key);
        self.load.end(outcome);
    }
}

/// Also where a store panicked: nobody waits for ever.
impl Drop for LoadTurn {
    fn drop(&mut self) {
        if !self.is_over {
            self.tell(Outcome::Changed);
        }
    }
}

/// A session that is held as long as this is.
pub(super) struct Lease {
    cache: ColdCache,
    number: u64,
    session: Arc<ColdSession>,
}

impl Lease {
    pub(super) fn session(&self) -> &Arc<ColdSession> {
        &self.session
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        self.cache.state().pin(self.number, 1);
        Self { cache: self.cache.clone(), number: self.number, session: self.session.clone() }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.cache.release(self.number);
    }
}

impl std::fmt::Debug for ColdCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColdCache").field("max_bytes", &self.shared.max_bytes).field("stats", &self.stats()).finish()
    }
}
