//! [`Session`]: an immutable log in memory, and the one way to add to it.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use serde::Serialize;

use super::log::Log;
use super::observer::{ObserverFailure, Observers, ask, tell};
use super::seed::Seed;
use super::{Clock, LiveError, SessionObserver};
use crate::log::{Json, MessageList, SessionEvent, SessionHeader, SessionId, SurfaceOp};

/// A live session: its log in memory, which only grows. Cheap to clone: every clone is the same session.
///
/// An event that [`Session::append`] returns is the very record that the log keeps and that observers and stores are given.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

struct Shared {
    header: SessionHeader,
    inherited: u64,
    first_live_seq: u64,
    clock: Clock,
    log: Mutex<Log>,
    /// Held from the checks of an event until all observers were told of it, so that they are told in the log's order.
    turn: Mutex<()>,
    /// The thread that holds the turn: an observer that appends is refused, where it would wait for itself.
    speaker: Mutex<Option<ThreadId>>,
    observers: Observers,
    /// The observers of the hub that published it.
    hub: Mutex<Publication>,
    failures: Mutex<Failures>,
}

/// What takes a session away from where it was published.
type Retirement = Box<dyn FnOnce(&Session) + Send>;

#[derive(Default)]
struct Publication {
    observers: Option<Arc<Observers>>,
    /// What ends it, once the append that is being told is over.
    retirement: Option<Retirement>,
}

#[derive(Default)]
struct Failures {
    count: u64,
    last: Option<ObserverFailure>,
}

/// What an event carries beside its type and data.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AppendOptions {
    /// How it changes what the model sees: required for messages and tool results, and for nothing else.
    pub surface_op: Option<SurfaceOp>,
    /// The earlier events that it was made from.
    pub source_event_seqs: Option<Vec<u64>>,
    /// Whether a reader that does not know its type may pass over it.
    pub ignorable: bool,
}

impl AppendOptions {
    /// An event that joins the surface at its end.
    pub fn surface() -> Self {
        Self { surface_op: Some(SurfaceOp::Append), ..Self::default() }
    }

    /// An event that stands in the place of surface nodes.
    pub fn replacing(op: SurfaceOp) -> Self {
        Self { surface_op: Some(op), ..Self::default() }
    }

    /// The same options, citing earlier events.
    #[must_use]
    pub fn citing(mut self, seqs: impl IntoIterator<Item = u64>) -> Self {
        self.source_event_seqs = Some(seqs.into_iter().collect());
        self
    }
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// A session with the log of its seed, checked event by event before there is a session. A marker is added where the
    /// seed needs one, see [`Seed`].
    ///
    /// # Errors
    ///
    /// `Seed` with the first event that is wrong; nothing was made.
    pub fn new(header: SessionHeader, seed: Seed, clock: Clock) -> Result<Self, LiveError> {
        let seeded = seed.grow(&header, &clock)?;
        Ok(Self {
            shared: Arc::new(Shared {
                header,
                inherited: seeded.inherited,
                first_live_seq: seeded.first_live_seq,
                clock,
                log: Mutex::new(seeded.log),
                turn: Mutex::new(()),
                speaker: Mutex::new(None),
                observers: Observers::default(),
                hub: Mutex::default(),
                failures: Mutex::default(),
            }),
        })
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        self.shared.header.id()
    }

    /// Its header.
    pub fn header(&self) -> &SessionHeader {
        &self.shared.header
    }

    /// How many events it inherited from its parent.
    pub fn inherited_event_count(&self) -> u64 {
        self.shared.inherited
    }

    /// The seq at which its seed ended; earlier events are not of this process.
    pub fn first_live_seq(&self) -> u64 {
        self.shared.first_live_seq
    }

    /// Whether an event is its own, and not inherited.
    pub fn is_own_seq(&self, seq: u64) -> bool {
        (self.shared.inherited..self.seq()).contains(&seq)
    }

    /// The seq of the next event, which is the length of the log.
    pub fn seq(&self) -> u64 {
        guard(&self.shared.log).len()
    }

    /// The event at a seq.
    pub fn event_at(&self, seq: u64) -> Option<SessionEvent> {
        guard(&self.shared.log).get(seq).cloned()
    }

    /// A part of the log as it is now; it does not grow. What lies beyond the end is left out.
    pub fn snapshot(&self, range: Range<u64>) -> Vec<SessionEvent> {
        guard(&self.shared.log).slice(range)
    }

    /// Its own events, without those that it inherited.
    pub fn own_events(&self) -> Vec<SessionEvent> {
        self.snapshot(self.shared.inherited..u64::MAX)
    }

    /// What the model would see now: immutable, and the same whatever is appended later.
    pub fn derive_messages(&self) -> MessageList {
        guard(&self.shared.log).messages()
    }

    /// Runs `look` on the log's folds as they are now: the surface, the request in force. No event is appended meanwhile, so
    /// be short.
    pub fn with_log<T>(&self, look: impl FnOnce(&Log) -> T) -> T {
        look(&guard(&self.shared.log))
    }

    /// Appends an event that is made now: its data are serialized once, and what was checked is what is kept.
    ///
    /// Checked in this order: the data, the event that is being told already, the rules of the type, the surface, the
    /// observers that may veto. Once it is in the log nothing can fail it any more.
    ///
    /// A [`Seed`] is checked more strictly than what is appended: there messages need an id, a role, a source and a list as
    /// content. A log with a message that has not can be read and exported, and not be resumed.
    ///
    /// # Errors
    ///
    /// `Refused`, `Reentrant`, `Vetoed`. Nothing was appended.
    pub fn append<T: Serialize + ?Sized>(
        &self,
        event_type: &str,
        data: &T,
        options: AppendOptions,
    ) -> Result<SessionEvent, LiveError> {
        let data = Json::of(data).map_err(|e| LiveError::record(self.id(), event_type, e.within("data").into()))?;
        self.append_json(event_type, data, options)
    }

    /// [`Session::append`] with data that are JSON text already.
    ///
    /// # Errors
    ///
    /// As for [`Session::append`].
    pub fn append_json(&self, event_type: &str, data: Json, options: AppendOptions) -> Result<SessionEvent, LiveError> {
        let Some(turn) = self.take_turn() else {
            return Err(LiveError::Reentrant { session: self.id().clone(), event_type: event_type.to_owned() });
        };
        let observers = self.observers();
        let event = guard(&self.shared.log).prepare(self.id(), event_type, self.shared.clock.now(), data, options)?;
        for observer in &observers {
            ask(|| observer.check_append(self, event.event())).map_err(|reason| LiveError::Vetoed {
                session: self.id().clone(),
                what: format!("an event of type {event_type:?}"),
                observer: observer.name().to_owned(),
                reason,
            })?;
        }
        let event = guard(&self.shared.log).push(event);
        for observer in observers {
            let told = || format!("seq {} of type {:?}", event.seq(), event.event_type());
            self.contain(tell(self.id(), &*observer, told, || observer.appended(self, &event)));
        }
        drop(turn);
        Ok(event)
    }

    /// Has an observer told of every event from now on, until what is returned is dropped. It may read the log so far
    /// when it is attached.
    ///
    /// # Errors
    ///
    /// `Vetoed` by the observer itself.
    pub fn observe(&self, observer: Arc<dyn SessionObserver>) -> Result<Observation, LiveError> {
        // Nothing where this very thread is telling of an event: then nobody else can append either.
        let _turn = self.take_turn();
        ask(|| observer.attached(self)).map_err(|reason| LiveError::Vetoed {
            session: self.id().clone(),
            what: "being observed".to_owned(),
            observer: observer.name().to_owned(),
            reason,
        })?;
        Ok(Observation { number: self.shared.observers.add(observer), session: self.clone() })
    }

    /// Runs `work` while no event is appended by anybody else.
    pub(super) fn quietly<T>(&self, work: impl FnOnce() -> T) -> T {
        let _turn = self.take_turn();
        work()
    }

    /// How often an observer failed when it was told of something, and how the last one did.
    pub fn observer_failures(&self) -> (u64, Option<ObserverFailure>) {
        let failures = guard(&self.shared.failures);
        (failures.count, failures.last.clone())
    }

    /// Whether a hub has published it.
    pub fn is_published(&self) -> bool {
        guard(&self.shared.hub).observers.is_some()
    }

    /// Publishes it: `publish` puts it where others find it, then the observers of the hub are told.
    pub(super) fn announce(&self, hub: Arc<Observers>, publish: impl FnOnce()) {
        let _turn = self.take_turn();
        guard(&self.shared.hub).observers = Some(hub);
        publish();
        for observer in self.observers() {
            self.contain(tell(self.id(), &*observer, || "its publication".to_owned(), || observer.published(self)));
        }
    }

    /// Ends its publication, now or when the append that this thread is telling of is over.
    pub(super) fn retire(&self, retire: impl FnOnce(&Session) + Send + 'static) {
        guard(&self.shared.hub).retirement = Some(Box::new(retire));
        drop(self.take_turn());
    }

    fn retire_now(&self) {
        let Some(retire) = guard(&self.shared.hub).retirement.take() else { return };
        let observers = self.observers();
        guard(&self.shared.hub).observers = None;
        retire(self);
        for observer in observers {
            self.contain(tell(self.id(), &*observer, || "its disposal".to_owned(), || observer.disposed(self)));
        }
    }

    /// Those who observe it, or its hub.
    pub(super) fn observers(&self) -> Vec<Arc<dyn SessionObserver>> {
        let hub = guard(&self.shared.hub).observers.clone();
        let mut all = self.shared.observers.all();
        all.extend(hub.iter().flat_map(|hub| hub.all()));
        all
    }

    fn contain(&self, failure: Option<ObserverFailure>) {
        if failure.is_some() {
            let mut failures = guard(&self.shared.failures);
            failures.count += 1;
            failures.last = failure;
        }
    }

    /// Waits for the turn to append; nothing where this thread has it already.
    fn take_turn(&self) -> Option<Turn<'_>> {
        let this = std::thread::current().id();
        if *guard(&self.shared.speaker) == Some(this) {
            return None;
        }
        let held = guard(&self.shared.turn);
        *guard(&self.shared.speaker) = Some(this);
        Some(Turn { session: self, held: Some(held) })
    }
}

/// The turn to append.
struct Turn<'s> {
    session: &'s Session,
    held: Option<MutexGuard<'s, ()>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.session.retire_now();
        *guard(&self.session.shared.speaker) = None;
        drop(self.held.take());
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", self.id()).field("seq", &self.seq()).finish_non_exhaustive()
    }
}

/// An observer of one session; told nothing any more once this is dropped.
#[must_use = "the observer is told nothing any more once this is dropped"]
pub struct Observation {
    number: u64,
    session: Session,
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.session.shared.observers.remove(self.number);
    }
}
