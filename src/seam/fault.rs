//! [`Fault`]: something stored that is not as it should be.

use std::fmt;

use super::Error;
use crate::log::{Seq, SessionId};

/// Something stored that is not as it should be: what, where, and what to do about it. Finding it changed nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The session, where it is one session's.
    pub session: Option<SessionId>,
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// The event, where it is one: of several in a row the first.
    pub seq: Option<u64>,
    /// The byte in the session's file, where the fault has a place in one.
    pub offset: Option<u64>,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub advice: String,
}

impl Fault {
    /// A fault of the store as a whole.
    pub fn new(kind: FaultKind, reason: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { session: None, kind, seq: None, offset: None, reason: reason.into(), advice: advice.into() }
    }

    /// The same fault as one of a session.
    #[must_use]
    pub fn of(mut self, session: &SessionId) -> Self {
        self.session = Some(session.clone());
        self
    }

    /// The same fault at an event.
    #[must_use]
    pub fn at_seq(mut self, seq: u64) -> Self {
        self.seq = Some(seq);
        self
    }

    /// The same fault at a byte of the session's file.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// What `error` found of a session, as damage: the place that a `Corruption` tells, or the error's own words.
    pub(crate) fn damage(session: &SessionId, error: &Error) -> Self {
        let (seq, offset, reason) = match error {
            Error::Corruption { seq, offset, reason, .. } => (seq.map(Seq::get), *offset, reason.clone()),
            other => (None, None, format!("{other:?}")),
        };
        let mut fault = Self::new(FaultKind::Damage, reason, "").of(session);
        (fault.seq, fault.offset) = (seq, offset);
        fault
    }
}

/// The kind, the place, what is wrong and what to do, on one line.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.kind)?;
        if let Some(session) = &self.session {
            write!(f, "session {session:?}")?;
            if let Some(seq) = self.seq {
                write!(f, " at seq {seq}")?;
            }
            if let Some(offset) = self.offset {
                write!(f, " at byte {offset}")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}; {}", self.reason, self.advice)
    }
}

/// The kind of a [`Fault`], to decide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// Bytes of a log or of its header are not what was stored.
    Damage,
    /// What is counted or noted of a log, and follows from it, differs from it. The log itself is not affected.
    Count,
    /// Rows or files that belong to no session.
    Orphan,
    /// The file itself, and what it holds beside the rows: its pages, indexes, triggers and views.
    Structure,
    /// What was made of the logs, lies beside them and can be made anew: a search index.
    Index,
    /// Something that was left behind and harms nobody: what an unfinished write left, which no reader is given, a file
    /// that nobody reads, room that is taken for longer than it is needed.
    Leftover,
}

impl FaultKind {
    /// Whether nothing is wrong with what is stored.
    pub fn is_harmless(self) -> bool {
        self == Self::Leftover
    }

    /// Its name, as in `damage`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Damage => "damage",
            Self::Count => "count",
            Self::Orphan => "orphan",
            Self::Structure => "structure",
            Self::Index => "index",
            Self::Leftover => "leftover",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_tells_its_kind_its_place_and_what_to_do() {
        let session = SessionId::new("s").unwrap();
        let fault = Fault::new(FaultKind::Damage, "bits", "restore it").of(&session).at_seq(3).at_offset(99);
        assert_eq!(fault.to_string(), "damage: session \"s\" at seq 3 at byte 99: bits; restore it");
        let fault = Fault::new(FaultKind::Leftover, "a draft", "remove it");
        assert_eq!(fault.to_string(), "leftover: a draft; remove it");
        assert_eq!(format!("{:9}|", FaultKind::Count), "count    |");
    }

    #[test]
    fn damage_has_the_place_of_its_error() {
        let session = SessionId::new("s").unwrap();
        let error =
            Error::Corruption { session: session.clone(), seq: Seq::new(2), offset: Some(7), reason: "bits".into() };
        let fault = Fault::damage(&session, &error);
        assert_eq!((fault.seq, fault.offset, &*fault.reason), (Some(2), Some(7), "bits"));
        let error = Error::Io { session: None, operation: "reading x".into(), source: "bad sector".into() };
        assert_eq!(Fault::damage(&session, &error).reason, "Io: reading x failed: bad sector");
    }
}
