//! [`FoldError`]: an event that does not fit the log that it was folded into.

use std::fmt;

use super::Seq;

/// An event that does not fit the log that it was folded into: which one, what the rule expects and what was found.
/// The fold is what it was before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FoldError {
    /// A format that is not known here.
    #[error(
        "format {found} is newer than format {known}, the newest that can be folded here; a newer program is needed"
    )]
    UnknownFormat {
        /// The format of the log.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// An event that is not the next one.
    #[error("the event at seq {found} came where seq {expected} is next; give the events of a log in order, each once")]
    NotContiguous {
        /// The seq that comes next.
        expected: u64,
        /// The seq that came.
        found: Seq,
    },
    /// A surface key on an event that no model ever sees.
    #[error("seq {seq}: an event of type {event_type:?} is not shown to the model and must not carry {key}")]
    NotEligible {
        /// The event.
        seq: Seq,
        /// Its type.
        event_type: String,
        /// The key: `surfaceOp` or `sourceEventSeqs`.
        key: &'static str,
    },
    /// A message without a surface operation.
    #[error("seq {seq}: {event_type} needs a surfaceOp, \"append\" or a replacement, and has none")]
    OperationMissing {
        /// The event.
        seq: Seq,
        /// Its type.
        event_type: &'static str,
    },
    /// A message with a surface operation that its format does not have.
    #[error("seq {seq}: the surfaceOp of {event_type} must be {expected}, found {found}")]
    OperationInvalid {
        /// The event.
        seq: Seq,
        /// Its type.
        event_type: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is, as text.
        found: String,
    },
    /// A replacement of events that have not come yet (format 3).
    #[error("seq {seq}: it replaces {start} to {end}, and may only replace events that are earlier than itself")]
    RangeNotEarlier {
        /// The event.
        seq: Seq,
        /// The start of its range.
        start: Seq,
        /// The end of its range.
        end: Seq,
    },
    /// An answer that cites events (format 3).
    #[error("seq {seq}: assistant/message holds its own stream and must not carry sourceEventSeqs")]
    AssistantSources {
        /// The event.
        seq: Seq,
    },
    /// An empty list of sources.
    #[error("seq {seq}: sourceEventSeqs is empty; name the events that it was made from, or leave the key out")]
    SourcesEmpty {
        /// The event.
        seq: Seq,
    },
    /// A source that is named twice.
    #[error("seq {seq}: sourceEventSeqs names {cited} twice; name each event once")]
    SourceRepeated {
        /// The event.
        seq: Seq,
        /// The source.
        cited: Seq,
    },
    /// A source that has not come yet.
    #[error("seq {seq}: sourceEventSeqs names {cited}, and may only name events that are earlier than itself")]
    SourceNotEarlier {
        /// The event.
        seq: Seq,
        /// The first such source.
        cited: Seq,
    },
    /// A range with an end that is not visible.
    #[error("seq {seq}: the {which} of its range, seq {node}, is not on the surface; a range names events that are")]
    NotOnSurface {
        /// The event.
        seq: Seq,
        /// The end of the range that is not there: `start` or `end`.
        which: &'static str,
        /// The seq that it names.
        node: Seq,
    },
    /// A range whose start stands behind its end.
    #[error(
        "seq {seq}: its range starts at seq {start}, which stands {distance} behind the end at seq {end}; swap them"
    )]
    RangeReversed {
        /// The event.
        seq: Seq,
        /// The start of its range.
        start: Seq,
        /// The end of its range.
        end: Seq,
        /// How many nodes further on the start stands.
        distance: usize,
    },
    /// A replacement that does not cite all that it replaces.
    #[error("seq {seq}: sourceEventSeqs must name every event that is replaced, missing {}", Few(missing))]
    NotCovered {
        /// The event.
        seq: Seq,
        /// What it does not cite, in the order of the surface.
        missing: Vec<Seq>,
    },
    /// A result of a tool in the place of several events.
    #[error("seq {seq}: a tool/result may replace exactly one event, found {found}")]
    ResultOverSeveral {
        /// The event.
        seq: Seq,
        /// How many it would replace.
        found: usize,
    },
    /// A result of a tool in the place of something else.
    #[error("seq {seq}: a tool/result may only replace a tool/result, seq {node} is {found}")]
    ResultOverAnother {
        /// The event.
        seq: Seq,
        /// The event that it would replace.
        node: Seq,
        /// Its type.
        found: &'static str,
    },
    /// An earlier event that the caller could not give.
    #[error("seq {seq}: it rewrites the tool/result at seq {node}, which the caller of the fold did not give")]
    EventNotGiven {
        /// The event.
        seq: Seq,
        /// The event that is needed.
        node: Seq,
    },
    /// A rewritten result of a tool that changes more than what it says.
    #[error(
        "seq {seq}: it rewrites the tool/result at seq {node} and may change only what its block says, {path} differs"
    )]
    ResultChanged {
        /// The event.
        seq: Seq,
        /// The event that it would replace.
        node: Seq,
        /// Where the first difference is, as in `message.id`.
        path: String,
    },
    /// A replacement of the system prompt by something else (format 3).
    #[error(
        "seq {seq}: seq {head} at the head of the surface holds the system prompt, which only a system/message over \
         it alone may replace, found {found} over {nodes}; start the range behind it"
    )]
    SystemPromptReplaced {
        /// The event.
        seq: Seq,
        /// The event with the system prompt.
        head: Seq,
        /// The type of the event that would replace it.
        found: &'static str,
        /// How many nodes that event would replace.
        nodes: usize,
    },
    /// Data in which a fold does not find what it needs.
    #[error("seq {seq}: {path} of {event_type} must be {expected}, found {found}")]
    UnexpectedData {
        /// The event.
        seq: Seq,
        /// Its type.
        event_type: &'static str,
        /// Where, as in `data.message`.
        path: &'static str,
        /// What must stand there.
        expected: &'static str,
        /// What does, as text; its start where it is long.
        found: String,
    },
}

impl FoldError {
    /// The event that was refused; nothing where the whole log was.
    pub fn seq(&self) -> Option<Seq> {
        match self {
            Self::UnknownFormat { .. } => None,
            Self::NotContiguous { found: seq, .. }
            | Self::NotEligible { seq, .. }
            | Self::OperationMissing { seq, .. }
            | Self::OperationInvalid { seq, .. }
            | Self::RangeNotEarlier { seq, .. }
            | Self::AssistantSources { seq }
            | Self::SourcesEmpty { seq }
            | Self::SourceRepeated { seq, .. }
            | Self::SourceNotEarlier { seq, .. }
            | Self::NotOnSurface { seq, .. }
            | Self::RangeReversed { seq, .. }
            | Self::NotCovered { seq, .. }
            | Self::ResultOverSeveral { seq, .. }
            | Self::ResultOverAnother { seq, .. }
            | Self::EventNotGiven { seq, .. }
            | Self::ResultChanged { seq, .. }
            | Self::SystemPromptReplaced { seq, .. }
            | Self::UnexpectedData { seq, .. } => Some(*seq),
        }
    }
}

/// The start of a list of seqs that may be long.
struct Few<'a>(&'a [Seq]);

impl fmt::Display for Few<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        for (i, seq) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{seq}", if i > 0 { ", " } else { "" })?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_missing_sources_is_told_by_its_start() {
        let error = |n: u32| FoldError::NotCovered { seq: Seq::from(99), missing: (0..n).map(Seq::from).collect() };
        assert!(error(2).to_string().ends_with("missing 0, 1"));
        assert!(error(8).to_string().ends_with("6, 7"));
        assert!(error(20).to_string().ends_with("6, 7 and 12 more"));
    }
}
