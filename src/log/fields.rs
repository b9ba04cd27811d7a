//! Single fields of JSON text, for folds that need few of them and must not fail over the rest.
//!
//! They are read as the harness that wrote the log reads them: of two equal keys the last counts, a number may be
//! spelled in any way, and a string may hold what a Rust string cannot, a lone surrogate. What is not there, or is of
//! another kind than asked for, is nothing and no error: which of the two matters is for the fold to say.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Seq;
use super::json::push_string;

/// The texts of the named values of an object; nothing for the names that it does not have. All other values are
/// passed over without being read into memory.
pub(crate) fn fields<'a, const N: usize>(json: &'a str, names: [&str; N]) -> [Option<&'a str>; N] {
    serde_json::Deserializer::from_str(json).deserialize_map(Object(names)).unwrap_or([None; N])
}

/// The text of one value of an object.
pub(crate) fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    fields(json, [name])[0]
}

/// The texts of the elements of an array; none for anything else.
pub(crate) fn elements(json: &str) -> Vec<&str> {
    let elements: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
    elements.into_iter().map(RawValue::get).collect()
}

/// A whole number from 0 to 2^53 - 1 in any spelling.
pub(crate) fn whole_number(json: &str) -> Option<u64> {
    let plain = json.parse().ok().filter(|n| *n <= Seq::MAX.get());
    plain.or_else(|| {
        let double: f64 = json.parse().ok()?;
        let is_whole = double.fract() == 0.0 && (0.0..=Seq::MAX.get() as f64).contains(&double);
        is_whole.then_some(double as u64)
    })
}

/// A string with its quotes, in the spelling that `JSON.stringify` gives it, so that two spellings of one string are
/// the same text.
pub(crate) fn string(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(json.into());
    }
    let mut out = String::with_capacity(json.len());
    out.push('"');
    let mut piece = String::new();
    for unit in char::decode_utf16(code_units(inner)) {
        match unit {
            Ok(c) => piece.push(c),
            Err(lone) => {
                push_inner(&mut out, &std::mem::take(&mut piece));
                out.push_str(&format!("\\u{:04x}", lone.unpaired_surrogate()));
            }
        }
    }
    push_inner(&mut out, &piece);
    out.push('"');
    Some(out.into())
}

/// What a string says; a lone surrogate becomes U+FFFD.
pub(crate) fn said(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(inner.into());
    }
    Some(char::decode_utf16(code_units(inner)).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}

/// Whether the value is the string `text`, which holds nothing that is escaped.
pub(crate) fn is_string(json: Option<&str>, text: &str) -> bool {
    json.and_then(string).is_some_and(|found| found[1..].strip_suffix('"') == Some(text))
}

/// Appends `text` as it stands between the quotes of a string.
pub(crate) fn push_inner(out: &mut String, text: &str) {
    let start = out.len();
    push_string(out, text);
    out.pop();
    out.remove(start);
}

/// The UTF-16 units of what stands between the quotes of a well-formed string.
fn code_units(inner: &str) -> Vec<u16> {
    let mut units = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((plain, escape)) = rest.split_once('\\') {
        units.extend(plain.encode_utf16());
        let (unit, length) = match escape.as_bytes().first() {
            Some(b'u') => (escape.get(1..5).and_then(|hex| u16::from_str_radix(hex, 16).ok()).unwrap_or(0xfffd), 5),
            Some(b'b') => (0x08, 1),
            Some(b't') => (0x09, 1),
            Some(b'n') => (0x0a, 1),
            Some(b'f') => (0x0c, 1),
            Some(b'r') => (0x0d, 1),
            // A quote, a backslash and a slash stand for themselves.
            Some(byte) => (u16::from(*byte), 1),
            None => break,
        };
        units.push(unit);
        rest = escape.get(length..).unwrap_or_default();
    }
    units.extend(rest.encode_utf16());
    units
}

struct Object<'n, const N: usize>([&'n str; N]);

impl<'de, const N: usize> Visitor<'de> for Object<'_, N> {
    type Value = [Option<&'de str>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(place) = map.next_key_seed(Place(&self.0))? {
            match place {
                Some(place) => found[place] = Some(map.next_value::<&RawValue>()?.get()),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

/// Which of the names a key is. Read as bytes, because a key may hold a lone surrogate.
struct Place<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Place<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bytes<E: Error>(self, key: &[u8]) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| name.as_bytes() == key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_equal_keys_the_last_counts() {
        assert_eq!(field(r#"{"a":1,"b":2,"a":3}"#, "a"), Some("3"));
        assert_eq!(fields(r#"{ "\u0061" : [ 1 ] }"#, ["a", "b"]), [Some("[ 1 ]"), None]);
    }

    #[test]
    fn neither_what_is_strange_nor_what_is_deep_hides_a_field() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        let json = format!(r#"{{"\ud800":1e999,"x":"\udc00","deep":{deep},"turn":1}}"#);
        assert_eq!(field(&json, "turn"), Some("1"));
        assert_eq!(field(&json, "deep"), Some(&*deep));
        assert_eq!(elements(&format!(r#"["\ud800",1e999,{deep}]"#)).len(), 3);
    }

    #[test]
    fn what_is_no_object_has_no_fields_and_what_is_no_array_no_elements() {
        for json in ["1", "null", "\"a\"", "[]", "true"] {
            assert_eq!(field(json, "a"), None);
        }
        for json in ["1", "null", "\"a\"", "{\"a\":1}", "true"] {
            assert!(elements(json).is_empty());
        }
    }

    #[test]
    fn a_whole_number_is_one_in_every_spelling() {
        for (json, number) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("0.7e1", Some(7)),
            ("9007199254740991", Some((1 << 53) - 1)),
            ("9007199254740992", None),
            ("-1", None),
            ("1.5", None),
            ("1e999", None),
            ("\"1\"", None),
            ("null", None),
            ("[1]", None),
        ] {
            assert_eq!(whole_number(json), number, "{json}");
        }
    }

    #[test]
    fn two_spellings_of_one_string_are_one_text() {
        for (json, spelling) in [
            (r#""a""#, r#""a""#),
            (r#""\u0061\/\b\f\n\r\t\"\\""#, r#""a/\b\f\n\r\t\"\\""#),
            (r#""\u0041B\ud83dC""#, r#""AB\ud83dC""#),
            (r#""\u000B\u007F""#, "\"\\u000b\u{7f}\""),
            (r#""\ud83d\ude00é""#, "\"😀é\""),
            (r#""\uDC00x\uD83D""#, r#""\udc00x\ud83d""#),
            (r#""\ud83dé\\u0041""#, r#""\ud83dé\\u0041""#),
        ] {
            assert_eq!(string(json).as_deref(), Some(spelling));
        }
        for json in ["1", "null", "[\"a\"]", "{}"] {
            assert_eq!(string(json), None);
        }
        assert_eq!(said(r#""\u0061\/\n\"\ud83d\ude00 \udc00x""#).as_deref(), Some("a/\n\"😀 \u{fffd}x"));
        assert_eq!((said("\"é\"").as_deref(), said("1"), said("null")), (Some("é"), None, None));
        assert!(is_string(Some(r#""tool\u002dcall""#), "tool-call"));
        assert!(!is_string(Some(r#""tool-calls""#), "tool-call") && !is_string(None, "tool-call"));
    }
}
