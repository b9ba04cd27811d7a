//! [`BrokenStore`]: a store that keeps every promise but one.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use session_persistence::payload::EndSeed;
use session_persistence::{
    CreateOptions, Error, ErrorKind, FormatProblem, Holder, ListFilter, ListOrder, ListQuery, OpenOptions, Page,
    RepairTexts, Result, Revision, Seq, SessionEvent, SessionHandle, SessionHeader, SessionId, SessionPersistence,
    SessionState, Snapshot, interrupted_turn_closers,
};

use crate::fault::Fault;
use crate::handle::BrokenHandle;

/// A store that hands every call on to a good one, but for its fault.
pub(crate) struct BrokenStore(Arc<Broken>);

/// What a broken store and its handles share.
pub(crate) struct Broken {
    pub(crate) good: Arc<dyn SessionPersistence>,
    pub(crate) fault: Fault,
    /// Sessions that are told as owned for ever.
    pub(crate) claimed: Mutex<HashSet<SessionId>>,
    /// The time of the last event, by session.
    pub(crate) last_times: Mutex<HashMap<SessionId, i64>>,
    /// What has made all revisions new.
    pub(crate) revised: AtomicU64,
    pub(crate) has_closed: AtomicBool,
    last_listed: Mutex<Option<Snapshot>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BrokenStore {
    pub(crate) fn new(good: Arc<dyn SessionPersistence>, fault: Fault) -> Self {
        Self(Arc::new(Broken {
            good,
            fault,
            claimed: Mutex::default(),
            last_times: Mutex::default(),
            revised: AtomicU64::new(0),
            has_closed: AtomicBool::new(false),
            last_listed: Mutex::default(),
        }))
    }

    fn handle(&self, good: Box<dyn SessionHandle>) -> Box<dyn SessionHandle> {
        Box::new(BrokenHandle::new(good, self.0.clone()))
    }

    fn open_good(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        let Broken { good, fault, .. } = &*self.0;
        let opened = good.open(id, options);
        match (fault, opened) {
            (Fault::OpensWhatIsAbsent, Err(Error::NotFound { .. })) => {
                good.create(&SessionHeader::new(id.clone(), 0)?, CreateOptions::default())?.flush()?;
                good.open(id, options)
            }
            (Fault::SharesOwnership, Err(Error::AlreadyOwned { .. })) => good.open(id, OpenOptions::read()),
            (Fault::NamesAnotherHolder, Err(Error::AlreadyOwned { session, holder })) => {
                Err(Error::AlreadyOwned { session, holder: Holder::new(holder.process + 1, holder.host, holder.since) })
            }
            (Fault::InterpretsAll, Err(Error::FormatUnsupported { .. })) => good.open(id, OpenOptions::uninterpreted()),
            (Fault::RefusesTheIgnorable, Ok(_)) if !options.is_uninterpreted() && self.0.has_marked(id, "")? => {
                let problem = FormatProblem::UnknownEvent { seq: Seq::default(), event_type: String::new() };
                Err(Error::FormatUnsupported { session: id.clone(), problem })
            }
            (
                Fault::ExcusesByType,
                Err(Error::FormatUnsupported { problem: FormatProblem::UnknownEvent { event_type, .. }, .. }),
            ) if self.0.has_marked(id, &event_type)? => good.open(id, OpenOptions::uninterpreted()),
            (Fault::KeepsTheClaimOfTheRefused, Err(error @ Error::FormatUnsupported { .. })) => {
                lock(&self.0.claimed).insert(id.clone());
                Err(error)
            }
            (_, opened) => opened,
        }
    }
}

impl Broken {
    /// The whole log, as it is stored.
    pub(crate) fn log(&self, id: &SessionId) -> Result<Vec<SessionEvent>> {
        self.good.open(id, OpenOptions::uninterpreted())?.read((..).into())
    }

    /// What nobody asked for.
    fn write_when_opening(&self, id: &SessionId, options: OpenOptions) -> Result<()> {
        let is_write = options == OpenOptions::write();
        if !matches!((self.fault, is_write), (Fault::RepairsWhenReading, false) | (Fault::MarksEveryOpening, true)) {
            return Ok(());
        }
        // Where it cannot be written there is nothing to repair or to mark.
        let Ok(writer) = self.good.open(id, OpenOptions::write()) else { return Ok(()) };
        let log = writer.read((..).into())?;
        if is_write {
            writer.append(&[SessionEvent::of("session/end-seed", log.len() as u64, 0, &EndSeed { inherited: false })?])
        } else {
            writer.append(&interrupted_turn_closers(&log, &RepairTexts::default())?)
        }
    }

    fn has_marked(&self, id: &SessionId, event_type: &str) -> Result<bool> {
        let is_that = |e: &SessionEvent| event_type.is_empty() || e.event_type() == event_type;
        Ok(self.log(id)?.iter().any(|e| e.is_ignorable() && is_that(e)))
    }

    /// What becomes of an error.
    pub(crate) fn error(&self, error: Error) -> Error {
        match (self.fault, error) {
            (
                Fault::NamesTheFirstEvent,
                Error::FormatUnsupported { session, problem: FormatProblem::UnknownEvent { event_type, .. } },
            ) => {
                let problem = FormatProblem::UnknownEvent { seq: Seq::default(), event_type };
                Error::FormatUnsupported { session, problem }
            }
            (Fault::ConfusesVersions, Error::FormatUnsupported { session, problem }) => {
                let problem = match problem {
                    FormatProblem::NewerFormat { found, known } => FormatProblem::OlderFormat { found, known },
                    FormatProblem::OlderFormat { found, known } => FormatProblem::NewerFormat { found, known },
                    other => other,
                };
                Error::FormatUnsupported { session, problem }
            }
            (Fault::NamesTheWrongSeq, Error::NotContiguous { session, index, expected, found }) => {
                Error::NotContiguous { session, index: index + 1, expected, found }
            }
            (_, error) => error,
        }
    }

    fn snapshot(&self, mut snapshot: Snapshot) -> Snapshot {
        let log = self.log(&snapshot.id).unwrap_or_default();
        match self.fault {
            Fault::Miscounts => snapshot.event_count = Some(log.len() as u64 + 1),
            Fault::TellsTheLargestTime => snapshot.last_time = log.iter().map(SessionEvent::time).max(),
            Fault::TellsSometimes if snapshot.owner.is_some() => snapshot.event_count = None,
            Fault::TellsOneSize => snapshot.size_bytes = Some(1),
            Fault::TellsAnOwner => snapshot.owner = Some(Holder::new(std::process::id(), "", 0)),
            Fault::TellsOneActivity => snapshot.activity = 1,
            Fault::TellsAnotherProcess => {
                snapshot.owner = snapshot.owner.map(|o| Holder::new(o.process + 1, o.host, o.since))
            }
            Fault::TellsNoHeader => snapshot.header = None,
            Fault::HasOneRevision => snapshot.revision = Revision::new("the"),
            Fault::HasANewRevision => {
                let number = self.revised.fetch_add(1, Ordering::SeqCst);
                snapshot.revision = Revision::new(number.to_string());
            }
            Fault::CountsForARevision => snapshot.revision = Revision::new(format!("{} {}", snapshot.id, log.len())),
            Fault::SaysPending => snapshot.state = SessionState::Pending,
            Fault::ConfusesVersions => {
                snapshot.state = match snapshot.state {
                    SessionState::NewerFormat { version } => SessionState::OlderFormat { version },
                    SessionState::OlderFormat { version } => SessionState::NewerFormat { version },
                    other => other,
                }
            }
            Fault::KeepsTheClaimOfTheRefused if lock(&self.claimed).contains(&snapshot.id) => {
                snapshot.owner = Some(Holder::new(std::process::id(), "", 0));
            }
            _ => {}
        }
        match self.revised.load(Ordering::SeqCst) {
            0 => {}
            _ if self.fault == Fault::HasANewRevision => {}
            n => snapshot.revision = Revision::new(format!("{} {n}", snapshot.revision)),
        }
        snapshot
    }

    fn is_pending(snapshot: &Snapshot) -> bool {
        snapshot.state == SessionState::Pending
    }
}

impl SessionPersistence for BrokenStore {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        let Broken { good, fault, .. } = &*self.0;
        let other = match fault {
            Fault::RespellsHeaders => {
                let plain = SessionHeader::new(header.id().clone(), header.created_at())?;
                let plain = if header.is_seeded() { plain.with_seed() } else { plain };
                Some(plain.with_version(header.version()))
            }
            Fault::FoldsCase => Some(SessionHeader::new(folded(header.id()), header.created_at())?),
            Fault::SimplifiesIds => Some(SessionHeader::new(simplified(header.id()), header.created_at())?),
            _ => None,
        };
        let created = good.create(other.as_ref().unwrap_or(header), options);
        let created = match (fault, created) {
            (Fault::CreatesWhatExists, Err(Error::AlreadyExists { .. })) => good.open(header.id(), OpenOptions::read()),
            (Fault::TakesAnyCount, Err(Error::InvalidArgument { .. })) => {
                let options = if header.is_seeded() { CreateOptions::inheriting(0) } else { CreateOptions::default() };
                good.create(header, options)
            }
            (Fault::StoresWhenCreating, Ok(handle)) => handle.flush().map(|()| handle),
            (Fault::KeepsTheClaimOfTheRefused, Err(error)) => {
                lock(&self.0.claimed).insert(header.id().clone());
                Err(error)
            }
            (_, created) => created,
        };
        created.map(|handle| self.handle(handle))
    }

    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        let claimed = lock(&self.0.claimed).contains(id) && options == OpenOptions::write();
        if claimed {
            return Err(Error::AlreadyOwned { session: id.clone(), holder: Holder::new(0, "", 0) });
        }
        self.0.write_when_opening(id, options)?;
        let opened = match self.0.fault {
            Fault::FoldsCase => self.0.good.open(&folded(id), options),
            Fault::SimplifiesIds => self.0.good.open(&simplified(id), options),
            Fault::OwnsForReading if !options.is_uninterpreted() => self.0.good.open(id, OpenOptions::write()),
            _ => self.open_good(id, options),
        };
        if self.0.fault == Fault::RevisesWhenOpening {
            self.0.revised.fetch_add(1, Ordering::SeqCst);
        }
        opened.map(|handle| self.handle(handle)).map_err(|error| self.0.error(error))
    }

    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        let found = match self.0.fault {
            Fault::FoldsCase => self.0.good.stat(&folded(id))?,
            Fault::SimplifiesIds => self.0.good.stat(&simplified(id))?,
            Fault::TellsOfTheAbsent => {
                let found = self.0.good.stat(id)?;
                let all = self.0.good.list(&ListQuery::default())?.items;
                found.or_else(|| all.into_iter().next())
            }
            Fault::HidesPending => self.0.good.stat(id)?.filter(|s| !Broken::is_pending(s)),
            _ => self.0.good.stat(id)?,
        };
        Ok(found.map(|snapshot| self.0.snapshot(snapshot)))
    }

    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        let Broken { good, fault, .. } = &*self.0;
        let filter = &query.filter;
        let query = &match fault {
            Fault::IgnoresFilters | Fault::FiltersPages => query.clone().with_filter(ListFilter::new()),
            Fault::TakesNoValuesForAll if is_without_values(&query.filter) => {
                query.clone().with_filter(ListFilter::new())
            }
            Fault::EndsTextsAtNul => query.clone().with_filter(ended_at_nul(&query.filter)),
            _ => query.clone(),
        };
        let page = match (fault, good.list(query)) {
            (Fault::TakesAnyQuery, Err(Error::InvalidArgument { .. })) => good.list(&ListQuery::default()),
            (_, page) => page,
        }?;
        let Page { mut items, mut next, .. } = page;
        match fault {
            Fault::HidesPending => items.retain(|s| !Broken::is_pending(s)),
            Fault::ListsPendingTwice => {
                let pending: Vec<_> = items.iter().filter(|s| Broken::is_pending(s)).cloned().collect();
                items.extend(pending);
            }
            Fault::HidesTheRefused => items.retain(|s| {
                let refused = good.open(&s.id, OpenOptions::read()).err();
                refused.is_none_or(|error| error.kind() != ErrorKind::FormatUnsupported)
            }),
            Fault::OrdersById => items.sort_by(|a, b| b.id.cmp(&a.id)),
            Fault::OrdersByTime if query.order == ListOrder::Activity => {
                items.sort_by_key(|s| std::cmp::Reverse(s.last_time));
            }
            Fault::RepeatsAtPages if query.cursor.is_some() => items.extend(lock(&self.0.last_listed).clone()),
            Fault::SkipsAtPages if query.cursor.is_some() => drop(items.drain(..items.len().min(1))),
            // A cursor of its own where there was none: who goes on with it is refused.
            Fault::NeverEnds if next.is_none() => next = query.cursor.clone().or_else(|| "more".parse().ok()),
            Fault::OnePage => next = None,
            Fault::FiltersPages => items.retain(|s| filter.matches(s)),
            _ => {}
        }
        *lock(&self.0.last_listed) = items.last().cloned();
        let mut items: Vec<_> = items.into_iter().map(|s| self.0.snapshot(s)).collect();
        if *fault == Fault::TellsAnotherRevisionInLists {
            items.iter_mut().for_each(|s| s.revision = Revision::new(format!("listed {}", s.revision)));
        }
        Ok(Page::new(items, next))
    }

    fn flush(&self) -> Result<()> {
        match self.0.fault {
            Fault::FlushesNoHandle => Ok(()),
            Fault::FailsToFlushTheClosed if self.0.has_closed.load(Ordering::SeqCst) => {
                let session = SessionId::new("closed").expect("this is an id");
                Err(Error::HandleClosed { session, operation: "flush" })
            }
            Fault::FailsToFlushNothing if self.0.good.list(&ListQuery::default())?.items.is_empty() => {
                Err(Error::InvalidArgument { session: None, reason: "nothing to flush".to_owned() })
            }
            _ => self.0.good.flush(),
        }
    }

    fn remove(&self, id: &SessionId) -> Result<bool> {
        let Broken { good, fault, .. } = &*self.0;
        if lock(&self.0.claimed).contains(id) {
            return Err(Error::AlreadyOwned { session: id.clone(), holder: Holder::new(0, "", 0) });
        }
        match fault {
            Fault::RemovesAnything => good.remove(id).map(|_| true),
            Fault::RemovesNothing => Ok(good.stat(id)?.is_some()),
            Fault::RemovesUnderWriters => match good.remove(id) {
                Err(Error::AlreadyOwned { .. }) => Ok(true),
                removed => removed,
            },
            Fault::RemovesAll => {
                let removed = good.remove(id)?;
                for other in good.list(&ListQuery::default())?.items {
                    // Those that have a writer stay.
                    drop(good.remove(&other.id));
                }
                Ok(removed)
            }
            Fault::ClaimsWhatItRemoves => {
                lock(&self.0.claimed).insert(id.clone());
                good.remove(id)
            }
            _ => good.remove(id),
        }
    }
}

fn folded(id: &SessionId) -> SessionId {
    SessionId::new(id.as_str().to_lowercase()).expect("a lower-case id is as good")
}

fn simplified(id: &SessionId) -> SessionId {
    let simple: String = id.as_str().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    SessionId::new(simple).expect("a simple id is as good")
}

/// Whether a part of a filter has no values.
fn is_without_values(filter: &ListFilter) -> bool {
    filter.ids().is_some_and(|ids| ids.is_empty())
        || filter.cwds().is_some_and(|cwds| cwds.is_empty())
        || filter.versions().is_some_and(|versions| versions.is_empty())
}

/// The same filter with each working directory up to its first NUL.
fn ended_at_nul(filter: &ListFilter) -> ListFilter {
    let Some(cwds) = filter.cwds() else { return filter.clone() };
    let end = |cwd: &String| cwd.split('\0').next().unwrap_or_default().to_owned();
    let ended: Vec<_> = cwds.iter().map(|cwd| cwd.as_ref().map(end)).collect();
    filter.clone().in_cwds(ended)
}
