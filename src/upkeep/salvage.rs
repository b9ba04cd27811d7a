//! What can be saved of a damaged log.

use crate::log::{SessionEvent, SessionId};
use crate::paging::Pages;
use crate::seam::{
    CreateOptions, Error, Fault, FaultKind, OpenOptions, Result, SessionHandle, SessionPersistence, SessionState,
    Snapshot, checks,
};

/// What was saved of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvaged {
    /// The new session.
    pub session: SessionId,
    /// How many events it has.
    pub events: u64,
    /// Where and why the log was not copied any further: damage, or the torn tail of an unfinished write. Nothing where
    /// it was copied to its end.
    pub stopped: Option<Fault>,
}

/// Copies the valid start of a log, damaged or sound, into a new session of the same store, and makes it durable. The
/// source stays as it is.
///
/// The events are kept as they are, each byte of them, and so is the header but for its id: the time of its creation,
/// the folder, the parent and all else, spelled as it is. What was inherited from a parent counts as inherited, as far
/// as it was saved; where the mark at its end was not saved, that is all that was. A log is not interpreted: its format
/// and the types of its events may be any.
///
/// Where a call fails nothing is left of the new session, and it can be repeated. The death of the process half-way may
/// leave a shorter copy under the new id: remove it before the next try.
///
/// # Errors
///
/// `NotFound`; `AlreadyExists` for a new id that is taken; `Corruption` for a session whose header cannot be read, of
/// which there is nothing to start from; the failures of the store.
pub fn salvage(store: &dyn SessionPersistence, id: &SessionId, new_id: &SessionId) -> Result<Salvaged> {
    if store.stat(new_id)?.is_some() {
        return Err(Error::AlreadyExists { session: new_id.clone() });
    }
    let source = Source::open(store, id)?;
    let Prefix { events, mark, stopped } = source.measure()?;
    let inherited = mark.unwrap_or_else(|| {
        let told = source.handle.inherited_event_count();
        if stopped.is_none() { told } else { told.min(events) }
    });
    let header = source.handle.header().renamed(new_id).with_seed_length(inherited);
    let options = if header.is_seeded() { CreateOptions::inheriting(inherited) } else { CreateOptions::default() };

    let half = Half { store, id: new_id, is_stored: false, is_done: false };
    let mut copy = Copy { handle: store.create(&header, options)?, half };
    source.for_each_page(Some(events), |page| copy.append(page))?;
    copy.finish()?;
    Ok(Salvaged { session: new_id.clone(), events, stopped })
}

/// The log that is copied.
struct Source<'s> {
    store: &'s dyn SessionPersistence,
    handle: Box<dyn SessionHandle>,
    snapshot: Snapshot,
}

/// The valid start of a log.
struct Prefix {
    events: u64,
    /// The last event of it that marks the end of an inherited seed.
    mark: Option<u64>,
    stopped: Option<Fault>,
}

impl<'s> Source<'s> {
    fn open(store: &'s dyn SessionPersistence, id: &SessionId) -> Result<Self> {
        let handle = store.open(id, OpenOptions::uninterpreted()).map_err(|error| match error {
            Error::Corruption { session, seq: None, offset, reason } => {
                let reason = format!("{reason}: without its header there is nothing that a salvage could start from");
                Error::Corruption { session, seq: None, offset, reason }
            }
            other => other,
        })?;
        let snapshot = store.stat(id)?.ok_or_else(|| Error::NotFound { session: id.clone() })?;
        Ok(Self { store, handle, snapshot })
    }

    fn id(&self) -> &SessionId {
        self.handle.id()
    }

    /// Reads the log as far as it is valid.
    fn measure(&self) -> Result<Prefix> {
        let has_marks = checks::has_seed_mark(self.handle.header());
        let mut prefix = Prefix { events: 0, mark: None, stopped: None };
        let read = self.for_each_page(None, |page| {
            prefix.events += page.len() as u64;
            if has_marks && let Some(mark) = page.iter().rev().find_map(checks::inherited_mark) {
                prefix.mark = Some(mark.get());
            }
            Ok(())
        });
        match read {
            Ok(()) => prefix.stopped = self.torn_tail()?,
            Err(error @ Error::Corruption { .. }) => {
                let mut fault = Fault::damage(self.id(), &error);
                fault.seq.get_or_insert(prefix.events);
                fault.advice =
                    "what stands behind it may still be read, event by event from there on, or is to be had from a \
                                backup: look before the damaged session is removed"
                        .to_owned();
                prefix.stopped = Some(fault);
            }
            Err(other) => return Err(other),
        }
        Ok(prefix)
    }

    fn torn_tail(&self) -> Result<Option<Fault>> {
        // Asked for once more: by now the log was read.
        let tail = self.store.stat(self.id())?.and_then(|told| told.torn_tail);
        Ok(tail.map(|tail| {
            let reason = format!("{} bytes of an unfinished write stand there", tail.bytes);
            let advice = "they were never acknowledged, or stand behind bytes that do not check out";
            Fault::new(FaultKind::Leftover, reason, advice).of(self.id()).at_seq(tail.seq)
        }))
    }

    /// Gives the log to `take`, the first `count` events of it or as many as can be read before an error.
    fn for_each_page(&self, count: Option<u64>, mut take: impl FnMut(&[SessionEvent]) -> Result<()>) -> Result<()> {
        let mut pages = Pages::new(&*self.handle, &self.snapshot, 0).up_to(count.unwrap_or(u64::MAX));
        loop {
            let page = pages.next_page()?;
            if page.is_empty() {
                return Ok(());
            }
            take(&page)?;
        }
    }
}

/// The new session, removed again unless it was finished.
struct Copy<'c> {
    // Before what removes it: a session that is being written cannot be removed.
    handle: Box<dyn SessionHandle>,
    half: Half<'c>,
}

impl Copy<'_> {
    fn append(&mut self, page: &[SessionEvent]) -> Result<()> {
        self.handle.append(page)?;
        self.half.is_stored = true;
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        if let Err(error) = self.handle.flush() {
            // Of a log without events it is the flush that stores the session, and then syncs it.
            if !matches!(error, Error::AlreadyExists { .. }) {
                let told = self.half.store.stat(self.half.id)?;
                self.half.is_stored |= told.is_some_and(|told| told.state != SessionState::Pending);
            }
            return Err(error);
        }
        self.half.is_stored = true;
        self.handle.close()?;
        self.half.is_done = true;
        Ok(())
    }
}

/// What is removed of a copy that was not finished.
struct Half<'c> {
    store: &'c dyn SessionPersistence,
    id: &'c SessionId,
    /// Whether anything of it was stored, so that it is this call's and nobody else's.
    is_stored: bool,
    is_done: bool,
}

impl Drop for Half<'_> {
    fn drop(&mut self) {
        if self.is_done || !self.is_stored {
            return;
        }
        let id = self.id;
        if let Err(error) = self.store.remove(id) {
            log::warn!("session {id:?} holds a part of what was to be salvaged and could not be removed: {error:?}");
        }
    }
}
