//! [`ColdSession`]: a stored session in memory, its interrupted turn ended.

use std::sync::{Arc, OnceLock};

use super::surface_index::SurfaceIndex;
use super::{QueryError, ReaderOptions};
use crate::log::{FoldError, OpenTurn, SessionEvent, SessionHeader, SurfaceOp};
use crate::paging::Pages;
use crate::seam::{OpenOptions, Revision, SessionPersistence, Snapshot};

/// What an event takes in memory beside its text: its record, the counts and the length of its shared text, and its part of
/// what is kept of the surface.
const EVENT_BYTES: u64 = 128;
/// What an event takes that carries more than its type, seq, time and data.
const RARE_BYTES: u64 = 192;

/// The log of a stored session at one revision, with the events that end an interrupted turn behind it. These are in memory
/// only.
pub(super) struct ColdSession {
    pub(super) header: SessionHeader,
    pub(super) revision: Revision,
    pub(super) inherited: u64,
    pub(super) events: Vec<SessionEvent>,
    /// How many of the events are stored; those behind end the turn.
    pub(super) stored: usize,
    /// What it takes in memory, estimated.
    pub(super) bytes: u64,
    surface: OnceLock<Result<Arc<SurfaceIndex>, FoldError>>,
}

impl ColdSession {
    /// Reads the session of a snapshot; nothing where it is not at that snapshot's revision any more.
    pub(super) fn load(
        store: &dyn SessionPersistence,
        snapshot: &Snapshot,
        options: &ReaderOptions,
    ) -> Result<Option<Self>, QueryError> {
        let read = Self::read(store, snapshot, options);
        // Whatever came of it came of one state only if that state is still there, a failure too.
        match store.stat(&snapshot.id) {
            Ok(Some(now)) if now.revision == snapshot.revision => read.map(Some),
            Ok(_) => Ok(None),
            Err(failed) => Err(read.err().unwrap_or_else(|| failed.into())),
        }
    }

    fn read(store: &dyn SessionPersistence, snapshot: &Snapshot, options: &ReaderOptions) -> Result<Self, QueryError> {
        let session = &snapshot.id;
        let handle = store.open(session, OpenOptions::read())?;
        let mut bytes = 0;
        let mut add = |event: &SessionEvent| {
            bytes += size_of(event);
            if bytes > options.max_session_bytes {
                return Err(QueryError::TooLarge { session: session.clone(), limit: options.max_session_bytes });
            }
            Ok(())
        };
        let mut events = Vec::new();
        let mut turn = OpenTurn::new();
        let mut pages = Pages::new(&*handle, snapshot, 0);
        loop {
            let page = pages.next_page()?;
            if page.is_empty() {
                break;
            }
            for event in &page {
                add(event)?;
                turn.observe(event);
            }
            events.extend(page);
        }
        let stored = events.len();
        if let Some(last) = events.last() {
            let closers = turn
                .closers(last.seq(), last.time(), &options.repair_texts)
                .map_err(|source| QueryError::NotBalanced { session: session.clone(), seq: last.seq(), source })?;
            closers.iter().try_for_each(&mut add)?;
            events.extend(closers);
        }
        // The estimate counts no room for events to come.
        events.shrink_to_fit();
        let (header, inherited) = (handle.header().clone(), handle.inherited_event_count());
        handle.close()?;
        let revision = snapshot.revision.clone();
        Ok(Self { header, revision, inherited, events, stored, bytes, surface: OnceLock::new() })
    }

    pub(super) fn surface(&self) -> Result<Arc<SurfaceIndex>, FoldError> {
        let fold = || SurfaceIndex::fold(self.header.version(), &self.events).map(Arc::new);
        self.surface.get_or_init(fold).clone()
    }
}

/// What an event takes in memory, estimated: text to the byte, everything else by the constants above.
fn size_of(event: &SessionEvent) -> u64 {
    let cited = event.source_event_seqs();
    let opaque = match event.surface_op() {
        Some(SurfaceOp::Opaque(json)) => json.as_str().len(),
        _ => 0,
    };
    let is_rare = cited.is_some() || event.surface_op().is_some() || event.is_ignorable();
    let text = event.data().as_str().len() + event.event_type().len() + opaque;
    text as u64 + cited.map_or(0, |seqs| 8 * seqs.len() as u64) + EVENT_BYTES + if is_rare { RARE_BYTES } else { 0 }
}
