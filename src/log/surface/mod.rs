//! [`Surface`]: which events are visible to the model now.

mod chain;
mod kind;
mod rules;
mod steps;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::chain::Chain;
pub(super) use self::kind::Kind;
use super::header::CURRENT_VERSION;
use super::{FoldError, Seq, SessionEvent, SurfaceOp, Vocabulary, vocabulary};

/// Which events of a log are visible to the model now, and in which order: the fold of the log's surface operations.
///
/// An event with [`SurfaceOp::Append`] joins at the end. One with [`SurfaceOp::Replace`] stands where the nodes of its
/// range stood; these are gone from the surface and stay in the log. A range is one of places, so its start may have
/// a greater seq than its end. All other events pass by. Each event is given once, in the order of the log.
///
/// An append costs the same however long the log and the surface are; a replacement costs as much as the nodes that it
/// replaces and the events that it cites.
///
/// ```
/// use session_persistence::{Json, Seq, SessionEvent, Surface, SurfaceOp};
///
/// let user = |seq| SessionEvent::new("user/message", seq, 0, Json::parse(r#"{"role":"user","content":[]}"#).unwrap());
/// let checkpoint = SurfaceOp::Replace { start_seq: Seq::from(0), end_seq: Seq::from(2) };
/// let log = vec![
///     user(0)?.with_surface_op(SurfaceOp::Append)?,
///     SessionEvent::new("turn/start", 1, 0, Json::parse(r#"{"turn":1}"#)?)?,
///     user(2)?.with_surface_op(SurfaceOp::Append)?,
///     user(3)?.with_surface_op(checkpoint)?.with_source_event_seqs([0, 2])?,
/// ];
///
/// let mut surface = Surface::new(3)?;
/// for event in &log[..3] {
///     surface.push(event, |seq| log.get(seq.get() as usize).cloned())?;
/// }
/// assert_eq!(surface.nodes().map(u64::from).collect::<Vec<_>>(), [0, 2]);
///
/// let replacement = surface.push(&log[3], |seq| log.get(seq.get() as usize).cloned())?.expect("one");
/// assert_eq!(replacement.shadowed.len(), 2);
/// assert_eq!(surface.nodes().map(u64::from).collect::<Vec<_>>(), [3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Surface {
    version: u32,
    /// The host's own, where it has one: the core types of the format otherwise.
    vocabulary: Option<Arc<Vocabulary>>,
    chain: Chain,
    next_seq: u64,
    replace_generation: u64,
}

impl Surface {
    /// The surface of an empty log of format `version`, whose event types are those of the format.
    ///
    /// Format 3 is what is written. The formats 0 to 2 are folded for reading: they have no system messages, spell
    /// their replacements as [`SurfaceOp::LegacyReplace`], and let an assistant message cite its chunks.
    ///
    /// # Errors
    ///
    /// [`FoldError::UnknownFormat`] for a version above 3.
    pub fn new(version: u32) -> Result<Self, FoldError> {
        if version > CURRENT_VERSION {
            return Err(FoldError::UnknownFormat { found: version, known: CURRENT_VERSION });
        }
        Ok(Self { version, vocabulary: None, chain: Chain::default(), next_seq: 0, replace_generation: 0 })
    }

    /// The same for a host with event types of its own. What it knows matters for events that are marked ignorable:
    /// those of an unknown type pass by whatever they carry, those of a known one are checked like any other.
    ///
    /// # Errors
    ///
    /// As [`Surface::new`].
    pub fn of(vocabulary: Arc<Vocabulary>) -> Result<Self, FoldError> {
        Ok(Self { vocabulary: Some(vocabulary.clone()), ..Self::new(vocabulary.version())? })
    }

    /// Folds a whole log, given from its first event on.
    ///
    /// # Errors
    ///
    /// As [`Surface::new`] and, for the first event that breaks a rule, [`Surface::plan`].
    pub fn fold(version: u32, events: &[SessionEvent]) -> Result<(Self, Vec<Replacement>), FoldError> {
        let mut surface = Self::new(version)?;
        let mut replacements = Vec::new();
        for event in events {
            replacements.extend(surface.push(event, |seq| event_at(events, seq))?);
        }
        Ok((surface, replacements))
    }

    /// What the next event of the log would change. Changes nothing itself: a refused event leaves no trace, and the
    /// plan may be dropped.
    ///
    /// `earlier` gives an earlier event of the log by its seq. It is asked at most once, by a `tool/result` that
    /// stands for another one.
    ///
    /// # Errors
    ///
    /// The first rule that the event breaks, in the order of [`FoldError`]'s variants; in the formats 0 and 1
    /// [`FoldError::NotOnSurface`] and [`FoldError::RangeReversed`] come before those about `sourceEventSeqs`.
    pub fn plan(
        &self,
        event: &SessionEvent,
        earlier: impl FnOnce(Seq) -> Option<SessionEvent>,
    ) -> Result<SurfacePlan, FoldError> {
        self.expect(event.seq())?;
        Ok(SurfacePlan { seq: event.seq(), change: rules::change(self, event, earlier)? })
    }

    /// Carries out a plan, and gives the replacement where it is one.
    ///
    /// # Errors
    ///
    /// [`FoldError::NotContiguous`] when another event came in since the plan was made; nothing is changed then. A plan
    /// of another log is not told apart by more than its seq.
    pub fn apply(&mut self, plan: SurfacePlan) -> Result<Option<Replacement>, FoldError> {
        self.expect(plan.seq)?;
        self.next_seq += 1;
        Ok(match plan.change {
            Change::None => None,
            Change::Append(kind) => {
                self.chain.push(plan.seq, kind);
                None
            }
            Change::Replace(kind, replacement) => {
                self.chain.replace(&replacement.shadowed, plan.seq, kind);
                self.replace_generation += 1;
                Some(replacement)
            }
        })
    }

    /// [`Surface::plan`] and [`Surface::apply`] in one.
    ///
    /// # Errors
    ///
    /// As [`Surface::plan`]; nothing is changed then.
    pub fn push(
        &mut self,
        event: &SessionEvent,
        earlier: impl FnOnce(Seq) -> Option<SessionEvent>,
    ) -> Result<Option<Replacement>, FoldError> {
        let plan = self.plan(event, earlier)?;
        self.apply(plan)
    }

    /// The visible events, in the order in which the model sees them.
    pub fn nodes(&self) -> impl Iterator<Item = Seq> + '_ {
        std::iter::successors(self.first(), |node| self.chain.behind(*node))
    }

    /// The first visible event.
    pub fn first(&self) -> Option<Seq> {
        self.chain.first()
    }

    /// The last visible event.
    pub fn last(&self) -> Option<Seq> {
        self.chain.last()
    }

    /// How many events are visible.
    pub fn len(&self) -> usize {
        self.chain.len()
    }

    /// Whether no event is visible.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an event is visible. One that is not was replaced, never was to be seen, or has not come yet.
    pub fn contains(&self, seq: Seq) -> bool {
        self.chain.kind(seq).is_some()
    }

    /// How many replacements there were. While it is the same the surface has only grown at its end.
    pub fn replace_generation(&self) -> u64 {
        self.replace_generation
    }

    /// How many events of the log were folded, which is the seq of the next one.
    pub fn event_count(&self) -> u64 {
        self.next_seq
    }

    /// The format of the log.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Whether an event of this log joined the surface at its end. In log order these are the transcript for people:
    /// all that was said, and nothing that was written to stand for it later.
    pub fn is_appended(&self, event: &SessionEvent) -> bool {
        self.kind(event).is_some() && event.surface_op() == Some(&SurfaceOp::Append)
    }

    fn kind(&self, event: &SessionEvent) -> Option<Kind> {
        Kind::of(event.event_type(), self.version)
    }

    fn knows(&self, event_type: &str) -> bool {
        match &self.vocabulary {
            Some(vocabulary) => vocabulary.knows(event_type),
            None => vocabulary::is_core(event_type, self.version),
        }
    }

    fn expect(&self, found: Seq) -> Result<(), FoldError> {
        if found.get() == self.next_seq {
            return Ok(());
        }
        Err(FoldError::NotContiguous { expected: self.next_seq, found })
    }
}

/// The surface of an empty log of format 3.
impl Default for Surface {
    fn default() -> Self {
        Self { version: CURRENT_VERSION, vocabulary: None, chain: Chain::default(), next_seq: 0, replace_generation: 0 }
    }
}

/// What the next event of a log changes on its surface, checked and not yet carried out.
#[derive(Debug, Clone)]
#[must_use = "a plan changes nothing until it is applied"]
pub struct SurfacePlan {
    seq: Seq,
    change: Change,
}

#[derive(Debug, Clone)]
enum Change {
    None,
    Append(Kind),
    Replace(Kind, Replacement),
}

impl SurfacePlan {
    /// The event that it is for.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Whether the event will be visible.
    pub fn is_visible(&self) -> bool {
        !matches!(self.change, Change::None)
    }

    /// The replacement, where it is one.
    pub fn replacement(&self) -> Option<&Replacement> {
        match &self.change {
            Change::Replace(_, replacement) => Some(replacement),
            Change::None | Change::Append(_) => None,
        }
    }
}

/// One event in the place of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The event that replaces.
    pub seq: Seq,
    /// The first node that it replaces.
    pub start: Seq,
    /// The last node that it replaces.
    pub end: Seq,
    /// All nodes that it replaces, in the order in which they stood on the surface.
    pub shadowed: Vec<Seq>,
}

/// The event of a log that is given from its first event on.
pub(super) fn event_at(events: &[SessionEvent], seq: Seq) -> Option<SessionEvent> {
    events.get(usize::try_from(seq.get()).ok()?).cloned()
}
