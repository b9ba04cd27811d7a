//! [`SessionReader`]: sessions to look at, live ones and stored ones.

use std::sync::Arc;

use super::cold_cache::{Asked, ColdCache, Place};
use super::cold_session::ColdSession;
use super::{EventWindow, ObservedSession, QueryError, Window};
use crate::log::{RepairTexts, SessionId};
use crate::seam::SessionPersistence;
use crate::session::{Session, SessionHub};

/// Sessions to look at: the live ones of a hub, and those of a store.
///
/// A stored session is read once, its interrupted turn is ended in memory, and it is kept in a [`ColdCache`] for as long as
/// its store tells the same revision. Nothing is written. A live session wins over a stored one of the same id, whenever
/// it is found. Cheap to clone; all calls may come from any thread, and block for as long as the disk does.
#[derive(Clone)]
pub struct SessionReader {
    pub(super) store: Arc<dyn SessionPersistence>,
    pub(super) hub: Option<SessionHub>,
    cache: ColdCache,
    options: Arc<ReaderOptions>,
}

/// How sessions are read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReaderOptions {
    /// The most bytes of memory that a stored session may take, by the estimate of [`ColdCache`]. Default: 1 GiB.
    pub max_session_bytes: u64,
    /// How often a session is read that changes while it is read. Default: 8.
    pub max_attempts: u32,
    /// The most events of a window on either side. Default: 50.
    pub max_window: u64,
    /// What the end of an interrupted turn says.
    pub repair_texts: RepairTexts,
}

impl Default for ReaderOptions {
    fn default() -> Self {
        Self { max_session_bytes: 1 << 30, max_attempts: 8, max_window: 50, repair_texts: RepairTexts::default() }
    }
}

impl ReaderOptions {
    /// The same options with another limit for what one session may take, in bytes of memory.
    #[must_use]
    pub fn with_max_session_bytes(mut self, bytes: u64) -> Self {
        self.max_session_bytes = bytes;
        self
    }

    /// The same options with another number of attempts; 0 counts as 1.
    #[must_use]
    pub fn with_max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// The same options with another limit for windows, in events on either side.
    #[must_use]
    pub fn with_max_window(mut self, events: u64) -> Self {
        self.max_window = events;
        self
    }

    /// The same options with other texts for the end of an interrupted turn.
    #[must_use]
    pub fn with_repair_texts(mut self, texts: RepairTexts) -> Self {
        self.repair_texts = texts;
        self
    }
}

impl SessionReader {
    /// The sessions of a store, with a cache of its own.
    pub fn new(store: Arc<dyn SessionPersistence>) -> Self {
        Self { store, hub: None, cache: ColdCache::default(), options: Arc::default() }
    }

    /// The same reader, to which the live sessions of a hub come first.
    #[must_use]
    pub fn with_hub(mut self, hub: &SessionHub) -> Self {
        self.hub = Some(hub.clone());
        self
    }

    /// The same reader with another cache. Readers that share one should have the same options: what was read for one of
    /// them, the end of an interrupted turn included, is given to the others.
    #[must_use]
    pub fn with_cache(mut self, cache: &ColdCache) -> Self {
        self.cache = cache.clone();
        self
    }

    /// The same reader with other options.
    #[must_use]
    pub fn with_options(mut self, options: ReaderOptions) -> Self {
        self.options = Arc::new(options);
        self
    }

    /// The cache.
    pub fn cache(&self) -> &ColdCache {
        &self.cache
    }

    /// Looks at a session: as it is now, and as it stays as long as the observation is held.
    ///
    /// Of a stored session the store is asked for its revision each time, and nothing else where that one is kept.
    /// Several who ask for the same one that is not kept cause one reading.
    ///
    /// # Errors
    ///
    /// `SessionNotFound`; `KeepsChanging` where it changed each time that it was read; `TooLarge`; `NotBalanced`; those of
    /// the store for reading it (`FormatUnsupported`, `Corruption`, ...). A failure is told to all who wait for it, and the
    /// next who asks tries again.
    pub fn observe(&self, id: &SessionId) -> Result<ObservedSession, QueryError> {
        let attempts = self.options.max_attempts.max(1);
        let place = Place::new(&self.store, id);
        for _ in 0..attempts {
            if let Some(live) = self.live(id) {
                return Ok(self.observed(live));
            }
            let snapshot = self.store.stat(id)?;
            if let Some(live) = self.live(id) {
                return Ok(self.observed(live));
            }
            let Some(snapshot) = snapshot else {
                self.cache.forget(&place);
                return Err(QueryError::SessionNotFound { session: id.clone() });
            };
            let lease = match self.cache.ask(&place, &snapshot.revision) {
                Asked::Kept(lease) => Some(lease),
                Asked::Load(turn) => {
                    let _slot = self.cache.slot();
                    turn.end(ColdSession::load(&*self.store, &snapshot, &self.options))?
                }
                Asked::Wait(load) => self.cache.wait(&load)?,
            };
            // What was read may have become live meanwhile.
            if let Some(live) = self.live(id) {
                return Ok(self.observed(live));
            }
            if let Some(lease) = lease {
                return Ok(ObservedSession::cold(lease, self.options.max_window));
            }
        }
        match self.live(id) {
            Some(live) => Ok(self.observed(live)),
            None => Err(QueryError::KeepsChanging { session: id.clone(), attempts }),
        }
    }

    /// An event with those around it.
    ///
    /// # Errors
    ///
    /// As for [`SessionReader::observe`] and [`ObservedSession::window`].
    pub fn read_event(&self, id: &SessionId, seq: u64, window: Window) -> Result<EventWindow, QueryError> {
        self.observe(id)?.window(seq, window)
    }

    pub(super) fn live(&self, id: &SessionId) -> Option<Session> {
        self.hub.as_ref()?.get(id)
    }

    fn observed(&self, live: Session) -> ObservedSession {
        ObservedSession::live(live, self.options.max_window)
    }
}

impl std::fmt::Debug for SessionReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionReader").field("cache", &self.cache).finish_non_exhaustive()
    }
}
