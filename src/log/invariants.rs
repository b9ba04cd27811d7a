//! [`Invariants`]: how the events of a session must follow on one another.

use std::borrow::Cow;
use std::collections::HashSet;

use super::fields::{elements, field, fields, is_string, string, whole_number};
use super::repair::result_call_id;
use super::text::excerpt;
use super::{Rule, Seq, SessionEvent, SurfaceOp, Violation};

#[cfg(test)]
mod tests;

/// The rules between the events of one session of format 3, as a fold: turns and steps are numbered and nested, what
/// belongs to a step names it, a tool's result answers a call. Opt-in: nothing that is stored depends on it.
///
/// It holds the numbers of the open turn and step and the calls of that step that have no result, however long the log.
/// The data of types without a rule (`user/message`, `session/end-seed` and all that are not of the core) is not read.
///
/// ```
/// use session_persistence::{Invariants, Rule, text::parse_event};
///
/// let mut invariants = Invariants::new();
/// let event = parse_event(br#"{"type":"turn/start","seq":0,"time":70,"data":{"turn":2}}"#)?;
/// let violation = invariants.observe(&event).unwrap_err();
/// assert_eq!(violation.rule(), Rule::TurnInOrder);
/// assert_eq!(violation.to_string(), r#""turn/start" at seq 0: expected turn 1, found turn 2 (rule turn-in-order)"#);
/// # Ok::<(), session_persistence::InvalidRecord>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invariants {
    last_seq: Option<Seq>,
    turn: Option<u64>,
    step: Option<u64>,
    next_turn: u64,
    next_step: u64,
    /// The ids of the calls of the open step that have no result, as [`string`] spells them.
    calls: HashSet<Box<str>>,
}

/// What an event that keeps the rules changes.
enum Change<'a> {
    Nothing,
    StartTurn(u64),
    EndTurn,
    StartStep(u64),
    EndStep,
    AddCall(Cow<'a, str>),
    RemoveCall(Cow<'a, str>),
}

impl Invariants {
    /// What holds before the first event.
    pub fn new() -> Self {
        Self { last_seq: None, turn: None, step: None, next_turn: 1, next_step: 1, calls: HashSet::new() }
    }

    /// What holds behind the events of a log, so that the rules can be kept from there on.
    ///
    /// # Errors
    ///
    /// The first [`Violation`] of the log.
    pub fn replay<'a>(events: impl IntoIterator<Item = &'a SessionEvent>) -> Result<Self, Violation> {
        let mut invariants = Self::new();
        events.into_iter().try_for_each(|event| invariants.observe(event))?;
        Ok(invariants)
    }

    /// Whether `event` may come next.
    ///
    /// # Errors
    ///
    /// The first [`Violation`] that it would be.
    pub fn check(&self, event: &SessionEvent) -> Result<(), Violation> {
        self.plan(event).map(drop)
    }

    /// Takes in the next event.
    ///
    /// # Errors
    ///
    /// As [`Invariants::check`]; then nothing is taken in, and another event may come in its place.
    pub fn observe(&mut self, event: &SessionEvent) -> Result<(), Violation> {
        match self.plan(event)? {
            Change::Nothing => {}
            Change::StartTurn(turn) => (self.turn, self.next_step) = (Some(turn), 1),
            Change::EndTurn => (self.turn, self.next_turn) = (None, self.next_turn + 1),
            Change::StartStep(step) => self.step = Some(step),
            Change::EndStep => {
                (self.step, self.next_step) = (None, self.next_step + 1);
                self.calls.clear();
            }
            Change::AddCall(id) => {
                self.calls.insert(id.into());
            }
            Change::RemoveCall(id) => {
                self.calls.remove(&*id);
            }
        }
        self.last_seq = Some(event.seq());
        Ok(())
    }

    /// The number of the open turn.
    pub fn turn(&self) -> Option<u64> {
        self.turn
    }

    /// The number of the open step.
    pub fn step(&self) -> Option<u64> {
        self.step
    }

    fn plan<'e>(&self, event: &'e SessionEvent) -> Result<Change<'e>, Violation> {
        let refuse = |rule, expected: String, found: String| Err(Violation::new(rule, expected, found).at(event));
        if let Some(last) = self.last_seq.filter(|last| *last >= event.seq()) {
            return refuse(Rule::SeqGrows, format!("a seq beyond {last}"), format!("seq {}", event.seq()));
        }
        let data = event.data().as_str();
        match event.event_type() {
            "turn/start" => {
                let named = Named::in_turn(data);
                if let Some(open) = self.turn {
                    return refuse(Rule::OneTurnAtATime, "no open turn".into(), format!("turn {open} open"));
                }
                if named.turn() != Some(self.next_turn) {
                    return refuse(Rule::TurnInOrder, format!("turn {}", self.next_turn), named.to_string());
                }
                Ok(Change::StartTurn(self.next_turn))
            }
            "turn/end" => {
                let named = Named::in_turn(data);
                if self.turn.is_none() || named.turn() != self.turn {
                    return refuse(Rule::TurnEndNamesOpenTurn, numbered("turn", self.turn), named.to_string());
                }
                if let Some(open) = self.step {
                    return refuse(Rule::StepsEndBeforeTurn, "no open step".into(), format!("step {open} open"));
                }
                Ok(Change::EndTurn)
            }
            "step/start" => {
                let named = Named::in_step(data);
                if self.turn.is_none() || named.turn() != self.turn {
                    return refuse(Rule::StepStartNamesOpenTurn, numbered("turn", self.turn), named.to_string());
                }
                if let Some(open) = self.step {
                    return refuse(Rule::OneStepAtATime, "no open step".into(), format!("step {open} open"));
                }
                if named.step() != Some(self.next_step) {
                    return refuse(Rule::StepInOrder, format!("step {}", self.next_step), named.to_string());
                }
                Ok(Change::StartStep(self.next_step))
            }
            "step/end" => self.names_open_step(event).map(|()| Change::EndStep),
            "assistant/message" | "assistant/attempt" | "system/message" => {
                self.names_open_step(event).map(|()| Change::Nothing)
            }
            "tool/call" => {
                self.names_open_step(event)?;
                let id = field(data, "callId").and_then(string);
                Ok(id.map_or(Change::Nothing, Change::AddCall))
            }
            "tool/result" => self.plan_result(event),
            "request/header" | "request/context" if self.turn.is_none() => {
                refuse(Rule::RequestInTurn, "an open turn".into(), "none".into())
            }
            _ => Ok(Change::Nothing),
        }
    }

    fn plan_result<'e>(&self, event: &'e SessionEvent) -> Result<Change<'e>, Violation> {
        if let Some(SurfaceOp::Replace { .. } | SurfaceOp::LegacyReplace { .. }) = event.surface_op() {
            return match self.turn {
                Some(_) => Ok(Change::Nothing),
                None => Err(Violation::new(Rule::ReplacementInTurn, "an open turn", "none").at(event)),
            };
        }
        self.names_open_step(event)?;
        let data = event.data().as_str();
        let id = result_call_id(data);
        match id {
            Some(id) if self.calls.contains(&*id) => Ok(Change::RemoveCall(id)),
            _ if says_not_started(data) => Ok(Change::Nothing),
            id => {
                let found = id.map_or("no call id".into(), |id| format!("call {}", excerpt(&id)));
                let expected = "a call of this step that has no result";
                Err(Violation::new(Rule::ResultAnswersCall, expected, found).at(event))
            }
        }
    }

    fn names_open_step(&self, event: &SessionEvent) -> Result<(), Violation> {
        let named = Named::in_step(event.data().as_str());
        let is_open = self.turn.is_some() && self.step.is_some();
        if is_open && named.turn() == self.turn && named.step() == self.step {
            return Ok(());
        }
        let expected = format!("{}, {}", numbered("turn", self.turn), numbered("step", self.step));
        Err(Violation::new(Rule::NamesOpenStep, expected, named.to_string()).at(event))
    }
}

impl Default for Invariants {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a result is the error of a call that was never started, as a repair writes it.
fn says_not_started(data: &str) -> bool {
    let [message, error] = fields(data, ["message", "error"]);
    let content = message.and_then(|message| field(message, "content"));
    let blocks = content.map(elements).unwrap_or_default();
    let is_error = blocks.first().and_then(|block| field(block, "isError")) == Some("true");
    is_error && is_string(error.and_then(|error| field(error, "code")), "TOOL_NOT_STARTED")
}

fn numbered(noun: &str, number: Option<u64>) -> String {
    number.map_or(format!("no open {noun}"), |n| format!("{noun} {n}"))
}

/// The turn and the step that an event names, as their texts.
struct Named<'a> {
    turn: Option<&'a str>,
    /// Nothing for events of a turn.
    step: Option<Option<&'a str>>,
}

impl<'a> Named<'a> {
    fn in_turn(data: &'a str) -> Self {
        Self { turn: field(data, "turn"), step: None }
    }

    fn in_step(data: &'a str) -> Self {
        let [turn, step] = fields(data, ["turn", "step"]);
        Self { turn, step: Some(step) }
    }

    fn turn(&self) -> Option<u64> {
        self.turn.and_then(whole_number)
    }

    fn step(&self) -> Option<u64> {
        self.step.flatten().and_then(whole_number)
    }
}

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |noun: &str, json: Option<&str>| match json {
            Some(json) => format!("{noun} {}", excerpt(json)),
            None => format!("no {noun}"),
        };
        f.write_str(&text("turn", self.turn))?;
        match self.step {
            Some(step) => write!(f, ", {}", text("step", step)),
            None => Ok(()),
        }
    }
}
