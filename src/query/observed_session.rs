//! [`ObservedSession`]: a session as it was when it was asked for.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::cold_cache::Lease;
use super::surface_index::SurfaceIndex;
use super::{EventFilter, EventTrace, EventWindow, QueryError, SurfaceState, Window};
use crate::log::{FoldError, Seq, SessionEvent, SessionHeader, SessionId};
use crate::seam::Revision;
use crate::session::Session;

/// A session as it was when it was asked for. It does not change: what is appended later is seen by who asks again.
///
/// A stored session stays in memory as long as an observation of it is held. Dropping it gives that up, once; a clone is
/// an observation of its own.
#[derive(Clone)]
pub struct ObservedSession {
    source: Source,
    max_window: u64,
}

#[derive(Clone)]
enum Source {
    Cold(Lease),
    Live {
        session: Session,
        /// How many events it had.
        end: u64,
        surface: Arc<OnceLock<Result<Arc<SurfaceIndex>, FoldError>>>,
    },
}

impl ObservedSession {
    pub(super) fn cold(lease: Lease, max_window: u64) -> Self {
        Self { source: Source::Cold(lease), max_window }
    }

    pub(super) fn live(session: Session, max_window: u64) -> Self {
        let end = session.seq();
        Self { source: Source::Live { session, end, surface: Arc::default() }, max_window }
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        self.header().id()
    }

    /// Its header.
    pub fn header(&self) -> &SessionHeader {
        match &self.source {
            Source::Cold(lease) => &lease.session().header,
            Source::Live { session, .. } => session.header(),
        }
    }

    /// Whether it is live. Then no turn is ended in memory: it goes on.
    pub fn is_live(&self) -> bool {
        matches!(self.source, Source::Live { .. })
    }

    /// Which stored content it has; nothing for a live session.
    pub fn revision(&self) -> Option<&Revision> {
        match &self.source {
            Source::Cold(lease) => Some(&lease.session().revision),
            Source::Live { .. } => None,
        }
    }

    /// How many events it inherited from its parent.
    pub fn inherited_event_count(&self) -> u64 {
        match &self.source {
            Source::Cold(lease) => lease.session().inherited,
            Source::Live { session, .. } => session.inherited_event_count(),
        }
    }

    /// How many events it has, those included that end an interrupted turn.
    pub fn event_count(&self) -> u64 {
        match &self.source {
            Source::Cold(lease) => lease.session().events.len() as u64,
            Source::Live { end, .. } => *end,
        }
    }

    /// The events at its end that end an interrupted turn and are stored nowhere. A session that another process is writing
    /// now has them too.
    pub fn closers(&self) -> &[SessionEvent] {
        match &self.source {
            Source::Cold(lease) => &lease.session().events[lease.session().stored..],
            Source::Live { .. } => &[],
        }
    }

    /// The event at a seq.
    pub fn event_at(&self, seq: u64) -> Option<SessionEvent> {
        match &self.source {
            Source::Cold(lease) => lease.session().events.get(usize::try_from(seq).ok()?).cloned(),
            Source::Live { session, end, .. } => session.event_at(seq).filter(|_| seq < *end),
        }
    }

    /// The events of a range; what lies beyond the end is left out.
    pub fn events(&self, range: Range<u64>) -> Vec<SessionEvent> {
        let end = range.end.min(self.event_count());
        let start = range.start.min(end);
        match &self.source {
            Source::Cold(lease) => lease.session().events[start as usize..end as usize].to_vec(),
            Source::Live { session, .. } => session.snapshot(start..end),
        }
    }

    /// An event with those around it.
    ///
    /// # Errors
    ///
    /// `InvalidWindow` for more events on one side than the reader allows; `EventNotFound`.
    pub fn window(&self, seq: u64, window: Window) -> Result<EventWindow, QueryError> {
        let Window { before, after } = window;
        let max = self.max_window;
        if before > max || after > max {
            return Err(QueryError::InvalidWindow { session: self.id().clone(), before, after, max });
        }
        let event = self.expect(seq)?;
        Ok(EventWindow {
            before: self.events(seq.saturating_sub(before)..seq),
            event,
            after: self.events(seq.saturating_add(1)..seq.saturating_add(1).saturating_add(after)),
        })
    }

    /// The events that a filter lets through, in their order. One is looked at when it is asked for.
    ///
    /// # Errors
    ///
    /// `InvalidSurface` where the filter asks for it and the log breaks a rule of surfaces.
    pub fn filter<'a>(
        &'a self,
        filter: &'a EventFilter,
    ) -> Result<impl Iterator<Item = SessionEvent> + 'a, QueryError> {
        let surface = if filter.asks_for_surface() { Some(self.surface_index()?) } else { None };
        let seqs = filter.seqs_within(self.event_count());
        let events = seqs.filter_map(|seq| self.event_at(seq));
        Ok(events.filter(move |event| {
            let state = surface.as_ref().map(|surface| surface.state(event.seq()));
            filter.matches(event, state)
        }))
    }

    /// The events that the model sees, in its order.
    ///
    /// # Errors
    ///
    /// `InvalidSurface`.
    pub fn surface(&self) -> Result<Vec<SessionEvent>, QueryError> {
        let surface = self.surface_index()?;
        Ok(surface.nodes().filter_map(|seq| self.event_at(seq.get())).collect())
    }

    /// What became of an event on the surface.
    ///
    /// # Errors
    ///
    /// `EventNotFound`; `InvalidSurface`.
    pub fn surface_state(&self, seq: u64) -> Result<SurfaceState, QueryError> {
        let event = self.expect(seq)?;
        Ok(self.surface_index()?.state(event.seq()))
    }

    /// What an event stands for, what stands for it, and who cites whom.
    ///
    /// # Errors
    ///
    /// `EventNotFound`; `InvalidSurface`.
    pub fn trace_event(&self, seq: u64) -> Result<EventTrace, QueryError> {
        let event = self.expect(seq)?;
        let surface = self.surface_index()?;
        let seq = event.seq();
        let replacement_chain = surface.replacement_chain(seq);
        let cites = |later: &SessionEvent| later.source_event_seqs().is_some_and(|seqs| seqs.contains(&seq));
        let later = (seq.get() + 1..self.event_count()).filter_map(|seq| self.event_at(seq));
        Ok(EventTrace {
            state: surface.state(seq),
            replaced_by: replacement_chain.first().copied(),
            replacement_chain,
            replaced: surface.replaced(seq).to_vec(),
            cited: event.source_event_seqs().unwrap_or_default().to_vec(),
            cited_by: later.filter(cites).map(|later| later.seq()).collect::<Vec<Seq>>(),
            event,
        })
    }

    fn expect(&self, seq: u64) -> Result<SessionEvent, QueryError> {
        self.event_at(seq).ok_or_else(|| QueryError::EventNotFound {
            session: self.id().clone(),
            seq,
            count: self.event_count(),
        })
    }

    fn surface_index(&self) -> Result<Arc<SurfaceIndex>, QueryError> {
        let folded = match &self.source {
            Source::Cold(lease) => lease.session().surface(),
            Source::Live { session, end, surface } => {
                let fold = || SurfaceIndex::fold(session.header().version(), &session.snapshot(0..*end)).map(Arc::new);
                surface.get_or_init(fold).clone()
            }
        };
        folded.map_err(|source| QueryError::InvalidSurface { session: self.id().clone(), source })
    }
}

impl std::fmt::Debug for ObservedSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut s = f.debug_struct("ObservedSession");
        s.field("id", self.id()).field("is_live", &self.is_live()).field("event_count", &self.event_count());
        s.finish_non_exhaustive()
    }
}
