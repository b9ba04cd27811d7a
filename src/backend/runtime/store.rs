//! [`Runtime`]: a store of sessions over a backend's storage.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::claims::Claims;
use super::handle::{Core, Handle, Place, State};
use super::process::Process;
use super::{Listed, Storage, Stored, Wanted};
use crate::log::{SessionHeader, SessionId, Vocabulary};
use crate::seam::{
    Access, CreateOptions, Error, ListQuery, OpenOptions, Page, Removal, Result, Revision, SessionHandle, Snapshot,
    checks,
};

/// A store of sessions over a backend's storage.
pub(crate) struct Runtime<S: Storage> {
    shared: Arc<Shared<S>>,
}

pub(super) struct Shared<S: Storage> {
    /// The process in which the store was opened.
    pub(super) process: Process,
    pub(super) storage: S,
    pub(super) vocabulary: Vocabulary,
    pub(super) claims: Claims<S>,
    /// Whether a handle of this store was ever opened for writing.
    pub(super) has_written: AtomicBool,
}

impl<S: Storage> Runtime<S> {
    pub(crate) fn new(storage: S, vocabulary: Vocabulary) -> Self {
        Self {
            shared: Arc::new(Shared {
                process: Process::current(),
                storage,
                vocabulary,
                claims: Claims::new(),
                has_written: AtomicBool::new(false),
            }),
        }
    }

    #[cfg(any(feature = "sqlite", feature = "jsonl"))]
    pub(crate) fn storage(&self) -> &S {
        &self.shared.storage
    }

    /// The same, to be used, and not by a forked process.
    pub(crate) fn own_storage(&self) -> Result<&S> {
        self.shared.process.check(None)?;
        Ok(&self.shared.storage)
    }

    pub(crate) fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        self.shared.process.check(Some(header.id()))?;
        let inherited = checks::check_create(header, options)?;
        // The look-up happens under the lock: of two creators one claims the id, and the other sees it claimed.
        let mut claims = self.shared.claims.lock();
        if claims.is_claimed(header.id()) || self.shared.storage.contains(header.id())? {
            return Err(Error::AlreadyExists { session: header.id().clone() });
        }
        let stored = claims.claim_pending(header, inherited)?;
        let core = self.core(header.clone(), inherited, OpenOptions::write(), Place::Pending(stored), None);
        claims.set_core(header.id(), &core);
        self.shared.has_written.store(true, Ordering::Release);
        Ok(Box::new(Handle(core)))
    }

    pub(crate) fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        self.shared.process.check(Some(id))?;
        match options.access() {
            Access::Read => {
                if let Some(pending) = self.shared.claims.lock().pending(id).cloned() {
                    let place = Place::Pending(pending.stored);
                    let core = self.core(pending.header, pending.inherited, options, place, None);
                    return Ok(Box::new(Handle(core)));
                }
                let Stored { key, header, inherited } = self.find_interpretable(id, options)?;
                Ok(Box::new(Handle(self.core(header, inherited, options, Place::Stored(key), None))))
            }
            Access::Write => {
                self.shared.claims.lock().check_free(id)?;
                // Before the claim, so that an id without a session is never seen as claimed, and before the lease, so
                // that a refusal leaves nothing behind.
                let stored = self.find_interpretable(id, options)?;
                let claim = self.claim(id)?;
                let lease = self.shared.storage.lease(id, &stored.key)?;
                // What another store wrote before the lease was taken counts.
                let Stored { key, header, inherited } = self.find_interpretable(id, options)?;
                let core = self.core(header, inherited, options, Place::Stored(key), Some(lease));
                self.shared.claims.lock().set_core(id, &core);
                self.shared.has_written.store(true, Ordering::Release);
                claim.keep();
                Ok(Box::new(Handle(core)))
            }
        }
    }

    /// Finds a stored session, and checks that its log can be interpreted where that is asked for.
    fn find_interpretable(&self, id: &SessionId, options: OpenOptions) -> Result<Stored<S::Key>> {
        let stored = self.shared.storage.find(id)?.ok_or_else(|| Error::NotFound { session: id.clone() })?;
        if !options.is_uninterpreted() {
            self.shared.storage.check_interpretable(id, &stored.key, &self.shared.vocabulary)?;
        }
        Ok(stored)
    }

    fn claim<'a>(&'a self, id: &'a SessionId) -> Result<Claimed<'a, S>> {
        self.shared.claims.lock().claim(id)?;
        Ok(Claimed { shared: &self.shared, id })
    }

    fn core(
        &self,
        header: SessionHeader,
        inherited: u64,
        options: OpenOptions,
        place: Place<S::Key>,
        lease: Option<S::Lease>,
    ) -> Arc<Core<S>> {
        Arc::new(Core {
            shared: self.shared.clone(),
            header,
            inherited,
            options,
            writing: Mutex::new(lease),
            state: Mutex::new(State { closed: false, place, seen: 0, failure: None }),
        })
    }

    pub(crate) fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        self.shared.process.check(Some(id))?;
        let vocabulary = &self.shared.vocabulary;
        let pending = self.shared.claims.lock().pending(id).map(|p| p.snapshot(vocabulary));
        let snapshot = match pending {
            Some(pending) => Some(pending),
            None => self.shared.storage.stat(id, vocabulary)?,
        };
        Ok(snapshot.map(|mut told| {
            self.shared.claims.lock().add_writer(&mut told);
            told
        }))
    }

    pub(crate) fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        self.shared.process.check(None)?;
        let identity = self.shared.storage.identity()?;
        let after = query.position(&identity)?;
        let vocabulary = &self.shared.vocabulary;
        let pending: Vec<_> = self.shared.claims.lock().all_pending().map(|p| p.snapshot(vocabulary)).collect();
        // One more than the page holds tells whether another page follows.
        let limit = query.limit.map(|n| n.saturating_add(1));
        let asks_for_owner = query.filter.is_owned().is_some();
        let claimed = if asks_for_owner { self.shared.claims.lock().holders() } else { HashMap::new() };
        let wanted = Wanted { filter: &query.filter, order: query.order, after, limit, vocabulary, claimed };
        let mut listed = self.shared.storage.list(&wanted)?;
        if !pending.is_empty() {
            // One of them may have been stored since the claims were looked at.
            let stored: HashSet<_> = listed.iter().map(|listed| listed.snapshot.id.clone()).collect();
            let pending = pending.into_iter().filter(|snapshot| !stored.contains(&snapshot.id));
            let pending = pending.filter_map(|snapshot| wanted.let_through(snapshot));
            listed.extend(pending.map(|snapshot| Listed { key: query.order.key(&snapshot), snapshot }));
        }
        let mut page = query.page_of_keyed(&identity, listed.into_iter().map(|l| (l.key, l.snapshot)))?;
        let claims = self.shared.claims.lock();
        for snapshot in &mut page.items {
            // What let it through is what is told.
            let owner = snapshot.owner.clone();
            claims.add_writer(snapshot);
            if asks_for_owner {
                snapshot.owner = owner;
            }
        }
        Ok(page)
    }

    pub(crate) fn flush(&self) -> Result<()> {
        self.shared.process.check(None)?;
        let writers = self.shared.claims.lock().writers();
        let joined: Vec<_> = writers.iter().map(|core| core.join_flush()).collect();
        let mut synced = Ok(());
        // A store that was only read has nothing to flush, and may stand where nothing can be written.
        if self.shared.has_written.load(Ordering::Acquire) {
            synced = self.shared.storage.sync();
            for (core, joined) in writers.iter().zip(&joined) {
                core.note("flush", if synced.is_ok() { joined } else { &synced });
            }
        }
        // Where the barrier fails nothing is durable, which counts for more than the failure of one session.
        let failures = synced.err().into_iter().chain(joined.into_iter().filter_map(Result::err));
        Error::collect(failures.collect())
    }

    pub(crate) fn remove(&self, id: &SessionId, only: Option<&Revision>) -> Result<Removal> {
        self.shared.process.check(Some(id))?;
        // An id without a session is never seen as claimed.
        self.shared.claims.lock().check_free(id)?;
        if self.shared.storage.stat(id, &self.shared.vocabulary)?.is_none() {
            return Ok(Removal::Absent);
        }
        let _claim = self.claim(id)?;
        let removed = self.shared.storage.remove(id, only)?;
        if removed == Removal::Removed {
            self.shared.has_written.store(true, Ordering::Release);
        }
        Ok(removed)
    }
}

/// A claim that is released with this value, unless a handle keeps it.
struct Claimed<'a, S: Storage> {
    shared: &'a Shared<S>,
    id: &'a SessionId,
}

impl<S: Storage> Claimed<'_, S> {
    fn keep(self) {
        std::mem::forget(self);
    }
}

impl<S: Storage> Drop for Claimed<'_, S> {
    fn drop(&mut self) {
        self.shared.claims.lock().release(self.id);
    }
}

/// Makes a public store type of a field `runtime`.
macro_rules! store_over_runtime {
    ($store:ident) => {
        impl $crate::seam::SessionPersistence for $store {
            fn create(
                &self,
                header: &$crate::log::SessionHeader,
                options: $crate::seam::CreateOptions,
            ) -> $crate::seam::Result<Box<dyn $crate::seam::SessionHandle>> {
                self.runtime.create(header, options)
            }
            fn open(
                &self,
                id: &$crate::log::SessionId,
                options: $crate::seam::OpenOptions,
            ) -> $crate::seam::Result<Box<dyn $crate::seam::SessionHandle>> {
                self.runtime.open(id, options)
            }
            fn stat(&self, id: &$crate::log::SessionId) -> $crate::seam::Result<Option<$crate::seam::Snapshot>> {
                self.runtime.stat(id)
            }
            fn list(
                &self,
                query: &$crate::seam::ListQuery,
            ) -> $crate::seam::Result<$crate::seam::Page<$crate::seam::Snapshot>> {
                self.runtime.list(query)
            }
            fn flush(&self) -> $crate::seam::Result<()> {
                self.runtime.flush()
            }
            fn remove(&self, id: &$crate::log::SessionId) -> $crate::seam::Result<bool> {
                Ok(self.runtime.remove(id, None)? == $crate::seam::Removal::Removed)
            }
            fn remove_if_unchanged(
                &self,
                id: &$crate::log::SessionId,
                revision: &$crate::seam::Revision,
            ) -> $crate::seam::Result<$crate::seam::Removal> {
                self.runtime.remove(id, Some(revision))
            }
            fn check_storage(&self, found: &mut dyn FnMut($crate::seam::Fault)) -> $crate::seam::Result<()> {
                $crate::backend::runtime::Storage::inspect(self.runtime.own_storage()?, found)
            }
            fn identity(&self) -> $crate::seam::Result<Option<String>> {
                $crate::backend::runtime::Storage::identity(self.runtime.own_storage()?).map(Some)
            }
        }
    };
}
pub(crate) use store_over_runtime;
