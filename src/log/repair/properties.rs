//! Random logs, cut anywhere: their closers are those of a plain reading of the rules, and end what was open.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::*;
use crate::log::Invariants;
use crate::log::text::parse_event;

/// Ids as they are spelled in a log. The last two are one id.
const IDS: [&str; 5] = ["a", "b", "\\ud83d", "c\\/<seq>", "c/<seq>"];

fn config() -> ProptestConfig {
    let cases = if std::env::var_os("SESSIONS_FULL").is_some() { 5000 } else { 60 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// What may happen in a log; what its rules do not allow at its place is left out when the log is written.
#[derive(Debug, Clone)]
enum Act {
    StartTurn,
    EndTurn,
    StartStep,
    EndStep,
    Ask(Vec<usize>),
    Start(Index),
    Answer(Index),
    /// An earlier repair says that a call was never started.
    GiveUp(Index),
    /// A result is replaced by a shorter one.
    Prune(Index),
    Compact,
    System,
    Attempt,
    Header,
    User,
    EndSeed(bool),
    Other,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => Just(Act::StartTurn),
        1 => Just(Act::EndTurn),
        6 => Just(Act::StartStep),
        2 => Just(Act::EndStep),
        8 => prop::collection::vec(0..IDS.len(), 0..4).prop_map(Act::Ask),
        8 => any::<Index>().prop_map(Act::Start),
        5 => any::<Index>().prop_map(Act::Answer),
        1 => any::<Index>().prop_map(Act::GiveUp),
        1 => any::<Index>().prop_map(Act::Prune),
        1 => Just(Act::Compact),
        1 => Just(Act::System),
        1 => Just(Act::Attempt),
        1 => Just(Act::Header),
        1 => Just(Act::User),
        1 => any::<bool>().prop_map(Act::EndSeed),
        1 => Just(Act::Other),
    ];
    prop::collection::vec(act, 0..60)
}

/// A log that keeps the rules, as it is written.
#[derive(Default)]
struct Written {
    events: Vec<SessionEvent>,
    times: Vec<i64>,
    turns: u64,
    steps: u64,
    in_turn: bool,
    in_step: bool,
    asked: Vec<&'static str>,
    started: Vec<&'static str>,
    results: Vec<u64>,
}

impl Written {
    fn push(&mut self, event_type: &str, data: &str, op: Option<SurfaceOp>) {
        let seq = self.events.len();
        let time = self.times[seq % self.times.len()];
        let event = SessionEvent::new(event_type, seq as u64, time, Json::parse(data).unwrap()).unwrap();
        self.events.push(match op {
            Some(op) => event.with_surface_op(op).unwrap(),
            None => event,
        });
    }

    fn act(&mut self, act: Act) {
        let (turn, step) = (self.turns, self.steps);
        let place = format!(r#""turn":{turn},"step":{step}"#);
        let append = Some(SurfaceOp::Append);
        match act {
            Act::StartTurn if !self.in_turn => {
                (self.turns, self.steps, self.in_turn) = (turn + 1, 0, true);
                self.push("turn/start", &format!(r#"{{"turn":{}}}"#, turn + 1), None);
            }
            Act::EndTurn if self.in_turn && !self.in_step => {
                self.in_turn = false;
                self.push("turn/end", &format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#), None);
            }
            Act::StartStep if self.in_turn && !self.in_step => {
                (self.steps, self.in_step) = (step + 1, true);
                self.push("step/start", &format!(r#"{{"turn":{turn},"step":{}}}"#, step + 1), None);
            }
            Act::EndStep if self.in_step => {
                self.in_step = false;
                self.asked.clear();
                self.started.clear();
                self.push("step/end", &format!("{{{place}}}"), None);
            }
            Act::Ask(ids) if self.in_step => {
                let block = |id: &usize| format!(r#"{{"type":"tool-call","id":"{}"}}"#, IDS[*id]);
                let blocks: Vec<_> = ids.iter().map(block).collect();
                self.asked.extend(ids.iter().map(|id| IDS[*id]));
                let content = blocks.join(",");
                self.push("assistant/message", &format!(r#"{{{place},"message":{{"content":[{content}]}}}}"#), append);
            }
            Act::Start(index) if !self.asked.is_empty() => {
                let id = self.asked.swap_remove(index.index(self.asked.len()));
                // Both spellings of one id are one call for the rules.
                self.started.retain(|started| string_of(started) != string_of(id));
                self.started.push(id);
                self.push("tool/call", &format!(r#"{{{place},"callId":"{id}"}}"#), None);
            }
            Act::Answer(index) if !self.started.is_empty() => {
                let id = self.started.swap_remove(index.index(self.started.len()));
                self.results.push(self.events.len() as u64);
                self.push("tool/result", &answer(&place, id, ""), append);
            }
            Act::GiveUp(index) if !self.asked.is_empty() => {
                let id = self.asked.swap_remove(index.index(self.asked.len()));
                self.started.retain(|started| string_of(started) != string_of(id));
                self.results.push(self.events.len() as u64);
                self.push("tool/result", &answer(&place, id, r#","error":{"code":"TOOL_NOT_STARTED"}"#), append);
            }
            Act::Prune(index) if self.in_turn && !self.results.is_empty() => {
                let node = Seq::new(self.results.swap_remove(index.index(self.results.len()))).unwrap();
                let data = self.events[node.get() as usize].data().as_str().to_owned();
                self.push("compaction/prune", "{}", None);
                self.results.push(self.events.len() as u64);
                self.push("tool/result", &data, Some(SurfaceOp::Replace { start_seq: node, end_seq: node }));
            }
            Act::Compact => {
                for event_type in ["compaction/start", "compaction/summary", "user/message", "compaction/end"] {
                    self.push(event_type, "{}", (event_type == "user/message").then_some(SurfaceOp::Append));
                }
            }
            Act::System if self.in_step => self.push("system/message", &format!("{{{place}}}"), append),
            Act::Attempt if self.in_step => self.push("assistant/attempt", &format!("{{{place}}}"), None),
            Act::Header if self.in_turn => self.push("request/header", "{}", None),
            Act::User => self.push("user/message", "{}", append),
            Act::EndSeed(inherited) => {
                self.push("session/end-seed", if inherited { r#"{"inherited":true}"# } else { "{}" }, None);
            }
            Act::Other => self.push("todo/write", r#"{"todos":[]}"#, None),
            _ => {}
        }
    }
}

fn answer(place: &str, id: &str, error: &str) -> String {
    format!(
        r#"{{{place},"message":{{"source":{{"kind":"tool","callId":"{id}"}},"content":[{{"type":"tool-result","toolCallId":"{id}","isError":{}}}]}}{error}}}"#,
        !error.is_empty()
    )
}

fn string_of(id: &str) -> String {
    string(&format!("\"{id}\"")).unwrap().into_owned()
}

fn legal_log() -> impl Strategy<Value = Vec<SessionEvent>> {
    (acts(), prop::collection::vec(-50..50i64, 1..8)).prop_map(|(acts, times)| {
        let mut written = Written { times, ..Written::default() };
        acts.into_iter().for_each(|act| written.act(act));
        written.events
    })
}

/// Events of the types that the repair reads, in any order, with numbers and ids that need not fit.
fn any_log() -> impl Strategy<Value = Vec<SessionEvent>> {
    let event = (0..OpenTurn::EVENT_TYPES.len(), 1..3u64, 1..3u64, prop::collection::vec(0..IDS.len(), 1..3), -9..9i64);
    prop::collection::vec(event, 0..30).prop_map(|events| {
        let events = events.into_iter().enumerate();
        let made = events.map(|(seq, (event_type, turn, step, ids, time))| {
            let id = IDS[ids[0]];
            let block = |id: &usize| format!(r#"{{"type":"tool-call","id":"{}"}}"#, IDS[*id]);
            let content = ids.iter().map(block).collect::<Vec<_>>().join(",");
            let data = format!(
                r#"{{"turn":{turn},"step":{step},"callId":"{id}","message":{{"content":[{content}],"source":{{"callId":"{id}"}}}}}}"#
            );
            let data = Json::parse(&data).unwrap();
            SessionEvent::new(OpenTurn::EVENT_TYPES[event_type], seq as u64, time, data).unwrap()
        });
        made.collect()
    })
}

/// The rules read plainly: whole values, a list for the calls, keys in their order by hand. A lone surrogate, which
/// these values cannot hold, travels as a character of its own.
fn plainly(events: &[SessionEvent], texts: &RepairTexts) -> Vec<String> {
    const LONE: &str = "\u{e000}";
    let (mut turn, mut step) = (None, None);
    let mut pending: Vec<(String, u64, Option<u64>)> = Vec::new();
    for event in events {
        let data: Value = serde_json::from_str(&event.data().as_str().replace("\\ud83d", LONE)).unwrap();
        match event.event_type() {
            "turn/start" => {
                (turn, step) = (data["turn"].as_u64(), None);
                pending.clear();
            }
            "turn/end" => {
                (turn, step) = (None, None);
                pending.clear();
            }
            "step/start" => step = data["step"].as_u64(),
            "step/end" => {
                step = None;
                pending.clear();
            }
            "assistant/message" => {
                for block in data["message"]["content"].as_array().unwrap() {
                    let made = (block["id"].as_str().unwrap().to_owned(), data["step"].as_u64().unwrap(), None);
                    match pending.iter_mut().find(|(id, ..)| *id == made.0) {
                        Some(old) => *old = made,
                        None => pending.push(made),
                    }
                }
            }
            "tool/call" => {
                for (id, _, started) in &mut pending {
                    if *id == data["callId"] {
                        *started = Some(event.seq().get());
                    }
                }
            }
            "tool/result" => pending.retain(|(id, ..)| *id != data["message"]["source"]["callId"]),
            _ => {}
        }
    }
    let (Some(turn), Some(last)) = (turn, events.last()) else { return Vec::new() };
    let mut lines: Vec<String> = Vec::new();
    let time = last.time();
    let next = |lines: &[String]| last.seq().get() + 1 + lines.len() as u64;
    for (id, step, started) in pending {
        let seq = next(&lines);
        let (name, code, text, sources) = match started {
            Some(call) => (
                "ToolOutcomeUnknownError",
                "TOOL_OUTCOME_UNKNOWN",
                &texts.outcome_unknown,
                format!(r#","sourceEventSeqs":[{call}]"#),
            ),
            None => ("ToolNotStartedError", "TOOL_NOT_STARTED", &texts.not_started, String::new()),
        };
        let (message_id, text) = (json!(format!("interrupted-tool-result-{id}-{seq}")), json!(text));
        let id = json!(id);
        let line = [
            &format!(r#"{{"type":"tool/result","seq":{seq},"time":{time},"data":{{"turn":{turn},"step":{step},"#),
            &format!(r#""message":{{"id":{message_id},"role":"user","source":{{"kind":"tool","callId":{id}}},"#),
            &format!(r#""content":[{{"type":"tool-result","toolCallId":{id},"isError":true,"#),
            &format!(r#""content":[{{"type":"text","text":{text}}}]}}]}},"#),
            &format!(r#""error":{{"name":"{name}","code":"{code}"}}}},"surfaceOp":"append"{sources}}}"#),
        ];
        lines.push(line.map(String::as_str).concat().replace(LONE, "\\ud83d"));
    }
    if let Some(step) = step {
        let seq = next(&lines);
        lines
            .push(format!(r#"{{"type":"step/end","seq":{seq},"time":{time},"data":{{"turn":{turn},"step":{step}}}}}"#));
    }
    let seq = next(&lines);
    lines.push(format!(
        r#"{{"type":"turn/end","seq":{seq},"time":{time},"data":{{"turn":{turn},"reason":{{"kind":"interrupted"}}}}}}"#
    ));
    lines
}

/// The closers of a log, which were held against a plain reading of the rules and the streaming form.
fn checked_closers(events: &[SessionEvent], streamed: &OpenTurn) -> Vec<SessionEvent> {
    let texts = RepairTexts::default();
    let closers = interrupted_turn_closers(events, &texts).unwrap();
    let lines: Vec<_> = closers.iter().map(SessionEvent::to_line).collect();
    assert_eq!(lines, plainly(events, &texts));
    assert_eq!(streamed.is_interrupted(), !closers.is_empty());
    if let Some(last) = events.last() {
        assert_eq!(streamed.closers(last.seq(), last.time(), &texts).unwrap(), closers);
    }
    for (closer, line) in closers.iter().zip(&lines) {
        assert_eq!(&parse_event(line.as_bytes()).unwrap(), closer);
    }
    closers
}

/// Each prefix of a log with its closers behind it.
fn for_each_cut(events: &[SessionEvent], mut then: impl FnMut(Vec<SessionEvent>)) {
    let mut streamed = OpenTurn::new();
    for cut in 0..=events.len() {
        if let Some(last) = cut.checked_sub(1) {
            streamed.observe(&events[last]);
        }
        let mut repaired = events[..cut].to_vec();
        repaired.extend(checked_closers(&events[..cut], &streamed));
        assert!(interrupted_turn_closers(&repaired, &RepairTexts::default()).unwrap().is_empty());
        then(repaired);
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_legal_log_cut_anywhere_is_legal_and_without_an_open_turn_once_it_has_its_closers(events in legal_log()) {
        Invariants::replay(&events).unwrap();
        for_each_cut(&events, |repaired| {
            let mut invariants = Invariants::replay(&repaired).unwrap();
            assert_eq!((invariants.turn(), invariants.step()), (None, None));
            let turns = repaired.iter().filter(|event| event.event_type() == "turn/start").count() as u64;
            let next = SessionEvent::of("turn/start", repaired.len() as u64, 0, &json!({ "turn": turns + 1 })).unwrap();
            invariants.observe(&next).unwrap();
        });
    }

    #[test]
    fn any_log_has_the_closers_of_the_rules_read_plainly(events in any_log()) {
        for_each_cut(&events, drop);
    }

    #[test]
    fn an_event_that_breaks_a_rule_leaves_the_rules_as_they_were(events in any_log()) {
        let mut invariants = Invariants::new();
        for event in &events {
            let before = invariants.clone();
            let checked = invariants.check(event);
            assert_eq!(invariants.observe(event), checked);
            if checked.is_err() {
                assert_eq!(invariants, before);
            }
        }
    }
}
