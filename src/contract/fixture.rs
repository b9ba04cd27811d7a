//! [`Fixture`]: a backend under test.

use std::sync::Arc;

use crate::log::SessionId;
use crate::seam::SessionPersistence;

/// A backend under test: one value is one place where sessions are kept, empty when the value is made.
///
/// All stores that it gives know the types of [`Vocabulary::v3`](crate::Vocabulary::v3) and no others. Where a fixture's
/// own preparation fails (no folder for its files, say) it panics; only what its backend cannot do is [`Unsupported`].
pub trait Fixture: Send + Sync {
    /// What this backend can do beyond what every backend must. A method below whose capability is absent has to give
    /// [`Unsupported`], which the cases check.
    fn capabilities(&self) -> Capabilities;

    /// Opens the store of this place. Every case calls it once, before the other methods.
    fn store(&self) -> Arc<dyn SessionPersistence>;

    /// Opens the store of another, empty place: a new one with every call.
    fn elsewhere(&self) -> Arc<dyn SessionPersistence>;

    /// Opens this place again, after the case has dropped every store and handle over it.
    ///
    /// # Errors
    ///
    /// [`Unsupported`] without [`Capabilities::reopen`].
    fn reopen(&self) -> Result<Arc<dyn SessionPersistence>, Unsupported>;

    /// Opens this place once more beside the store that is open, as another process would.
    ///
    /// # Errors
    ///
    /// [`Unsupported`] without [`Capabilities::cross_process`].
    fn beside(&self) -> Result<Arc<dyn SessionPersistence>, Unsupported>;

    /// Damages the end of a stored log as the death of a process in the middle of a write would: of the last batch a
    /// part is left, and it is not a whole event. In the cases this batch is one event, and no store is open.
    ///
    /// # Errors
    ///
    /// [`Unsupported`] without [`Capabilities::tear_tail`].
    fn tear_tail(&self, id: &SessionId) -> Result<(), Unsupported>;
}

/// What a backend can do beyond what every backend must; the default is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The sessions outlive the value of the store.
    pub reopen: bool,
    /// The end of a stored log can be damaged behind the store's back. Needs `reopen`. A backend whose writes happen
    /// whole or not at all, whatever dies, has no such end.
    pub tear_tail: bool,
    /// Several stores can be open over the same place at the same time.
    pub cross_process: bool,
}

/// The answer of a fixture whose backend cannot do what is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the backend under test cannot do this")]
pub struct Unsupported;

/// Runs `then` over the place of `fixture` after `store`, the last one over it, was dropped. Where the sessions do not
/// outlive their store the fixture has to say so.
#[track_caller]
pub(super) fn reopened(
    fixture: &dyn Fixture,
    store: Arc<dyn SessionPersistence>,
    then: impl FnOnce(&dyn SessionPersistence),
) {
    drop(store);
    match (fixture.capabilities().reopen, fixture.reopen()) {
        (true, Ok(store)) => then(&*store),
        (false, Err(Unsupported)) => {}
        (true, Err(Unsupported)) => panic!("the fixture can reopen its place, and did not"),
        (false, Ok(_)) => panic!("the fixture cannot reopen its place, and did"),
    }
}

/// Runs `then` with a second store over the place of `fixture`. Where there can be none the fixture has to say so.
#[track_caller]
pub(super) fn beside(fixture: &dyn Fixture, then: impl FnOnce(&dyn SessionPersistence)) {
    match (fixture.capabilities().cross_process, fixture.beside()) {
        (true, Ok(store)) => then(&*store),
        (false, Err(Unsupported)) => {}
        (true, Err(Unsupported)) => panic!("the fixture can open a second store, and did not"),
        (false, Ok(_)) => panic!("the fixture cannot open a second store, and did"),
    }
}

/// Runs `then` over the place of `fixture` after the end of the log `id` was damaged. Where there is no such end the
/// fixture has to say so.
#[track_caller]
pub(super) fn torn(
    fixture: &dyn Fixture,
    store: Arc<dyn SessionPersistence>,
    id: &SessionId,
    then: impl FnOnce(Arc<dyn SessionPersistence>),
) {
    drop(store);
    match (fixture.capabilities().tear_tail, fixture.tear_tail(id)) {
        (true, Ok(())) => then(fixture.reopen().expect("a fixture that tears tails can reopen its place")),
        (false, Err(Unsupported)) => {}
        (true, Err(Unsupported)) => panic!("the fixture can tear the tail of a log, and did not"),
        (false, Ok(())) => panic!("the fixture cannot tear the tail of a log, and did"),
    }
}
