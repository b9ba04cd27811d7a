//! Totals of stores with forks, held against a plain sum over what is exported.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use session_persistence::query::index::{Counts, GroupBy};
use session_persistence::{
    CreateOptions, MemoryStore, OpenOptions, SeqRange, SessionEvent, SessionHeader, SessionPersistence, export,
};

use crate::sample::{TIME, fresh, id};

/// Of each group the sessions in it, and what is counted, by name.
type Groups = BTreeMap<String, (BTreeSet<String>, BTreeMap<&'static str, u64>)>;

const TOKENS: [(&str, &str); 5] = [
    ("inputTokens", "input_tokens"),
    ("outputTokens", "output_tokens"),
    ("cacheReadTokens", "cache_read_tokens"),
    ("cacheWriteTokens", "cache_write_tokens"),
    ("reasoningTokens", "reasoning_tokens"),
];

fn some_event(random: &mut fastrand::Rng, seq: u64) -> SessionEvent {
    let mut usage = json!({ "inputTokens": random.u32(0..1000), "outputTokens": random.u32(0..1000) });
    for (name, _) in &TOKENS[2..] {
        if random.bool() {
            usage[*name] = random.u32(0..100).into();
        }
    }
    let (provider, model) = (["p", "q"][random.usize(0..2)], ["m", "n", "字"][random.usize(0..3)]);
    let user = if random.bool() { json!({ "kind": "user" }) } else { json!({ "kind": "plugin", "plugin": "x" }) };
    let source = json!({ "kind": "model", "provider": provider, "model": model });
    let message = json!({ "id": "a", "role": "assistant", "content": [], "source": source });
    let earlier = json!({ "type": "chunk", "time": 1, "chunk": { "type": "usage", "usage": { "inputTokens": 7 } } });
    let later = json!({ "type": "chunk", "time": 2, "chunk": { "type": "usage", "usage": usage } });
    let (event_type, data) = match random.u8(0..11) {
        0 => ("turn/start", json!({ "turn": 1 })),
        1 => ("turn/end", json!({ "turn": 1, "reason": { "kind": "completed" } })),
        2 => ("turn/end", json!({ "turn": 1, "reason": { "kind": "error", "error": { "message": "m" } } })),
        3 => ("step/start", json!({ "turn": 1, "step": 1 })),
        4 => ("tool/call", json!({ "callId": "c", "name": "bash", "arguments": "{}" })),
        5 => ("tool/result", json!({ "message": {} })),
        6 => ("tool/result", json!({ "message": {}, "error": { "name": "E" } })),
        7 => ("user/message", json!({ "id": "u", "role": "user", "content": [], "source": user })),
        8 => ("assistant/message", json!({ "message": message, "usage": usage, "stream": [later] })),
        9 => ("assistant/attempt", json!({ "stream": [earlier, later] })),
        _ => ("compaction/summary", json!({ "provider": provider, "model": model, "usage": usage })),
    };
    let days = random.i64(-3..3);
    SessionEvent::of(event_type, seq, TIME + days * 86_400_000 - random.i64(0..86_400_000), &data).unwrap()
}

/// Sessions of which many start with what another one was up to somewhere, and some of whose parents grew since.
fn forked(random: &mut fastrand::Rng) -> MemoryStore {
    let store = MemoryStore::new();
    for number in 0..14 {
        let name = format!("s{number}");
        let mut header = SessionHeader::new(id(&name), TIME as u64).unwrap();
        if random.bool() {
            header = header.with_cwd(["/w", "/ w/字", "~"][random.usize(0..3)]);
        }
        let (mut events, mut inherited) = (Vec::new(), 0);
        if number > 0 && random.u8(0..4) > 0 {
            let parent = format!("s{}", random.usize(0..number));
            let of_parent = store.open(&id(&parent), OpenOptions::read()).unwrap().read(SeqRange::ALL).unwrap();
            inherited = random.usize(1..=of_parent.len());
            events = of_parent[..inherited].to_vec();
            let seed = json!({ "inherited": true });
            events.push(SessionEvent::of("session/end-seed", inherited as u64, TIME, &seed).unwrap());
            header = header.with_parent_session(parent).with_seed();
        }
        let writer = store.create(&header, CreateOptions::inheriting(inherited as u64)).unwrap();
        events.extend((events.len()..).take(random.usize(1..40)).map(|seq| some_event(random, seq as u64)));
        writer.append(&events).unwrap();
        writer.close().unwrap();
        let older = id(&format!("s{}", random.usize(0..=number)));
        let writer = store.open(&older, OpenOptions::write()).unwrap();
        let next = store.stat(&older).unwrap().unwrap().event_count.unwrap();
        writer.append(&[some_event(random, next)]).unwrap();
        writer.close().unwrap();
    }
    store
}

/// What each event adds to its group, from the exported lines alone.
fn counted(store: &MemoryStore, by: GroupBy) -> Groups {
    let mut groups = Groups::new();
    for snapshot in store.list(&Default::default()).unwrap().items {
        let mut text = Vec::new();
        export::jsonl(store, &snapshot.id, &mut text).unwrap();
        let lines: Vec<Value> =
            text.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(|l| serde_json::from_slice(l).unwrap()).collect();
        let own = lines.iter().rposition(|line| line["data"]["inherited"] == true).unwrap_or(1);
        for line in &lines[own..] {
            let kind = line["type"].as_str().unwrap();
            let data = &line["data"];
            let (usage, model) = match kind {
                "assistant/message" => (&data["usage"], &data["message"]["source"]),
                "compaction/summary" => (&data["usage"], data),
                "assistant/attempt" => (&data["stream"][1]["chunk"]["usage"], &Value::Null),
                _ => (&Value::Null, &Value::Null),
            };
            let key = match by {
                GroupBy::Day => day(line["time"].as_i64().unwrap()),
                GroupBy::Cwd => lines[0]["cwd"].as_str().unwrap_or_default().to_owned(),
                GroupBy::Model if model.is_null() => String::new(),
                GroupBy::Model => {
                    format!("{}/{}", model["provider"].as_str().unwrap(), model["model"].as_str().unwrap())
                }
                _ => snapshot.id.as_str().to_owned(),
            };
            let (sessions, counts) = groups.entry(key).or_default();
            sessions.insert(snapshot.id.as_str().to_owned());
            let mut add = |name, number| *counts.entry(name).or_default() += number;
            add("events", 1);
            add("turns", u64::from(kind == "turn/start"));
            add("steps", u64::from(kind == "step/start"));
            add("tool_calls", u64::from(kind == "tool/call"));
            add("tool_errors", u64::from(kind == "tool/result" && data["error"].is_object()));
            add("turn_errors", u64::from(kind == "turn/end" && data["reason"]["kind"] == "error"));
            add("user_messages", u64::from(kind == "user/message" && data["source"]["kind"] == "user"));
            TOKENS.iter().for_each(|(spelled, name)| add(name, usage[*spelled].as_u64().unwrap_or(0)));
        }
    }
    groups
}

/// The days around [`TIME`], which is in the evening of 2023-11-14.
fn day(time: i64) -> String {
    format!("2023-11-{:02}", 14 + time.div_euclid(86_400_000) - TIME.div_euclid(86_400_000))
}

fn named(counts: &Counts) -> BTreeMap<&'static str, u64> {
    BTreeMap::from([
        ("events", counts.events),
        ("turns", counts.turns),
        ("steps", counts.steps),
        ("tool_calls", counts.tool_calls),
        ("tool_errors", counts.tool_errors),
        ("turn_errors", counts.turn_errors),
        ("user_messages", counts.user_messages),
        ("input_tokens", counts.input_tokens),
        ("output_tokens", counts.output_tokens),
        ("cache_read_tokens", counts.cache_read_tokens),
        ("cache_write_tokens", counts.cache_write_tokens),
        ("reasoning_tokens", counts.reasoning_tokens),
    ])
}

#[test]
fn totals_of_a_store_with_forks_are_the_plain_sums_over_its_exported_text() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let rounds = if std::env::var_os("SESSIONS_FULL").is_some() { 200 } else { 10 };
    for round in 0..rounds {
        let store = forked(&mut random);
        let (_folder, index) = fresh();
        index.update(&store).unwrap();
        for by in [GroupBy::Day, GroupBy::Cwd, GroupBy::Model, GroupBy::Session] {
            let told: Vec<_> = index.statistics(by).unwrap();
            let told: Vec<_> =
                told.iter().map(|row| (row.key.clone(), (row.sessions as usize, named(&row.counts)))).collect();
            let expected =
                counted(&store, by).into_iter().map(|(key, (sessions, counts))| (key, (sessions.len(), counts)));
            assert_eq!(told, expected.collect::<Vec<_>>(), "seed {seed}, round {round}, by {by:?}");
        }
    }
}
