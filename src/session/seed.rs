//! [`Seed`]: what a session starts with.

use super::log::Log;
use super::{Clock, LiveError, shape};
use crate::log::payload::EndSeed;
use crate::log::{SessionEvent, SessionHeader};
use crate::seam::checks::{self, END_SEED};

/// What a session starts with. Its events keep their times and their bytes.
///
/// The end of a seed is marked in the log by an event `session/end-seed`, which is never told to observers: of an inherited
/// one always, of any other where its last event is no such mark already, so that opening a session again and again does
/// not make it grow.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Seed {
    /// Nothing: a fresh session.
    #[default]
    None,
    /// Events of one's own, as a replay starts with. The header must not be seeded.
    Own(Vec<SessionEvent>),
    /// Events of a parent. The header must be seeded.
    Inherited(Vec<SessionEvent>),
    /// A whole stored log, with how many of its events were inherited.
    Stored {
        /// The events.
        events: Vec<SessionEvent>,
        /// How many of them were inherited.
        inherited: u64,
    },
}

/// A log that grew from a seed.
pub(super) struct Seeded {
    pub(super) log: Log,
    pub(super) inherited: u64,
    pub(super) first_live_seq: u64,
}

impl Seed {
    /// How many events are inherited, for the store.
    pub(super) fn inherited_in(&self, header: &SessionHeader) -> Option<u64> {
        match self {
            Self::Inherited(events) => Some(events.len() as u64),
            Self::Stored { inherited, .. } => Some(*inherited),
            // A header that says otherwise is refused by its rule.
            Self::None | Self::Own(_) => (!header.is_seeded()).then_some(0),
        }
    }

    pub(super) fn grow(self, header: &SessionHeader, clock: &Clock) -> Result<Seeded, LiveError> {
        let session = header.id();
        let refuse = |index: Option<u64>, reason: String| LiveError::Seed { session: session.clone(), index, reason };
        let is_fresh_fork = matches!(self, Self::Inherited(_));
        let (events, inherited) = match self {
            Self::None if header.is_seeded() => {
                return Err(refuse(None, "the header is seeded, so that events must be inherited".to_owned()));
            }
            Self::Own(_) if header.is_seeded() => {
                return Err(refuse(None, "the header is seeded, so that its events must be inherited ones".to_owned()));
            }
            Self::Inherited(_) if !header.is_seeded() => {
                return Err(refuse(None, "the header is not seeded, so that no events can be inherited".to_owned()));
            }
            Self::None => (None, 0),
            Self::Own(events) => (Some(events), 0),
            Self::Inherited(events) => {
                let inherited = events.len() as u64;
                (Some(events), inherited)
            }
            Self::Stored { events, inherited } => {
                check_count(header, &events, inherited).map_err(|reason| refuse(None, reason))?;
                (Some(events), inherited)
            }
        };
        let mut log = Log::new(header).map_err(|e| refuse(None, e.to_string()))?;
        let has_seed = events.is_some();
        for (index, event) in events.into_iter().flatten().enumerate() {
            let index = index as u64;
            let rule = |event: &SessionEvent| {
                shape::check_seeded(event)?;
                if event.seq().get() != index {
                    return Err(format!("it has seq {} where {index} comes next", event.seq()));
                }
                Ok(())
            };
            let admitted = log.admit(event, rule).map_err(|reason| refuse(Some(index), reason))?;
            log.push(admitted);
        }
        let first_live_seq = log.len();
        let is_marked = log.get(first_live_seq.wrapping_sub(1)).is_some_and(|last| last.event_type() == END_SEED);
        if is_fresh_fork || has_seed && !is_marked {
            let mark = SessionEvent::of(END_SEED, first_live_seq, clock.now(), &EndSeed { inherited: is_fresh_fork })
                .map_err(|e| LiveError::record(session, END_SEED, e))?;
            let admitted = log.admit(mark, |_| Ok(())).map_err(|reason| refuse(Some(first_live_seq), reason))?;
            log.push(admitted);
        }
        Ok(Seeded { log, inherited, first_live_seq })
    }
}

/// Checks how many events a stored log has inherited against its header and its marks.
fn check_count(header: &SessionHeader, events: &[SessionEvent], inherited: u64) -> Result<(), String> {
    if inherited > events.len() as u64 {
        return Err(format!("{inherited} events are said to be inherited, of {} in all", events.len()));
    }
    if !header.is_seeded() && inherited > 0 {
        return Err(format!("the header is not seeded, so that {inherited} events cannot be inherited"));
    }
    if checks::has_seed_mark(header) {
        let marked = events.iter().rev().find_map(checks::inherited_mark);
        let told = marked.map(crate::log::Seq::get);
        if told != Some(inherited) {
            return Err(format!("{inherited} events are said to be inherited, and its marks tell {told:?}"));
        }
    }
    Ok(())
}
