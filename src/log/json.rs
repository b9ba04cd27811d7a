//! [`Json`]: JSON text that was checked once and never changes again.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::lossless;

/// JSON text, checked once, then immutable and shared.
///
/// A clone shares the text. Two values are equal when their texts are equal, byte for byte: `1` and `1.0` are different.
///
/// ```
/// use session_persistence::Json;
///
/// let made = Json::of(&[("turn", 1)].into_iter().collect::<std::collections::BTreeMap<_, _>>())?;
/// assert_eq!(made.as_str(), r#"{"turn":1}"#);
///
/// let kept = Json::parse(r#"{"n":9007199254740993,"k":1,"k":2}"#)?;
/// assert_eq!(kept.as_str(), r#"{"n":9007199254740993,"k":1,"k":2}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// Makes JSON text from a Rust value in one serialization pass, so that what was checked is exactly what is kept.
    ///
    /// Floats are written as ECMAScript writes them (`1.0` becomes `1`), strings with the escapes that
    /// `JSON.stringify` uses, struct fields and map entries in the order in which the value gives them.
    ///
    /// # Errors
    ///
    /// [`NotLossless`] with the path inside the value: NaN, an infinity, `-0.0`, an integer that an IEEE double cannot
    /// hold exactly, a map key that is not a string, the same key twice, bytes, nesting over 500 levels, or a
    /// `Serialize` implementation that fails.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, NotLossless> {
        lossless::write(value).map(|text| Self(text.into()))
    }

    /// Checks that `text` is one JSON value and keeps it verbatim: key order, number spelling, escapes, lone surrogate
    /// escapes, duplicate keys, nesting of any depth. White space around the value is not part of it.
    ///
    /// # Errors
    ///
    /// [`InvalidJson`] when the text is not one JSON value, or holds a line feed between its tokens: a log keeps one
    /// event on one line.
    pub fn parse(text: &str) -> Result<Self, InvalidJson> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|e| InvalidJson { reason: e.to_string() })?;
        if let Some(at) = raw.get().find('\n') {
            return Err(InvalidJson {
                reason: format!("line feed between tokens at byte {at}; an event stands on one line"),
            });
        }
        Ok(Self(raw.get().into()))
    }

    /// Text that was checked when it was stored, or is a part of text that was.
    pub(crate) fn trusted(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the text into a Rust value.
    ///
    /// # Errors
    ///
    /// The parser's error: the text has another shape, or holds what `T` cannot (a lone surrogate in a `String`,
    /// nesting over 128 levels).
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text that is not one JSON value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not JSON: {reason}")]
pub struct InvalidJson {
    reason: String,
}

/// A Rust value that JSON cannot carry to every reader unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be kept as JSON: {reason}", if path.is_empty() { "the value" } else { path })]
pub struct NotLossless {
    path: String,
    reason: String,
}

impl NotLossless {
    pub(super) fn new(path: String, reason: String) -> Self {
        Self { path, reason }
    }

    /// Where in the value, as in `items[3].x`; empty for the value itself.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What cannot be kept, and what to send instead where there is something.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The same failure seen from a value that holds this one under `key`.
    #[must_use]
    pub fn within(self, key: &str) -> Self {
        let joint = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Self { path: format!("{key}{joint}{}", self.path), reason: self.reason }
    }
}

/// Appends `text` as a JSON string, with the escapes that `JSON.stringify` uses.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x08 => "\\b",
            0x09 => "\\t",
            0x0a => "\\n",
            0x0c => "\\f",
            0x0d => "\\r",
            0x00..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        if short.is_empty() {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            out.push_str("\\u00");
            out.push(HEX[usize::from(byte >> 4)] as char);
            out.push(HEX[usize::from(byte & 15)] as char);
        } else {
            out.push_str(short);
        }
        from = at + 1;
    }
    out.push_str(&text[from..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_text_is_kept_to_the_byte() {
        for text in [
            "9007199254740993",
            "18446744073709551615",
            "1e400",
            "1.0",
            "-0.0",
            "1E2",
            "0.1",
            "5e-324",
            "123456789012345678901234567890",
            r#""a\u0000b""#,
            r#""\ud83d""#,
            r#""\udc00x""#,
            r#""\udc00\ud83d \ud83d\ude00 \/ \u0041""#,
            "\"\u{2028}\u{fffe}\u{85}e\u{301}\u{e9}\"",
            r#"{"":1,"__proto__":2,"10":3,"2":4,"k":5,"k":6}"#,
            r#"{ "spaced" : [ 1 , 2 ] }"#,
        ] {
            assert_eq!(Json::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn a_hundred_thousand_levels_parse_without_recursion() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(Json::parse(&deep).unwrap().as_str(), deep);
        let deep = r#"{"a":"#.repeat(100_000) + "1" + &"}".repeat(100_000);
        assert_eq!(Json::parse(&deep).unwrap().as_str(), deep);
    }

    #[test]
    fn text_that_is_not_one_value_is_refused() {
        for text in ["", "{", "1 2", "nul", "'a'", "[1,]", "\"a\u{0}b\"", "01", "1.", "NaN", "\"\\ud8\"", "{\"a\":1\n}"]
        {
            Json::parse(text).expect_err(text);
        }
    }

    #[test]
    fn strings_are_escaped_as_json_stringify_does() {
        let mut out = String::new();
        push_string(&mut out, "\"\\\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f} \u{7f}\u{2028}/é😀");
        assert_eq!(out, "\"\\\"\\\\\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f \u{7f}\u{2028}/é😀\"");
    }
}
