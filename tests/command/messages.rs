//! `messages`.

use serde_json::Value;

use crate::folder::{Folder, STORES, assert_harmless, event, header, log, objects, says, talk};

#[test]
fn messages_are_printed_as_they_stand_in_their_events_in_every_kind_of_store() {
    for store in STORES {
        let folder = Folder::new();
        let text = talk("s", &["a\\u0000b \\ud83d", "  two  "])
            .replace("\"role\":\"user\"", "\"x\": 1e400 ,\"role\":\"user\"");
        folder.write("log.jsonl", &text);
        folder.run(&["--store", store, "import", "log.jsonl"]).done();
        let before = folder.content();
        let out = folder.run(&["--store", store, "messages", "s", "--json"]).done();
        assert_eq!(out.lines().count(), 2);
        let exported = folder.run(&["--store", store, "export", "s"]).done();
        for (message, event) in out.lines().zip(exported.lines().skip(1)) {
            assert!(event.contains(&format!("\"data\":{message},")), "{message} is not in {event}");
        }
        folder.run(&["--store", store, "messages", "s"]).done();
        assert!(folder.content() == before, "{store}");
    }
}

#[test]
fn what_stands_for_others_is_seen_and_they_are_not() {
    let folder = Folder::new();
    let summary = says(2, "in short").replace(
        r#""surfaceOp":"append""#,
        r#""sourceEventSeqs":[0,1],"surfaceOp":{"op":"replace","startSeq":0,"endSeq":1}"#,
    );
    folder.write("log.jsonl", talk("s", &["one", "two"]) + &summary + &says(3, "go on"));
    folder.run(&["import", "log.jsonl"]).done();
    let seen = objects(&folder.run(&["messages", "s", "--json"]).done());
    let texts: Vec<_> = seen.iter().map(|message| message["content"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["in short", "go on"]);
    assert_eq!(folder.run(&["show", "s", "--json"]).done().lines().count(), 4);
}

/// A turn that broke off within a call.
fn interrupted() -> String {
    let call = r#"{"type":"tool-call","id":"c","name":"ls","arguments":"{\"a\":1}"}"#;
    let source = r#"{"kind":"model","provider":"p","model":"m"}"#;
    let message = format!(r#"{{"id":"a","role":"assistant","content":[{call}],"source":{source}}}"#);
    let data = format!(r#"{{"turn":1,"step":1,"message":{message},"stream":[]}}"#);
    header("s")
        + &event("turn/start", 0, r#"{"turn":1}"#)
        + &says(1, "look")
        + &event("step/start", 2, r#"{"turn":1,"step":1}"#)
        + &event("assistant/message", 3, &data).replace("}\n", ",\"surfaceOp\":\"append\"}\n")
        + &event("tool/call", 4, r#"{"turn":1,"step":1,"callId":"c","name":"ls","arguments":"{}"}"#)
}

#[test]
fn an_interrupted_turn_is_ended_in_memory_and_nothing_is_stored() {
    let folder = Folder::new();
    folder.write("log.jsonl", interrupted());
    folder.run(&["import", "log.jsonl"]).done();
    let before = folder.content();
    let run = folder.run(&["messages", "s", "--json"]);
    assert!(run.err.contains("ended here by") && run.err.contains("nothing stores"), "{}", run.err);
    let seen = objects(&run.done());
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!(seen[2]["content"][0]["type"], "tool-result");
    assert_eq!(seen[2]["content"][0]["toolCallId"], "c");
    let shown = folder.run(&["messages", "s"]).done();
    for part in
        ["user  seq 1\n    look\n\n", "assistant  seq 3\n    → ls {\"a\":1}\n\n", "tool  seq 5\n    (an error)\n"]
    {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    assert!(folder.content() == before);
}

#[test]
fn a_long_message_is_shown_to_its_end() {
    let folder = Folder::new();
    let text = (0..2000).map(|n| format!("word{n}\\n")).collect::<String>();
    folder.write("log.jsonl", talk("s", &[&text]));
    folder.run(&["import", "log.jsonl"]).done();
    let shown = folder.run(&["messages", "s"]).done();
    assert_eq!(shown.lines().count(), 2001);
    assert!(shown.ends_with("    word1999\n"));
}

#[test]
fn what_cannot_be_interpreted_is_refused_and_what_breaks_the_rules_is_told() {
    let folder = Folder::new();
    folder.write("new.jsonl", log("new", 2).replace("\"version\":3", "\"version\":9"));
    folder.write("odd.jsonl", header("odd") + &event("user/message", 0, r#"{"role":"user","content":[]}"#));
    folder.write("none.jsonl", log("none", 2));
    folder.run(&["import", "new.jsonl", "odd.jsonl", "none.jsonl"]).done();
    folder.run(&["messages", "new"]).failed("FormatUnsupported", &["\"new\"", "format 9"]);
    folder.run(&["messages", "odd", "--json"]).failed("InvalidSurface", &["\"odd\"", "surfaceOp"]);
    folder.run(&["messages", "absent"]).failed("NotFound", &["\"absent\"", "`list`"]);
    let run = folder.run(&["messages", "none"]);
    assert_eq!(run.err, "the model sees no message\n");
    assert_eq!(run.done(), "");
}

#[test]
fn nothing_that_is_stored_drives_the_terminal() {
    let folder = Folder::new();
    let hostile = "\\u001b]0;x\\u0007\u{9b}31m\\r\\u202e";
    let text = talk("s", &[&format!("{hostile}\\n\\t{hostile}")])
        .replace("\"kind\":\"user\"", &format!("\"kind\":\"{hostile}\""));
    folder.write("log.jsonl", text);
    folder.run(&["import", "log.jsonl"]).done();
    let shown = folder.run(&["messages", "s"]).done();
    assert_harmless(&shown);
    assert!(shown.starts_with("user (from \\u{1b}]0;x") && shown.lines().count() == 3, "{shown}");
    let json = folder.run(&["messages", "s", "--json"]).done();
    assert!(serde_json::from_str::<Value>(&json).is_ok(), "{json}");
}
