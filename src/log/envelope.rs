//! [`Envelope`]: what a line spells beyond the values of its event.

use std::sync::Arc;

/// The keys of an event's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Type,
    Seq,
    Time,
    Data,
    SourceEventSeqs,
    SurfaceOp,
    Ignorable,
}

impl Key {
    /// The usual order.
    pub(crate) const ALL: [Key; 7] =
        [Key::Type, Key::Seq, Key::Time, Key::Data, Key::SourceEventSeqs, Key::SurfaceOp, Key::Ignorable];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Key::Type => "type",
            Key::Seq => "seq",
            Key::Time => "time",
            Key::Data => "data",
            Key::SourceEventSeqs => "sourceEventSeqs",
            Key::SurfaceOp => "surfaceOp",
            Key::Ignorable => "ignorable",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Key> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }
}

/// What a line spells beyond the values of its event, kept so that the event is exported as the very line it came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Envelope {
    /// The usual key order, no white space, the usual spelling of every value.
    #[default]
    Standard,
    /// The usual spelling in another key order.
    Ordered(Box<[Key]>),
    /// Anything else: the line without its data, and the byte at which the data stands.
    Spelled { line: Arc<str>, data_at: usize },
}
