//! [`Violation`]: a rule between events that does not hold.

use std::fmt;
use std::sync::Arc;

use super::{Seq, SessionEvent};

/// The rules between the events of a session, and between a session and what its host does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Seqs grow from event to event.
    SeqGrows,
    /// A turn starts when no other is open.
    OneTurnAtATime,
    /// Turns are numbered 1, 2, 3, ...
    TurnInOrder,
    /// A `turn/end` names the open turn.
    TurnEndNamesOpenTurn,
    /// A turn ends when no step is open.
    StepsEndBeforeTurn,
    /// A `step/start` names the open turn.
    StepStartNamesOpenTurn,
    /// A step starts when no other is open.
    OneStepAtATime,
    /// The steps of a turn are numbered 1, 2, 3, ...
    StepInOrder,
    /// What belongs to a step names the open turn and the open step.
    NamesOpenStep,
    /// A `tool/result` answers a call of the open step that has no result, or says that its call was never started.
    ResultAnswersCall,
    /// A `tool/result` that replaces another stands in a turn.
    ReplacementInTurn,
    /// `request/header` and `request/context` stand in a turn.
    RequestInTurn,
    /// A session is created, goes live between two turns, runs turns one after the other, and is disposed of once.
    Lifecycle,
    /// A model is asked for a session that is live.
    RequestOfLiveSession,
    /// A model is asked after a step has started.
    RequestInStep,
    /// A model is asked after the request's header is in the log.
    RequestHasHeader,
    /// A model is sent the messages that the log gives.
    RequestSendsDerivedMessages,
    /// A model is asked as the header in the log says.
    RequestFollowsHeader,
    /// A model gets its system prompt as a message and not beside them.
    SystemPromptIsMessage,
}

impl Rule {
    /// Its name, as in `turn-in-order`.
    pub fn name(self) -> &'static str {
        match self {
            Rule::SeqGrows => "seq-grows",
            Rule::OneTurnAtATime => "one-turn-at-a-time",
            Rule::TurnInOrder => "turn-in-order",
            Rule::TurnEndNamesOpenTurn => "turn-end-names-open-turn",
            Rule::StepsEndBeforeTurn => "steps-end-before-turn",
            Rule::StepStartNamesOpenTurn => "step-start-names-open-turn",
            Rule::OneStepAtATime => "one-step-at-a-time",
            Rule::StepInOrder => "step-in-order",
            Rule::NamesOpenStep => "names-open-step",
            Rule::ResultAnswersCall => "result-answers-call",
            Rule::ReplacementInTurn => "replacement-in-turn",
            Rule::RequestInTurn => "request-in-turn",
            Rule::Lifecycle => "lifecycle",
            Rule::RequestOfLiveSession => "request-of-live-session",
            Rule::RequestInStep => "request-in-step",
            Rule::RequestHasHeader => "request-has-header",
            Rule::RequestSendsDerivedMessages => "request-sends-derived-messages",
            Rule::RequestFollowsHeader => "request-follows-header",
            Rule::SystemPromptIsMessage => "system-prompt-is-message",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A rule that does not hold: which, at which event, what it asks for and what was found. It does not know the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    rule: Rule,
    at: Option<(Seq, Arc<str>)>,
    expected: String,
    found: String,
}

impl Violation {
    pub(super) fn new(rule: Rule, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { rule, at: None, expected: expected.into(), found: found.into() }
    }

    pub(super) fn at(mut self, event: &SessionEvent) -> Self {
        self.at = Some((event.seq, event.event_type.clone()));
        self
    }

    /// The rule.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// The seq of the event that breaks it; nothing where no event is concerned.
    pub fn seq(&self) -> Option<Seq> {
        self.at.as_ref().map(|(seq, _)| *seq)
    }

    /// The type of that event.
    pub fn event_type(&self) -> Option<&str> {
        self.at.as_ref().map(|(_, event_type)| &**event_type)
    }

    /// What the rule asks for.
    pub fn expected(&self) -> &str {
        &self.expected
    }

    /// What was found instead.
    pub fn found(&self) -> &str {
        &self.found
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, at, expected, found } = self;
        if let Some((seq, event_type)) = at {
            write!(f, "{event_type:?} at seq {seq}: ")?;
        }
        write!(f, "expected {expected}, found {found} (rule {rule})")
    }
}

impl std::error::Error for Violation {}
