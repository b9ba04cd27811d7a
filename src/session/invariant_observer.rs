//! [`InvariantObserver`]: the rules between events, kept while a session is live.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Session, SessionObserver};
use crate::log::{Invariants, LifecycleState, SessionEvent, SessionId, Violation};

/// Vetoes an event that breaks a rule between the events of a session, see [`Invariants`]. It changes nothing of what is
/// stored, needs no configuration, and may come in the middle of a session and go again: when it is attached it replays the
/// log first.
///
/// One value observes one session, the first that it is attached to.
#[derive(Debug, Default)]
pub struct InvariantObserver {
    state: Mutex<Option<State>>,
}

#[derive(Debug)]
struct State {
    session: SessionId,
    rules: Invariants,
    life: LifecycleState,
}

impl InvariantObserver {
    /// An observer that is attached to nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `check` on what is known of the session, which must be the one that is observed.
    fn with(&self, session: &Session, check: impl FnOnce(&mut State) -> Result<(), Violation>) -> Result<(), String> {
        match &mut *self.state() {
            Some(state) if state.session == *session.id() => check(state).map_err(|violation| violation.to_string()),
            Some(state) => Err(format!("it observes session {:?} and was told of {:?}", state.session, session.id())),
            None => Err("it was told of an event before it was attached".to_owned()),
        }
    }
}

impl SessionObserver for InvariantObserver {
    fn name(&self) -> &str {
        "the invariants"
    }

    fn attached(&self, session: &Session) -> Result<(), String> {
        let mut state = self.state();
        if let Some(state) = &*state {
            return Err(format!("it observes session {:?} already", state.session));
        }
        let events = session.snapshot(0..u64::MAX);
        let rules = Invariants::replay(&events).map_err(|violation| violation.to_string())?;
        let life = if session.is_published() {
            LifecycleState::Live { in_turn: rules.turn().is_some() }
        } else {
            LifecycleState::Created
        };
        *state = Some(State { session: session.id().clone(), rules, life });
        Ok(())
    }

    fn check_append(&self, session: &Session, event: &SessionEvent) -> Result<(), String> {
        self.with(session, |state| state.rules.check(event))
    }

    fn appended(&self, session: &Session, event: &SessionEvent) -> Result<(), crate::seam::Source> {
        self.with(session, |state| {
            state.rules.observe(event)?;
            let next = LifecycleState::Live { in_turn: state.rules.turn().is_some() };
            // What is appended before the publication is a part of the set-up.
            if state.life != LifecycleState::Created && state.life != next {
                state.life = state.life.to(next)?;
            }
            Ok(())
        })?;
        Ok(())
    }

    fn published(&self, session: &Session) -> Result<(), crate::seam::Source> {
        self.with(session, |state| {
            state.life = state.life.to(LifecycleState::Live { in_turn: state.rules.turn().is_some() })?;
            Ok(())
        })?;
        Ok(())
    }

    fn disposed(&self, session: &Session) -> Result<(), crate::seam::Source> {
        self.with(session, |state| {
            state.life = state.life.to(LifecycleState::Disposed)?;
            Ok(())
        })?;
        Ok(())
    }
}
