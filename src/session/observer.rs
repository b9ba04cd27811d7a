//! [`SessionObserver`]: who is told of live sessions, and what becomes of its failures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{LiveError, Session};
use crate::log::{SessionEvent, SessionId};
use crate::seam::Source;

/// Who is told of live sessions.
///
/// It may read the session in every call; appending to it from inside one is refused. Appending to another session is not,
/// but two sessions whose observers append to one another from two threads wait for each other without end. Whatever an
/// observer does once something has happened cannot undo that: its errors and panics are contained, logged, and told to
/// [`Session::observer_failures`].
pub trait SessionObserver: Send + Sync {
    /// What it is called in messages.
    fn name(&self) -> &str;

    /// It is about to observe a session; no event is appended meanwhile, so that it may read the log so far.
    ///
    /// # Errors
    ///
    /// Why it does not: then it is told nothing.
    fn attached(&self, _session: &Session) -> Result<(), String> {
        Ok(())
    }

    /// Whether a session may be published. Its log so far is its seed.
    ///
    /// # Errors
    ///
    /// Why not: then it is not published.
    fn check_publication(&self, _session: &Session) -> Result<(), String> {
        Ok(())
    }

    /// Whether an event may be appended; it is not a part of the log yet.
    ///
    /// # Errors
    ///
    /// Why not: then it is not appended.
    fn check_append(&self, _session: &Session, _event: &SessionEvent) -> Result<(), String> {
        Ok(())
    }

    /// A session was published.
    ///
    /// # Errors
    ///
    /// Contained.
    fn published(&self, _session: &Session) -> Result<(), Source> {
        Ok(())
    }

    /// An event was appended: the very record that the log keeps.
    ///
    /// # Errors
    ///
    /// Contained.
    fn appended(&self, _session: &Session, _event: &SessionEvent) -> Result<(), Source> {
        Ok(())
    }

    /// Makes durable what it was told of a session, where it stores that: whether it does.
    ///
    /// # Errors
    ///
    /// What failed; the other observers are asked all the same.
    fn flush(&self, _session: &Session) -> Result<bool, LiveError> {
        Ok(false)
    }

    /// A published session was disposed; told once.
    ///
    /// # Errors
    ///
    /// Contained.
    fn disposed(&self, _session: &Session) -> Result<(), Source> {
        Ok(())
    }
}

/// A failure of an observer that was contained.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObserverFailure {
    /// The name of the observer.
    pub observer: String,
    /// What it was told of: the session's publication or disposal, or an event by its seq and type.
    pub told: String,
    /// What it said, or what it panicked with.
    pub message: String,
}

/// Who observes a session or a hub, in the order in which they came.
#[derive(Default)]
pub(super) struct Observers {
    list: Mutex<Arc<[Attached]>>,
}

#[derive(Clone)]
struct Attached {
    number: u64,
    observer: Arc<dyn SessionObserver>,
}

/// Numbers every attachment of the process.
static NUMBERS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

impl Observers {
    fn list(&self) -> MutexGuard<'_, Arc<[Attached]>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an observer; the number by which it is removed.
    pub(super) fn add(&self, observer: Arc<dyn SessionObserver>) -> u64 {
        let number = NUMBERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut list = self.list();
        *list = list.iter().cloned().chain([Attached { number, observer }]).collect();
        number
    }

    pub(super) fn remove(&self, number: u64) {
        let mut list = self.list();
        *list = list.iter().filter(|attached| attached.number != number).cloned().collect();
    }

    /// Those who observe now: who comes or goes meanwhile changes nothing of a round that has begun.
    pub(super) fn all(&self) -> Vec<Arc<dyn SessionObserver>> {
        self.list().iter().map(|attached| attached.observer.clone()).collect()
    }
}

/// Asks an observer; a panic is a no.
pub(super) fn ask(ask: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|panic| Err(format!("it panicked: {}", text_of(&*panic))))
}

/// Tells an observer, whatever it makes of it.
pub(super) fn tell(
    session: &SessionId,
    observer: &dyn SessionObserver,
    told: impl FnOnce() -> String,
    tell: impl FnOnce() -> Result<(), Source>,
) -> Option<ObserverFailure> {
    let message = match catch_unwind(AssertUnwindSafe(tell)) {
        Ok(Ok(())) => return None,
        Ok(Err(error)) => error.to_string(),
        Err(panic) => format!("it panicked: {}", text_of(&*panic)),
    };
    let failure = ObserverFailure { observer: observer.name().to_owned(), told: told(), message };
    log::warn!(
        "session {session:?}: observer {} failed when it was told of {}, which stands: {}",
        failure.observer,
        failure.told,
        failure.message
    );
    Some(failure)
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}
