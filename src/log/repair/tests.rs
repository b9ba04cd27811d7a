use super::*;
use crate::log::payload::{Content, StepMessage};
use crate::log::text::parse_event;

/// A log of events with these types and data, at the times 10, 20, 30, ...
fn log(events: &[(&str, &str)]) -> Vec<SessionEvent> {
    let numbered = events.iter().enumerate();
    numbered.map(|(i, (event_type, data))| event(event_type, i as u64, 10 * (i as i64 + 1), data)).collect()
}

fn event(event_type: &str, seq: u64, time: i64, data: &str) -> SessionEvent {
    SessionEvent::new(event_type, seq, time, Json::parse(data).unwrap()).unwrap()
}

fn asks(ids: &[&str]) -> String {
    let block = |id: &&str| format!(r#"{{"type":"tool-call","id":"{id}","name":"t","arguments":"{{}}"}}"#);
    let blocks: Vec<_> = ids.iter().map(block).collect();
    format!(r#"{{"turn":1,"step":1,"message":{{"role":"assistant","content":[{}]}},"stream":[]}}"#, blocks.join(","))
}

fn call(id: &str) -> String {
    format!(r#"{{"turn":1,"step":1,"callId":"{id}","name":"t","arguments":"{{}}"}}"#)
}

fn result(id: &str) -> String {
    format!(r#"{{"turn":1,"step":1,"message":{{"source":{{"kind":"tool","callId":"{id}"}},"content":[]}}}}"#)
}

const TURN: (&str, &str) = ("turn/start", r#"{"turn":1}"#);
const STEP: (&str, &str) = ("step/start", r#"{"turn":1,"step":1}"#);
const STEP_END: (&str, &str) = ("step/end", r#"{"turn":1,"step":1}"#);
const TURN_END: (&str, &str) = ("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#);

fn closers(events: &[SessionEvent]) -> Vec<SessionEvent> {
    let closers = interrupted_turn_closers(events, &RepairTexts::default()).unwrap();
    let mut streamed = OpenTurn::new();
    events.iter().for_each(|event| streamed.observe(event));
    if let Some(last) = events.last() {
        assert_eq!(streamed.closers(last.seq(), last.time(), &RepairTexts::default()).unwrap(), closers);
        assert_eq!(streamed.is_interrupted(), !closers.is_empty());
        if closers.is_empty() {
            assert_eq!(streamed, OpenTurn::new(), "outside a turn nothing is held");
        }
    }
    for closer in &closers {
        assert_eq!(&parse_event(closer.to_line().as_bytes()).unwrap(), closer, "the line is the event");
        Json::parse(closer.data().as_str()).unwrap();
    }
    closers
}

/// The closers in short: `?a` and `-a` for the result of call `a`, of which the first was started, and the ends.
fn short(events: &[SessionEvent]) -> Vec<String> {
    let short = |closer: SessionEvent| match closer.event_type() {
        "tool/result" => {
            let data: StepMessage = closer.data_as().unwrap();
            let sign = match data.error.unwrap().code.as_str() {
                "TOOL_OUTCOME_UNKNOWN" => '?',
                "TOOL_NOT_STARTED" => '-',
                code => panic!("{code}"),
            };
            assert_eq!(closer.source_event_seqs().is_some(), sign == '?');
            format!("{sign}{}", data.message.source.call_id.unwrap())
        }
        "step/end" => format!("step {}", closer.data_as::<Step>().unwrap().step),
        "turn/end" => format!("turn {}", closer.data_as::<TurnEnd>().unwrap().turn),
        other => panic!("{other}"),
    };
    closers(events).into_iter().map(short).collect()
}

#[test]
fn an_empty_log_needs_nothing() {
    assert!(closers(&[]).is_empty());
}

#[test]
fn the_bytes_of_closers_are_those_of_the_harness_but_for_the_texts() {
    let events = log(&[
        ("user/message", "{}"),
        TURN,
        STEP,
        ("assistant/message", &asks(&["a", "b"])),
        ("tool/call", &call("a")),
    ]);
    let texts = RepairTexts { outcome_unknown: "U\n".into(), not_started: "N".into(), ..RepairTexts::default() };
    let lines: Vec<_> = interrupted_turn_closers(&events, &texts).unwrap().iter().map(SessionEvent::to_line).collect();
    assert_eq!(
        lines,
        [
            r#"{"type":"tool/result","seq":5,"time":50,"data":{"turn":1,"step":1,"message":{"id":"interrupted-tool-result-a-5","role":"user","source":{"kind":"tool","callId":"a"},"content":[{"type":"tool-result","toolCallId":"a","isError":true,"content":[{"type":"text","text":"U\n"}]}]},"error":{"name":"ToolOutcomeUnknownError","code":"TOOL_OUTCOME_UNKNOWN"}},"surfaceOp":"append","sourceEventSeqs":[4]}"#,
            r#"{"type":"tool/result","seq":6,"time":50,"data":{"turn":1,"step":1,"message":{"id":"interrupted-tool-result-b-6","role":"user","source":{"kind":"tool","callId":"b"},"content":[{"type":"tool-result","toolCallId":"b","isError":true,"content":[{"type":"text","text":"N"}]}]},"error":{"name":"ToolNotStartedError","code":"TOOL_NOT_STARTED"}},"surfaceOp":"append"}"#,
            r#"{"type":"step/end","seq":7,"time":50,"data":{"turn":1,"step":1}}"#,
            r#"{"type":"turn/end","seq":8,"time":50,"data":{"turn":1,"reason":{"kind":"interrupted"}}}"#,
        ]
    );
}

#[test]
fn a_turn_start_opens_its_turn_and_forgets_step_and_calls_of_the_one_before() {
    assert_eq!(short(&log(&[TURN])), ["turn 1"]);
    let again = log(&[TURN, STEP, ("assistant/message", &asks(&["a"])), ("turn/start", r#"{"turn":2}"#)]);
    assert_eq!(short(&again), ["turn 2"]);
}

#[test]
fn a_turn_end_closes_turn_step_and_calls() {
    assert!(short(&log(&[TURN, STEP, ("assistant/message", &asks(&["a"])), TURN_END])).is_empty());
    assert!(short(&log(&[TURN, TURN_END, STEP, ("assistant/message", &asks(&["a"]))])).is_empty());
}

#[test]
fn a_step_start_opens_its_step_and_keeps_calls() {
    assert_eq!(short(&log(&[TURN, STEP])), ["step 1", "turn 1"]);
    let second = log(&[TURN, STEP, ("assistant/message", &asks(&["a"])), ("step/start", r#"{"turn":1,"step":2}"#)]);
    assert_eq!(short(&second), ["-a", "step 2", "turn 1"]);
    assert_eq!(closers(&second)[0].data_as::<StepMessage>().unwrap().step, 1);
}

#[test]
fn a_step_end_closes_its_step_and_forgets_its_calls() {
    let events = log(&[TURN, STEP, ("assistant/message", &asks(&["a"])), ("tool/call", &call("a")), STEP_END]);
    assert_eq!(short(&events), ["turn 1"]);
}

#[test]
fn an_assistant_message_adds_its_calls_in_order_and_nothing_else_of_it() {
    let message = r#"{"turn":1,"step":3,"message":{"content":[{"type":"text","text":"x","id":"no"},{"type":"tool-call","id":"b"},{"id":"a","type":"tool-call"},{"type":"tool-result","id":"no"}]}}"#;
    let events = log(&[TURN, STEP, ("assistant/message", message)]);
    assert_eq!(short(&events), ["-b", "-a", "step 1", "turn 1"]);
    assert_eq!(closers(&events)[0].data_as::<StepMessage>().unwrap().step, 3);
}

#[test]
fn a_call_whose_id_is_set_again_keeps_its_place_and_forgets_that_it_was_started() {
    let events = log(&[
        TURN,
        STEP,
        ("assistant/message", &asks(&["a", "b"])),
        ("tool/call", &call("a")),
        ("assistant/message", &asks(&["c", "a"])),
    ]);
    assert_eq!(short(&events), ["-a", "-b", "-c", "step 1", "turn 1"]);
    let answered = log(&[
        TURN,
        STEP,
        ("assistant/message", &asks(&["a", "b"])),
        ("tool/result", &result("a")),
        ("assistant/message", &asks(&["a"])),
    ]);
    assert_eq!(short(&answered), ["-b", "-a", "step 1", "turn 1"], "a call that was answered is a new one");
}

#[test]
fn a_tool_call_starts_a_call_that_was_made_and_no_other() {
    let events =
        log(&[TURN, STEP, ("assistant/message", &asks(&["a"])), ("tool/call", &call("a")), ("tool/call", &call("x"))]);
    assert_eq!(short(&events), ["?a", "step 1", "turn 1"]);
    assert_eq!(closers(&events)[0].source_event_seqs().unwrap(), [Seq::from(3)]);
    let before = log(&[TURN, STEP, ("tool/call", &call("a")), ("assistant/message", &asks(&["a"]))]);
    assert_eq!(short(&before), ["-a", "step 1", "turn 1"]);
    let twice =
        log(&[TURN, STEP, ("assistant/message", &asks(&["a"])), ("tool/call", &call("a")), ("tool/call", &call("a"))]);
    assert_eq!(closers(&twice)[0].source_event_seqs().unwrap(), [Seq::from(4)], "the last counts");
}

#[test]
fn a_tool_result_answers_its_call_appended_or_replacing() {
    let mut events = log(&[
        TURN,
        STEP,
        ("assistant/message", &asks(&["a", "b", "c"])),
        ("tool/call", &call("a")),
        ("tool/result", &result("a")),
        ("tool/result", &result("x")),
    ]);
    assert_eq!(short(&events), ["-b", "-c", "step 1", "turn 1"]);
    let replace = SurfaceOp::Replace { start_seq: Seq::from(4), end_seq: Seq::from(4) };
    events.push(event("tool/result", 6, 0, &result("b")).with_surface_op(replace).unwrap());
    assert_eq!(short(&events), ["-c", "step 1", "turn 1"]);
}

#[test]
fn two_interrupted_calls_in_both_states_come_in_the_order_of_the_model() {
    let one = log(&[TURN, STEP, ("assistant/message", &asks(&["a", "b"])), ("tool/call", &call("b"))]);
    assert_eq!(short(&one), ["-a", "?b", "step 1", "turn 1"]);
    let both = log(&[
        TURN,
        STEP,
        ("assistant/message", &asks(&["a", "b"])),
        ("tool/call", &call("b")),
        ("tool/call", &call("a")),
    ]);
    assert_eq!(short(&both), ["?a", "?b", "step 1", "turn 1"]);
}

#[test]
fn other_events_change_nothing() {
    let events = log(&[
        TURN,
        STEP,
        ("user/message", &asks(&["u"])),
        ("assistant/attempt", &asks(&["v"])),
        ("system/message", &asks(&["w"])),
        ("compaction/start", r#"{"compactionId":"c","turn":1}"#),
        ("acme/turn/end", r#"{"turn":1}"#),
    ]);
    assert_eq!(short(&events), ["step 1", "turn 1"]);
}

#[test]
fn the_closers_of_a_log_with_its_closers_are_none() {
    let mut events = log(&[TURN, STEP, ("assistant/message", &asks(&["a", "b"])), ("tool/call", &call("a"))]);
    let found = closers(&events);
    assert_eq!(found, closers(&events), "the same log has the same closers");
    assert_eq!(found.len(), 4);
    events.extend(found);
    for _ in 0..5 {
        assert!(closers(&events).is_empty());
    }
}

#[test]
fn of_closers_that_were_stored_in_part_the_rest_is_what_still_lacks() {
    let events = log(&[TURN, STEP, ("assistant/message", &asks(&["a", "b"])), ("tool/call", &call("a"))]);
    let all = closers(&events);
    for stored in 0..=all.len() {
        let cut = [&events[..], &all[..stored]].concat();
        assert_eq!(closers(&cut), all[stored..], "{stored} of them are stored");
    }
}

#[test]
fn a_call_without_a_result_deep_in_finished_history_is_left_alone() {
    let finished = [TURN, STEP, ("assistant/message", &*asks(&["a"])), ("tool/call", &call("a")), STEP_END, TURN_END];
    assert!(short(&log(&finished)).is_empty());
    let open_again = [&finished[..], &[("turn/start", r#"{"turn":2}"#), ("step/start", r#"{"turn":2,"step":1}"#)]];
    assert_eq!(short(&log(&open_again.concat())), ["step 1", "turn 2"]);
}

#[test]
fn a_marker_of_a_seed_within_a_turn_neither_ends_nor_hides_it() {
    for marker in ["{}", r#"{"inherited":true}"#] {
        let seed = ("session/end-seed", marker);
        let call = call("a");
        let asks = asks(&["a"]);
        let events = [TURN, seed, STEP, seed, ("assistant/message", &*asks), seed, ("tool/call", &*call), seed];
        assert_eq!(short(&log(&events)), ["?a", "step 1", "turn 1"]);
        assert!(short(&log(&[TURN, TURN_END, seed])).is_empty());
        assert_eq!(short(&log(&[seed, TURN])), ["turn 1"]);
        assert!(short(&log(&[seed])).is_empty());
    }
}

#[test]
fn closers_have_the_time_of_the_last_event_however_early_it_is() {
    for times in [[5, -7], [0, -9007199254740991], [900, 900], [-9, -3]] {
        let events = [event("turn/start", 0, times[0], TURN.1), event("user/message", 1, times[1], "{}")];
        assert_eq!(closers(&events)[0].time(), times[1]);
    }
}

#[test]
fn closers_that_have_no_seq_are_refused_and_those_that_just_have_one_are_made() {
    let start = |seq| [event("turn/start", seq, 0, TURN.1)];
    assert_eq!(closers(&start(Seq::MAX.get() - 1))[0].seq(), Seq::MAX);
    let refusal = interrupted_turn_closers(&start(Seq::MAX.get()), &RepairTexts::default()).unwrap_err();
    assert!(refusal.reason().contains("needs 1 more events"), "{refusal}");
    let mut events = log(&[TURN, STEP, ("assistant/message", &asks(&["a"]))]);
    events.push(event("user/message", Seq::MAX.get() - 2, 0, "{}"));
    interrupted_turn_closers(&events, &RepairTexts::default()).unwrap_err();
}

#[test]
fn a_turn_without_a_whole_number_is_not_opened_and_still_ends_the_one_before() {
    for data in ["null", "{}", r#"{"turn":"1"}"#, r#"{"turn":1.5}"#, r#"{"turn":-1}"#, "[]"] {
        let events = log(&[TURN, STEP, ("turn/start", data), STEP, ("assistant/message", &asks(&["a"]))]);
        assert!(short(&events).is_empty(), "{data}");
    }
    assert_eq!(short(&log(&[("turn/start", r#"{"turn":1,"turn":2.0}"#)])), ["turn 2"]);
}

#[test]
fn a_step_without_a_whole_number_is_not_open_and_gets_no_end() {
    assert_eq!(short(&log(&[TURN, STEP, ("step/start", "{}")])), ["turn 1"]);
}

#[test]
fn calls_of_a_message_that_names_no_step_belong_to_the_open_step() {
    let nameless = asks(&["a"]).replace(r#""step":1,"#, "");
    let second = ("step/start", r#"{"turn":1,"step":2}"#);
    let events = log(&[TURN, second, ("assistant/message", &nameless)]);
    assert_eq!(short(&events), ["-a", "step 2", "turn 1"]);
    assert_eq!(closers(&events)[0].data_as::<StepMessage>().unwrap().step, 2);
    assert_eq!(short(&log(&[TURN, ("assistant/message", &nameless)])), ["turn 1"]);
}

#[test]
fn data_of_another_shape_than_expected_is_passed_over() {
    for event_type in ["assistant/message", "tool/call", "tool/result"] {
        for data in [
            "null",
            "1",
            "[]",
            r#"{"step":1,"message":null}"#,
            r#"{"step":1,"message":{"content":{}}}"#,
            r#"{"step":1,"message":{"content":[null,1,{"type":"tool-call"},{"type":"tool-call","id":1},{"id":"q"}]}}"#,
            r#"{"callId":7,"message":{"source":"tool"}}"#,
            r#"{"message":{"source":{"callId":{}}}}"#,
        ] {
            let events = log(&[TURN, STEP, ("assistant/message", &asks(&["a"])), (event_type, data)]);
            assert_eq!(short(&events), ["-a", "step 1", "turn 1"], "{event_type} {data}");
        }
    }
}

#[test]
fn an_id_is_the_same_in_every_spelling_and_may_be_no_text_of_rust() {
    let lone = r"\ud83d";
    let events = log(&[
        TURN,
        STEP,
        ("assistant/message", &asks(&[lone, r"\u0061\/", "gone"])),
        ("tool/call", &call(r"\uD83D")),
        ("tool/result", &result(r"\u0067one")),
    ]);
    let data: Vec<_> = closers(&events).iter().map(|c| c.data().as_str().to_owned()).collect();
    assert_eq!(data.len(), 4);
    assert!(data[0].contains(r#"{"id":"interrupted-tool-result-\ud83d-5","role""#), "{}", data[0]);
    assert!(data[0].contains(r#""callId":"\ud83d"},"#) && data[0].contains(r#""toolCallId":"\ud83d","#));
    assert!(data[1].contains(r#"{"id":"interrupted-tool-result-a/-6","role""#), "{}", data[1]);
    let mut again = events;
    again.extend(closers(&again));
    assert!(closers(&again).is_empty());
}

#[test]
fn twenty_thousand_calls_of_one_step_are_closed_in_their_order() {
    let ids: Vec<_> = (0..20_000).map(|i| format!("c{i}")).collect();
    let asks = asks(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    let closers = interrupted_turn_closers(&log(&[TURN, STEP, ("assistant/message", &asks)]), &RepairTexts::default());
    let closers = closers.unwrap();
    assert_eq!(closers.len(), ids.len() + 2);
    for (closer, id) in closers.iter().zip(&ids) {
        assert_eq!(closer.data_as::<StepMessage>().unwrap().message.source.call_id.as_ref(), Some(id));
    }
}

#[test]
fn a_fold_needs_only_the_types_that_it_names() {
    let events = log(&[
        TURN,
        ("request/header", "{}"),
        STEP,
        ("assistant/message", &asks(&["a"])),
        ("tool/call", &call("a")),
        ("todo/write", "{}"),
    ]);
    let mut all = OpenTurn::new();
    let mut few = OpenTurn::new();
    for event in &events {
        all.observe(event);
        if OpenTurn::EVENT_TYPES.contains(&event.event_type()) {
            few.observe(event);
        }
    }
    assert_eq!(all, few);
    let closers = few.closers(Seq::from(9), -4, &RepairTexts::default()).unwrap();
    assert_eq!((closers[0].seq().get(), closers[0].time(), closers.len()), (10, -4, 3));
    few.closers(Seq::from(2), 0, &RepairTexts::default()).expect_err("the call would be cited before it was made");
    few.closers(Seq::from(9), i64::MIN, &RepairTexts::default()).expect_err("no time of an event");
}

#[test]
fn a_template_names_messages_by_call_and_seq_without_looking_into_the_call() {
    let id = |template: &str, call_id: &str| MessageIdTemplate::new(template).unwrap().fill(call_id, 7);
    assert_eq!(id("<seq>", r#""a""#), r#""7""#);
    assert_eq!(id("x<callId>\"<<seq>><y>", r#""<seq>\n""#), r#""x<seq>\n\"<7><y>""#);
    assert_eq!(MessageIdTemplate::default().fill(r#""a""#, 8), r#""interrupted-tool-result-a-8""#);
    assert_eq!(MessageIdTemplate::default(), MessageIdTemplate::new("interrupted-tool-result-<callId>-<seq>").unwrap());
    MessageIdTemplate::new("repair-<callId>").unwrap_err();
}

#[test]
fn the_default_texts_tell_the_two_cases_apart() {
    let events = log(&[TURN, STEP, ("assistant/message", &asks(&["a", "b"])), ("tool/call", &call("a"))]);
    let said: Vec<_> = closers(&events)[..2]
        .iter()
        .map(|closer| {
            let data: StepMessage = closer.data_as().unwrap();
            let Content::ToolResult { content, is_error: true, tool_call_id } = &data.message.content[0] else {
                panic!("a result that is an error")
            };
            assert_eq!(Some(tool_call_id), data.message.source.call_id.as_ref());
            content.clone()
        })
        .collect();
    let texts = RepairTexts::default();
    assert_eq!(said[0], [Content::Text { text: texts.outcome_unknown }]);
    assert_eq!(said[1], [Content::Text { text: texts.not_started }]);
}
