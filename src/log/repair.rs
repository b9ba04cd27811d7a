//! [`interrupted_turn_closers`]: the events that end a turn whose process died within it.

use std::collections::HashMap;

use super::envelope::Key;
use super::fields::{elements, field, fields, is_string, push_inner, string, whole_number};
use super::json::push_string;
use super::payload::{Step, TurnEnd, TurnEndReason};
use super::{InvalidRecord, Json, Seq, SessionEvent, SurfaceOp};

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

/// The events that a log lacks when its process died within a turn, to be appended behind it; none for a log whose last
/// turn has ended, which a log with its closers is.
///
/// They are, in this order: for each call of the open step that has no result a `tool/result` that says so, in the
/// order in which the model made the calls; a `step/end` if a step is open; a `turn/end` with the reason `interrupted`.
/// All have the time of the last event, in milliseconds since 1970: when the process died is not known. A call whose
/// `tool/call` is in the log may have taken effect and gets the error code `TOOL_OUTCOME_UNKNOWN`, any other
/// `TOOL_NOT_STARTED`. But for the two texts their bytes are those that DSH writes.
///
/// Only the turn at the end is looked at: a call without a result in finished history stays as it is. An open
/// compaction gets no closer; the next `session/end-seed` closes it.
///
/// The format is that of version 3. Data of another shape than its events have there is no error, see [`OpenTurn`].
///
/// ```
/// use session_persistence::{RepairTexts, interrupted_turn_closers, text::parse_event};
///
/// let mut log = vec![parse_event(br#"{"type":"turn/start","seq":0,"time":70,"data":{"turn":1}}"#)?];
/// let closers = interrupted_turn_closers(&log, &RepairTexts::default())?;
/// let line = r#"{"type":"turn/end","seq":1,"time":70,"data":{"turn":1,"reason":{"kind":"interrupted"}}}"#;
/// assert_eq!(closers[0].to_line(), line);
///
/// log.extend(closers);
/// assert!(interrupted_turn_closers(&log, &RepairTexts::default())?.is_empty());
/// # Ok::<(), session_persistence::InvalidRecord>(())
/// ```
///
/// # Errors
///
/// [`InvalidRecord`] when the log ends so near to [`Seq::MAX`] that the closers have no seqs.
pub fn interrupted_turn_closers(
    events: &[SessionEvent],
    texts: &RepairTexts,
) -> Result<Vec<SessionEvent>, InvalidRecord> {
    // Both kinds of boundary forget all that came before.
    let boundary = events.iter().rposition(|e| matches!(e.event_type(), "turn/start" | "turn/end"));
    let (Some(boundary), Some(last)) = (boundary, events.last()) else { return Ok(Vec::new()) };
    let mut turn = OpenTurn::new();
    events[boundary..].iter().for_each(|event| turn.observe(event));
    turn.closers(last.seq(), last.time(), texts)
}

/// What [`interrupted_turn_closers`] knows of a log, one event at a time, so that nobody must hold a long log for it.
///
/// It holds the numbers of the open turn and step and the calls of that step that have no result, and nothing else.
/// Only the types in [`OpenTurn::EVENT_TYPES`] tell it something; a caller may leave out all others.
///
/// Where data has another shape than the format says, the event does what can be read of it. A `turn/start` without a
/// whole number opens no turn, a `step/start` without one no step: nothing could name them to end them. The calls of an
/// `assistant/message` that does not name its step belong to the open step, and are passed over where none is open. A
/// call without an id that is a string is none.
///
/// ```
/// use session_persistence::{OpenTurn, RepairTexts, text::parse_event};
///
/// let mut turn = OpenTurn::new();
/// let event = parse_event(br#"{"type":"turn/start","seq":4,"time":-5,"data":{"turn":2}}"#)?;
/// turn.observe(&event);
/// assert_eq!((turn.is_interrupted(), turn.turn(), turn.step()), (true, Some(2), None));
/// assert_eq!(turn.closers(event.seq(), event.time(), &RepairTexts::default())?.len(), 1);
/// # Ok::<(), session_persistence::InvalidRecord>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenTurn {
    turn: Option<u64>,
    step: Option<u64>,
    /// By id, as [`string`] spells it.
    calls: HashMap<Box<str>, Call>,
    /// The place of the next call.
    next_place: u64,
}

/// A call that has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    /// Its place among the calls.
    place: u64,
    step: u64,
    /// Its `tool/call`, which says that it was started.
    started: Option<Seq>,
}

impl OpenTurn {
    /// The types of the events that [`OpenTurn::observe`] reads.
    pub const EVENT_TYPES: [&str; 7] =
        ["turn/start", "turn/end", "step/start", "step/end", "assistant/message", "tool/call", "tool/result"];

    /// What an empty log says.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the next event of the log. Data of types that say nothing about a turn is not read.
    pub fn observe(&mut self, event: &SessionEvent) {
        let data = event.data().as_str();
        match event.event_type() {
            "turn/start" => {
                self.end_turn();
                self.turn = field(data, "turn").and_then(whole_number);
            }
            "turn/end" => self.end_turn(),
            // What stands outside a turn is forgotten where the next one starts, and is not held until then.
            _ if self.turn.is_none() => {}
            "step/start" => self.step = field(data, "step").and_then(whole_number),
            "step/end" => self.end_step(),
            "assistant/message" => self.add_calls(data),
            "tool/call" => {
                let id = field(data, "callId").and_then(string);
                if let Some(call) = id.and_then(|id| self.calls.get_mut(&*id)) {
                    call.started = Some(event.seq());
                }
            }
            "tool/result" => {
                if let Some(id) = result_call_id(data) {
                    self.calls.remove(&*id);
                }
            }
            _ => {}
        }
    }

    fn end_turn(&mut self) {
        self.turn = None;
        self.end_step();
    }

    fn end_step(&mut self) {
        self.step = None;
        self.calls.clear();
        self.next_place = 0;
    }

    fn add_calls(&mut self, data: &str) {
        let [step, message] = fields(data, ["step", "message"]);
        let Some(step) = step.and_then(whole_number).or(self.step) else { return };
        let content = message.and_then(|message| field(message, "content"));
        for block in content.map(elements).unwrap_or_default() {
            let [block_type, id] = fields(block, ["type", "id"]);
            if !is_string(block_type, "tool-call") {
                continue;
            }
            let Some(id) = id.and_then(string) else { continue };
            // An id that is set again keeps its place and starts anew.
            let place = self.calls.get(&*id).map_or(self.next_place, |call| call.place);
            self.next_place += u64::from(place == self.next_place);
            self.calls.insert(id.into(), Call { place, step, started: None });
        }
    }

    /// Whether a turn is open, so that a log that ends here was interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.turn.is_some()
    }

    /// The number of the open turn.
    pub fn turn(&self) -> Option<u64> {
        self.turn
    }

    /// The number of the open step.
    pub fn step(&self) -> Option<u64> {
        self.step
    }

    /// The closers of a log whose last event, of whatever type, has the seq `last_seq` and the time `last_time`, in
    /// milliseconds since 1970. See [`interrupted_turn_closers`].
    ///
    /// # Errors
    ///
    /// [`InvalidRecord`] when the seqs of the closers would go beyond [`Seq::MAX`], when `last_time` is no time of an
    /// event, or when `last_seq` is before an event that was observed.
    pub fn closers(
        &self,
        last_seq: Seq,
        last_time: i64,
        texts: &RepairTexts,
    ) -> Result<Vec<SessionEvent>, InvalidRecord> {
        let Some(turn) = self.turn else { return Ok(Vec::new()) };
        let count = self.calls.len() as u64 + u64::from(self.step.is_some()) + 1;
        if count > Seq::MAX.get() - last_seq.get() {
            return Err(InvalidRecord::new(format!(
                "turn {turn} is open and needs {count} more events to end, but the log is at seq {last_seq} already and \
                 seqs end at {}",
                Seq::MAX
            )));
        }
        let mut calls: Vec<_> = self.calls.iter().collect();
        calls.sort_unstable_by_key(|(_, call)| call.place);
        let mut seqs = last_seq.get() + 1..;
        let mut closers = Vec::with_capacity(calls.len() + 2);
        for ((id, call), seq) in calls.into_iter().zip(&mut seqs) {
            closers.push(tool_result(turn, id, call, seq, last_time, texts)?);
        }
        if let Some((step, seq)) = self.step.zip(seqs.next()) {
            closers.push(SessionEvent::of("step/end", seq, last_time, &Step { turn, step })?);
        }
        let end = TurnEnd { turn, reason: TurnEndReason::Interrupted };
        closers.push(SessionEvent::of("turn/end", last_seq.get() + count, last_time, &end)?);
        Ok(closers)
    }
}

/// The call that a `tool/result` answers.
pub(super) fn result_call_id(data: &str) -> Option<std::borrow::Cow<'_, str>> {
    let source = field(field(data, "message")?, "source")?;
    string(field(source, "callId")?)
}

/// The result of a call that has none. Put together as text: `call_id` is a string of JSON, which may hold what a Rust
/// string cannot.
fn tool_result(
    turn: u64,
    call_id: &str,
    call: &Call,
    seq: u64,
    time: i64,
    texts: &RepairTexts,
) -> Result<SessionEvent, InvalidRecord> {
    let (name, code, says) = match call.started {
        Some(_) => ("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN", &texts.outcome_unknown),
        None => ("ToolNotStartedError", "TOOL_NOT_STARTED", &texts.not_started),
    };
    let step = call.step;
    let id = texts.message_id.fill(call_id, seq);
    let mut text = String::new();
    push_string(&mut text, says);
    let block = format!(
        r#"{{"type":"tool-result","toolCallId":{call_id},"isError":true,"content":[{{"type":"text","text":{text}}}]}}"#
    );
    let source = format!(r#"{{"kind":"tool","callId":{call_id}}}"#);
    let message = format!(r#"{{"id":{id},"role":"user","source":{source},"content":[{block}]}}"#);
    let error = format!(r#"{{"name":"{name}","code":"{code}"}}"#);
    let data = format!(r#"{{"turn":{turn},"step":{step},"message":{message},"error":{error}}}"#);
    let event =
        SessionEvent::new("tool/result", seq, time, Json::trusted(&data))?.with_surface_op(SurfaceOp::Append)?;
    let Some(started) = call.started else { return Ok(event) };
    let event = event.with_source_event_seqs([started.get()])?;
    // Where the harness's own appends have these two the other way round.
    Ok(event.in_key_order([Key::Type, Key::Seq, Key::Time, Key::Data, Key::SurfaceOp, Key::SourceEventSeqs]))
}

/// What the results of a repair say to the model, and how their messages are named.
///
/// ```
/// use session_persistence::{MessageIdTemplate, RepairTexts};
///
/// let mut texts = RepairTexts::default();
/// texts.not_started = "This call was never made.".into();
/// texts.message_id = MessageIdTemplate::new("repair-<seq>")?;
/// # Ok::<(), session_persistence::InvalidRecord>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairTexts {
    /// For a call that was started: whether it took effect is not known.
    pub outcome_unknown: String,
    /// For a call that was not started.
    ///
    /// The strict check of relations in DSH (not its ordinary reading) takes such a result only with the text of its
    /// own, of 104 bytes and SHA-256 `613f8e88c4324029a758e388a77c9082e93d36d39ad23d5f76c5529fe7b0b42f`, and only with
    /// the default template of `message_id`. A host whose logs must pass it sets that text.
    pub not_started: String,
    /// The id of a result's message.
    pub message_id: MessageIdTemplate,
}

impl Default for RepairTexts {
    fn default() -> Self {
        Self {
            outcome_unknown: "The program was stopped after it had begun this tool call and before it had stored a \
                              result. The call may have run fully, in part or not at all. Look at what it did before \
                              you make it again."
                .into(),
            not_started: "The program was stopped before it began this tool call. Nothing was done; the call can be \
                          made again."
                .into(),
            message_id: MessageIdTemplate::default(),
        }
    }
}

/// The id of a message that a repair writes: text in which `<callId>` stands for the id of the call and `<seq>` for the
/// seq of the event. The default is `interrupted-tool-result-<callId>-<seq>`, the one of DSH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageIdTemplate(String);

impl MessageIdTemplate {
    /// The template `text`.
    ///
    /// # Errors
    ///
    /// [`InvalidRecord`] for a text without `<seq>`: two messages of one log could have the same id.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidRecord> {
        let text = text.into();
        if !text.contains("<seq>") {
            return Err(InvalidRecord::new(format!(
                "the template {text:?} gives several messages of a log the same id; put <seq> into it"
            )));
        }
        Ok(Self(text))
    }

    /// The id as a string of JSON. `call_id` is one.
    fn fill(&self, call_id: &str, seq: u64) -> String {
        let call_id = &call_id[1..call_id.len() - 1];
        let mut id = String::from('"');
        // In one pass: a call whose id holds a placeholder is none of ours to fill in.
        let mut rest = &*self.0;
        while let Some(at) = rest.find('<') {
            push_inner(&mut id, &rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("<callId>") {
                id.push_str(call_id);
                rest = after;
            } else if let Some(after) = rest.strip_prefix("<seq>") {
                id.push_str(itoa::Buffer::new().format(seq));
                rest = after;
            } else {
                id.push('<');
                rest = &rest[1..];
            }
        }
        push_inner(&mut id, rest);
        id.push('"');
        id
    }
}

impl Default for MessageIdTemplate {
    fn default() -> Self {
        Self("interrupted-tool-result-<callId>-<seq>".into())
    }
}
