//! Packed rows: a run of pieces of a model's answer, kept as one row in logs of the formats 0 and 1.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::PACKED_ROW_TYPES;
use super::text::{self, object, push_number, whole};
use super::{InvalidRecord, Json, SessionEvent};

/// The first format without packed rows.
pub(crate) const FIRST_WITHOUT: u32 = 2;

/// The most events that one row may stand for: far above what a batch of any writer holds.
const MAX_EVENTS: usize = 1 << 20;

/// The most bytes of data that one row may become. A long tool name that each of many short pieces repeats would
/// otherwise turn a row of a few megabytes into more than any memory holds.
const MAX_EXPANDED_BYTES: usize = 256 << 20;

/// The type of every event that a packed row stands for.
const EVENT_TYPE: &str = "assistant/chunk";

/// What a row of a log file holds.
pub(crate) enum Row {
    One(SessionEvent),
    /// The events of a packed row, in order; at least one.
    Packed(Vec<SessionEvent>),
}

#[cfg(feature = "jsonl")]
impl Row {
    pub(crate) fn events(&self) -> &[SessionEvent] {
        match self {
            Row::One(event) => std::slice::from_ref(event),
            Row::Packed(events) => events,
        }
    }
}

/// Reads a row of a log of format `version`, without its line feed.
pub(crate) fn parse_row(row: &[u8], version: u32) -> Result<Row, InvalidRecord> {
    text::parse_event(row).map(Row::One).or_else(|refused| {
        // A packed row has no seq, so it is never read as an event.
        let Some(events) = expand_row(row) else { return Err(refused) };
        if version < FIRST_WITHOUT {
            return events.map(Row::Packed);
        }
        Err(InvalidRecord::new(format!(
            "the row packs several events into one, which a log of format {version} never does"
        )))
    })
}

/// The events of a packed row; nothing where the type of the row is not that of one.
fn expand_row(row: &[u8]) -> Option<Result<Vec<SessionEvent>, InvalidRecord>> {
    #[derive(Deserialize)]
    struct Tag<'a> {
        #[serde(rename = "type")]
        tag: &'a str,
    }
    let row = std::str::from_utf8(row).ok()?;
    let tag = serde_json::from_str::<Tag<'_>>(row).ok()?.tag;
    PACKED_ROW_TYPES.contains(&tag).then(|| expand_line(tag, row).map_err(|e| malformed(tag, e.reason())))
}

/// The events of a packed row whose values are kept apart: its type, the seq and the time of its first event, its data.
///
/// # Errors
///
/// As for a malformed row; also when `tag` is not the type of one.
#[cfg(feature = "sqlite")]
pub(crate) fn expand(tag: &str, seq0: u64, time0: i64, data: &str) -> Result<Vec<SessionEvent>, InvalidRecord> {
    Run::of(tag, data).and_then(|run| run.events(seq0, time0)).map_err(|e| malformed(tag, e.reason()))
}

fn expand_line(tag: &str, row: &str) -> Result<Vec<SessionEvent>, InvalidRecord> {
    let values = exactly(row, ["type", "seq0", "time0", "data"])?;
    let [_, seq0, time0, data] = values;
    Run::of(tag, data.get())?.events(whole("seq0", seq0)?, text::milliseconds("time0", time0)?)
}

/// A run of pieces. Texts are kept as they are written: an escape may stand for what no string of Rust holds.
struct Run<'a> {
    kind: &'static str,
    turn: u64,
    step: u64,
    index: u64,
    /// What every piece repeats: the id and the name of a tool call.
    call: Option<(&'a str, Option<&'a str>)>,
    pieces: Vec<&'a str>,
    distances: Vec<i64>,
}

impl<'a> Run<'a> {
    fn of(tag: &str, data: &'a str) -> Result<Self, InvalidRecord> {
        let (kind, [turn, step, index, dt, pieces], call) = match tag {
            "text-chunks" => ("text-delta", exactly(data, ["turn", "step", "index", "dt", "texts"])?, None),
            "reasoning-chunks" => ("reasoning-delta", exactly(data, ["turn", "step", "index", "dt", "texts"])?, None),
            "tool-call-chunks" => {
                let named = object(data)?.iter().any(|(key, _)| key == "name");
                let (values, id, name) = if named {
                    let keys = ["turn", "step", "index", "dt", "args", "id", "name"];
                    let [turn, step, index, dt, args, id, name] = exactly(data, keys)?;
                    ([turn, step, index, dt, args], id, Some(name))
                } else {
                    let [turn, step, index, dt, args, id] =
                        exactly(data, ["turn", "step", "index", "dt", "args", "id"])?;
                    ([turn, step, index, dt, args], id, None)
                };
                let name = name.map(|name| string("name", name)).transpose()?;
                ("tool-call-delta", values, Some((string("id", id)?, name)))
            }
            _ => return Err(InvalidRecord::new("its type is not one of a packed row")),
        };
        let pieces = list("its pieces", pieces)?;
        let distances = list("dt", dt)?;
        if pieces.is_empty() || distances.len() != pieces.len() - 1 {
            return Err(InvalidRecord::new(format!(
                "it has {} pieces and {} distances of time, where each piece but the first has one",
                pieces.len(),
                distances.len()
            )));
        }
        if pieces.len() > MAX_EVENTS {
            return Err(InvalidRecord::new(format!("it has {} pieces, more than {MAX_EVENTS}", pieces.len())));
        }
        Ok(Self {
            kind,
            turn: whole("turn", turn)?,
            step: whole("step", step)?,
            index: whole("index", index)?,
            call,
            pieces: pieces.into_iter().map(|piece| string("a piece", piece)).collect::<Result<_, _>>()?,
            distances: distances.into_iter().map(|dt| text::milliseconds("dt", dt)).collect::<Result<_, _>>()?,
        })
    }

    fn events(self, seq0: u64, time0: i64) -> Result<Vec<SessionEvent>, InvalidRecord> {
        let mut before =
            format!(r#"{{"turn":{},"step":{},"chunk":{{"type":"{}","index":"#, self.turn, self.step, self.kind);
        push_number(&mut before, self.index);
        match self.call {
            None => before.push_str(",\"text\":"),
            Some((id, name)) => {
                before.push_str(",\"id\":");
                before.push_str(id);
                if let Some(name) = name {
                    before.push_str(",\"name\":");
                    before.push_str(name);
                }
                before.push_str(",\"argumentsDelta\":");
            }
        }
        let after = "}}";
        let own: usize = self.pieces.iter().map(|piece| piece.len()).sum();
        let bytes = self.pieces.len().saturating_mul(before.len() + after.len()).saturating_add(own);
        if bytes > MAX_EXPANDED_BYTES {
            return Err(InvalidRecord::new(format!(
                "its events would take {bytes} bytes, more than {MAX_EXPANDED_BYTES}"
            )));
        }
        let mut events = Vec::with_capacity(self.pieces.len());
        let mut time = time0;
        for (at, piece) in self.pieces.iter().enumerate() {
            if let Some(distance) = at.checked_sub(1).and_then(|before| self.distances.get(before)) {
                // Saturating is enough: a time at the end of the range is beyond what an event may have.
                time = time.saturating_add(*distance);
            }
            let data = Json::trusted(&[&before, *piece, after].concat());
            events.push(SessionEvent::new(EVENT_TYPE, seq0.saturating_add(at as u64), time, data)?);
        }
        Ok(events)
    }
}

/// The values of an object whose keys are these and no others, in the order in which they are asked for.
fn exactly<'a, const N: usize>(text: &'a str, keys: [&str; N]) -> Result<[&'a RawValue; N], InvalidRecord> {
    let entries = object(text)?;
    if let Some((key, _)) = entries.iter().find(|(key, _)| !keys.contains(&&**key)) {
        return Err(InvalidRecord::new(format!("unknown key {key:?}")));
    }
    let mut values = Vec::with_capacity(N);
    for key in keys {
        let mut found = entries.iter().filter(|(name, _)| name == key);
        match (found.next(), found.next()) {
            (Some((_, value)), None) => values.push(*value),
            (None, _) => return Err(InvalidRecord::new(format!("key {key:?} is missing"))),
            (Some(_), Some(_)) => return Err(InvalidRecord::new(format!("key {key:?} stands twice"))),
        }
    }
    values.try_into().map_err(|_| InvalidRecord::new("its keys are not those of its type"))
}

fn list<'a>(what: &str, value: &'a RawValue) -> Result<Vec<&'a RawValue>, InvalidRecord> {
    serde_json::from_str(value.get()).map_err(|_| InvalidRecord::new(format!("{what} must be a list")))
}

/// The text of a string, as it is written.
fn string<'a>(what: &str, value: &'a RawValue) -> Result<&'a str, InvalidRecord> {
    let text = value.get();
    text.starts_with('"').then_some(text).ok_or_else(|| InvalidRecord::new(format!("{what} must be a string")))
}

fn malformed(tag: &str, reason: &str) -> InvalidRecord {
    InvalidRecord::new(format!("malformed row of type {tag:?}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(row: &str) -> Vec<String> {
        expand_row(row.as_bytes()).expect(row).expect(row).iter().map(SessionEvent::to_line).collect()
    }

    fn row(data: &str) -> String {
        format!(r#"{{"type":"text-chunks","seq0":9,"time0":100,"data":{data}}}"#)
    }

    fn refused(row: &str) -> String {
        let error = expand_row(row.as_bytes()).expect(row).expect_err(row);
        assert!(error.reason().starts_with("malformed row of type "), "{error}");
        error.reason().to_owned()
    }

    #[test]
    fn a_packed_row_stands_for_its_events() {
        let text = row(r#"{"turn":1,"step":1,"index":0,"dt":[5,-2],"texts":["a","\ud83d","c\/"]}"#);
        let expected = |seq, time, text: &str| {
            format!(
                r#"{{"type":"assistant/chunk","seq":{seq},"time":{time},"data":{{"turn":1,"step":1,"chunk":{{"type":"text-delta","index":0,"text":"{text}"}}}}}}"#
            )
        };
        assert_eq!(lines(&text), [expected(9, 100, "a"), expected(10, 105, "\\ud83d"), expected(11, 103, "c\\/")]);
        let reasoning = text.replace("text-chunks", "reasoning-chunks");
        assert_eq!(lines(&reasoning)[0], expected(9, 100, "a").replace("text-delta", "reasoning-delta"));
        let other_order =
            r#"{"data":{"texts":["a"],"dt":[],"index":0,"step":1,"turn":1},"time0":100,"seq0":9,"type":"text-chunks"}"#;
        assert_eq!(lines(other_order), [expected(9, 100, "a")]);
    }

    #[test]
    fn a_tool_call_repeats_its_id_and_its_name() {
        let row = r#"{"type":"tool-call-chunks","seq0":0,"time0":1,"data":{"turn":1,"step":2,"index":1,"dt":[0],"id":"c","name":"n","args":["{","}"]}}"#;
        let expected = |seq, name: &str, text: &str| {
            format!(
                r#"{{"type":"assistant/chunk","seq":{seq},"time":1,"data":{{"turn":1,"step":2,"chunk":{{"type":"tool-call-delta","index":1,"id":"c"{name},"argumentsDelta":"{text}"}}}}}}"#
            )
        };
        assert_eq!(lines(row), [expected(0, r#","name":"n""#, "{"), expected(1, r#","name":"n""#, "}")]);
        assert_eq!(lines(&row.replace(r#","name":"n""#, "")), [expected(0, "", "{"), expected(1, "", "}")]);
    }

    #[test]
    fn only_the_formats_0_and_1_have_packed_rows() {
        let packed = row(r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"]}"#);
        for version in [0, 1] {
            assert!(matches!(parse_row(packed.as_bytes(), version), Ok(Row::Packed(events)) if events.len() == 1));
        }
        for version in [2, 3, 9] {
            let refused = parse_row(packed.as_bytes(), version).err().expect("a refusal");
            assert!(refused.reason().contains(&format!("format {version} never")), "{refused}");
        }
        for other in [r#"{"type":"turn/start","seq":0,"time":0,"data":{}}"#, "[]", "x", "\"text-chunks\"", ""] {
            assert!(expand_row(other.as_bytes()).is_none(), "{other}");
        }
    }

    #[test]
    fn a_malformed_row_is_refused_with_what_breaks_it() {
        for (data, because) in [
            (r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":[]}"#, "0 pieces"),
            (r#"{"turn":1,"step":1,"index":0,"dt":[1],"texts":["a"]}"#, "1 distances"),
            (r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":[1]}"#, "a piece must be a string"),
            (r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":null}"#, "its pieces must be a list"),
            (r#"{"turn":1,"step":1,"index":0,"dt":[],"args":["a"]}"#, "unknown key \"args\""),
            (r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"],"id":null}"#, "unknown key \"id\""),
            (r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"],"dt":[]}"#, "\"dt\" stands twice"),
            (r#"{"turn":1,"step":1,"dt":[],"texts":["a"]}"#, "\"index\" is missing"),
            (r#"{"turn":1.0,"step":1,"index":0,"dt":[],"texts":["a"]}"#, "turn must be"),
            (r#"{"turn":1,"step":-1,"index":0,"dt":[],"texts":["a"]}"#, "step must be"),
            (r#"{"turn":1,"step":1,"index":0,"dt":[0.5],"texts":["a","b"]}"#, "dt must be"),
            (r#"{"turn":1,"step":1,"index":0,"dt":[9007199254740991],"texts":["a","b"]}"#, "beyond"),
            (r#"[]"#, "not a JSON object"),
        ] {
            let reason = refused(&row(data));
            assert!(reason.contains(because), "{data}: {reason}");
        }
        let sound = r#"{"turn":1,"step":1,"index":0,"dt":[0],"texts":["a","b"]}"#;
        for (from, to, because) in [
            ("\"seq0\":9", "\"seq0\":9007199254740991", "beyond"),
            ("\"seq0\":9", "\"seq0\":18446744073709551615", "seq0 must be"),
            ("\"seq0\":9", "\"seq\":9", "unknown key \"seq\""),
            ("\"time0\":100", "\"time0\":1e3", "time0 must be"),
            ("\"time0\":100", "\"time0\":100,\"ignorable\":true", "unknown key \"ignorable\""),
        ] {
            let reason = refused(&row(sound).replace(from, to));
            assert!(reason.contains(because), "{to}: {reason}");
        }
        let call = r#"{"type":"tool-call-chunks","seq0":0,"time0":1,"data":{"turn":1,"step":2,"index":1,"dt":[],"id":null,"name":"n","args":["{"]}}"#;
        assert!(refused(call).contains("id must be a string"));
        assert!(refused(&call.replace("null", "\"c\"").replace("\"n\"", "7")).contains("name must be a string"));
        assert!(refused(&call.replace("\"id\":null,", "")).contains("\"id\" is missing"));
    }

    #[test]
    fn a_small_row_cannot_ask_for_memory_without_bound() {
        let name = "n".repeat(1 << 20);
        let args = vec!["\"\""; 300].join(",");
        let dt = vec!["0"; 299].join(",");
        let row = format!(
            r#"{{"type":"tool-call-chunks","seq0":0,"time0":1,"data":{{"turn":1,"step":2,"index":1,"dt":[{dt}],"id":"c","name":"{name}","args":[{args}]}}}}"#
        );
        assert!(refused(&row).contains("more than 268435456"));
        let texts = vec!["\"\""; MAX_EVENTS + 1].join(",");
        let dt = vec!["0"; MAX_EVENTS].join(",");
        let row = super::tests::row(&format!(r#"{{"turn":1,"step":1,"index":0,"dt":[{dt}],"texts":[{texts}]}}"#));
        assert!(refused(&row).contains("1048577 pieces"));
    }
}
