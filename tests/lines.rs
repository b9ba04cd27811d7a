//! Lines of a log as events, and back: what comes back to the byte, and what is refused with its reason.

use session_persistence::{Json, SessionEvent, SurfaceOp, text};

fn event(line: &str) -> SessionEvent {
    text::parse_event(line.as_bytes()).unwrap_or_else(|e| panic!("{line}: {e}"))
}

fn refused(line: &str) -> String {
    text::parse_event(line.as_bytes()).expect_err(line).reason().to_owned()
}

#[test]
fn a_line_in_any_order_and_spelling_comes_back_as_it_was() {
    for line in [
        r#"{"type":"x","seq":0,"time":1,"data":null}"#,
        r#"{"type":"x","data":{"b":1,"a":2},"surfaceOp":"append","seq":0,"time":-5}"#,
        r#"{"type":"x","seq":9,"time":1,"data":[],"surfaceOp":{"op":"replace","startSeq":16,"endSeq":4},"sourceEventSeqs":[4,1]}"#,
        r#"{"type":"x","seq":9,"time":1,"data":[],"sourceEventSeqs":[],"surfaceOp":{"op":"replace","start":1,"end":4}}"#,
        r#"{"type":"x","seq":9,"time":1,"data":[],"surfaceOp":{"endSeq":4,"startSeq":1,"op":"replace"}}"#,
        r#"{"type":"x","seq":9,"time":1,"data":[],"surfaceOp":{"mark":1.0},"ignorable":true}"#,
        r#" { "type" : "\u0078\/" , "data" : {"data":"data"} , "seq":3, "time":1 } "#,
        r#"{"data":{"sourceEventSeqs":[1]},"time":0,"seq":1,"type":"a\"b"}"#,
    ] {
        assert_eq!(event(line).to_line(), line);
    }
}

#[test]
fn a_carriage_return_at_the_end_of_a_line_is_no_part_of_the_event() {
    let line = r#"{"type":"x","seq":0,"time":1,"data":null}"#;
    assert_eq!(event(&format!("{line}\r")), event(line));
    let odd = r#"{ "type":"x","seq":0,"time":1,"data":null}"#;
    assert_eq!(event(&format!("{odd}\r")).to_line(), odd);
}

#[test]
fn ranges_are_expanded_and_the_rest_of_the_line_stays() {
    let made = event(r#"{"type":"x","seq":9,"time":1,"data":[],"sourceEventSeqs":[1,[3,5],7]}"#);
    assert_eq!(made.to_line(), r#"{"type":"x","seq":9,"time":1,"data":[],"sourceEventSeqs":[1,3,4,5,7]}"#);
    let odd = event(r#"{ "sourceEventSeqs":[[0,2]], "data":{"k":[[0,2]]},"type":"x","seq":9,"time":1}"#);
    assert_eq!(odd.to_line(), r#"{ "sourceEventSeqs":[0,1,2], "data":{"k":[[0,2]]},"type":"x","seq":9,"time":1}"#);
    let odd = event(r#"{ "data":{"k":[[0,2]]},"type":"x","seq":9,"time":1,"sourceEventSeqs":[[0,2]]}"#);
    assert_eq!(odd.to_line(), r#"{ "data":{"k":[[0,2]]},"type":"x","seq":9,"time":1,"sourceEventSeqs":[0,1,2]}"#);
}

#[test]
fn hostile_ranges_are_refused_before_they_are_expanded() {
    for list in [
        "[[0,9007199254740991]]",
        "[[5,3]]",
        "[[0,9]]",
        "[[0,5],[0,5]]",
        "[[0,1,2]]",
        "[[0]]",
        "[3,[4,5],2]",
        "[[0,8],1,2,3]",
    ] {
        let line = format!(r#"{{"type":"x","seq":9,"time":1,"data":[],"sourceEventSeqs":{list}}}"#);
        assert!(refused(&line).contains("sourceEventSeqs"), "{list}");
    }
}

#[test]
fn a_short_line_never_stands_for_a_list_without_bound() {
    let line = r#"{"type":"x","seq":9007199254740991,"time":0,"data":{},"sourceEventSeqs":[[0,9007199254740990]]}"#;
    assert!(refused(line).contains("more than 4194304"));
    let line =
        r#"{"type":"x","seq":9007199254740991,"time":0,"data":{},"sourceEventSeqs":[[0,4194302],[4194304,4194305]]}"#;
    assert!(refused(line).contains("more than 4194304"));
}

#[test]
fn what_breaks_an_envelope_is_named() {
    let cases = [
        (r#"{"type":"x","seq":0,"time":0,"data":1,"x-vendor":{"a":1}}"#, "\"x-vendor\""),
        (r#"{"type":"x","seq":0,"time":0,"data":1,"seq":0}"#, "\"seq\" stands twice"),
        (r#"{"type":"x","seq":0,"time":0}"#, "\"data\" is missing"),
        (r#"{"type":"x","time":0,"data":1}"#, "\"seq\" is missing"),
        (r#"{"type":"x","seq":"7","time":0,"data":1}"#, "seq must be a whole number"),
        (r#"{"type":"x","seq":7.0,"time":0,"data":1}"#, "seq must be a whole number"),
        (r#"{"type":"x","seq":-0,"time":0,"data":1}"#, "seq must be a whole number"),
        (r#"{"type":"x","seq":9007199254740992,"time":0,"data":1}"#, "seq must be a whole number"),
        (r#"{"type":"x","seq":0,"time":1.5,"data":1}"#, "time must be a whole number"),
        (r#"{"type":"x","seq":0,"time":-0,"data":1}"#, "time must be a whole number"),
        (r#"{"type":"x","seq":0,"time":"1","data":1}"#, "time must be a whole number"),
        (r#"{"type":"x","seq":0,"time":9007199254740992,"data":1}"#, "time must be a whole number"),
        (r#"{"type":7,"seq":0,"time":0,"data":1}"#, "type must be a string"),
        (r#"{"type":"\ud83d","seq":0,"time":0,"data":1}"#, "type must be a string"),
        (r#"{"type":"x","seq":0,"time":0,"data":1,"ignorable":false}"#, "ignorable may only be true"),
        (r#"{"type":"x","seq":0,"time":0,"data":1,"ignorable":"true"}"#, "ignorable may only be true"),
        (r#"{"type":"x","seq":0,"time":0,"data":1,"surfaceOp":"prepend"}"#, "surfaceOp"),
        (
            r#"{"type":"x","seq":0,"time":0,"data":1,"surfaceOp":{"op":"replace","startSeq":0,"endSeq":0,"x":1}}"#,
            "surfaceOp",
        ),
        (r#"{"type":"x","seq":0,"time":0,"data":1,"surfaceOp":{"op":"replace","startSeq":0,"end":0}}"#, "surfaceOp"),
        (r#"{"type":"x","seq":1,"time":0,"data":1,"sourceEventSeqs":[1]}"#, "not earlier"),
        (r#"{"type":"x","seq":1,"time":0,"data":1,"sourceEventSeqs":[0.0]}"#, "sourceEventSeqs"),
        (r#"{"type":"x","seq":1,"time":0,"data":1,"sourceEventSeqs":7}"#, "sourceEventSeqs"),
        (r#"{"type":"text-chunks","seq":1,"time":0,"data":1}"#, "packs several events"),
        (r#"{"type":"x","seq":0,"time":0,"data":1} {}"#, "not a JSON object"),
        (r#"[1]"#, "not a JSON object"),
        ("", "not a JSON object"),
        ("\u{feff}{}", "not a JSON object"),
        ("{\"type\":\"x\",\"seq\":0,\"time\":0,\"data\":\"\0\"}", "not a JSON object"),
        ("{\"type\":\"x\",\"seq\":0,\"time\":0,\n\"data\":1}", "one line"),
        ("{\"type\":\"x\",\"seq\":0,\"time\":0,\"data\":[\n]}", "one line"),
        ("{\"type\":\"x\",\"seq\":0,\"time\":0,\"data\":1}\n", "one line"),
    ];
    for (line, reason) in cases {
        assert!(refused(line).contains(reason), "{line}: {}", refused(line));
    }
    let reason = text::parse_event(b"{\"type\":\"\xff\"").unwrap_err();
    assert!(reason.to_string().contains("invalid UTF-8 at byte 9"), "{reason}");
}

#[test]
fn a_hundred_thousand_levels_do_not_overflow_the_stack() {
    let line = format!(r#"{{"type":"x","seq":0,"time":0,"data":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let event = event(&line);
    assert_eq!(event.to_line(), line);
    drop(event.clone());
}

#[test]
fn an_event_made_in_rust_has_the_usual_key_order() {
    let event = SessionEvent::new("user/message", 2, 5, Json::parse("{}").unwrap())
        .unwrap()
        .into_ignorable()
        .with_surface_op(SurfaceOp::Append)
        .unwrap()
        .with_source_event_seqs([1, 0])
        .unwrap();
    let line = r#"{"type":"user/message","seq":2,"time":5,"data":{},"sourceEventSeqs":[1,0],"surfaceOp":"append","ignorable":true}"#;
    assert_eq!(event.to_line(), line);
    assert_eq!(text::parse_event(line.as_bytes()).unwrap(), event);
}
