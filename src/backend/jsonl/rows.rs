//! Rows of a log file: events to rows, and rows to events.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::log::text::{self, push_number, push_seqs, write_event_with};
use crate::log::{InvalidRecord, Json, PACKED_ROW_TYPES, Seq, SessionEvent};

/// Formats below this know packed rows, and lists of seqs without ranges only.
const FIRST_WITHOUT_PACKED_ROWS: u32 = 2;

/// What a row holds.
pub(super) enum Row {
    One(SessionEvent),
    /// The events of a packed row, in order; at least one.
    Packed(Vec<SessionEvent>),
}

impl Row {
    pub(super) fn events(&self) -> &[SessionEvent] {
        match self {
            Row::One(event) => std::slice::from_ref(event),
            Row::Packed(events) => events,
        }
    }
}

/// Reads a row of a log of format `version`, without its line feed.
pub(super) fn parse(row: &[u8], version: u32) -> Result<Row, InvalidRecord> {
    match text::parse_event(row) {
        Ok(event) => Ok(Row::One(event)),
        // A packed row has no seq, so it never parses as an event.
        Err(refused) if version < FIRST_WITHOUT_PACKED_ROWS => match Packed::parse(row) {
            Some(packed) => packed?.events().map(Row::Packed),
            None => Err(refused),
        },
        Err(refused) => Err(refused),
    }
}

/// Appends the row of an event of a log of format `version`, with its line feed.
pub(super) fn write(out: &mut String, event: &SessionEvent, version: u32) {
    write_event_with(out, event, if version < FIRST_WITHOUT_PACKED_ROWS { push_seqs } else { push_runs });
    out.push('\n');
}

/// Appends a list of seqs as files store it: in a list that grows strictly, three or more in a row are `[first,last]`.
fn push_runs(out: &mut String, seqs: &[Seq]) {
    if seqs.windows(2).any(|pair| pair[0] >= pair[1]) {
        return push_seqs(out, seqs);
    }
    let mut before = '[';
    let mut item = |out: &mut String, first: u64, last: Option<u64>| {
        out.push(std::mem::replace(&mut before, ','));
        if let Some(last) = last {
            out.push('[');
            push_number(out, first);
            out.push(',');
            push_number(out, last);
            out.push(']');
        } else {
            push_number(out, first);
        }
    };
    for run in seqs.chunk_by(|a, b| a.get() + 1 == b.get()) {
        match run {
            [first, _, .., last] => item(out, first.get(), Some(last.get())),
            short => short.iter().for_each(|seq| item(out, seq.get(), None)),
        }
    }
    if seqs.is_empty() {
        out.push('[');
    }
    out.push(']');
}

/// A row that stands for a run of pieces of a model's answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Packed<'a> {
    #[serde(rename = "type")]
    tag: &'a str,
    seq0: u64,
    time0: i64,
    #[serde(borrow)]
    data: PackedData<'a>,
}

/// The texts are kept as they are written: an escape may stand for what no string of Rust holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PackedData<'a> {
    turn: u64,
    step: u64,
    index: u64,
    dt: Vec<i64>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    texts: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    args: Option<Vec<&'a RawValue>>,
}

impl<'a> Packed<'a> {
    /// The packed row that a row is; nothing where its type is not that of one.
    fn parse(row: &'a [u8]) -> Option<Result<Self, InvalidRecord>> {
        #[derive(Deserialize)]
        struct Tag<'a> {
            #[serde(rename = "type")]
            tag: &'a str,
        }
        let row = std::str::from_utf8(row).ok()?;
        let tag = serde_json::from_str::<Tag<'_>>(row).ok()?.tag;
        PACKED_ROW_TYPES.contains(&tag).then(|| serde_json::from_str(row).map_err(|e| malformed(tag, e.to_string())))
    }

    fn events(self) -> Result<Vec<SessionEvent>, InvalidRecord> {
        let data = &self.data;
        let wrong = |reason: &str| Err(malformed(self.tag, reason.to_owned()));
        let (kind, pieces) = match (self.tag, &data.texts, &data.args, data.id) {
            ("text-chunks", Some(texts), None, None) if data.name.is_none() => ("text-delta", texts),
            ("reasoning-chunks", Some(texts), None, None) if data.name.is_none() => ("reasoning-delta", texts),
            ("tool-call-chunks", None, Some(args), Some(_)) => ("tool-call-delta", args),
            _ => return wrong("its keys are not those of its type"),
        };
        let strings = pieces.iter().chain(data.id.iter()).chain(data.name.iter());
        if strings.copied().any(|text| !text.get().starts_with('"')) {
            return wrong("a text in it is no string");
        }
        if pieces.is_empty() || data.dt.len() != pieces.len() - 1 {
            return wrong("it does not have one distance of time between every two pieces");
        }
        let mut events = Vec::with_capacity(pieces.len());
        let mut time = self.time0;
        for (at, piece) in pieces.iter().enumerate() {
            if let Some(distance) = at.checked_sub(1).and_then(|before| data.dt.get(before)) {
                time = time.saturating_add(*distance);
            }
            let mut text = format!(
                r#"{{"turn":{},"step":{},"chunk":{{"type":"{kind}","index":{}"#,
                data.turn, data.step, data.index
            );
            let mut entry = |key: &str, value: &RawValue| {
                text.push_str(key);
                text.push_str(value.get());
            };
            match data.id {
                Some(id) => {
                    entry(",\"id\":", id);
                    data.name.iter().for_each(|name| entry(",\"name\":", name));
                    entry(",\"argumentsDelta\":", piece);
                }
                None => entry(",\"text\":", piece),
            }
            text.push_str("}}");
            let seq = self.seq0.saturating_add(at as u64);
            events.push(SessionEvent::new("assistant/chunk", seq, time, Json::trusted(&text))?);
        }
        Ok(events)
    }
}

fn malformed(tag: &str, reason: String) -> InvalidRecord {
    InvalidRecord::new(format!("malformed row of type {tag:?}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(row: &str, version: u32) -> Vec<String> {
        parse(row.as_bytes(), version)
            .unwrap_or_else(|e| panic!("{row}: {e}"))
            .events()
            .iter()
            .map(|e| e.to_line())
            .collect()
    }

    #[test]
    fn runs_of_three_seqs_and_more_are_compressed_in_lists_that_grow() {
        for (list, stored) in [
            (vec![4], "[4]"),
            (vec![1, 3, 4, 7], "[1,3,4,7]"),
            (vec![1, 3, 4, 5, 7], "[1,[3,5],7]"),
            (vec![9, 2, 3, 4], "[9,2,3,4]"),
            (vec![1, 1, 2, 3], "[1,1,2,3]"),
            (vec![], "[]"),
            ((0..=1_000_000).collect(), "[[0,1000000]]"),
        ] {
            let seqs: Vec<_> = list.iter().map(|n| Seq::new(*n).unwrap()).collect();
            let mut out = String::new();
            push_runs(&mut out, &seqs);
            assert_eq!(out, stored);
        }
    }

    #[test]
    fn an_event_comes_back_from_its_row_whatever_its_row_compresses() {
        for line in [
            r#"{"type":"x","seq":9,"time":1,"data":[],"sourceEventSeqs":[1,2,3,4,6]}"#,
            r#"{"type":"x","sourceEventSeqs":[1,2,3],"seq":9,"time":1,"data":{"sourceEventSeqs":[1,2,3]}}"#,
            r#"{"type":"x","seq":9,"time":1,"data":[],"sourceEventSeqs":[ 1,2,3,4 ]}"#,
            r#"{ "type":"x", "data" : [ ],"time":1,"seq":9 }"#,
        ] {
            let event = text::parse_event(line.as_bytes()).unwrap();
            for version in 0..4 {
                let mut row = String::new();
                write(&mut row, &event, version);
                assert_eq!(
                    row.contains("[1,[") || row.contains("[[1"),
                    version >= 2 && !line.contains("[ ") && line.contains("source")
                );
                assert_eq!(lines(row.trim_end_matches('\n'), version), [line]);
            }
        }
    }

    #[test]
    fn a_packed_row_stands_for_its_events() {
        let row = r#"{"type":"text-chunks","seq0":9,"time0":100,"data":{"turn":1,"step":1,"index":0,"dt":[5,-2],"texts":["a","\ud83d","c\/"]}}"#;
        let expected = |seq, time, text: &str| {
            format!(
                r#"{{"type":"assistant/chunk","seq":{seq},"time":{time},"data":{{"turn":1,"step":1,"chunk":{{"type":"text-delta","index":0,"text":"{text}"}}}}}}"#
            )
        };
        let events = [expected(9, 100, "a"), expected(10, 105, "\\ud83d"), expected(11, 103, "c\\/")];
        assert_eq!(lines(row, 0), events);
        assert_eq!(lines(row, 1), events);
        assert!(parse(row.as_bytes(), 2).is_err());
        let row = r#"{"type":"tool-call-chunks","seq0":0,"time0":1,"data":{"turn":1,"step":2,"index":1,"dt":[],"id":"c","name":"n","args":["{"]}}"#;
        assert_eq!(
            lines(row, 0),
            [
                r#"{"type":"assistant/chunk","seq":0,"time":1,"data":{"turn":1,"step":2,"chunk":{"type":"tool-call-delta","index":1,"id":"c","name":"n","argumentsDelta":"{"}}}"#
            ]
        );
    }

    #[test]
    fn a_malformed_packed_row_is_refused_by_its_type() {
        let row = |data: &str| format!(r#"{{"type":"text-chunks","seq0":9,"time0":100,"data":{data}}}"#);
        for data in [
            r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":[]}"#,
            r#"{"turn":1,"step":1,"index":0,"dt":[1],"texts":["a"]}"#,
            r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":[1]}"#,
            r#"{"turn":1,"step":1,"index":0,"dt":[],"args":["a"]}"#,
            r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"],"id":"x"}"#,
            r#"{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"],"more":1}"#,
            r#"{"turn":1,"step":1,"dt":[],"texts":["a"]}"#,
        ] {
            let refused = parse(row(data).as_bytes(), 0).err().expect(data);
            assert!(refused.reason().contains("text-chunks"), "{data}: {refused}");
        }
        let far = r#"{"type":"text-chunks","seq0":9007199254740991,"time0":0,"data":{"turn":1,"step":1,"index":0,"dt":[0],"texts":["a","b"]}}"#;
        assert!(parse(far.as_bytes(), 0).is_err());
    }
}
