//! How sessions begin: made, resumed, forked. A host acquires them here, seeds them, and closes them again; the rest is
//! routed.

use super::router::SessionRouter;
use super::{Clock, LiveError, Seed, Session};
use crate::log::{OpenTurn, RepairTexts, SessionEvent, SessionHeader, SessionId};
use crate::seam::{CreateOptions, OpenOptions, SeqRange, SessionHandle, Source};

/// How many events are read at once.
const PAGE: u64 = 1_000;

/// How a session is made or resumed.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LifecycleOptions {
    /// Where the times of its events come from.
    pub clock: Clock,
    /// What the repair of an interrupted turn says.
    pub repair_texts: RepairTexts,
}

/// A session that was resumed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Resumed {
    /// The session, live.
    pub session: Session,
    /// The events that ended its interrupted turn; they are stored.
    pub closers: Vec<SessionEvent>,
}

impl SessionRouter {
    /// Makes a session: takes its id in the store, lets `set_up` append to it, stores its log so far, and publishes it. Without
    /// seed and set-up nothing is stored before its first event.
    ///
    /// # Errors
    ///
    /// `Store` with `AlreadyExists`; `Seed`; `SetUp` with the failure of `set_up`; `AlreadyLive`; `Vetoed`. Nothing is stored
    /// then, and the id is free.
    pub fn create(
        &self,
        header: SessionHeader,
        seed: Seed,
        options: LifecycleOptions,
        set_up: impl FnOnce(&Session) -> Result<(), Source>,
    ) -> Result<Session, LiveError> {
        let store_options = seed.inherited_in(&header).map(CreateOptions::inheriting).unwrap_or_default();
        let handle = self.shared.store.create(&header, store_options)?;
        let session = Session::new(header, seed, options.clock)?;
        self.begin(&session, handle, 0, set_up)?;
        Ok(session)
    }

    /// Resumes a stored session: takes it for writing, ends a turn that was interrupted, lets `set_up` append to it, and
    /// publishes it. What ends the turn is stored as ordinary events, in one batch, before anything else is.
    ///
    /// # Errors
    ///
    /// Those of opening it for writing (`AlreadyOwned`, `FormatUnsupported`, ...); `Seed` where its log breaks a rule of live
    /// sessions: it can still be read, listed and exported. `SetUp`, `AlreadyLive`, `Vetoed`: then nothing is stored but the
    /// end of the interrupted turn.
    pub fn resume(
        &self,
        id: &SessionId,
        options: LifecycleOptions,
        set_up: impl FnOnce(&Session) -> Result<(), Source>,
    ) -> Result<Resumed, LiveError> {
        let handle = self.shared.store.open(id, OpenOptions::write())?;
        let mut events = Vec::new();
        let mut turn = OpenTurn::default();
        for_each_page(&*handle, |page| {
            page.iter().for_each(|event| turn.observe(event));
            events.extend(page);
            Ok(())
        })?;
        let closers = match events.last() {
            Some(last) => turn.closers(last.seq(), last.time(), &options.repair_texts).map_err(|reason| {
                LiveError::Seed { session: id.clone(), index: Some(last.seq().get()), reason: reason.to_string() }
            })?,
            None => Vec::new(),
        };
        // Everything that may refuse the log comes before the first byte that is stored.
        let stored = (events.len() + closers.len()) as u64;
        events.extend(closers.iter().cloned());
        let inherited = handle.inherited_event_count();
        let session = Session::new(handle.header().clone(), Seed::Stored { events, inherited }, options.clock)?;
        handle.append(&closers)?;
        self.begin(&session, handle, stored, set_up)?;
        Ok(Resumed { session, closers })
    }

    /// Forks a live session: a new one that inherits its events up to and with the one at `boundary`, or all of them.
    ///
    /// # Errors
    ///
    /// `NotLive`; `Boundary` where there is no such event; `OpenTurn` where a turn is open there; those of
    /// [`SessionRouter::create`].
    pub fn fork(
        &self,
        source: &SessionId,
        boundary: Option<u64>,
        child: SessionId,
        options: LifecycleOptions,
    ) -> Result<Session, LiveError> {
        let session = self.shared.hub.get(source).ok_or_else(|| LiveError::NotLive { session: source.clone() })?;
        let (header, prefix) = super::fork::child_of(&session, boundary, child, &options.clock)?;
        self.create(header, Seed::Inherited(prefix), options, |_| Ok(()))
    }

    /// Stores what the store has not yet and publishes.
    fn begin(
        &self,
        session: &Session,
        handle: Box<dyn SessionHandle>,
        stored: u64,
        set_up: impl FnOnce(&Session) -> Result<(), Source>,
    ) -> Result<(), LiveError> {
        set_up(session).map_err(|source| LiveError::SetUp { session: session.id().clone(), source })?;
        let admission = self.shared.hub.admit(session)?;
        session.quietly(|| {
            handle.append(&session.snapshot(stored..u64::MAX))?;
            self.shared.adopt(handle);
            admission.publish();
            Ok(())
        })
    }
}

/// Gives each page of a log to `take`.
fn for_each_page(
    handle: &dyn SessionHandle,
    mut take: impl FnMut(Vec<SessionEvent>) -> Result<(), LiveError>,
) -> Result<u64, LiveError> {
    let mut next = 0;
    loop {
        let page = handle.read(SeqRange::new(next, Some(PAGE)))?;
        if page.is_empty() {
            return Ok(next);
        }
        next += page.len() as u64;
        take(page)?;
    }
}

/// How many events are stored, which must be those of the session's own log.
pub(super) fn stored_prefix(handle: &dyn SessionHandle, session: &Session) -> Result<u64, LiveError> {
    for_each_page(handle, |page| {
        for event in page {
            if session.event_at(event.seq().get()).as_ref() != Some(&event) {
                return Err(LiveError::Diverged { session: session.id().clone(), seq: event.seq() });
            }
        }
        Ok(())
    })
}
