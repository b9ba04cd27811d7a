//! [`SessionRouter`]: live sessions into a store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::route::{Backlog, Route};
use super::timer::{Alarm, Timer};
use super::{HubObservation, LiveError, Session, SessionHub, SessionObserver};
use crate::log::{SessionEvent, SessionId};
use crate::seam::{Error, SessionHandle, SessionPersistence, Source};

/// Stores what happens to the live sessions of a hub: each event goes to the write handle of its session.
///
/// The first event that is queued starts a window; when that has passed, all that was queued meanwhile is stored as one
/// batch. So an event may be in memory only for as long as the window, and a host that cannot wait flushes. A write in the
/// background that fails is logged and tried again at the next flush or when the session is closed; its events stay queued
/// in their order, and each is stored once.
///
/// A session that has no write handle here is not stored. Dropping the router stores what is queued and gives all its
/// sessions up; [`SessionRouter::close_all`] does the same and tells what failed.
pub struct SessionRouter {
    pub(super) shared: Arc<Shared>,
    /// Dropped first: nothing is routed any more.
    observation: Option<HubObservation>,
    /// Dropped next: nothing is written in the background any more.
    timer: Option<Timer>,
}

pub(super) struct Shared {
    pub(super) hub: SessionHub,
    pub(super) store: Arc<dyn SessionPersistence>,
    window: Duration,
    routes: Mutex<HashMap<SessionId, Arc<Route>>>,
    alarm: Arc<Alarm>,
}

/// How live sessions are stored.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RouterOptions {
    /// How long an event may wait for others to be stored with. Default: 200 milliseconds. `Duration::MAX` stores nothing
    /// but by a flush or a close.
    pub window: Duration,
}

impl Default for RouterOptions {
    fn default() -> Self {
        Self { window: Duration::from_millis(200) }
    }
}

impl RouterOptions {
    /// The same options with another window.
    #[must_use]
    pub fn with_window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }
}

impl SessionRouter {
    /// Stores the live sessions of `hub` in `store`.
    ///
    /// # Errors
    ///
    /// `Store` when no thread can be had.
    pub fn new(hub: &SessionHub, store: Arc<dyn SessionPersistence>) -> Result<Self, LiveError> {
        Self::new_with(hub, store, RouterOptions::default())
    }

    /// [`SessionRouter::new`] with options.
    ///
    /// # Errors
    ///
    /// As for [`SessionRouter::new`].
    pub fn new_with(
        hub: &SessionHub,
        store: Arc<dyn SessionPersistence>,
        options: RouterOptions,
    ) -> Result<Self, LiveError> {
        let alarm = Arc::new(Alarm::default());
        let routes = Mutex::default();
        let shared = Arc::new(Shared { hub: hub.clone(), store, window: options.window, routes, alarm: alarm.clone() });
        let ringing = Arc::downgrade(&shared);
        let ring = move || {
            if let Some(shared) = ringing.upgrade() {
                shared.write_what_is_due();
            }
        };
        let timer = Timer::start(alarm, ring).map_err(|e| Error::Io {
            session: None,
            operation: "starting the thread that writes sessions".to_owned(),
            source: e.into(),
        })?;
        let observation = hub.observe(Arc::new(Routing(shared.clone())));
        Ok(Self { shared, observation: Some(observation), timer: Some(timer) })
    }

    /// The hub whose sessions it stores.
    pub fn hub(&self) -> &SessionHub {
        &self.shared.hub
    }

    /// The store that it stores them in.
    pub fn store(&self) -> &Arc<dyn SessionPersistence> {
        &self.shared.store
    }

    /// What is queued of a session; nothing where it has no write handle here.
    pub fn backlog(&self, id: &SessionId) -> Option<Backlog> {
        self.shared.get(id).map(|route| route.backlog())
    }

    /// Stores a live session from now on: what the store has not yet is stored at once, and each event that follows is routed.
    ///
    /// # Errors
    ///
    /// Those of opening the session for writing; `Diverged` where the stored log is not the beginning of the session's
    /// own. Nothing was stored then, and the session stays as it is.
    pub fn attach(&self, session: &Session) -> Result<(), LiveError> {
        let handle = self.shared.store.open(session.id(), crate::seam::OpenOptions::write())?;
        session.quietly(|| {
            let stored = super::lifecycle::stored_prefix(&*handle, session)?;
            handle.append(&session.snapshot(stored..u64::MAX))?;
            self.shared.adopt(handle);
            Ok(())
        })
    }

    /// Stores what is queued, makes it durable, and ends the life of a session in the hub and here, in any case. A session
    /// that was made and never had an event leaves nothing stored.
    ///
    /// # Errors
    ///
    /// `NotLive`; `Store` with all that failed. What could not be stored the session still has in memory.
    pub fn close(&self, id: &SessionId) -> Result<(), LiveError> {
        let session = self.shared.hub.get(id).ok_or_else(|| LiveError::NotLive { session: id.clone() })?;
        // No event comes in between: one that is appended later knows that it is not stored.
        session.quietly(|| {
            // A flush would store an empty session.
            let makes_durable = session.seq() > 0;
            let closed = self.shared.take(id).map_or(Ok(()), |route| route.close(makes_durable));
            self.shared.hub.dispose(id)?;
            Ok(closed?)
        })
    }

    /// Stores what is queued for every session here and makes all durable, with one barrier. A session that is closed
    /// meanwhile counts as flushed.
    ///
    /// # Errors
    ///
    /// `Store` with what failed, session by session; the others are stored all the same.
    pub fn flush(&self) -> Result<(), LiveError> {
        let mut failures: Vec<_> = self.shared.all().iter().filter_map(|route| route.drain().err()).collect();
        failures.extend(self.shared.store.flush().err());
        Ok(Error::collect(failures)?)
    }

    /// Stores what is queued and gives every session up. Their lives in the hub go on, and are stored no more.
    ///
    /// # Errors
    ///
    /// `Store` with what failed, session by session.
    pub fn close_all(mut self) -> Result<(), LiveError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), LiveError> {
        drop(self.observation.take());
        drop(self.timer.take());
        let routes = in_order(self.shared.routes().drain().map(|(_, route)| route));
        let failures = routes.iter().filter_map(|route| route.close(false).err()).collect();
        Ok(Error::collect(failures)?)
    }
}

impl Drop for SessionRouter {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            log::warn!("giving up the live sessions: {e}");
        }
    }
}

impl Shared {
    fn routes(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Route>>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Routes the events of a session into a handle that has all of its log so far.
    pub(super) fn adopt(&self, handle: Box<dyn SessionHandle>) {
        let id = handle.id().clone();
        self.routes().insert(id, Arc::new(Route::new(handle)));
    }

    fn get(&self, id: &SessionId) -> Option<Arc<Route>> {
        self.routes().get(id).cloned()
    }

    pub(super) fn take(&self, id: &SessionId) -> Option<Arc<Route>> {
        self.routes().remove(id)
    }

    /// All of them in the order of their ids, so that failures are told in the same order each time.
    fn all(&self) -> Vec<Arc<Route>> {
        in_order(self.routes().values().cloned())
    }

    /// Writes each batch whose window has passed, and sets the alarm for the next.
    fn write_what_is_due(&self) {
        for route in self.all() {
            if route.due().is_some_and(|due| due <= Instant::now()) {
                route.drain_in_background();
            }
        }
        if let Some(next) = self.all().iter().filter_map(|route| route.due()).min() {
            self.alarm.set(next);
        }
    }
}

fn in_order(routes: impl Iterator<Item = Arc<Route>>) -> Vec<Arc<Route>> {
    let mut routes: Vec<_> = routes.collect();
    routes.sort_by(|a, b| a.id().cmp(b.id()));
    routes
}

/// What the hub tells.
struct Routing(Arc<Shared>);

impl SessionObserver for Routing {
    fn name(&self) -> &str {
        "the store"
    }

    fn appended(&self, session: &Session, event: &SessionEvent) -> Result<(), Source> {
        if let Some(route) = self.0.get(session.id())
            && let Some(due) = route.queue(event.clone(), self.0.window)
        {
            self.0.alarm.set(due);
        }
        Ok(())
    }

    fn flush(&self, session: &Session) -> Result<bool, LiveError> {
        match self.0.get(session.id()) {
            Some(route) => Ok(route.flush().map(|()| true)?),
            None => Ok(false),
        }
    }

    fn disposed(&self, session: &Session) -> Result<(), Source> {
        match self.0.take(session.id()) {
            Some(route) => Ok(route.close(false)?),
            None => Ok(()),
        }
    }
}
