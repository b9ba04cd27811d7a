//! [`Unmade`]: a store that is made when the first session comes into it.

use std::sync::{Arc, Mutex, PoisonError};

use super::place::Place;
use crate::log::{SessionHeader, SessionId};
use crate::seam::{
    CreateOptions, Error, ListQuery, OpenOptions, Page, Result, SessionHandle, SessionPersistence, Snapshot,
};

/// An absent store that is made when the first session comes into it, so that nothing is left where none does. Until then
/// it is an empty one.
pub(super) struct Unmade<'p> {
    place: &'p Place,
    made: Mutex<Option<Arc<dyn SessionPersistence>>>,
}

impl<'p> Unmade<'p> {
    /// The store of a place, which is opened at once where there is one.
    pub(super) fn open(place: &'p Place) -> Result<Box<dyn SessionPersistence + 'p>> {
        if place.is_there() {
            return place.open_or_create();
        }
        Ok(Box::new(Self { place, made: Mutex::default() }))
    }

    fn made(&self) -> Option<Arc<dyn SessionPersistence>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn make(&self) -> Result<Arc<dyn SessionPersistence>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*made {
            return Ok(store.clone());
        }
        let store: Arc<dyn SessionPersistence> = self.place.open_or_create()?.into();
        *made = Some(store.clone());
        Ok(store)
    }
}

impl SessionPersistence for Unmade<'_> {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        self.make()?.create(header, options)
    }

    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        let absent = || Error::NotFound { session: id.clone() };
        self.made().ok_or_else(absent)?.open(id, options)
    }

    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        self.made().map_or(Ok(None), |store| store.stat(id))
    }

    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        self.made().map_or_else(|| Ok(Page::new(Vec::new(), None)), |store| store.list(query))
    }

    fn flush(&self) -> Result<()> {
        self.made().map_or(Ok(()), |store| store.flush())
    }

    fn remove(&self, id: &SessionId) -> Result<bool> {
        self.made().map_or(Ok(false), |store| store.remove(id))
    }
}
