//! [`SearchIndex`]: an index that is open.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::file::IndexFile;
use super::watermark::Watermark;
use super::{
    GroupBy, IndexError, IndexResult, SearchPage, SearchQuery, SessionFacts, StatisticsRow, UpdateReport, catch_up,
    check, search, session_facts, statistics,
};
use crate::log::SessionId;
use crate::seam::{Fault, SessionPersistence};

/// How an index is opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IndexOptions {
    /// How long a call waits for other processes that use the same file; 10 seconds.
    pub busy_timeout: Duration,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self { busy_timeout: Duration::from_secs(10) }
    }
}

impl IndexOptions {
    /// The same options with another wait.
    #[must_use]
    pub fn with_busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout;
        self
    }
}

/// An index beside a store. Its calls take effect one after another; open the file again to search at the same time.
///
/// As long as it is held open nobody else can make the file anew: where it is damaged, the others wait for that and are told
/// `Busy`.
pub struct SearchIndex {
    path: PathBuf,
    options: IndexOptions,
    /// None where the last one could not be used any more.
    file: Mutex<Option<IndexFile>>,
}

impl std::fmt::Debug for SearchIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SearchIndex").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SearchIndex {
    /// Opens the index in a file, which is made where there is none, with mode 0600.
    ///
    /// # Errors
    ///
    /// `NotAnIndex` for a database of another kind or an index of a newer build; `Busy`, `Failed`.
    pub fn open(path: impl AsRef<Path>) -> IndexResult<Self> {
        Self::open_with(path, IndexOptions::default())
    }

    /// Opens the index in a file as it is told.
    ///
    /// # Errors
    ///
    /// As for [`SearchIndex::open`].
    pub fn open_with(path: impl AsRef<Path>, options: IndexOptions) -> IndexResult<Self> {
        let path = path.as_ref().to_owned();
        let file = Mutex::new(Some(IndexFile::open(&path, options.busy_timeout)?));
        Ok(Self { path, options, file })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Brings the index up to a store. Sessions that did not change are not opened; of one that only grew the new events are
    /// read, and the others too where the store keeps no [digest](crate::Snapshot::digest); any other is indexed anew. What
    /// cannot be read keeps no other session from being indexed.
    ///
    /// Several processes may do this at the same time: each goes on where another one got to. The memory that it takes does not
    /// grow with the logs. A damaged index is made anew.
    ///
    /// # Errors
    ///
    /// `OtherStore` where the index is that of another one by its
    /// [identity](SessionPersistence::identity); `Busy`, `Failed`; `Store` where the store cannot list its sessions.
    pub fn update(&self, store: &dyn SessionPersistence) -> IndexResult<UpdateReport> {
        self.update_telling(store, |_| {})
    }

    /// The same, calling back with each session before it is read.
    ///
    /// # Errors
    ///
    /// As for [`SearchIndex::update`].
    pub fn update_telling(
        &self,
        store: &dyn SessionPersistence,
        mut tell: impl FnMut(&SessionId),
    ) -> IndexResult<UpdateReport> {
        let mut place = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut update = |place: &mut Option<IndexFile>| catch_up::update(self.current(place)?, store, &mut tell);
        match update(&mut place) {
            Err(IndexError::Damaged { reason, .. }) => {
                log::warn!("{}: the search index is damaged and made anew: {reason}", self.path.display());
                if let Some(file) = place.take() {
                    file.discard(self.options.busy_timeout)?;
                }
                update(&mut place)
            }
            // It was removed meanwhile, and what is left of it cannot be used any more.
            Err(_) if place.as_ref().is_some_and(|file| !file.is_in_place()) => update(&mut place),
            done => done,
        }
    }

    /// Makes the index anew, with nothing in it.
    ///
    /// # Errors
    ///
    /// `Busy` while others have it open; `NotAnIndex`, `Failed`.
    pub fn start_anew(&self) -> IndexResult<()> {
        let mut place = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        self.current(&mut place)?;
        if let Some(file) = place.take() {
            file.discard(self.options.busy_timeout)?;
        }
        self.current(&mut place).map(drop)
    }

    /// Looks whether the index in a file is what the logs of a store make of it, and tells each fault when it is found. A file
    /// that is not there, and sessions that were written since the last update, are no faults; damage of the store is told by
    /// [`upkeep::verify`](crate::upkeep::verify) and not here. Nothing is changed, and what is damaged stays until the next
    /// update. Every log is read for it, and every text of the index.
    ///
    /// # Errors
    ///
    /// `Busy`, `Failed`; `Store` where the store cannot tell of its sessions.
    pub fn check(
        path: impl AsRef<Path>,
        options: IndexOptions,
        store: &dyn SessionPersistence,
        mut tell: impl FnMut(&Fault),
    ) -> IndexResult<()> {
        check::check(path.as_ref(), options.busy_timeout, store, &mut tell)
    }

    /// Finds the events that hold a text, the best first: those in which it stands most often, then the shorter, the later and
    /// those with the higher seq.
    ///
    /// # Errors
    ///
    /// `InvalidQuery` for a text without a word or a too long one, or a limit that is not from 1 to 100; `InvalidCursor` for a
    /// cursor of another search or index; `NotFilled`, `Busy`, `Damaged`, `Failed`.
    pub fn search(&self, query: &SearchQuery) -> IndexResult<SearchPage> {
        self.reading(|file| search::search(file, query))
    }

    /// The sessions of which not all could be indexed at the last update, or nothing, and why: no search finds what is missing.
    ///
    /// # Errors
    ///
    /// `NotFilled`, `Busy`, `Damaged`, `Failed`.
    pub fn problems(&self) -> IndexResult<Vec<(SessionId, String)>> {
        self.reading(Watermark::problems)
    }

    /// What is known of a session; nothing where it is not indexed.
    ///
    /// # Errors
    ///
    /// `NotFilled`, `Busy`, `Damaged`, `Failed`.
    pub fn facts(&self, session: &SessionId) -> IndexResult<Option<SessionFacts>> {
        Ok(self.facts_of(std::slice::from_ref(session))?.pop())
    }

    /// The same of many sessions in one statement, in no order: those that are indexed.
    ///
    /// # Errors
    ///
    /// `NotFilled`, `Busy`, `Damaged`, `Failed`.
    pub fn facts_of(&self, sessions: &[SessionId]) -> IndexResult<Vec<SessionFacts>> {
        self.reading(|file| session_facts::facts(file, sessions))
    }

    /// What happened in all sessions together, grouped. What a session inherited is counted in its parent and not again.
    ///
    /// # Errors
    ///
    /// `NotFilled`, `Busy`, `Damaged`, `Failed`.
    pub fn statistics(&self, by: GroupBy) -> IndexResult<Vec<StatisticsRow>> {
        self.reading(|file| statistics::statistics(file, by))
    }

    /// What sessions inherited from parents that are not indexed, each session for itself, as one group without a key.
    /// [`SearchIndex::total`] and [`SearchIndex::statistics`] do not count it: what happened in a session is counted there
    /// alone, and two that inherited the same cannot be told from two that did it twice.
    ///
    /// # Errors
    ///
    /// `NotFilled`, `Busy`, `Damaged`, `Failed`.
    pub fn inherited_from_absent(&self) -> IndexResult<StatisticsRow> {
        self.reading(statistics::inherited_from_absent)
    }

    /// What happened in all sessions together, as one group without a key: each session counts of which something is indexed
    /// or nothing happened in it.
    ///
    /// # Errors
    ///
    /// `NotFilled`, `Busy`, `Damaged`, `Failed`.
    pub fn total(&self) -> IndexResult<StatisticsRow> {
        self.reading(statistics::total)
    }

    fn reading<T>(&self, read: impl Fn(&IndexFile) -> IndexResult<T>) -> IndexResult<T> {
        let mut place = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = read(self.current(&mut place)?);
        if done.is_err() && place.as_ref().is_some_and(|file| !file.is_in_place()) {
            // It was removed meanwhile, and what is left of it cannot be used any more.
            done = read(self.current(&mut place)?);
        }
        if let Err(IndexError::Damaged { .. }) = done
            && let Some(file) = place.take()
        {
            // Where others use it, they find the damage too.
            if let Err(e) = file.discard(Duration::ZERO) {
                log::warn!("{}: a damaged search index stays: {e}", self.path.display());
            }
        }
        done
    }

    /// The file that lies there now.
    fn current<'f>(&self, place: &'f mut Option<IndexFile>) -> IndexResult<&'f mut IndexFile> {
        if let Some(gone) = place.take_if(|file| !file.is_in_place()) {
            // What lies beside it belongs to the file that others find.
            gone.leave_as_is()?;
        }
        match place {
            Some(file) => Ok(file),
            empty => Ok(empty.insert(IndexFile::open(&self.path, self.options.busy_timeout)?)),
        }
    }
}
