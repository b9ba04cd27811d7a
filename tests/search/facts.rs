//! What is counted, held against a plain count over exported lines.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use session_persistence::query::index::{Counts, GroupBy, SearchIndex};
use session_persistence::{
    CreateOptions, MemoryStore, OpenOptions, SeqRange, SessionEvent, SessionHeader, SessionPersistence,
};

use crate::sample::{append, event, fresh, header, id, says, store_session};

fn used(seq: u64, model: &str, input: u64, output: u64) -> SessionEvent {
    let source = json!({ "kind": "model", "provider": "p", "model": model });
    let message = json!({ "id": format!("a{seq}"), "role": "assistant", "content": [], "source": source });
    let usage = json!({ "inputTokens": input, "outputTokens": output, "cacheReadTokens": 2 });
    event("assistant/message", seq, &json!({ "turn": 1, "step": 1, "message": message, "usage": usage, "stream": [] }))
}

pub(crate) fn turn(start: u64, model: &str, input: u64) -> Vec<SessionEvent> {
    let call = json!({ "turn": 1, "step": 1, "callId": "c", "name": "bash", "arguments": "{}" });
    let result = json!({ "turn": 1, "step": 1, "message": {}, "error": { "name": "E", "code": "C" } });
    let parts = [
        ("turn/start", json!({ "turn": 1 })),
        ("step/start", json!({ "turn": 1, "step": 1 })),
        ("tool/call", call),
        ("tool/result", result),
    ];
    let mut events: Vec<_> = (start..).zip(&parts).map(|(seq, (name, data))| event(name, seq, data)).collect();
    events.push(used(start + 4, model, input, 1));
    let failure = json!({ "kind": "error", "error": { "message": "boom", "code": "x" } });
    events.push(event("turn/end", start + 5, &json!({ "turn": 1, "reason": failure })));
    events
}

/// A session that inherits the start of another one and adds a turn.
fn fork(store: &MemoryStore, parent: &str, cut: u64, name: &str, model: &str, input: u64) {
    let inherited = store.open(&id(parent), OpenOptions::read()).unwrap().read(SeqRange::from(..cut)).unwrap();
    let header: SessionHeader = header(name).with_parent_session(parent).with_seed().with_cwd("/w");
    let writer = store.create(&header, CreateOptions::inheriting(cut)).unwrap();
    let mut events = inherited;
    events.push(event("session/end-seed", cut, &json!({ "inherited": true })));
    events.extend(turn(cut + 1, model, input));
    writer.append(&events).unwrap();
    writer.close().unwrap();
}

pub(crate) fn forked() -> MemoryStore {
    let store = MemoryStore::new();
    store_session(&store, "a", &[vec![says(0, "do  it\nnow")], turn(1, "m", 110)].concat());
    fork(&store, "a", 7, "b", "m", 55);
    fork(&store, "b", 14, "c", "n", 7);
    fork(&store, "a", 3, "d", "n", 1000);
    store
}

/// The same count, from the lines of the logs: events behind the last inherited seed only.
fn counted(store: &MemoryStore, names: &[&str]) -> BTreeMap<String, [u64; 7]> {
    let mut counts = BTreeMap::new();
    for name in names {
        let events = store.open(&id(name), OpenOptions::read()).unwrap().read(SeqRange::ALL).unwrap();
        let lines: Vec<Value> = events.iter().map(|e| serde_json::from_str(&e.to_line()).unwrap()).collect();
        let seed = lines.iter().rposition(|line| line["data"]["inherited"] == true).unwrap_or(0);
        let count: &mut [u64; 7] = counts.entry((*name).to_owned()).or_default();
        for line in &lines[seed..] {
            count[0] += 1;
            count[1] += u64::from(line["type"] == "turn/start");
            count[2] += u64::from(line["type"] == "step/start");
            count[3] += u64::from(line["type"] == "tool/call");
            count[4] += u64::from(line["type"] == "tool/result" && line["data"].get("error").is_some());
            count[5] += u64::from(line["type"] == "turn/end" && line["data"]["reason"]["kind"] == "error");
            count[6] += line["data"]["usage"]["inputTokens"].as_u64().unwrap_or(0);
        }
    }
    counts
}

fn row(counts: &Counts) -> [u64; 7] {
    let Counts { events, turns, steps, tool_calls, tool_errors, turn_errors, input_tokens, .. } = *counts;
    [events, turns, steps, tool_calls, tool_errors, turn_errors, input_tokens]
}

fn by(index: &SearchIndex, group: GroupBy) -> BTreeMap<String, [u64; 7]> {
    index.statistics(group).unwrap().iter().map(|group| (group.key.clone(), row(&group.counts))).collect()
}

#[test]
fn forks_count_what_they_did_themselves_and_tell_what_they_inherited_apart() {
    let store = forked();
    let (_folder, index) = fresh();
    index.update(&store).unwrap();
    let names = ["a", "b", "c", "d"];
    assert_eq!(by(&index, GroupBy::Session), counted(&store, &names));
    let total = |index: &SearchIndex| by(index, GroupBy::Day).values().map(|count| count[6]).sum::<u64>();
    assert_eq!(total(&index), 1172);
    assert_eq!(
        by(&index, GroupBy::Model).iter().map(|(key, count)| (&**key, count[6])).collect::<Vec<_>>(),
        [("", 0), ("p/m", 165), ("p/n", 1007),]
    );
    let cwds = index.statistics(GroupBy::Cwd).unwrap();
    assert_eq!(
        cwds.iter().map(|row| (&*row.key, row.sessions, row.counts.input_tokens)).collect::<Vec<_>>(),
        [("", 1, 110), ("/w", 3, 1062),]
    );
    for (name, own, inherited) in [("a", 110, 0), ("b", 55, 110), ("c", 7, 165), ("d", 1000, 0)] {
        let facts = index.facts(&id(name)).unwrap().unwrap();
        assert_eq!((facts.own.input_tokens, facts.inherited.input_tokens), (own, inherited), "{name}");
    }
    assert_eq!(index.inherited_from_absent().unwrap().sessions, 0);
    append(&store, "a", &turn(7, "m", 1));
    index.update(&store).unwrap();
    assert_eq!((total(&index), by(&index, GroupBy::Session)), (1173, counted(&store, &names)));
}

#[test]
fn what_a_session_inherited_from_one_that_is_gone_is_told_apart() {
    let store = forked();
    let (_folder, index) = fresh();
    store.remove(&id("b")).unwrap();
    index.update(&store).unwrap();
    let absent = index.inherited_from_absent().unwrap();
    assert_eq!((absent.sessions, absent.counts.input_tokens), (1, 165));
    assert_eq!(index.total().unwrap().counts.input_tokens, 1117);
}

#[test]
fn facts_folded_a_few_events_at_a_time_are_those_folded_at_once() {
    let store = MemoryStore::new();
    let events = [turn(0, "m", 5), vec![says(6, "the question")], turn(7, "n", 3), vec![used(13, "n", 1, 1)]].concat();
    store_session(&store, "s", &events[..1]);
    let (_folder, slow) = fresh();
    slow.update(&store).unwrap();
    assert!(slow.facts(&id("s")).unwrap().unwrap().is_interrupted);
    for some in events[1..].chunks(2) {
        append(&store, "s", some);
        slow.update(&store).unwrap();
    }
    let (_folder, quick) = fresh();
    quick.update(&store).unwrap();
    let facts = slow.facts(&id("s")).unwrap();
    assert_eq!(facts, quick.facts(&id("s")).unwrap());
    assert_eq!(by(&slow, GroupBy::Model), by(&quick, GroupBy::Model));
    let facts = facts.unwrap();
    assert_eq!((facts.own.input_tokens, facts.own.cache_read_tokens, facts.own.turn_errors), (9, 6, 2));
    assert!(!facts.is_interrupted && !facts.is_blank);
}

#[test]
fn a_title_is_the_one_that_was_given_or_the_start_of_what_a_person_said() {
    let store = MemoryStore::new();
    store_session(&store, "s", &[turn(0, "m", 1), vec![says(6, &format!("do\n it {}", "字".repeat(200)))]].concat());
    let note =
        json!({ "content": [{ "type": "text", "text": "rules" }], "source": { "kind": "plugin", "plugin": "x" } });
    store_session(&store, "blank", &[event("user/message", 0, &note)]);
    let (_folder, index) = fresh();
    index.update(&store).unwrap();
    let facts = |name: &str| index.facts(&id(name)).unwrap().unwrap();
    let title = facts("s").title.unwrap();
    assert!(title.starts_with("do it 字") && title.ends_with('…') && title.chars().count() == 80, "{title}");
    assert!(facts("blank").is_blank && facts("blank").title.is_none());
    for (seq, title) in [(7, "Given"), (8, "Given again")] {
        append(&store, "s", &[event("session/title", seq, &json!({ "title": title, "messageSeqs": [] }))]);
        index.update(&store).unwrap();
        assert_eq!(facts("s").title.as_deref(), Some(title));
    }
    append(&store, "s", &[says(9, "more")]);
    index.update(&store).unwrap();
    assert_eq!(facts("s").title.as_deref(), Some("Given again"));
}
