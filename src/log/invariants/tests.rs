use super::*;
use crate::log::Json;

/// A log under its rules: each event gets the next seq unless it says otherwise.
struct Log {
    invariants: Invariants,
    next: u64,
}

impl Log {
    fn new(events: &[(&str, &str)]) -> Self {
        let mut log = Self { invariants: Invariants::new(), next: 0 };
        for (event_type, data) in events {
            log.take(event_type, data).unwrap();
        }
        log
    }

    fn take(&mut self, event_type: &str, data: &str) -> Result<(), Violation> {
        let event = event(event_type, self.next, data);
        self.take_event(&event)
    }

    fn take_event(&mut self, event: &SessionEvent) -> Result<(), Violation> {
        let before = self.invariants.clone();
        let checked = self.invariants.check(event);
        assert_eq!(self.invariants, before, "a check changes nothing");
        let taken = self.invariants.observe(event);
        assert_eq!(taken, checked);
        if taken.is_err() {
            assert_eq!(self.invariants, before, "a refused event changes nothing");
        } else {
            self.next = event.seq().get() + 1;
        }
        taken
    }

    /// The refusal as rule, what was expected and what was found.
    fn refuse(&mut self, event_type: &str, data: &str) -> (Rule, String, String) {
        let violation = self.take(event_type, data).unwrap_err();
        assert_eq!(violation.seq().map(Seq::get), Some(self.next));
        assert_eq!(violation.event_type(), Some(event_type));
        (violation.rule(), violation.expected().to_owned(), violation.found().to_owned())
    }
}

fn event(event_type: &str, seq: u64, data: &str) -> SessionEvent {
    SessionEvent::new(event_type, seq, 0, Json::parse(data).unwrap()).unwrap()
}

fn refusal(rule: Rule, expected: &str, found: &str) -> (Rule, String, String) {
    (rule, expected.to_owned(), found.to_owned())
}

const TURN: (&str, &str) = ("turn/start", r#"{"turn":1}"#);
const TURN_END: (&str, &str) = ("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#);
const STEP: (&str, &str) = ("step/start", r#"{"turn":1,"step":1}"#);
const STEP_END: (&str, &str) = ("step/end", r#"{"turn":1,"step":1}"#);
const CALL: (&str, &str) = ("tool/call", r#"{"turn":1,"step":1,"callId":"a","name":"t","arguments":""}"#);
const RESULT: &str = r#"{"turn":1,"step":1,"message":{"source":{"kind":"tool","callId":"a"},"content":[{"type":"tool-result","toolCallId":"a"}]}}"#;
const NOT_STARTED: &str = r#"{"turn":1,"step":1,"message":{"source":{"kind":"tool","callId":"z"},"content":[{"type":"tool-result","isError":true}]},"error":{"name":"E","code":"TOOL_NOT_STARTED"}}"#;

#[test]
fn seqs_grow_and_may_skip() {
    let mut log = Log::new(&[TURN]);
    log.take_event(&event("user/message", 5, "{}")).unwrap();
    for seq in [0, 4, 5] {
        let violation = log.take_event(&event("user/message", seq, "{}")).unwrap_err();
        assert_eq!((violation.rule(), violation.expected()), (Rule::SeqGrows, "a seq beyond 5"));
        assert_eq!(violation.found(), format!("seq {seq}"));
    }
    log.take_event(&event("user/message", 6, "{}")).unwrap();
}

#[test]
fn a_turn_starts_when_no_other_is_open() {
    let found = Log::new(&[TURN]).refuse("turn/start", r#"{"turn":2}"#);
    assert_eq!(found, refusal(Rule::OneTurnAtATime, "no open turn", "turn 1 open"));
}

#[test]
fn turns_are_numbered_from_one() {
    for (data, found) in [
        (r#"{"turn":2}"#, "turn 2"),
        (r#"{"turn":0}"#, "turn 0"),
        (r#"{"turn":"1"}"#, r#"turn "1""#),
        ("{}", "no turn"),
    ] {
        assert_eq!(Log::new(&[]).refuse("turn/start", data), refusal(Rule::TurnInOrder, "turn 1", found));
    }
    let mut log = Log::new(&[TURN, TURN_END]);
    assert_eq!(log.refuse("turn/start", r#"{"turn":1}"#), refusal(Rule::TurnInOrder, "turn 2", "turn 1"));
    log.take("turn/start", r#"{"turn":2}"#).unwrap();
}

#[test]
fn a_turn_end_names_the_open_turn() {
    let found = Log::new(&[TURN]).refuse("turn/end", r#"{"turn":2}"#);
    assert_eq!(found, refusal(Rule::TurnEndNamesOpenTurn, "turn 1", "turn 2"));
    assert_eq!(Log::new(&[]).refuse("turn/end", "{}"), refusal(Rule::TurnEndNamesOpenTurn, "no open turn", "no turn"));
    assert_eq!(Log::new(&[TURN, TURN_END]).refuse(TURN_END.0, TURN_END.1).0, Rule::TurnEndNamesOpenTurn);
}

#[test]
fn a_turn_ends_when_no_step_is_open() {
    let mut log = Log::new(&[TURN, STEP]);
    assert_eq!(log.refuse(TURN_END.0, TURN_END.1), refusal(Rule::StepsEndBeforeTurn, "no open step", "step 1 open"));
    log.take(STEP_END.0, STEP_END.1).unwrap();
    log.take(TURN_END.0, TURN_END.1).unwrap();
}

#[test]
fn a_step_start_names_the_open_turn() {
    let found = Log::new(&[TURN]).refuse("step/start", r#"{"turn":2,"step":1}"#);
    assert_eq!(found, refusal(Rule::StepStartNamesOpenTurn, "turn 1", "turn 2, step 1"));
    let found = Log::new(&[]).refuse("step/start", r#"{"step":1}"#);
    assert_eq!(found, refusal(Rule::StepStartNamesOpenTurn, "no open turn", "no turn, step 1"));
}

#[test]
fn a_step_starts_when_no_other_is_open() {
    let found = Log::new(&[TURN, STEP]).refuse("step/start", r#"{"turn":1,"step":2}"#);
    assert_eq!(found, refusal(Rule::OneStepAtATime, "no open step", "step 1 open"));
}

#[test]
fn the_steps_of_each_turn_are_numbered_from_one() {
    let mut log = Log::new(&[TURN, STEP, STEP_END]);
    let found = log.refuse("step/start", r#"{"turn":1,"step":1}"#);
    assert_eq!(found, refusal(Rule::StepInOrder, "step 2", "turn 1, step 1"));
    for (event_type, data) in [
        ("step/start", r#"{"turn":1,"step":2}"#),
        ("step/end", r#"{"turn":1,"step":2}"#),
        TURN_END,
        ("turn/start", r#"{"turn":2}"#),
        ("step/start", r#"{"turn":2,"step":1}"#),
    ] {
        log.take(event_type, data).unwrap();
    }
}

#[test]
fn what_belongs_to_a_step_names_the_open_turn_and_step() {
    for event_type in
        ["step/end", "assistant/message", "assistant/attempt", "system/message", "tool/call", "tool/result"]
    {
        for (data, named) in [
            (r#"{"turn":1,"step":2,"callId":"a"}"#, "turn 1, step 2"),
            (r#"{"turn":2,"step":1,"callId":"a"}"#, "turn 2, step 1"),
            (r#"{"step":1,"callId":"a"}"#, "no turn, step 1"),
            ("null", "no turn, no step"),
        ] {
            let found = Log::new(&[TURN, STEP]).refuse(event_type, data);
            assert_eq!(found, refusal(Rule::NamesOpenStep, "turn 1, step 1", named), "{event_type}");
        }
        let found = Log::new(&[TURN]).refuse(event_type, r#"{"turn":1}"#);
        assert_eq!(found, refusal(Rule::NamesOpenStep, "turn 1, no open step", "turn 1, no step"), "{event_type}");
        let found = Log::new(&[]).refuse(event_type, "{}");
        assert_eq!(found.0, Rule::NamesOpenStep, "{event_type}");
        if event_type != "tool/result" {
            Log::new(&[TURN, STEP]).take(event_type, r#"{"step":1,"turn":1.0}"#).unwrap();
        }
    }
}

#[test]
fn a_result_answers_a_call_of_its_step_once() {
    let mut log = Log::new(&[TURN, STEP, CALL]);
    log.take("tool/result", RESULT).unwrap();
    let unanswered = "a call of this step that has no result";
    assert_eq!(log.refuse("tool/result", RESULT), refusal(Rule::ResultAnswersCall, unanswered, r#"call "a""#));
    let nameless = RESULT.replace("callId", "callName");
    assert_eq!(log.refuse("tool/result", &nameless), refusal(Rule::ResultAnswersCall, unanswered, "no call id"));
}

#[test]
fn the_end_of_a_step_forgets_its_calls() {
    let mut log = Log::new(&[TURN, STEP, CALL, STEP_END, ("step/start", r#"{"turn":1,"step":2}"#)]);
    let late = RESULT.replace(r#""step":1"#, r#""step":2"#);
    assert_eq!(log.refuse("tool/result", &late).0, Rule::ResultAnswersCall);
}

#[test]
fn a_result_without_a_call_says_that_the_call_was_never_started() {
    Log::new(&[TURN, STEP]).take("tool/result", NOT_STARTED).unwrap();
    for (from, to) in [
        ("TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN"),
        (r#""isError":true"#, r#""isError":false"#),
        (r#""isError":true"#, r#""isError":"true""#),
        (r#","isError":true"#, ""),
        ("\"error\"", "\"meta\""),
        ("\"step\":1", "\"step\":2"),
    ] {
        Log::new(&[TURN, STEP]).refuse("tool/result", &NOT_STARTED.replace(from, to));
    }
    // Of a call that was started it takes the call with it.
    let mut log = Log::new(&[TURN, STEP, CALL]);
    log.take("tool/result", &NOT_STARTED.replace("\"z\"", "\"a\"")).unwrap();
    log.refuse("tool/result", RESULT);
}

#[test]
fn the_id_of_a_call_is_the_same_in_every_spelling() {
    let lone = |spelling: &str| {
        (CALL.1.replace("\"a\"", spelling), RESULT.replace("\"callId\":\"a\"", "\"callId\":\"\\ud83d\""))
    };
    let (call, result) = lone(r#""\uD83D""#);
    let mut log = Log::new(&[TURN, STEP, ("tool/call", &call)]);
    log.take("tool/result", &result).unwrap();
}

#[test]
fn a_result_that_replaces_another_stands_in_a_turn_and_needs_no_more() {
    for op in [
        SurfaceOp::Replace { start_seq: Seq::from(1), end_seq: Seq::from(1) },
        SurfaceOp::LegacyReplace { start: Seq::from(1), end: Seq::from(1) },
    ] {
        let replacement = event("tool/result", 9, "{}").with_surface_op(op).unwrap();
        let violation = Log::new(&[TURN, TURN_END]).take_event(&replacement).unwrap_err();
        assert_eq!((violation.rule(), violation.expected()), (Rule::ReplacementInTurn, "an open turn"));
        Log::new(&[TURN]).take_event(&replacement).unwrap();
        Log::new(&[TURN, STEP, CALL]).take_event(&replacement).unwrap();
    }
    let appended = event("tool/result", 9, "{}").with_surface_op(SurfaceOp::Append).unwrap();
    Log::new(&[TURN]).take_event(&appended).unwrap_err();
}

#[test]
fn what_a_request_says_stands_in_a_turn() {
    for event_type in ["request/header", "request/context"] {
        for before in [&[][..], &[TURN, TURN_END]] {
            let found = Log::new(before).refuse(event_type, "{}");
            assert_eq!(found, refusal(Rule::RequestInTurn, "an open turn", "none"));
        }
        Log::new(&[TURN]).take(event_type, "{}").unwrap();
        Log::new(&[TURN, STEP]).take(event_type, "{}").unwrap();
    }
}

#[test]
fn other_events_stand_anywhere() {
    for event_type in ["user/message", "session/end-seed", "todo/write", "compaction/start", "acme/pulse"] {
        for before in [&[][..], &[TURN], &[TURN, STEP], &[TURN, TURN_END]] {
            Log::new(before).take(event_type, "null").unwrap();
        }
    }
}

#[test]
fn rules_are_kept_from_the_end_of_a_replayed_log_on() {
    let events: Vec<_> = [TURN, STEP, CALL].iter().enumerate().map(|(i, (t, d))| event(t, i as u64, d)).collect();
    let mut invariants = Invariants::replay(&events).unwrap();
    assert_eq!((invariants.turn(), invariants.step()), (Some(1), Some(1)));
    assert_eq!(invariants, Log::new(&[TURN, STEP, CALL]).invariants);
    invariants.observe(&event("tool/result", 3, RESULT)).unwrap();
    let violation = Invariants::replay(&events[1..]).unwrap_err();
    assert_eq!((violation.rule(), violation.seq()), (Rule::StepStartNamesOpenTurn, Some(Seq::from(1))));
}

#[test]
fn what_is_held_does_not_grow_with_the_log() {
    let mut log = Log::new(&[]);
    for turn in 1..200 {
        let number = |data: &str| data.replace(r#""turn":1"#, &format!(r#""turn":{turn}"#));
        log.take(TURN.0, &number(TURN.1)).unwrap();
        log.take(STEP.0, &number(STEP.1)).unwrap();
        log.take(CALL.0, &number(CALL.1)).unwrap();
        log.take(STEP_END.0, &number(STEP_END.1)).unwrap();
        assert!(log.invariants.calls.is_empty());
        log.take(TURN_END.0, &number(TURN_END.1)).unwrap();
    }
    assert_eq!(
        log.invariants,
        Invariants { last_seq: Some(Seq::from(994)), next_turn: 200, next_step: 2, ..Invariants::new() }
    );
}

#[test]
fn a_violation_tells_all_in_one_line_of_any_length_of_data() {
    let long = format!(r#"{{"turn":"{}"}}"#, "x".repeat(1 << 20));
    let violation = Invariants::new().check(&event("turn/start", 0, &long)).unwrap_err();
    let line = violation.to_string();
    assert!(
        line.len() < 200 && line.starts_with("\"turn/start\" at seq 0: expected turn 1, found turn \"xxx"),
        "{line}"
    );
}
