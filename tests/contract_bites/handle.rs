//! [`BrokenHandle`]: a handle of a broken store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use session_persistence::{
    Access, Error, EventSource, Json, OpenOptions, Result, Seq, SeqRange, SessionEvent, SessionHandle, SessionHeader,
    SessionId, SurfaceOp,
};

use crate::fault::Fault;
use crate::store::{Broken, lock};

/// A handle that hands every call on to a good one, but for the fault of its store.
pub(crate) struct BrokenHandle {
    /// Taken when the handle is dropped without giving anything up.
    good: Option<Box<dyn SessionHandle>>,
    store: Arc<Broken>,
    first_read: Mutex<Option<Vec<SessionEvent>>>,
    is_closed: AtomicBool,
    /// What was acknowledged and is held back.
    held: Mutex<Vec<SessionEvent>>,
}

impl BrokenHandle {
    pub(crate) fn new(good: Box<dyn SessionHandle>, store: Arc<Broken>) -> Self {
        let (first_read, held) = (Mutex::default(), Mutex::default());
        Self { good: Some(good), store, first_read, is_closed: AtomicBool::new(false), held }
    }

    fn good(&self) -> &dyn SessionHandle {
        self.good.as_deref().expect("it is taken in the end only")
    }

    fn read_good(&self, range: SeqRange) -> Result<Vec<SessionEvent>> {
        let read = self.good().read(range);
        match (self.store.fault, read) {
            (Fault::ReadsTooMuch, Ok(_)) => {
                let wanted = range.within(u64::MAX);
                self.good().read(SeqRange::new(wanted.start, Some((wanted.end - wanted.start).saturating_add(1))))
            }
            (Fault::ReadsFromTheStart, Ok(_)) => {
                let wanted = range.within(u64::MAX);
                self.good().read(SeqRange::new(0, Some(wanted.end - wanted.start)))
            }
            (Fault::ReadsTheLastPastTheEnd, Ok(read)) if read.is_empty() => {
                Ok(self.good().read(SeqRange::ALL)?.pop().into_iter().collect())
            }
            (Fault::ReadsAtMostAThousand, Ok(mut read)) => {
                read.truncate(1000);
                Ok(read)
            }
            (Fault::ForgetsWhatIsReplaced, Ok(read)) => {
                let log = self.store.log(self.id())?;
                let is_replaced = |seq: Seq| {
                    log.iter().any(|event| match event.surface_op() {
                        Some(SurfaceOp::Replace { start_seq, end_seq }) => (*start_seq..=*end_seq).contains(&seq),
                        _ => false,
                    })
                };
                read.into_iter()
                    .map(|event| match is_replaced(event.seq()) {
                        true => Ok(SessionEvent::of(event.event_type(), event.seq().get(), event.time(), &())?),
                        false => Ok(event),
                    })
                    .collect()
            }
            (Fault::ReadsAndRevises, read) => {
                self.store.revised.fetch_add(1, Ordering::SeqCst);
                read
            }
            (Fault::ReadsWhenClosed, Err(Error::HandleClosed { .. })) => self.store.log(self.id()),
            (Fault::ReadsTheRemoved, Err(Error::NotFound { .. })) => {
                Ok(lock(&self.first_read).clone().unwrap_or_default())
            }
            (Fault::ReadsTheSuccessor, Err(Error::NotFound { .. })) => {
                self.store.good.open(self.id(), OpenOptions::read())?.read(range)
            }
            (Fault::InterpretsAll, Err(Error::FormatUnsupported { .. })) => {
                self.store.good.open(self.id(), OpenOptions::uninterpreted())?.read(range)
            }
            (Fault::LooksAtTheSliceOnly, Err(error @ Error::FormatUnsupported { .. })) => {
                let slice = self.store.good.open(self.id(), OpenOptions::uninterpreted())?.read(range)?;
                let is_known = |e: &SessionEvent| e.event_type().starts_with("turn/");
                if slice.iter().all(is_known) { Ok(slice) } else { Err(error) }
            }
            (_, read) => read,
        }
    }

    /// What is stored of an event.
    fn kept(&self, event: &SessionEvent) -> Result<SessionEvent> {
        let with = |time, data| SessionEvent::new(event.event_type(), event.seq().get(), time, data);
        let data = event.data().clone();
        Ok(match self.store.fault {
            Fault::LosesTheRare => with(event.time(), data)?,
            Fault::KeepsValuesOnly => rare(with(event.time(), data)?, event),
            Fault::ReparsesData => match data.to::<serde_json::Value>() {
                Ok(value) => rare(with(event.time(), Json::parse(&value.to_string()).unwrap_or(data))?, event),
                Err(_) => rare(with(event.time(), Json::parse("null").unwrap_or(data))?, event),
            },
            Fault::MendsTimes => {
                let mut last = lock(&self.store.last_times);
                let last = last.entry(self.id().clone()).or_insert(0);
                *last = event.time().max(*last);
                rare(with(*last, data)?, event)
            }
            _ => event.clone(),
        })
    }

    fn append_good(&self, events: &[SessionEvent]) -> Result<()> {
        let kept = events.iter().map(|event| self.kept(event)).collect::<Result<Vec<_>>>()?;
        let appended = self.good().append(&kept);
        match (self.store.fault, appended) {
            (Fault::IgnoresWritesOfReaders, Err(Error::ReadOnly { .. })) => Ok(()),
            (Fault::AcknowledgesTheLoser, Err(Error::AlreadyExists { .. })) => Ok(()),
            (Fault::TakesEmptyBatchesWhenClosed, Err(Error::HandleClosed { .. })) if events.is_empty() => Ok(()),
            (Fault::StoresAPart, Err(error @ Error::NotContiguous { .. })) => {
                let mut next = self.store.log(self.id())?.len() as u64;
                for event in events {
                    if event.seq().get() == next {
                        self.good().append(std::slice::from_ref(event))?;
                        next += 1;
                    }
                }
                Err(error)
            }
            (Fault::RefusesAfterARefusal, Err(error)) => {
                lock(&self.store.claimed).insert(self.id().clone());
                Err(error)
            }
            (_, appended) => appended,
        }
    }
}

/// The same values as `event` has, in the usual spelling.
fn rare(mut made: SessionEvent, event: &SessionEvent) -> SessionEvent {
    if event.is_ignorable() {
        made = made.into_ignorable();
    }
    if let Some(seqs) = event.source_event_seqs() {
        made = made.with_source_event_seqs(seqs.iter().map(|s| s.get())).expect("the same event had these");
    }
    if let Some(op) = event.surface_op() {
        made = made.with_surface_op(op.clone()).expect("the same event had this");
    }
    made
}

impl SessionHandle for BrokenHandle {
    fn id(&self) -> &SessionId {
        self.good().id()
    }

    fn header(&self) -> &SessionHeader {
        self.good().header()
    }

    fn inherited_event_count(&self) -> u64 {
        match self.store.fault {
            Fault::ForgetsTheCount => 0,
            Fault::InheritsAll => self.store.log(self.id()).map_or(1, |log| log.len() as u64),
            _ => self.good().inherited_event_count(),
        }
    }

    fn access(&self) -> Access {
        match self.store.fault {
            Fault::TellsTheWrongAccess => Access::Read,
            Fault::OwnsForReading => Access::Read,
            _ => self.good().access(),
        }
    }

    fn read(&self, range: SeqRange) -> Result<Vec<SessionEvent>> {
        let mut first = lock(&self.first_read);
        if self.store.fault == Fault::ReadsOnce {
            let log = match &*first {
                Some(log) => log.clone(),
                None => self.good().read(SeqRange::ALL)?,
            };
            let wanted = range.within(log.len() as u64);
            *first = Some(log.clone());
            return Ok(log[wanted.start as usize..wanted.end as usize].to_vec());
        }
        drop(first);
        let read = self.read_good(range).map_err(|error| self.store.error(error))?;
        *lock(&self.first_read) = Some(read.clone());
        Ok(read)
    }

    fn append(&self, events: &[SessionEvent]) -> Result<()> {
        let fault = self.store.fault;
        let session = || self.id().clone();
        match fault {
            Fault::LooksAtTheBatchFirst => {
                let next = self.store.log(self.id()).map_or(0, |log| log.len() as u64);
                match events.first() {
                    None => return Ok(()),
                    Some(e) if e.seq().get() != next => {
                        let found = e.seq().get();
                        return Err(Error::NotContiguous { session: session(), index: 0, expected: next, found });
                    }
                    Some(_) => {}
                }
            }
            Fault::RefusesToStore if events.iter().any(|e| !e.event_type().starts_with("turn/")) => {
                return Err(Error::InvalidArgument { session: Some(session()), reason: "unknown".to_owned() });
            }
            Fault::RefusesAfterARefusal if lock(&self.store.claimed).contains(self.id()) => {
                return Err(Error::OwnershipLost { session: session() });
            }
            Fault::WritesEmptyBatches if events.is_empty() => {
                self.store.revised.fetch_add(1, Ordering::SeqCst);
                return self.good().flush();
            }
            Fault::StoresNoBatch if !events.is_empty() => {
                let (operation, source) = ("appending".to_owned(), "no disk".into());
                return Err(Error::Io { session: Some(session()), operation, source });
            }
            Fault::HoldsBatchesBack => {
                lock(&self.held).extend_from_slice(events);
                return Ok(());
            }
            Fault::DropsTheLastOfABatch if !events.is_empty() => return self.append_good(&events[..events.len() - 1]),
            _ => {}
        }
        self.append_good(events).map_err(|error| self.store.error(error))
    }

    fn append_from(&self, events: &mut EventSource<'_>) -> Result<()> {
        self.append(&[])?;
        if self.store.fault == Fault::StoresWhatItIsGiven {
            for event in events {
                self.append(&[event?])?;
            }
            return Ok(());
        }
        let events = events.collect::<Result<Vec<_>>>()?;
        self.append(&events)
    }

    fn flush(&self) -> Result<()> {
        self.good().append(&std::mem::take(&mut *lock(&self.held)))?;
        match (self.store.fault, self.good().access()) {
            (Fault::FlushesNothing, Access::Write) => Ok(()),
            (Fault::IgnoresWritesOfReaders, Access::Read) => Ok(()),
            (Fault::FlushesOnce, Access::Write) if self.is_closed.swap(true, Ordering::SeqCst) => {
                Err(Error::InvalidArgument { session: None, reason: "flushed".to_owned() })
            }
            _ => self.good().flush(),
        }
    }

    fn close(&self) -> Result<()> {
        self.store.has_closed.store(true, Ordering::SeqCst);
        match self.store.fault {
            Fault::KeepsOwnershipWhenClosed => Ok(()),
            Fault::ClosesOnce if self.is_closed.swap(true, Ordering::SeqCst) => {
                Err(Error::HandleClosed { session: self.id().clone(), operation: "close" })
            }
            Fault::HoldsBatchesBack => {
                let held = self.good().append(&std::mem::take(&mut *lock(&self.held)));
                self.good().close().and(held)
            }
            Fault::FailsToClose => {
                self.good().close()?;
                let reason = "it does not like to end".to_owned();
                Err(Error::InvalidArgument { session: Some(self.id().clone()), reason })
            }
            Fault::StoresWhenClosing => {
                // What is not open for writing has nothing to store.
                drop(self.good().flush());
                self.good().close()
            }
            Fault::ErasesWhenClosing => {
                let access = self.good().access();
                self.good().close()?;
                if access == Access::Write {
                    drop(self.store.good.remove(self.id()));
                }
                Ok(())
            }
            _ => self.good().close(),
        }
    }
}

impl Drop for BrokenHandle {
    fn drop(&mut self) {
        match self.store.fault {
            Fault::KeepsOwnershipWhenDropped => std::mem::forget(self.good.take()),
            // What fails here was reported by an earlier call.
            Fault::StoresWhenClosing => drop(self.close()),
            _ => {}
        }
    }
}
