//! [`SessionHub`]: the live sessions of a process, and who is told of all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::observer::{Observers, ask};
use super::{LiveError, Session, SessionObserver};
use crate::log::SessionId;

/// The live sessions of a process. Cheap to clone: every clone is the same hub.
#[derive(Clone, Default)]
pub struct SessionHub {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    live: Mutex<HashMap<SessionId, Entry>>,
    observers: Arc<Observers>,
}

/// A session that is live, or about to be.
struct Entry {
    /// Its place in the order of publication.
    number: u64,
    /// None as long as it is admitted and not published.
    session: Option<Session>,
}

impl SessionHub {
    /// A hub without sessions.
    pub fn new() -> Self {
        Self::default()
    }

    fn live(&self) -> MutexGuard<'_, HashMap<SessionId, Entry>> {
        self.shared.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has an observer told of every session that is published from now on, and of every event of every session that is
    /// live, until what is returned is dropped.
    #[must_use = "the observer is told nothing any more once this is dropped"]
    pub fn observe(&self, observer: Arc<dyn SessionObserver>) -> HubObservation {
        HubObservation { number: self.shared.observers.add(observer), observers: self.shared.observers.clone() }
    }

    /// The live session of an id.
    pub fn get(&self, id: &SessionId) -> Option<Session> {
        self.live().get(id)?.session.clone()
    }

    /// The live sessions, in the order in which they were published.
    pub fn sessions(&self) -> Vec<Session> {
        let live = self.live();
        let mut entries: Vec<_> = live.values().filter_map(|e| Some((e.number, e.session.clone()?))).collect();
        entries.sort_by_key(|(number, _)| *number);
        entries.into_iter().map(|(_, session)| session).collect()
    }

    /// Makes a session live: from here on observers are told of its events.
    ///
    /// # Errors
    ///
    /// `AlreadyLive`, for its id or for the session itself; `Vetoed` by an observer.
    pub fn publish(&self, session: &Session) -> Result<(), LiveError> {
        self.admit(session)?.publish();
        Ok(())
    }

    /// Takes the id of a session and asks the observers: what is admitted can be published whatever happens meanwhile.
    pub(super) fn admit(&self, session: &Session) -> Result<Admission, LiveError> {
        let id = session.id();
        {
            let mut live = self.live();
            if live.contains_key(id) || session.is_published() {
                return Err(LiveError::AlreadyLive { session: id.clone() });
            }
            let number = live.values().map(|entry| entry.number + 1).max().unwrap_or(0);
            live.insert(id.clone(), Entry { number, session: None });
        }
        let admission = Admission { hub: self.clone(), session: session.clone(), is_published: false };
        for observer in session.observers().into_iter().chain(self.shared.observers.all()) {
            ask(|| observer.check_publication(session)).map_err(|reason| LiveError::Vetoed {
                session: id.clone(),
                what: "its publication".to_owned(),
                observer: observer.name().to_owned(),
                reason,
            })?;
        }
        Ok(admission)
    }

    /// Ends the life of a session: observers are told once, and of nothing that is appended to it later. From inside an
    /// observer of that session it takes effect when the append that is being told has been told to all.
    ///
    /// # Errors
    ///
    /// `NotLive`.
    pub fn dispose(&self, id: &SessionId) -> Result<(), LiveError> {
        let session = self.get(id).ok_or_else(|| LiveError::NotLive { session: id.clone() })?;
        let hub = self.clone();
        session.retire(move |session| {
            hub.live().remove(session.id());
        });
        Ok(())
    }

    /// Has every observer of a session, and of the hub, make durable what it was told of it. Whether one of them stores it.
    ///
    /// # Errors
    ///
    /// `NotLive`; the first failure, after all were asked.
    pub fn flush(&self, id: &SessionId) -> Result<bool, LiveError> {
        let session = self.get(id).ok_or_else(|| LiveError::NotLive { session: id.clone() })?;
        let mut took_part = false;
        let mut failure = None;
        for observer in session.observers() {
            match observer.flush(&session) {
                Ok(did) => took_part |= did,
                Err(e) => failure = failure.or(Some(e)),
            }
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(took_part),
        }
    }
}

/// A session that may be published; its id is free again when this is dropped instead.
pub(super) struct Admission {
    hub: SessionHub,
    session: Session,
    is_published: bool,
}

impl Admission {
    pub(super) fn publish(mut self) {
        self.is_published = true;
        let (hub, session) = (self.hub.clone(), self.session.clone());
        self.session.announce(self.hub.shared.observers.clone(), move || {
            if let Some(entry) = hub.live().get_mut(session.id()) {
                entry.session = Some(session.clone());
            }
        });
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if !self.is_published {
            self.hub.live().remove(self.session.id());
        }
    }
}

/// An observer of a hub; told nothing any more once this is dropped.
pub struct HubObservation {
    number: u64,
    observers: Arc<Observers>,
}

impl Drop for HubObservation {
    fn drop(&mut self) {
        self.observers.remove(self.number);
    }
}
