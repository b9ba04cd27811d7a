//! Events as lines of JSONL, and back.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::envelope::{Envelope, Key};
use super::event::{MAX_TIME, Rare, earlier};
use super::json::push_string;
use super::usual::Usual;
use super::{InvalidRecord, Json, Seq, SessionEvent, SurfaceOp};

/// Reads one line of a log, without its line feed, as an event; carriage returns at its end are no part of it. Takes any key order and white space, and keeps `data`
/// verbatim. `sourceEventSeqs` may hold ranges `[first,last]` as files store them, which stand for at most 4,194,304 seqs; the event
/// has the plain list.
///
/// # Errors
///
/// [`InvalidRecord`] names what is wrong: invalid UTF-8 with its byte, an unknown key, a missing one, one given twice, a
/// value of the wrong kind.
pub fn parse_event(line: &[u8]) -> Result<SessionEvent, InvalidRecord> {
    let line = one_line(line)?;
    match usual_event(line) {
        Some(event) => Ok(event),
        None => parse_any(line),
    }
}

/// The event of a line that is spelled as [`write_event`] spells it; nothing where it is not, or is no event.
fn usual_event(line: &str) -> Option<SessionEvent> {
    let mut rest = Usual::new(line);
    rest.pass("{\"type\":")?;
    let event_type = rest.string()?;
    rest.pass(",\"seq\":")?;
    let seq = rest.whole()?;
    rest.pass(",\"time\":")?;
    let time = rest.milliseconds()?;
    rest.pass(",\"data\":")?;
    let data = rest.value()?;
    let (mut sources, mut appends) = (None, false);
    if !rest.passes("}") {
        if rest.passes(",\"sourceEventSeqs\":[") {
            sources = Some(usual_seqs(&mut rest, Seq::new(seq)?)?);
        }
        if rest.passes(",\"surfaceOp\":\"append\"") {
            appends = true;
        }
        rest.pass("}")?;
    }
    rest.ends()?;
    let mut event = SessionEvent::new(event_type, seq, time, Json::trusted(data)).ok()?;
    if sources.is_some() || appends {
        let surface_op = appends.then_some(SurfaceOp::Append);
        event.rare = Some(Rare { source_event_seqs: sources, surface_op, ..Rare::default() }.into());
    }
    Some(event)
}

/// The rest of a plain list of seqs before `seq`.
fn usual_seqs(rest: &mut Usual<'_>, seq: Seq) -> Option<Vec<Seq>> {
    let mut seqs = Vec::new();
    if rest.passes("]") {
        return Some(seqs);
    }
    loop {
        seqs.push(earlier(rest.whole()?, seq).ok()?);
        if !rest.passes(",") {
            return rest.pass("]").map(|()| seqs);
        }
    }
}

/// The event of a line in whatever spelling.
fn parse_any(line: &str) -> Result<SessionEvent, InvalidRecord> {
    let mut keys = Vec::with_capacity(Key::ALL.len());
    let mut values: [Option<&RawValue>; Key::ALL.len()] = [None; Key::ALL.len()];
    for (name, value) in object(line)? {
        let key = Key::named(&name)
            .ok_or_else(|| InvalidRecord::new(format!("unknown envelope key {:?}", excerpt(&name))))?;
        if values[key as usize].replace(value).is_some() {
            return Err(InvalidRecord::new(format!("envelope key {name:?} stands twice")));
        }
        keys.push(key);
    }
    let required = |key: Key| {
        values[key as usize].ok_or_else(|| InvalidRecord::new(format!("envelope key {:?} is missing", key.name())))
    };
    let event_type = string("type", required(Key::Type)?)?;
    let seq = whole("seq", required(Key::Seq)?)?;
    let time = milliseconds("time", required(Key::Time)?)?;
    let data = required(Key::Data)?.get();
    let mut event = SessionEvent::new(&event_type, seq, time, Json::trusted(data))?;

    let mut ranged = false;
    let mut rare = Rare::default();
    if let Some(value) = values[Key::Ignorable as usize] {
        if value.get() != "true" {
            return Err(InvalidRecord::new(format!("ignorable may only be true, found {}", excerpt(value.get()))));
        }
        rare.ignorable = true;
    }
    if let Some(value) = values[Key::SourceEventSeqs as usize] {
        let (seqs, ranges) = source_event_seqs(value.get(), event.seq)?;
        rare.source_event_seqs = Some(seqs);
        ranged = ranges;
    }
    if let Some(value) = values[Key::SurfaceOp as usize] {
        rare.surface_op = Some(surface_op(value.get(), rare.ignorable)?);
    }
    if keys.iter().any(|k| *k as usize > Key::Data as usize) {
        event.rare = Some(rare.into());
    }
    let plain = ranged.then(|| {
        let list = values[Key::SourceEventSeqs as usize].map_or("", |v| v.get());
        let (before, after) = around(line, list);
        let mut plain = before.to_owned();
        push_seqs(&mut plain, event.source_event_seqs().unwrap_or_default());
        plain + after
    });
    let envelope = envelope_of(plain.as_deref().unwrap_or(line), data, &keys, &event, ranged);
    if envelope != Envelope::Standard {
        std::sync::Arc::make_mut(event.rare.get_or_insert_default()).envelope = envelope;
    }
    Ok(event)
}

/// What `line` spells beyond the values of `event`. `data` is a slice of the parsed line; where ranges were expanded
/// `line` is another text, in which the data is found by its place from the side that did not move.
fn envelope_of(line: &str, data: &str, keys: &[Key], event: &SessionEvent, moved: bool) -> Envelope {
    let mut around_data = String::new();
    if is_in_order(line, data, event, &Key::ALL, &mut around_data) {
        return Envelope::Standard;
    }
    if is_in_order(line, data, event, keys, &mut around_data) {
        return Envelope::Ordered(keys.into());
    }
    let data_at = if moved { find_value(line, Key::Data.name()) } else { around(line, data).0.len() };
    let without = [&line[..data_at], &line[data_at + data.len()..]].concat();
    Envelope::Spelled { line: without.into(), data_at }
}

/// Whether `line` is how `event` is written with `keys` in their order. Only what stands around the data is written for
/// that, into `around`: the data may be most of the memory of the process.
fn is_in_order(line: &str, data: &str, event: &SessionEvent, keys: &[Key], around: &mut String) -> bool {
    around.clear();
    let mut data_at = 0;
    write_keys(around, event, keys, push_seqs, &mut |out| data_at = out.len());
    let (before, behind) = around.split_at(data_at);
    let rest = line.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
    rest.is_some_and(|rest| rest == data)
}

/// Where the value of an envelope key starts in a line that is known to be well-formed.
fn find_value(line: &str, key: &str) -> usize {
    let entries = object(line).unwrap_or_default();
    let value = entries.iter().find(|(name, _)| name == key).map_or("", |(_, v)| v.get());
    around(line, value).0.len()
}

/// The text before and behind `part`, which is a slice of `whole`.
fn around<'a>(whole: &'a str, part: &str) -> (&'a str, &'a str) {
    let at = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    (&whole[..at], &whole[at + part.len()..])
}

/// Appends the line of `event`, without a line feed.
pub(crate) fn write_event(out: &mut String, event: &SessionEvent) {
    write_event_with(out, event, push_seqs);
}

/// How a list of seqs is written.
pub(crate) type PushSeqs = fn(&mut String, &[Seq]);

/// Appends the line of `event`, without a line feed, its list of seqs written by `push_seqs` unless the event remembers
/// how it was spelled.
pub(crate) fn write_event_with(out: &mut String, event: &SessionEvent, push_seqs: PushSeqs) {
    match event.envelope() {
        Envelope::Standard => write_in_order(out, event, &Key::ALL, push_seqs),
        Envelope::Ordered(keys) => write_in_order(out, event, keys, push_seqs),
        Envelope::Spelled { line, data_at } => {
            out.push_str(&line[..*data_at]);
            out.push_str(event.data.as_str());
            out.push_str(&line[*data_at..]);
        }
    }
}

fn write_in_order(out: &mut String, event: &SessionEvent, keys: &[Key], push_seqs: PushSeqs) {
    write_keys(out, event, keys, push_seqs, &mut |out| out.push_str(event.data.as_str()));
}

fn write_keys(
    out: &mut String,
    event: &SessionEvent,
    keys: &[Key],
    push_seqs: PushSeqs,
    push_data: &mut dyn FnMut(&mut String),
) {
    let mut before = '{';
    for key in keys {
        let present = match key {
            Key::SourceEventSeqs => event.source_event_seqs().is_some(),
            Key::SurfaceOp => event.surface_op().is_some(),
            Key::Ignorable => event.is_ignorable(),
            _ => true,
        };
        if !present {
            continue;
        }
        out.push(before);
        before = ',';
        out.push('"');
        out.push_str(key.name());
        out.push_str("\":");
        match key {
            Key::Type => push_string(out, &event.event_type),
            Key::Seq => push_number(out, event.seq.get()),
            Key::Time => push_number(out, event.time),
            Key::Data => push_data(out),
            Key::SourceEventSeqs => push_seqs(out, event.source_event_seqs().unwrap_or_default()),
            Key::SurfaceOp => event.surface_op().into_iter().for_each(|op| push_surface_op(out, op)),
            Key::Ignorable => out.push_str("true"),
        }
    }
    out.push('}');
}

pub(crate) fn push_number(out: &mut String, n: impl itoa::Integer) {
    out.push_str(itoa::Buffer::new().format(n));
}

pub(crate) fn push_seqs(out: &mut String, seqs: &[Seq]) {
    out.push('[');
    for (i, seq) in seqs.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        push_number(out, seq.get());
    }
    out.push(']');
}

pub(crate) fn push_surface_op(out: &mut String, op: &SurfaceOp) {
    let (start_key, start, end_key, end) = match op {
        SurfaceOp::Append => return out.push_str("\"append\""),
        SurfaceOp::Opaque(json) => return out.push_str(json.as_str()),
        SurfaceOp::Replace { start_seq, end_seq } => ("startSeq", start_seq, "endSeq", end_seq),
        SurfaceOp::LegacyReplace { start, end } => ("start", start, "end", end),
    };
    out.push_str("{\"op\":\"replace\",\"");
    out.push_str(start_key);
    out.push_str("\":");
    push_number(out, start.get());
    out.push_str(",\"");
    out.push_str(end_key);
    out.push_str("\":");
    push_number(out, end.get());
    out.push('}');
}

/// One line of text. A carriage return before the line feed is white space of the file and no part of the record; a line
/// feed between two tokens would break the line where it is stored.
pub(super) fn one_line(line: &[u8]) -> Result<&str, InvalidRecord> {
    let line = &line[..line.iter().rposition(|b| *b != b'\r').map_or(0, |last| last + 1)];
    let line = utf8(line).map_err(|e| InvalidRecord::new(format!("invalid UTF-8 at byte {}", e.valid_up_to())))?;
    match memchr::memchr(b'\n', line.as_bytes()) {
        None => Ok(line),
        Some(at) => Err(InvalidRecord::new(format!("line feed at byte {at}; a record stands on one line"))),
    }
}

/// The standard library's check, several times as fast where it holds.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, std::str::Utf8Error> {
    simdutf8::basic::from_utf8(bytes).or_else(|_| std::str::from_utf8(bytes))
}

/// The entries of a JSON object in their order, each value as its text.
pub(super) fn object(line: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>, InvalidRecord> {
    struct Entries;
    impl<'de> Visitor<'de> for Entries {
        type Value = Vec<(Cow<'de, str>, &'de RawValue)>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::with_capacity(8);
            while let Some(Name(name)) = map.next_key()? {
                entries.push((name, map.next_value()?));
            }
            Ok(entries)
        }
    }
    struct Name<'a>(Cow<'a, str>);
    impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Text;
            impl<'de> Visitor<'de> for Text {
                type Value = Name<'de>;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a key")
                }
                fn visit_borrowed_str<E: de::Error>(self, s: &'de str) -> Result<Self::Value, E> {
                    Ok(Name(s.into()))
                }
                fn visit_str<E: de::Error>(self, s: &str) -> Result<Self::Value, E> {
                    Ok(Name(s.to_owned().into()))
                }
            }
            deserializer.deserialize_str(Text)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(line);
    let entries = deserializer.deserialize_map(Entries).and_then(|entries| deserializer.end().map(|()| entries));
    // The parser counts lines too, and sees one only: its "line 1" would contradict the line of the file.
    entries
        .map_err(|e| InvalidRecord::new(format!("not a JSON object: {e}").replace(" at line 1 column ", " at column ")))
}

/// The start of a text for a message.
pub(super) fn excerpt(text: &str) -> Cow<'_, str> {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]).into(),
        None => text.into(),
    }
}

pub(super) fn string(key: &str, value: &RawValue) -> Result<String, InvalidRecord> {
    serde_json::from_str(value.get()).map_err(|_| {
        InvalidRecord::new(format!("{key} must be a string of whole characters, found {}", excerpt(value.get())))
    })
}

/// A whole number that is written as one: no sign, no fraction, no exponent, at most 2^53 - 1.
pub(super) fn whole(key: &str, value: &RawValue) -> Result<u64, InvalidRecord> {
    let text = value.get();
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse().ok().filter(|n| digits && *n <= Seq::MAX.get());
    number.ok_or_else(|| {
        InvalidRecord::new(format!("{key} must be a whole number from 0 to {}, found {}", Seq::MAX, excerpt(text)))
    })
}

pub(super) fn milliseconds(key: &str, value: &RawValue) -> Result<i64, InvalidRecord> {
    let text = value.get();
    let digits = text.strip_prefix('-').unwrap_or(text).bytes().all(|b| b.is_ascii_digit()) && text != "-0";
    let number = text.parse().ok().filter(|n| digits && (-MAX_TIME..=MAX_TIME).contains(n));
    number.ok_or_else(|| {
        InvalidRecord::new(format!("{key} must be a whole number of milliseconds, found {}", excerpt(text)))
    })
}

pub(super) fn surface_op(text: &str, ignorable: bool) -> Result<SurfaceOp, InvalidRecord> {
    if text == "\"append\"" {
        return Ok(SurfaceOp::Append);
    }
    let replace = object(text).ok().filter(|entries| entries.len() == 3).and_then(|entries| {
        let get = |name: &str| entries.iter().find(|(key, _)| key == name).map(|(_, v)| *v);
        let seq = |name: &str| whole(name, get(name)?).ok().and_then(Seq::new);
        if get("op")?.get() != "\"replace\"" {
            return None;
        }
        match (seq("startSeq"), seq("endSeq"), seq("start"), seq("end")) {
            (Some(start_seq), Some(end_seq), ..) => Some(SurfaceOp::Replace { start_seq, end_seq }),
            (_, _, Some(start), Some(end)) => Some(SurfaceOp::LegacyReplace { start, end }),
            _ => None,
        }
    });
    match replace {
        Some(op) => Ok(op),
        None if ignorable => Ok(SurfaceOp::Opaque(Json::trusted(text))),
        None => Err(InvalidRecord::new(format!(
            "surfaceOp is neither \"append\" nor a replacement of a range of seqs: {}",
            excerpt(text)
        ))),
    }
}

/// The most seqs that ranges may stand for in one event: a line of a few bytes must not take gigabytes of memory.
const MAX_SOURCES: u64 = 1 << 22;

/// The plain list, and whether the text held ranges.
pub(super) fn source_event_seqs(text: &str, seq: Seq) -> Result<(Vec<Seq>, bool), InvalidRecord> {
    enum Item {
        One(u64),
        Range(u64, u64),
    }
    impl<'de> Deserialize<'de> for Item {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct AnItem;
            impl<'de> Visitor<'de> for AnItem {
                type Value = Item;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a seq or a range of two")
                }
                fn visit_u64<E>(self, n: u64) -> Result<Item, E> {
                    Ok(Item::One(n))
                }
                fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Item, A::Error> {
                    let short = || de::Error::custom("a range has two ends");
                    let first = seq.next_element()?.ok_or_else(short)?;
                    let last = seq.next_element()?.ok_or_else(short)?;
                    Ok(Item::Range(first, last))
                }
            }
            deserializer.deserialize_any(AnItem)
        }
    }
    let items: Vec<Item> = serde_json::from_str(text)
        .map_err(|_| InvalidRecord::new(format!("sourceEventSeqs must be a list of seqs, found {}", excerpt(text))))?;
    let mut seqs = Vec::with_capacity(items.len());
    let mut ranged = false;
    for item in items {
        match item {
            Item::One(n) => seqs.push(earlier(n, seq)?),
            // Checked before it is expanded: a line of a few bytes must not ask for memory without bound.
            Item::Range(first, last) => {
                let room = MAX_SOURCES.saturating_sub(seqs.len() as u64);
                if last.saturating_sub(first) >= room {
                    return Err(InvalidRecord::new(format!(
                        "sourceEventSeqs range [{first},{last}] makes a list of more than {MAX_SOURCES} seqs"
                    )));
                }
                if first > last
                    || last >= seq.get()
                    || last - first >= seq.get() - seqs.len().min(seq.get() as usize) as u64
                {
                    return Err(InvalidRecord::new(format!(
                        "sourceEventSeqs range [{first},{last}] is not a range of events earlier than seq {seq}"
                    )));
                }
                ranged = true;
                seqs.extend((first..=last).filter_map(Seq::new));
            }
        }
    }
    if ranged && seqs.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(InvalidRecord::new("sourceEventSeqs with ranges must grow strictly"));
    }
    Ok((seqs, ranged))
}

#[cfg(test)]
mod tests;
