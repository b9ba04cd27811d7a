//! [`LifecycleState`]: where a live session stands between its creation and its end.

use std::fmt;

use super::{Rule, Violation};

/// Where a session in memory stands between its creation and its end.
///
/// ```
/// use session_persistence::LifecycleState;
///
/// let state = LifecycleState::Created.to(LifecycleState::IDLE)?.to(LifecycleState::RUNNING)?;
/// let state = state.to(LifecycleState::Disposed)?; // the process is told to stop in the middle of a turn
/// state.to(LifecycleState::IDLE).unwrap_err();
/// # Ok::<(), session_persistence::Violation>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LifecycleState {
    /// It is being set up, and nobody has heard of it.
    Created,
    /// It was published.
    Live {
        /// Whether a turn is open.
        in_turn: bool,
    },
    /// It was given up. Nothing follows.
    Disposed,
}

impl LifecycleState {
    /// Live, between two turns.
    pub const IDLE: Self = Self::Live { in_turn: false };
    /// Live, in a turn.
    pub const RUNNING: Self = Self::Live { in_turn: true };

    /// Whether `next` may follow directly. A session goes live between two turns, so that an interrupted one must be
    /// repaired before; it is disposed of once, at any time while it is live. One whose creation fails goes nowhere.
    pub fn can_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Created, Self::IDLE)
                | (Self::IDLE, Self::RUNNING)
                | (Self::RUNNING, Self::IDLE)
                | (Self::Live { .. }, Self::Disposed)
        )
    }

    /// The state `next`, where it may follow directly.
    ///
    /// # Errors
    ///
    /// A [`Violation`] of [`Rule::Lifecycle`] where it may not.
    pub fn to(self, next: Self) -> Result<Self, Violation> {
        if self.can_become(next) {
            return Ok(next);
        }
        let expected = match self {
            Self::Created => "live between turns to follow on created",
            Self::IDLE => "live in a turn or disposed to follow on live between turns",
            Self::RUNNING => "live between turns or disposed to follow on live in a turn",
            Self::Disposed => "nothing to follow on disposed",
        };
        Err(Violation::new(Rule::Lifecycle, expected, next.to_string()))
    }
}

impl fmt::Display for LifecycleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::Created => "created",
            Self::IDLE => "live between turns",
            Self::RUNNING => "live in a turn",
            Self::Disposed => "disposed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_these_states_follow_on_one_another() {
        use LifecycleState as S;
        let all = [S::Created, S::IDLE, S::RUNNING, S::Disposed];
        let legal = [
            (S::Created, S::IDLE),
            (S::IDLE, S::RUNNING),
            (S::RUNNING, S::IDLE),
            (S::IDLE, S::Disposed),
            (S::RUNNING, S::Disposed),
        ];
        for from in all {
            for to in all {
                assert_eq!(from.can_become(to), legal.contains(&(from, to)), "{from} to {to}");
                assert_eq!(from.to(to).is_ok(), from.can_become(to));
            }
        }
    }

    #[test]
    fn a_refused_change_names_both_states() {
        let violation = LifecycleState::Disposed.to(LifecycleState::Disposed).unwrap_err();
        assert_eq!((violation.rule(), violation.seq(), violation.event_type()), (Rule::Lifecycle, None, None));
        assert_eq!(violation.to_string(), "expected nothing to follow on disposed, found disposed (rule lifecycle)");
    }
}
