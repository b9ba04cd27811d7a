//! [`Usual`]: text that is spelled as this crate spells it, read in one pass without a parser of all JSON. Nearly all that is
//! stored is; whatever else stands there is left to the parser.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::MAX_TIME;

/// What is left of a text. Once a method has given nothing the text is not the usual one, or no JSON at all.
pub(super) struct Usual<'a>(&'a str);

impl<'a> Usual<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// Whether this very text comes next; it is passed then.
    pub(super) fn passes(&mut self, text: &str) -> bool {
        match self.0.strip_prefix(text) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    pub(super) fn pass(&mut self, text: &str) -> Option<()> {
        self.passes(text).then_some(())
    }

    pub(super) fn ends(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    /// A string in which nothing is escaped, nor has to be.
    pub(super) fn string(&mut self) -> Option<&'a str> {
        self.pass("\"")?;
        let end = self.0.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0x00..0x20))?;
        let (string, rest) = self.0.split_at(end);
        self.0 = rest.strip_prefix('"')?;
        Some(string)
    }

    /// A number without a sign, a fraction and an exponent, up to 2^53 - 1.
    pub(super) fn whole(&mut self) -> Option<u64> {
        let length = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at(length);
        if length > 1 && digits.starts_with('0') {
            return None;
        }
        self.0 = rest;
        digits.parse().ok().filter(|number| *number <= MAX_TIME.unsigned_abs())
    }

    pub(super) fn milliseconds(&mut self) -> Option<i64> {
        let is_negative = self.passes("-");
        let time = self.whole()?.cast_signed();
        match (is_negative, time) {
            (true, 0) => None,
            (true, time) => Some(-time),
            (false, time) => Some(time),
        }
    }

    /// Any value, checked, as its text.
    pub(super) fn value(&mut self) -> Option<&'a str> {
        let mut parser = serde_json::Deserializer::from_str(self.0);
        let value = <&RawValue>::deserialize(&mut parser).ok()?.get();
        // White space before it is not a part of it.
        let rest = self.0.strip_prefix(value).filter(|_| std::ptr::eq(value.as_ptr(), self.0.as_ptr()))?;
        self.0 = rest;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_read_only_where_it_is_spelled_as_it_is() {
        for (text, read) in [
            (r#""a/b"x"#, Some("a/b")),
            (r#""größer"x"#, Some("größer")),
            (r#"""x"#, Some("")),
            ("\"\u{7f}\"x", Some("\u{7f}")),
            (r#""a\n"x"#, None),
            (r#""a\/b"x"#, None),
            ("\"a\u{1f}\"x", None),
            (r#""a"#, None),
            ("a\"x", None),
        ] {
            let mut usual = Usual::new(text);
            assert_eq!(usual.string(), read, "{text}");
            assert!(read.is_none() || usual.passes("x"), "{text}");
        }
    }

    #[test]
    fn a_number_is_read_only_in_the_one_way_in_which_it_is_written() {
        for (text, read) in [
            ("0", Some(0)),
            ("70", Some(70)),
            ("9007199254740991", Some((1 << 53) - 1)),
            ("9007199254740992", None),
            ("99999999999999999999999", None),
            ("-5", Some(-5)),
            ("-9007199254740991", Some(1 - (1 << 53))),
            ("-0", None),
            ("00", None),
            ("07", None),
            ("+7", None),
            ("--7", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(Usual::new(text).milliseconds(), read, "{text}");
            let natural = read.and_then(|read| u64::try_from(read).ok());
            assert_eq!(Usual::new(text).whole(), natural, "{text}");
        }
    }

    #[test]
    fn a_value_is_checked_and_ends_where_it_ends() {
        for (text, read, rest) in [
            (r#"{"a":[1,2]},"b""#, Some(r#"{"a":[1,2]}"#), r#","b""#),
            ("1.0}", Some("1.0"), "}"),
            (r#""a\ud83d"}"#, Some(r#""a\ud83d""#), "}"),
            ("null}", Some("null"), "}"),
            (" 1}", None, ""),
            ("{\"a\":01}", None, ""),
            ("[1,]", None, ""),
            ("", None, ""),
        ] {
            let mut usual = Usual::new(text);
            assert_eq!(usual.value(), read, "{text}");
            assert!(read.is_none() || usual.0 == rest, "{text}");
        }
    }
}
