//! `stats`.

use crate::folder::{Folder, STORES, assert_harmless, event, header, log, objects, talk};

const COUNTS: [&str; 13] = [
    "sessions",
    "events",
    "userMessages",
    "turns",
    "steps",
    "toolCalls",
    "toolErrors",
    "turnErrors",
    "inputTokens",
    "outputTokens",
    "cacheReadTokens",
    "cacheWriteTokens",
    "reasoningTokens",
];

fn answer(seq: u64, input: u64) -> String {
    let source = r#"{"kind":"model","provider":"p","model":"m"}"#;
    let message = format!(r#"{{"id":"a","role":"assistant","content":[],"source":{source}}}"#);
    let usage = format!(r#"{{"inputTokens":{input},"outputTokens":2,"cacheReadTokens":3}}"#);
    event(
        "assistant/message",
        seq,
        &format!(r#"{{"turn":1,"step":1,"message":{message},"usage":{usage},"stream":[]}}"#),
    )
}

/// A session that used 110 tokens, and one that inherits them and adds 55.
fn forked(store: &str) -> Folder {
    let folder = Folder::new();
    let cwd = header("a").replace(r#""id":"a","#, r#""id":"a","cwd":"/w","#);
    folder.write("a.jsonl", cwd + &answer(0, 110));
    let child = header("b").replace(r#""isSeeded":false"#, r#""parentSession":"a","isSeeded":true"#);
    let end = event("session/end-seed", 1, r#"{"inherited":true}"#);
    folder.write("b.jsonl", child + &answer(0, 110) + &end + &answer(2, 55));
    folder.write("c.jsonl", header("c"));
    folder.run(&["--store", store, "import", "a.jsonl", "b.jsonl", "c.jsonl"]).done();
    folder
}

#[test]
fn a_row_has_exactly_the_documented_fields_in_their_order() {
    let folder = forked("sessions.db");
    for (by, key) in [(None, None), (Some("day"), Some("day")), (Some("session"), Some("session"))] {
        let mut arguments = vec!["stats", "--json"];
        arguments.extend(by.map(|by| ["--by", by]).into_iter().flatten());
        let out = folder.run(&arguments).done();
        let mut rest = out.lines().next().unwrap();
        let fields: Vec<_> = key.into_iter().chain(COUNTS).collect();
        assert_eq!(objects(&out)[0].len(), fields.len(), "{out}");
        for field in fields {
            let at = rest.find(&format!("\"{field}\":")).unwrap_or_else(|| panic!("{field} is not next in {rest}"));
            rest = &rest[at + 1..];
        }
    }
}

#[test]
fn what_a_fork_inherited_is_counted_once_in_every_kind_of_store() {
    for store in STORES {
        let folder = forked(store);
        let rows = |by: &[&str]| objects(&folder.run(&[&["--store", store, "stats", "--json"], by].concat()).done());
        let total = &rows(&[])[0];
        assert_eq!((total["sessions"].as_u64(), total["inputTokens"].as_u64()), (Some(3), Some(165)), "{store}");
        assert_eq!((&total["outputTokens"], &total["cacheReadTokens"]), (&4.into(), &6.into()));
        for (by, groups) in [("session", 3), ("cwd", 2), ("model", 2), ("day", 1)] {
            let rows = rows(&["--by", by]);
            assert_eq!(rows.len(), groups, "{store} {by} {rows:?}");
            for count in &COUNTS[1..] {
                let sum: u64 = rows.iter().map(|row| row[*count].as_u64().unwrap()).sum();
                assert_eq!(sum, total[*count].as_u64().unwrap(), "{store} {by} {count}");
            }
        }
        let by_cwd = rows(&["--by", "cwd"]);
        assert!(by_cwd[0]["cwd"].is_null() && by_cwd[1]["cwd"] == "/w", "{by_cwd:?}");
        let by_model = rows(&["--by", "model"]);
        assert!(by_model[0]["model"].is_null() && by_model[1]["model"] == "p/m", "{by_model:?}");
        assert_eq!(rows(&["--by", "day"])[0]["day"], "2023-11-14");
    }
}

#[test]
fn a_person_gets_a_table() {
    let folder = forked("sessions.db");
    let table = folder.run(&["stats"]).done();
    let lines: Vec<_> = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(lines[0][..3], ["SESSIONS", "EVENTS", "TURNS"]);
    assert_eq!(lines[1], ["3", "3", "0", "0", "0", "165", "4", "6", "0", "0"]);
    let table = folder.run(&["stats", "--by", "model"]).done();
    assert!(table.starts_with("MODEL") && table.contains("\n(none)") && table.contains("\np/m"), "{table}");
    let table = folder.run(&["stats", "--by", "session"]).done();
    assert!(table.starts_with("SESSION  EVENTS") && table.contains("\nb "), "{table}");
    folder.write("d.jsonl", talk("d", &["Mend the login"]));
    folder.run(&["import", "d.jsonl"]).done();
    let table = folder.run(&["stats", "--by", "session"]).done();
    assert!(
        table.starts_with("SESSION  TITLE           EVENTS") && table.contains("\nd        Mend the login "),
        "{table}"
    );
    let empty = Folder::with_session("s", 1);
    empty.run(&["remove", "s"]).done();
    assert_eq!(empty.run(&["stats", "--by", "day"]).err, "nothing happened in any session\n");
    assert_eq!(objects(&empty.run(&["stats", "--json"]).done())[0]["sessions"], 0);
}

#[test]
fn what_is_new_since_is_counted_and_what_is_gone_is_not() {
    let folder = Folder::with_session("s", 3);
    let total = || objects(&folder.run(&["stats", "--json"]).done())[0].clone();
    assert_eq!((&total()["events"], &total()["turns"]), (&3.into(), &2.into()));
    folder.write("more.jsonl", log("s", 7));
    folder.write("other.jsonl", log("t", 1));
    folder.run(&["import", "--extend", "more.jsonl", "other.jsonl"]).done();
    assert_eq!((&total()["events"], &total()["sessions"]), (&8.into(), &2.into()));
    folder.run(&["remove", "s"]).done();
    assert_eq!((&total()["events"], &total()["sessions"]), (&1.into(), &1.into()));
}

#[test]
fn nothing_that_is_stored_drives_the_terminal() {
    let folder = Folder::new();
    let hostile = "\\u001b]0;x\\u0007\u{9b}31m\\r\\u202e";
    let head = header("x").replace(r#""id":"x""#, &format!(r#""id":"{hostile}","cwd":"{hostile}""#));
    folder.write("log.jsonl", head + &answer(0, 1).replace("\"m\"", &format!("\"{hostile}\"")));
    folder.run(&["import", "log.jsonl"]).done();
    for by in ["cwd", "model", "session"] {
        for json in [&[][..], &["--json"]] {
            let run = folder.run(&[&["stats", "--by", by], json].concat());
            assert_harmless(&(run.out.clone() + &run.err));
            assert!(run.done().contains("]0;x"), "{by}");
        }
    }
}

#[test]
fn what_was_inherited_from_a_parent_that_is_gone_is_told_and_not_counted() {
    let folder = forked("sessions.db");
    let stats = || {
        let run = folder.run(&["stats", "--json"]);
        assert_eq!(run.err, "");
        let total = objects(&run.done()).remove(0);
        let absent = total.get("inheritedFromAbsent").cloned();
        (total["inputTokens"].as_u64(), absent)
    };
    assert_eq!(stats(), (Some(165), None));
    folder.run(&["remove", "a"]).done();
    let (tokens, absent) = stats();
    assert_eq!(tokens, Some(55));
    let absent = absent.unwrap();
    assert_eq!(absent.as_object().unwrap().len(), COUNTS.len());
    assert_eq!((&absent["sessions"], &absent["events"], &absent["inputTokens"]), (&1.into(), &1.into(), &110.into()));
    for arguments in [&["stats"][..], &["stats", "--by", "day"], &["stats", "--by", "day", "--json"]] {
        let run = folder.run(arguments);
        assert_eq!(
            run.err,
            "sessions: note: not counted is what 1 session inherited from a parent that is not stored here: 1 event\n"
        );
        assert!(!run.done().contains("inheritedFromAbsent"));
    }
}
