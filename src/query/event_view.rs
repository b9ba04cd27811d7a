//! [`EventWindow`]: an event with those around it; [`EventTrace`]: with those that it has to do with.

use crate::log::{Seq, SessionEvent};

/// How much around an event is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// How many events before it.
    pub before: u64,
    /// How many events behind it.
    pub after: u64,
}

impl Window {
    /// So many events before it and behind it.
    pub const fn new(before: u64, after: u64) -> Self {
        Self { before, after }
    }
}

/// An event with those around it, in the order of the log. At the ends of the log there are fewer than were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventWindow {
    /// What stands before it.
    pub before: Vec<SessionEvent>,
    /// The event.
    pub event: SessionEvent,
    /// What stands behind it.
    pub after: Vec<SessionEvent>,
}

/// What became of an event on the surface of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SurfaceState {
    /// The model sees it now.
    Current,
    /// The model saw it; another one stands for it now.
    Shadowed,
    /// It never was to be seen.
    LogOnly,
}

impl SurfaceState {
    /// Its name: `current`, `shadowed` or `log-only`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Shadowed => "shadowed",
            Self::LogOnly => "log-only",
        }
    }
}

impl std::fmt::Display for SurfaceState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An event with those that it has to do with.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventTrace {
    /// The event.
    pub event: SessionEvent,
    /// What became of it.
    pub state: SurfaceState,
    /// What took its place on the surface.
    pub replaced_by: Option<Seq>,
    /// The same, then what took the place of that, and so on to what is on the surface now.
    pub replacement_chain: Vec<Seq>,
    /// Whose place it took, in the order in which these stood on the surface.
    pub replaced: Vec<Seq>,
    /// The earlier events that it cites, in its own order.
    pub cited: Vec<Seq>,
    /// The later events that cite it, in their order.
    pub cited_by: Vec<Seq>,
}
