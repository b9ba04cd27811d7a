//! What a session may start with.

use session_persistence::SessionEvent;
use session_persistence::session::{LiveError, Seed, Session};

use super::scene::{clock, header, parsed, session};

fn own(seqs: std::ops::Range<u64>) -> Vec<SessionEvent> {
    seqs.map(|seq| SessionEvent::of("todo/write", seq, 1, &[seq]).unwrap()).collect()
}

fn mark(seq: u64, inherited: bool) -> SessionEvent {
    let data = if inherited { r#"{"inherited":true}"# } else { "{}" };
    parsed(&format!(r#"{{"type":"session/end-seed","seq":{seq},"time":1,"data":{data}}}"#))
}

fn types(session: &Session) -> Vec<String> {
    let name = |event: &SessionEvent| match event.event_type() {
        "session/end-seed" => event.data().as_str().to_owned(),
        other => other.to_owned(),
    };
    session.snapshot(0..u64::MAX).iter().map(name).collect()
}

const INHERITED: &str = r#"{"inherited":true}"#;

#[test]
fn a_session_without_a_seed_has_no_mark() {
    let session = session(Seed::None).unwrap();
    assert_eq!((session.seq(), session.first_live_seq()), (0, 0));
}

#[test]
fn a_seed_is_marked_once_even_where_it_is_empty() {
    let empty = session(Seed::Own(vec![])).unwrap();
    assert_eq!((types(&empty), empty.first_live_seq()), (vec!["{}".to_owned()], 0));
    let marked = session(Seed::Own([own(0..2), vec![mark(2, false)]].concat())).unwrap();
    assert_eq!((marked.seq(), marked.first_live_seq()), (3, 3));
    let stored = session(Seed::Stored { events: own(0..2), inherited: 0 }).unwrap();
    assert_eq!((stored.seq(), stored.first_live_seq(), stored.inherited_event_count()), (3, 2, 0));
}

#[test]
fn a_fork_is_marked_as_inherited_even_behind_a_mark_of_its_ancestor() {
    let prefix = [own(0..1), vec![mark(1, true)]].concat();
    let fork = Session::new(header("s").with_seed(), Seed::Inherited(prefix), clock()).unwrap();
    assert_eq!(types(&fork), ["todo/write", INHERITED, INHERITED]);
    assert_eq!((fork.inherited_event_count(), fork.first_live_seq()), (2, 2));
    assert_eq!((fork.is_own_seq(1), fork.is_own_seq(2), fork.is_own_seq(3)), (false, true, false));
    let empty = Session::new(header("s").with_seed(), Seed::Inherited(vec![]), clock()).unwrap();
    assert_eq!((types(&empty), empty.inherited_event_count()), (vec![INHERITED.to_owned()], 0));
}

#[test]
fn a_seed_and_its_header_must_agree() {
    let seeded = || header("s").with_seed();
    for (header, seed) in [
        (seeded(), Seed::None),
        (seeded(), Seed::Own(own(0..1))),
        (header("s"), Seed::Inherited(own(0..1))),
        (header("s"), Seed::Stored { events: own(0..3), inherited: 1 }),
        (seeded(), Seed::Stored { events: own(0..3), inherited: 1 }),
        (seeded(), Seed::Stored { events: own(0..1), inherited: 9 }),
    ] {
        let refused = Session::new(header, seed, clock());
        assert!(matches!(refused, Err(LiveError::Seed { index: None, .. })), "{refused:?}");
    }
    let stored = [own(0..1), vec![mark(1, true)], own(2..3)].concat();
    let session = Session::new(seeded(), Seed::Stored { events: stored, inherited: 1 }, clock()).unwrap();
    assert_eq!(session.inherited_event_count(), 1);
}

#[test]
fn a_seed_is_checked_event_by_event_before_there_is_a_session() {
    let gap = [own(0..1), own(2..3)].concat();
    let message = |data: &str| {
        let line = format!(r#"{{"type":"user/message","seq":1,"time":1,"data":{data},"surfaceOp":"append"}}"#);
        [own(0..1), vec![parsed(&line)]].concat()
    };
    let content = r#""content":[],"source":{"kind":"user"}"#;
    for (seed, reason) in [
        (gap, "seq 2 where 1"),
        (message(&format!(r#"{{"role":"user",{content}}}"#)), "id"),
        (message(&format!(r#"{{"id":"m","role":"assistant",{content}}}"#)), "role"),
        (message(r#"{"id":"m","role":"user","content":[],"source":{"kind":""}}"#), "source"),
        (message(r#"{"id":"m","role":"user","source":{"kind":"user"}}"#), "content"),
        ([own(0..1), vec![parsed(r#"{"type":"user/message","seq":1,"time":1,"data":{"id":"m","role":"user","content":[],"source":{"kind":"user"}}}"#)]].concat(), "surfaceOp"),
    ] {
        match session(Seed::Own(seed)) {
            Err(LiveError::Seed { index: Some(1), reason: told, .. }) => assert!(told.contains(reason), "{told}"),
            other => panic!("{reason}: {other:?}"),
        }
    }
}

/// What comes first is told, whatever else is wrong.
#[test]
fn of_an_event_of_a_seed_the_shape_outranks_its_seq_and_that_the_surface() {
    let told = |line: &str| match session(Seed::Own(vec![parsed(line)])) {
        Err(LiveError::Seed { index: Some(0), reason, .. }) => reason,
        other => panic!("{line}: {other:?}"),
    };
    let all = told(r#"{"type":"user/message","seq":7,"time":1,"data":{"role":"user"}}"#);
    assert!(all.contains("id"), "{all}");
    let message = r#""data":{"id":"m","role":"user","content":[],"source":{"kind":"user"}}"#;
    let two = told(&format!(r#"{{"type":"user/message","seq":7,"time":1,{message}}}"#));
    assert!(two.contains("seq 7"), "{two}");
    let one = told(&format!(r#"{{"type":"user/message","seq":0,"time":1,{message}}}"#));
    assert!(one.contains("surfaceOp"), "{one}");
}

#[test]
fn the_request_headers_of_a_seed_are_checked() {
    let seeded = |data: &str| {
        session(Seed::Own(vec![parsed(&format!(r#"{{"type":"request/header","seq":0,"time":1,"data":{data}}}"#))]))
    };
    let config = r#""config":{"provider":"p","model":"m","maxTokens":9}"#;
    seeded(&format!(
        r#"{{"header":{{{config},"adapterDefaults":{{"maxTokens":true}}}},"reason":"series","startsSeries":true}}"#
    ))
    .unwrap();
    for (data, told) in [
        (r#"{"header":{},"reason":"initial"}"#.to_owned(), "config is missing"),
        (r#"{"header":{"config":{"model":"m"}},"reason":"initial"}"#.to_owned(), "provider"),
        (r#"{"header":{"config":{"provider":"p","model":1}},"reason":"initial"}"#.to_owned(), "model"),
        (
            r#"{"header":{"config":{"provider":"p","model":"m","reasoningEffort":1}},"reason":"initial"}"#.to_owned(),
            "reasoningEffort",
        ),
        (
            format!(r#"{{"header":{{{config},"adapterDefaults":{{"maxTokens":1}}}},"reason":"initial"}}"#),
            "adapterDefaults",
        ),
        (format!(r#"{{"header":{{{config},"adapterDefaults":{{}}}},"reason":"initial"}}"#), "adapterDefaults"),
        (format!(r#"{{"header":{{{config},"tools":[]}},"reason":"initial"}}"#), "tools"),
        (format!(r#"{{"header":{{{config},"system":"s"}},"reason":"initial"}}"#), "system"),
        (format!(r#"{{"header":{{{config}}},"reason":"fallback"}}"#), "reason"),
        (format!(r#"{{"header":{{{config}}}}}"#), "reason"),
        (format!(r#"{{"header":{{{config}}},"reason":"initial","startsSeries":false}}"#), "startsSeries"),
        (r#"{"reason":"initial"}"#.to_owned(), "header"),
    ] {
        match seeded(&data) {
            Err(LiveError::Seed { index: Some(0), reason, .. }) => assert!(reason.contains(told), "{data}: {reason}"),
            other => panic!("{data}: {other:?}"),
        }
    }
}

#[test]
fn the_shape_of_each_message_of_a_seed_is_checked() {
    let line = |event_type: &str, data: &str| {
        vec![parsed(&format!(r#"{{"type":"{event_type}","seq":0,"time":1,"data":{data},"surfaceOp":"append"}}"#))]
    };
    let assistant = |source: &str, rest: &str| {
        format!(
            r#"{{"turn":1,"step":1,"message":{{"id":"a","role":"assistant","content":[],"source":{source}}}{rest}}}"#
        )
    };
    let model = r#"{"kind":"model","provider":"p","model":"m"}"#;
    session(Seed::Own(line("assistant/message", &assistant(model, r#","stream":[]"#)))).unwrap();
    let result = |call: &str, blocks: &str| {
        format!(
            r#"{{"turn":1,"step":1,"message":{{"id":"r","role":"user","content":[{blocks}],"source":{{"kind":"tool","callId":"{call}"}}}}}}"#
        )
    };
    let block = r#"{"type":"tool-result","toolCallId":"c","content":[]}"#;
    session(Seed::Own(line("tool/result", &result("c", block)))).unwrap();
    for (event_type, data) in [
        ("assistant/message", assistant(model, "")),
        ("assistant/message", assistant(r#"{"kind":"model","provider":"p"}"#, r#","stream":[]"#)),
        ("assistant/message", assistant(r#"{"kind":"user"}"#, r#","stream":[]"#)),
        (
            "system/message",
            r#"{"turn":1,"step":1,"message":{"id":"s","role":"system","content":[],"source":{"kind":"user"}}}"#
                .to_owned(),
        ),
        ("tool/result", result("other", block)),
        ("tool/result", result("c", "")),
        ("tool/result", result("c", &format!("{block},{block}"))),
        ("tool/result", result("c", r#"{"type":"text","text":"x"}"#)),
    ] {
        let refused = session(Seed::Own(line(event_type, &data)));
        assert!(matches!(refused, Err(LiveError::Seed { index: Some(0), .. })), "{event_type} {data}: {refused:?}");
    }
}
