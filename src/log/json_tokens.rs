//! [`Tokens`]: a walk over JSON text that is known to be well-formed, at any depth and without recursion.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserializer, Visitor};

/// What stands in JSON text. White space, commas and colons tell nothing in text that is known to be well-formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Object,
    Array,
    /// The end of the innermost object or array.
    Close,
    /// A string with its quotes, a number, or one of the three names; or the key of a member.
    Scalar(&'a str),
}

/// The tokens of JSON text. Of text that is not well-formed it gives some tokens and ends.
#[derive(Debug, Clone)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    /// Where the last token starts.
    from: usize,
    /// Where it ends.
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, from: 0, at: 0 }
    }

    /// The text of the next value, as a whole.
    fn value(&mut self) -> Option<&'a str> {
        let mut start = None;
        let mut depth = 0usize;
        loop {
            let token = self.next()?;
            let start = *start.get_or_insert(self.from);
            match token {
                Token::Object | Token::Array => depth += 1,
                Token::Close => depth = depth.checked_sub(1)?,
                Token::Scalar(_) => {}
            }
            if depth == 0 {
                return self.text.get(start..self.at);
            }
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at)?, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':') {
            self.at += 1;
        }
        self.from = self.at;
        let first = bytes[self.at];
        self.at += 1;
        match first {
            b'{' => return Some(Token::Object),
            b'[' => return Some(Token::Array),
            b'}' | b']' => return Some(Token::Close),
            b'"' => loop {
                let byte = *bytes.get(self.at)?;
                self.at += if byte == b'\\' { 2 } else { 1 };
                if byte == b'"' {
                    break;
                }
            },
            _ => {
                let is_end = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' | b'}' | b']');
                let rest = &bytes[self.at..];
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
            }
        }
        self.text.get(self.from..self.at).map(Token::Scalar)
    }
}

/// The value of an object's member as its text; of a key that stands twice the last one, as readers of JSON elsewhere
/// have it. Nothing where `text` is no object or has no such member.
pub(super) fn member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut tokens = Tokens::new(text);
    if tokens.next() != Some(Token::Object) {
        return None;
    }
    let mut found = None;
    while let Some(Token::Scalar(key)) = tokens.next() {
        let value = tokens.value()?;
        if is_string(key, name) {
            found = Some(value);
        }
    }
    found
}

/// Whether `text` is an object.
pub(super) fn is_object(text: &str) -> bool {
    Tokens::new(text).next() == Some(Token::Object)
}

/// Whether a list is empty; nothing where `text` is no list.
pub(super) fn is_empty_list(text: &str) -> Option<bool> {
    let mut tokens = Tokens::new(text);
    (tokens.next() == Some(Token::Array)).then(|| tokens.next() == Some(Token::Close))
}

/// Whether the string of JSON `quoted` says `plain`.
pub(super) fn is_string(quoted: &str, plain: &str) -> bool {
    *unescaped(quoted) == *plain.as_bytes()
}

/// What a string of JSON says: UTF-8, and as WTF-8 the lone surrogates that its escapes may spell. Equal bytes are equal
/// strings.
pub(super) fn unescaped(quoted: &str) -> Cow<'_, [u8]> {
    struct Bytes;
    impl<'de> Visitor<'de> for Bytes {
        type Value = Vec<u8>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }
    }
    if quoted.contains('\\') {
        let mut deserializer = serde_json::Deserializer::from_str(quoted);
        if let Ok(bytes) = deserializer.deserialize_bytes(Bytes) {
            return bytes.into();
        }
    }
    let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.unwrap_or(quoted).as_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_whatever_stands_around_it() {
        for (text, value) in [
            (r#"{"m":1}"#, Some("1")),
            (r#" { "a" : [ { "m" : 0 } , "]}\"m\":" ] , "m" : { "k" : [ ] } } "#, Some(r#"{ "k" : [ ] }"#)),
            (r#"{"m":1,"x":{"m":3},"m":2}"#, Some("2")),
            (r#"{"\u006d":true}"#, Some("true")),
            (r#"{"\ud800":0,"m":"\\"}"#, Some(r#""\\""#)),
            (r#"{"a":{"m":1}}"#, None),
            (r#"["m",1]"#, None),
            (r#""m""#, None),
            ("{}", None),
        ] {
            assert_eq!(member(text, "m"), value, "{text}");
        }
    }

    #[test]
    fn a_member_below_a_hundred_thousand_levels_is_found() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(member(&format!(r#"{{"a":{deep},"m":{deep}}}"#), "m"), Some(&*deep));
    }

    #[test]
    fn text_that_is_not_well_formed_ends_early() {
        for text in ["", "{", "{\"m", "{\"m\\", "{\"m\":", "{\"m\":[1", "{\"m\":}", "{\"a\":1,\"m\\\u{e9}\":1}"] {
            assert_eq!(member(text, "m"), None, "{text}");
        }
    }

    #[test]
    fn an_empty_list_is_told_from_a_full_one_and_from_what_is_no_list() {
        assert_eq!(
            ["[]", " [ ] ", "[0]", "[[]]", "{}", "\"\"", "null"].map(is_empty_list),
            [Some(true), Some(true), Some(false), Some(false), None, None, None]
        );
    }

    #[test]
    fn a_string_says_the_same_in_any_spelling() {
        for (a, b, equal) in [
            (r#""\u0041\/\n""#, "\"A/\\u000a\"", true),
            (r#""\ud83d\ude00""#, r#""😀""#, true),
            (r#""\uD83D\uDE00""#, r#""\ud83d\ude00""#, true),
            (r#""\ud83d""#, r#""\uD83D""#, true),
            (r#""\ud83d""#, r#""\ud83e""#, false),
            (r#""\ud83dx""#, r#""\ud83d""#, false),
            (r#""\ud800""#, r#""\ufffd""#, false),
            (r#""\ude00\ud83d""#, r#""😀""#, false),
        ] {
            assert_eq!(unescaped(a) == unescaped(b), equal, "{a} {b}");
        }
    }
}
