//! Bringing an index up to a store.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Transaction, TransactionBehavior};

use super::document::Document;
use super::facts::Facts;
use super::file::IndexFile;
use super::watermark::Watermark;
use super::{IndexError, IndexResult};
use crate::log::{LogDigest, SessionEvent, SessionHeader, SessionId, searchable_text};
use crate::paging::{Listed, Pages};
use crate::seam::{
    Error, ErrorKind, ListOrder, OpenOptions, SessionHandle, SessionPersistence, SessionState, Snapshot,
};

/// What an update did.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct UpdateReport {
    /// How many sessions changed, those included that could not be read.
    pub changed: u64,
    /// How many of these were indexed from their start.
    pub started: u64,
    /// How many sessions are gone from the store, and from the index.
    pub removed: u64,
    /// The sessions whose logs ended before what was indexed of them, with the number of events that were indexed: they were
    /// cut, replaced, or an older copy was put back. What they do not hold any more is forgotten.
    pub shortened: Vec<(SessionId, u64)>,
    /// How many events were indexed.
    pub events: u64,
    /// The sessions that could not be read to their end, and why. What stands before the failure can be found.
    pub failures: Vec<(SessionId, Arc<Error>)>,
}

/// All events of a log, in SQLite's numbers.
const ALL: u64 = i64::MAX as u64;

/// What came of one session.
enum Step {
    /// All that was listed of it is indexed.
    Done,
    /// There is more to read.
    More,
    /// Another process was faster, or what was indexed is forgotten.
    Again,
    /// What is indexed is of another log.
    Other,
}

pub(super) fn update(
    file: &mut IndexFile,
    store: &dyn SessionPersistence,
    tell: &mut dyn FnMut(&SessionId),
) -> IndexResult<UpdateReport> {
    file.belong_to(store.identity()?.as_deref())?;
    let mut update = Update { file, store, tell, report: UpdateReport::default() };
    let mut seen = HashSet::new();
    // In the order of creation: a session that is written meanwhile keeps its place in it.
    for snapshot in Listed::new(store, ListOrder::Created) {
        let snapshot = snapshot?;
        seen.insert(snapshot.id.clone());
        if snapshot.state != SessionState::Pending {
            update.session(snapshot)?;
        }
    }
    update.remove_all_but(&seen)?;
    let report = update.report;
    if file.filled().is_err() {
        let filled = file.connection.execute("UPDATE file SET is_filled = 1", []);
        filled.map_err(|e| file.failure(&e))?;
    }
    Ok(report)
}

struct Update<'a> {
    file: &'a mut IndexFile,
    store: &'a dyn SessionPersistence,
    tell: &'a mut dyn FnMut(&SessionId),
    report: UpdateReport,
}

impl Update<'_> {
    fn watermark(&self, id: &SessionId) -> IndexResult<Option<Watermark>> {
        Watermark::of(&self.file.connection, id).map_err(|e| self.file.failure(&e))
    }

    fn session(&mut self, listed: Snapshot) -> IndexResult<()> {
        let known = self.watermark(&listed.id)?;
        let problem = known.as_ref().and_then(|known| known.problem.as_deref());
        if matches!(listed.state, SessionState::NewerFormat { .. } | SessionState::Damaged { .. }) {
            if problem != Some(&*listed.state.to_string()) {
                self.report.changed += 1;
                self.unreadable(&listed)?;
            }
            return Ok(());
        }
        if known.is_some_and(|known| known.is_at(&listed)) {
            return Ok(());
        }
        self.report.changed += 1;
        (self.tell)(&listed.id);
        let mut snapshot = listed;
        loop {
            match self.step(&snapshot) {
                Ok(Step::Done) => return Ok(()),
                Ok(Step::More | Step::Other) => {}
                // What was listed may be long past.
                Ok(Step::Again) => match self.store.stat(&snapshot.id)? {
                    Some(now) => snapshot = now,
                    None => return Ok(()),
                },
                Err(IndexError::Store(error)) => return self.failed(&snapshot, error),
                Err(error) => return Err(error),
            }
        }
    }

    fn step(&mut self, snapshot: &Snapshot) -> IndexResult<Step> {
        // What can be found in a log is told by its events alone, whatever else stands in it.
        let handle = self.store.open(&snapshot.id, OpenOptions::uninterpreted())?;
        let known = self.watermark(&snapshot.id)?;
        if known.as_ref().is_some_and(|known| known.is_at(snapshot)) {
            return Ok(Step::Done);
        }
        let step = self.read(snapshot, &*handle, known);
        handle.close()?;
        step
    }

    /// Reads what is new in a log, until all is indexed or the watermark is no longer where it was.
    fn read(
        &mut self,
        snapshot: &Snapshot,
        handle: &dyn SessionHandle,
        mut known: Option<Watermark>,
    ) -> IndexResult<Step> {
        // Of a log that only grew, which is proven below, the mark behind its seed is found once.
        let is_settled = |mark: &Watermark| mark.revision.is_some() && mark.problem.is_none() && mark.inherited == 0;
        let inherited = match handle.inherited_event_count() {
            0 if known.as_ref().is_some_and(is_settled) => 0,
            _ => inherited(snapshot, handle),
        };
        let start = known.as_ref().map_or(0, |known| known.events);
        if let Some(mark) = &known
            && (mark.inherited != inherited
                || snapshot.event_count.is_some_and(|count| count < start)
                || !starts_with(snapshot, handle, mark)?)
        {
            return self.forget(snapshot, known);
        }
        let mut pages = Pages::new(handle, snapshot, start);
        loop {
            let page = match pages.next_page() {
                Ok(page) => page,
                Err(error) => {
                    // A damaged log is read again only once it is another one.
                    let is_damaged = error.kind() == ErrorKind::Corruption;
                    let revision = is_damaged.then(|| snapshot.revision.as_str());
                    self.note(known.as_ref(), snapshot, &error, revision)?;
                    return Err(error.into());
                }
            };
            let is_end = match snapshot.event_count {
                Some(count) => pages.next_seq() >= count,
                None => page.is_empty(),
            };
            match self.batch(snapshot, handle.header(), inherited, known, &page, is_end)? {
                (Step::More, next) => known = Some(next),
                (Step::Other, next) => return self.forget(snapshot, Some(next)),
                (step, _) => return Ok(step),
            }
        }
    }

    /// Indexes a batch, unless the watermark is no longer where it was.
    fn batch(
        &mut self,
        snapshot: &Snapshot,
        header: &SessionHeader,
        inherited: u64,
        known: Option<Watermark>,
        page: &[SessionEvent],
        is_end: bool,
    ) -> IndexResult<(Step, Watermark)> {
        let texts: Vec<_> = page.iter().map(searchable_text).collect();
        let is_new = known.is_none();
        let done = write(self.file, |transaction| {
            let found = Watermark::of(transaction, &snapshot.id)?;
            let mut mark = match (found, known) {
                (None, None) => Watermark::start(transaction, snapshot, Some(header), inherited)?,
                (Some(found), Some(known)) if found == known => found,
                (Some(found), _) | (None, Some(found)) => return Ok((Step::Again, found)),
            };
            let mut digest = mark.digest;
            page.iter().for_each(|event| digest.push(event));
            if is_end && snapshot.digest.is_some_and(|told| told != digest) {
                return Ok((Step::Other, mark));
            }
            let mut facts = Facts::of(transaction, mark.number)?;
            for (event, text) in page.iter().zip(&texts) {
                facts.observe(event, event.seq().get() < mark.inherited);
                if !text.is_empty() {
                    Document::of(mark.number, event, text).store(transaction)?;
                }
            }
            facts.store(transaction, mark.number)?;
            mark.events += page.len() as u64;
            mark.digest = digest;
            mark.problem = None;
            mark.revision = is_end.then(|| snapshot.revision.as_str().to_owned());
            mark.store(transaction)?;
            Ok((if is_end { Step::Done } else { Step::More }, mark))
        });
        let done = done.map_err(|e| self.file.failure(&e))?;
        if matches!(done.0, Step::Done | Step::More) {
            self.report.events += page.len() as u64;
            self.report.started += u64::from(is_new);
        }
        Ok(done)
    }

    /// Forgets a session whose log is another one now, unless another process was faster.
    fn forget(&mut self, snapshot: &Snapshot, known: Option<Watermark>) -> IndexResult<Step> {
        let now = self.store.stat(&snapshot.id)?;
        let Some(known) = known.filter(|_| now.is_some_and(|now| now.revision == snapshot.revision)) else {
            return Ok(Step::Again);
        };
        let removed = write(self.file, |transaction| {
            let is_known = Watermark::of(transaction, &snapshot.id)?.as_ref() == Some(&known);
            if is_known {
                Watermark::remove(transaction, known.number)?;
            }
            Ok(is_known)
        });
        let is_shorter = snapshot.event_count.is_some_and(|count| count < known.events);
        if removed.map_err(|e| self.file.failure(&e))? && is_shorter {
            self.report.shortened.push((snapshot.id.clone(), known.events));
        }
        Ok(Step::Again)
    }

    /// Notes why not all of a log is indexed. With a revision it is not read again as long as it has that one.
    fn note(
        &mut self,
        known: Option<&Watermark>,
        snapshot: &Snapshot,
        error: &Error,
        revision: Option<&str>,
    ) -> IndexResult<()> {
        let noted = write(self.file, |transaction| {
            let found = Watermark::of(transaction, &snapshot.id)?;
            if found.as_ref() != known {
                return Ok(());
            }
            let mut mark = match found {
                Some(found) => found,
                None => Watermark::start(transaction, snapshot, None, 0)?,
            };
            mark.problem = Some(error.to_string());
            mark.revision = revision.map(str::to_owned);
            mark.store(transaction)
        });
        noted.map_err(|e| self.file.failure(&e))
    }

    /// Keeps the row of a session whose events are not read, without any of them.
    fn unreadable(&mut self, snapshot: &Snapshot) -> IndexResult<()> {
        let noted = write(self.file, |transaction| {
            if let Some(found) = Watermark::of(transaction, &snapshot.id)? {
                Watermark::remove(transaction, found.number)?;
            }
            let mut mark = Watermark::start(transaction, snapshot, None, 0)?;
            mark.problem = Some(snapshot.state.to_string());
            mark.store(transaction)
        });
        noted.map_err(|e| self.file.failure(&e))
    }

    /// A session that was removed meanwhile is no failure.
    fn failed(&mut self, snapshot: &Snapshot, error: impl Into<Arc<Error>>) -> IndexResult<()> {
        let error = error.into();
        if error.kind() != ErrorKind::NotFound {
            self.report.failures.push((snapshot.id.clone(), error));
        }
        Ok(())
    }

    fn remove_all_but(&mut self, seen: &HashSet<SessionId>) -> IndexResult<()> {
        let indexed = (|| {
            let mut statement = self.file.connection.prepare_cached("SELECT number, id FROM session")?;
            let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
            rows.filter(|row| {
                row.as_ref().map_or(true, |(_, id)| SessionId::new(id).map_or(true, |id| !seen.contains(&id)))
            })
            .collect::<Result<Vec<_>, rusqlite::Error>>()
        })();
        for (number, id) in indexed.map_err(|e| self.file.failure(&e))? {
            // One that was made while the list was read was indexed by another process.
            let is_there = match SessionId::new(&id) {
                Ok(id) => self.store.stat(&id)?.is_some(),
                Err(_) => false,
            };
            if !is_there {
                let removed = write(self.file, |transaction| Watermark::remove(transaction, number));
                removed.map_err(|e| self.file.failure(&e))?;
                self.report.removed += 1;
            }
        }
        Ok(())
    }
}

/// How many events of a log happened in another one. Of a seeded log without the mark that ends its seed, which was cut or is
/// damaged, nobody can tell: all of it may have been copied.
pub(super) fn inherited(snapshot: &Snapshot, handle: &dyn SessionHandle) -> u64 {
    let told = handle.inherited_event_count();
    if told > 0 || !handle.header().is_seeded() {
        return told;
    }
    let mut pages = Pages::new(handle, snapshot, 0).wherever_it_ends();
    while let Ok(page) = pages.next_page()
        && !page.is_empty()
    {
        if page.iter().any(|event| event.event_type() == "session/end-seed") {
            return told;
        }
    }
    ALL
}

/// Whether a log starts with what is indexed. A store that keeps a digest proves it where the reading ends.
fn starts_with(snapshot: &Snapshot, handle: &dyn SessionHandle, mark: &Watermark) -> IndexResult<bool> {
    let seed = mark.digest.parts().0;
    if let Some(told) = snapshot.digest {
        return Ok(told.parts().0 == seed && (mark.events > 0 || LogDigest::new(handle.header(), seed) == mark.digest));
    }
    let mut digest = LogDigest::new(handle.header(), seed);
    let mut pages = Pages::new(handle, snapshot, 0).up_to(mark.events);
    loop {
        match pages.next_page() {
            Ok(page) if page.is_empty() => return Ok(digest == mark.digest),
            Ok(page) => page.iter().for_each(|event| digest.push(event)),
            // What is indexed is to be what an index would hold that is made now.
            Err(error) if error.kind() == ErrorKind::Corruption => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// One transaction that nobody else writes in meanwhile.
fn write<T>(
    file: &mut IndexFile,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, rusqlite::Error>,
) -> Result<T, rusqlite::Error> {
    let transaction = file.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = work(&transaction)?;
    transaction.commit()?;
    Ok(done)
}
