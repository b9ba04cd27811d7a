//! Each rule by itself, and which of two comes first.

use super::*;

const THREE: [&str; 3] = ["user/message", "user/message", "user/message"];

#[test]
fn rule_1_the_next_event_has_the_next_seq() {
    let mut log = Log::new(3).append(["user/message"]);
    for seq in [0, 2] {
        let event = SessionEvent::new("turn/start", seq, 0, Json::parse("{}").unwrap()).unwrap();
        let error = log.push_event(event).unwrap_err();
        assert_eq!(error, FoldError::NotContiguous { expected: 1, found: Seq::new(seq).unwrap() });
        assert_eq!(error.seq(), Seq::new(seq));
    }
}

#[test]
fn rule_2_an_event_that_is_not_shown_carries_no_surface_keys() {
    let mut log = Log::new(3).append(["user/message"]);
    for event_type in ["turn/start", "acme/pulse"] {
        let told = |key: &str| {
            format!("seq 1: an event of type {event_type:?} is not shown to the model and must not carry {key}")
        };
        let of_type = format!(r#""type":"{event_type}","data":1"#);
        assert_eq!(log.refused(&format!(r#"{of_type},"surfaceOp":"append""#)), told("surfaceOp"));
        assert_eq!(log.refused(&format!(r#"{of_type},"sourceEventSeqs":[0]"#)), told("sourceEventSeqs"));
        assert_eq!(log.refused(&format!(r#"{of_type},"sourceEventSeqs":[]"#)), told("sourceEventSeqs"));
        let both = format!(r#"{of_type},"sourceEventSeqs":[0],"surfaceOp":"append""#);
        assert_eq!(log.refused(&both), told("surfaceOp"));
    }
}

#[test]
fn rule_2_an_ignorable_event_of_an_unknown_type_passes_by_whatever_it_carries() {
    let mut log = Log::new(3).append(["user/message"]);
    for keys in [
        r#""surfaceOp":"append""#,
        r#""surfaceOp":{"mark":1}"#,
        r#""surfaceOp":{"op":"replace","startSeq":0,"endSeq":0},"sourceEventSeqs":[0]"#,
        r#""sourceEventSeqs":[]"#,
    ] {
        assert_eq!(log.push(&format!(r#""type":"acme/pulse","data":1,"ignorable":true,{keys}"#)), Ok(None));
    }
    assert_eq!(log.nodes(), [0]);
    assert!(!log.surface.is_appended(&log.events[1]));
}

#[test]
fn rule_2_a_known_type_is_checked_though_it_is_marked_ignorable() {
    let mut log = Log::new(3);
    let turn = r#""type":"turn/start","data":{},"surfaceOp":"append","ignorable":true"#;
    assert!(log.refused(turn).ends_with("must not carry surfaceOp"));
    let message = r#""type":"user/message","data":{},"ignorable":true"#;
    assert!(log.refused(message).contains("needs a surfaceOp"));
    assert_eq!(log.push(&format!(r#"{message},"surfaceOp":"append""#)), Ok(None));
    assert_eq!(log.nodes(), [0]);

    let pulse = r#""type":"acme/pulse","data":{},"surfaceOp":"append","ignorable":true"#;
    let vocabulary = Vocabulary::v3().with_types(["acme/pulse"]);
    let mut known = Log { surface: Surface::of(vocabulary.into()).unwrap(), events: Vec::new() };
    assert!(known.refused(pulse).ends_with("must not carry surfaceOp"));
    assert_eq!(Log::new(3).push(pulse), Ok(None));
}

#[test]
fn rule_3_a_message_needs_a_surface_operation() {
    for event_type in ["system/message", "user/message", "assistant/message", "tool/result"] {
        let told = Log::new(3).refused(&format!(r#""type":"{event_type}","data":{{}}"#));
        assert_eq!(told, format!("seq 0: {event_type} needs a surfaceOp, \"append\" or a replacement, and has none"));
    }
}

#[test]
fn rule_3_the_surface_operation_is_one_that_the_format_has() {
    let of_format = |version: u32, op: &str| {
        let rest = format!(r#""type":"user/message","data":{{}},"surfaceOp":{op},"ignorable":true"#);
        Log::new(version).append(["user/message"]).refused(&rest)
    };
    let told = "seq 1: the surfaceOp of user/message must be";
    for op in ["null", "[1]", "\"replace\"", "7"] {
        assert_eq!(of_format(3, op), format!("{told} \"append\" or the object of a replacement, found {op}"),);
    }
    let (old, new) = (r#"{"op":"replace","start":0,"end":0}"#, r#"{"op":"replace","startSeq":0,"endSeq":0}"#);
    for op in [old, "{}", r#"{"op":"replace","startSeq":0}"#, r#"{"op":"replace","startSeq":-1,"endSeq":0}"#] {
        let expected = r#"{"op":"replace","startSeq":SEQ,"endSeq":SEQ}"#;
        assert_eq!(of_format(3, op), format!("{told} {expected}, found {op}"));
    }
    for version in 0..3 {
        let expected = r#"{"op":"replace","start":SEQ,"end":SEQ}"#;
        assert_eq!(of_format(version, new), format!("{told} {expected}, found {new}"));
    }
}

#[test]
fn rule_4_a_range_names_earlier_events() {
    for (start, end) in [(3, 0), (0, 3), (9, 0), (0, 9)] {
        let mut log = Log::new(3).append(THREE);
        assert_eq!(
            log.refused(&user_over(start, end, "0,1,2")),
            format!("seq 3: it replaces {start} to {end}, and may only replace events that are earlier than itself")
        );
    }
}

#[test]
fn rule_4_comes_before_the_sources() {
    let mut log = Log::new(3).append(THREE);
    assert!(log.refused(&user_over(0, 3, "")).contains("earlier than itself"));
    let answer = format!(r#""type":"assistant/message","data":{{}},{}"#, over(0, 3, "0"));
    assert!(log.refused(&answer).contains("earlier than itself"));
}

#[test]
fn rule_5_an_answer_holds_its_stream_and_cites_nothing() {
    for sources in ["[]", "[0]"] {
        let mut log = Log::new(3).append(["user/message"]);
        let rest =
            format!(r#""type":"assistant/message","data":{{}},"surfaceOp":"append","sourceEventSeqs":{sources}"#);
        let told = "seq 1: assistant/message holds its own stream and must not carry sourceEventSeqs";
        assert_eq!(log.refused(&rest), told);
    }
}

#[test]
fn rule_5_an_empty_list_of_sources_is_refused() {
    let empty = r#""surfaceOp":"append","sourceEventSeqs":[]"#;
    for version in 0..4 {
        let mut log = Log::new(version);
        assert!(log.refused(&format!(r#""type":"user/message","data":{{}},{empty}"#)).contains("is empty"));
        assert!(log.refused(&format!("{},{empty}", result("m", ""))).contains("is empty"));
    }
    // Formats that list the chunks of an answer have answers without any.
    for (version, may) in [(0, true), (1, true), (2, false)] {
        let answer = Log::new(version).push(&format!(r#""type":"assistant/message","data":{{}},{empty}"#));
        assert_eq!(answer.is_ok(), may, "format {version}: {answer:?}");
    }
}

#[test]
fn rule_5_sources_are_named_once_and_are_earlier() {
    let citing = |sources: &[u64]| {
        let mut log = Log::new(3).append(THREE);
        let mut event = log.event(r#""type":"user/message","data":{},"surfaceOp":"append""#);
        // No event that was made or read has a source that is not earlier; a fold must not depend on it.
        event.rare = Some(Arc::new(Rare {
            source_event_seqs: Some(seqs(sources)),
            surface_op: Some(SurfaceOp::Append),
            ..Rare::default()
        }));
        log.push_event(event)
    };
    let seq = Seq::from(3);
    for (sources, refusal) in [
        (&[0, 1, 2][..], None),
        (&[2, 0, 1], None),
        (&[1, 1], Some(FoldError::SourceRepeated { seq, cited: Seq::from(1) })),
        (&[2, 0, 1, 0, 2], Some(FoldError::SourceRepeated { seq, cited: Seq::from(0) })),
        (&[3], Some(FoldError::SourceNotEarlier { seq, cited: seq })),
        (&[0, 5, 4], Some(FoldError::SourceNotEarlier { seq, cited: Seq::from(5) })),
        // A repeated one comes before one that is not earlier.
        (&[7, 0, 0], Some(FoldError::SourceRepeated { seq, cited: Seq::from(0) })),
    ] {
        assert_eq!(citing(sources).err(), refusal, "{sources:?}");
    }
}

#[test]
fn rule_5_comes_before_the_range() {
    let mut log = Log::new(3).append(["user/message", "turn/start", "user/message"]);
    assert!(log.refused(&user_over(1, 2, "")).contains("is empty"));
    assert!(log.refused(&user_over(1, 2, "0,0")).contains("twice"));
    let answer = format!(r#""type":"assistant/message","data":{{}},{}"#, over(1, 2, "0"));
    assert!(log.refused(&answer).contains("holds its own stream"));
}

#[test]
fn rule_6_both_ends_of_a_range_are_on_the_surface() {
    let mut log = Log::new(3).append(["user/message", "turn/start", "user/message"]);
    let told = |which: &str, node: u64| {
        format!("seq 3: the {which} of its range, seq {node}, is not on the surface; a range names events that are")
    };
    assert_eq!(log.refused(&user_over(1, 2, "2")), told("start", 1));
    assert_eq!(log.refused(&user_over(0, 1, "0")), told("end", 1));
    assert_eq!(log.refused(&user_over(1, 1, "0")), told("start", 1));
    log.push(&user_over(0, 0, "0")).unwrap();
    assert!(log.refused(&user_over(0, 2, "0,2")).contains("the start of its range, seq 0"));
}

#[test]
fn rule_6_a_range_does_not_end_before_it_starts() {
    let mut log = Log::new(3).append(THREE);
    for (start, end, distance) in [(2, 0, 2), (1, 0, 1), (2, 1, 1)] {
        let told = log.refused(&user_over(start, end, "0,1,2"));
        let expected = format!(
            "seq 3: its range starts at seq {start}, which stands {distance} behind the end at seq {end}; swap them"
        );
        assert_eq!(told, expected);
    }
}

#[test]
fn rule_6_comes_before_the_coverage() {
    let mut log = Log::new(3).append(THREE);
    assert!(log.refused(&user_over(2, 0, "1")).contains("stands 2 behind"));
}

#[test]
fn rule_6_comes_before_the_sources_in_formats_that_list_chunks() {
    for (version, first) in [(0, "is not on the surface"), (1, "is not on the surface"), (2, "is empty")] {
        let mut log = Log::new(version).append(["user/message", "turn/start"]);
        let op = r#""surfaceOp":{"op":"replace","start":0,"end":1},"sourceEventSeqs":[]"#;
        let told = log.refused(&format!(r#""type":"user/message","data":{{}},{op}"#));
        assert!(told.contains(first), "format {version}: {told}");
    }
}

#[test]
fn rule_7_the_sources_name_all_that_is_replaced() {
    let mut log = Log::new(3).append(THREE);
    let told =
        |missing: &str| format!("seq 3: sourceEventSeqs must name every event that is replaced, missing {missing}");
    assert_eq!(log.refused(&user_over(0, 2, "1")), told("0, 2"));
    let without = r#""type":"user/message","data":{},"surfaceOp":{"op":"replace","startSeq":0,"endSeq":1}"#;
    assert_eq!(log.refused(without), told("0, 1"));
    // More than these, and in any order.
    log.push(&user_over(1, 2, "2,0,1")).unwrap();
    assert_eq!(log.nodes(), [0, 3]);
}

#[test]
fn rule_7_what_is_missing_is_told_in_the_order_of_the_surface() {
    let mut log = Log::new(3).append(THREE);
    log.push(&user_over(0, 0, "0")).unwrap();
    assert!(log.refused(&user_over(3, 2, "1")).ends_with("missing 3, 2"));
}

#[test]
fn rule_7_an_answer_of_format_3_replaces_nothing_and_an_older_one_may() {
    let mut log = Log::new(3).append(["user/message"]);
    let op = r#""surfaceOp":{"op":"replace","startSeq":0,"endSeq":0}"#;
    assert!(log.refused(&format!(r#""type":"assistant/message","data":{{}},{op}"#)).ends_with("missing 0"));
    let mut log = Log::new(0).append(["user/message"]);
    let op = r#""surfaceOp":{"op":"replace","start":0,"end":0},"sourceEventSeqs":[0]"#;
    log.push(&format!(r#""type":"assistant/message","data":{{}},{op}"#)).unwrap();
    assert_eq!(log.nodes(), [1]);
}

#[test]
fn rule_8_a_result_replaces_exactly_one_event() {
    let mut log = Log::new(3).append(["tool/result", "tool/result"]);
    let told = log.refused(&format!("{},{}", result("m", "less"), over(0, 1, "0,1")));
    assert_eq!(told, "seq 2: a tool/result may replace exactly one event, found 2");
    // Coverage comes first.
    assert!(log.refused(&format!("{},{}", result("m", "less"), over(0, 1, "0"))).ends_with("missing 1"));
}

#[test]
fn rule_8_a_result_replaces_a_result() {
    let mut log = Log::new(3).append(["user/message", "system/message"]);
    let told = log.refused(&format!("{},{}", result("m", "less"), over(0, 0, "0")));
    assert_eq!(told, "seq 2: a tool/result may only replace a tool/result, seq 0 is user/message");
    let told = log.refused(&format!("{},{}", result("m", "less"), over(1, 1, "1")));
    assert_eq!(told, "seq 2: a tool/result may only replace a tool/result, seq 1 is system/message");
}

#[test]
fn rule_8_a_result_changes_only_what_its_block_says() {
    let mut log = Log::new(3).append(["tool/result"]);
    let keys = over(0, 0, "0");
    let told = |path: &str| {
        format!("seq 1: it rewrites the tool/result at seq 0 and may change only what its block says, {path} differs")
    };
    assert_eq!(log.refused(&format!("{},{keys}", result("other", "said"))), told("message.id"));
    for (data, path) in [
        (r#"{"step":1,"message":{"id":"m","content":[{"type":"tool-result","toolCallId":"c"}]}}"#, "turn"),
        (r#"{"turn":1,"step":1,"message":{"id":"m","content":[]}}"#, "message.content"),
        (
            r#"{"turn":1,"step":1,"message":{"id":"m","content":[{"type":"tool-result","toolCallId":"d"}]}}"#,
            "message.content[0].toolCallId",
        ),
        (
            r#"{"turn":1,"step":1,"message":{"id":"m","content":[{"type":"tool-result","toolCallId":"c","isError":true}]}}"#,
            "message.content[0].isError",
        ),
        (
            r#"{"turn":1,"step":1,"message":{"id":"m","content":[{"type":"tool-result","toolCallId":"c"},{}]}}"#,
            "message.content",
        ),
        (
            r#"{"turn":1,"step":1,"message":{"id":"m","content":[{"type":"tool-result","toolCallId":"c"}]},"meta":1}"#,
            "meta",
        ),
    ] {
        assert_eq!(log.refused(&format!(r#""type":"tool/result","data":{data},{keys}"#)), told(path), "{data}");
    }
    // Another spelling, another order of keys, and a content of another kind.
    let data = r#"{ "step":1.0,"turn":1,"message":{"content":[{"content":[{}],"toolCallId":"\u0063","type":"tool-result"}],"id":"m"} }"#;
    log.push(&format!(r#""type":"tool/result","data":{data},{keys}"#)).unwrap();
    assert_eq!(log.nodes(), [1]);
}

#[test]
fn rule_8_nesting_of_any_depth_does_not_end_the_program() {
    let deep = |inner: u32| format!("{}{inner}{}", "[".repeat(100_000), "]".repeat(100_000));
    let result = |meta: String, content: String| {
        let message = format!(r#"{{"id":"m","content":[{{"toolCallId":"c","content":{content}}}]}}"#);
        format!(r#""type":"tool/result","data":{{"message":{message},"meta":{meta}}}"#)
    };
    let mut log = Log::new(3);
    log.push(&format!(r#"{},"surfaceOp":"append""#, result(deep(1), deep(1)))).unwrap();
    log.push(&format!("{},{}", result(deep(1), deep(2)), over(0, 0, "0"))).unwrap();
    let error = log.push(&format!("{},{}", result(deep(2), deep(2)), over(1, 1, "1"))).unwrap_err();
    assert!(error.to_string().len() < 300, "{error}");
    assert!(matches!(error, FoldError::ResultChanged { .. }), "{error}");
}

#[test]
fn rule_8_the_event_that_is_rewritten_must_be_given() {
    let log = Log::new(3).append(["tool/result", "tool/result"]);
    let event = log.event(&format!("{},{}", result("m", "less"), over(0, 0, "0")));
    for given in [None, Some(log.events[1].clone())] {
        let error = log.surface.plan(&event, |_| given).unwrap_err();
        assert_eq!(error, FoldError::EventNotGiven { seq: Seq::from(2), node: Seq::from(0) });
    }
}

#[test]
fn rule_9_only_a_system_message_over_it_alone_replaces_the_system_prompt() {
    let mut log = Log::new(3).append(["system/message", "tool/result", "system/message", "user/message"]);
    let told = |found: &str, nodes: u64| {
        format!(
            "seq 4: seq 0 at the head of the surface holds the system prompt, which only a system/message over it \
             alone may replace, found {found} over {nodes}; start the range behind it"
        )
    };
    let system_over =
        |end: u64, sources: &str| format!(r#""type":"system/message","data":{{}},{}"#, over(0, end, sources));
    assert_eq!(log.refused(&user_over(0, 0, "0")), told("user/message", 1));
    assert_eq!(log.refused(&user_over(0, 1, "0,1")), told("user/message", 2));
    assert_eq!(log.refused(&system_over(1, "0,1")), told("system/message", 2));
    // The kind of a result that is replaced comes first.
    assert!(log.refused(&format!("{},{}", result("m", ""), over(0, 0, "0"))).contains("may only replace"));

    log.push(&system_over(0, "0")).unwrap();
    assert_eq!(log.nodes(), [4, 1, 2, 3]);
    // The one in its place is protected in turn, one at another place is not.
    assert!(log.refused(&user_over(4, 1, "4,1")).contains("seq 4 at the head"));
    log.push(&user_over(1, 3, "1,2,3")).unwrap();
    assert_eq!(log.nodes(), [4, 5]);
}

#[test]
fn rule_9_a_head_that_is_no_system_message_may_be_replaced() {
    let mut log = Log::new(3).append(["user/message", "system/message"]);
    log.push(&user_over(0, 1, "0,1")).unwrap();
    assert_eq!(log.nodes(), [2]);
}

#[test]
fn formats_before_3_have_no_system_messages() {
    for version in 0..3 {
        let mut log = Log::new(version);
        let system = r#""type":"system/message","data":{}"#;
        assert!(log.refused(&format!(r#"{system},"surfaceOp":"append""#)).ends_with("must not carry surfaceOp"));
        assert_eq!(log.push(system), Ok(None));
        assert_eq!(log.push(&format!(r#"{system},"surfaceOp":"append","ignorable":true"#)), Ok(None));
        assert!(!log.surface.is_appended(&log.events[1]));
        assert!(log.nodes().is_empty());
    }
    let error = Surface::new(4).unwrap_err();
    assert_eq!((error.seq(), &error), (None, &FoldError::UnknownFormat { found: 4, known: 3 }));
    assert!(error.to_string().contains("a newer program is needed"));
}
