//! [`LiteralText`]: text to look for, letter by letter.

use super::QueryError;
use crate::log::is_white_space;

/// Text to look for: its words, one behind the other, with any white space between them, in upper or lower case of any
/// script. A word may be a part of a longer one. No character has another meaning than itself.
///
/// Two characters are the same that the simple case folding of Unicode maps to one: `ſ` is `s`, `ẞ` is `ß` and not `ss`.
/// White space is what Unicode calls so but for U+0085, and U+FEFF. Neither is composed or decomposed.
///
/// ```
/// use session_persistence::query::LiteralText;
///
/// let text = LiteralText::new("  Fix\tthe (*) ")?;
/// assert!(text.is_in("then: FIX\n\n  the (*)!"));
/// assert!(!text.is_in("fix them"));
/// # Ok::<(), session_persistence::query::QueryError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiteralText(String);

impl LiteralText {
    /// Text to look for.
    ///
    /// # Errors
    ///
    /// `InvalidFilter` for a text without a word.
    pub fn new(text: &str) -> Result<Self, QueryError> {
        let folded = folded(text.trim_matches(is_white_space));
        if folded.is_empty() {
            return Err(QueryError::InvalidFilter {
                reason: "a text to look for needs a word; leave the part out to find every event".to_owned(),
            });
        }
        Ok(Self(folded))
    }

    /// Whether it stands in a text. The cost grows with the two lengths added, whatever they hold.
    pub fn is_in(&self, text: &str) -> bool {
        folded(text).contains(&self.0)
    }

    /// The text as it is compared: folded, with one space for white space.
    #[cfg(feature = "search")]
    pub(super) fn as_folded(&self) -> &str {
        &self.0
    }

    /// How often it stands in a text, none of them in another.
    #[cfg(feature = "search")]
    pub(super) fn count_in(&self, text: &str) -> u64 {
        folded(text).matches(&self.0).count() as u64
    }

    /// Where it stands first in a text: the bytes of the text itself.
    #[cfg(feature = "search")]
    pub(super) fn first_in(&self, text: &str) -> Option<std::ops::Range<usize>> {
        let start = folded(text).find(&self.0)?;
        let end = start + self.0.len();
        let (mut at, mut found) = (0, None);
        let mut is_space = false;
        for (place, c) in text.char_indices() {
            let was_space = std::mem::replace(&mut is_space, is_white_space(c));
            if is_space && was_space {
                continue;
            }
            if at == start {
                found = Some(place);
            }
            at += if is_space { 1 } else { fold(c).len_utf8() };
            if at == end {
                return found.map(|found| found..place + c.len_utf8());
            }
        }
        None
    }

    /// Whether one of them stands in a text.
    pub(super) fn any_in(texts: &[Self], text: &str) -> bool {
        let text = folded(text);
        texts.iter().any(|literal| text.contains(&literal.0))
    }
}

/// A text in which equal means the same: each character folded, and one space in the place of white space.
pub(super) fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut is_space = false;
    for c in text.chars() {
        let was_space = std::mem::replace(&mut is_space, is_white_space(c));
        match is_space {
            false => folded.push(fold(c)),
            true if was_space => {}
            true => folded.push(' '),
        }
    }
    folded
}

/// A character that stands for all that the simple case folding of Unicode takes for the same.
fn fold(c: char) -> char {
    match c {
        'A'..='Z' => c.to_ascii_lowercase(),
        '\0'..='\x7f' => c,
        // Its upper case is that of another letter.
        'ı' => c,
        // These have no single upper case, by which all others meet.
        '\u{1fd3}' => '\u{390}',
        '\u{1fe3}' => '\u{3b0}',
        '\u{fb05}' => '\u{fb06}',
        _ => single(single(c, char::to_uppercase), char::to_lowercase),
    }
}

fn single<I: Iterator<Item = char>>(c: char, map: impl Fn(char) -> I) -> char {
    let mut mapped = map(c);
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_in(text: &str, within: &str) -> bool {
        LiteralText::new(text).unwrap().is_in(within)
    }

    #[test]
    fn words_stand_behind_one_another_with_any_white_space_between() {
        for within in ["a b", "xa  by", "a\n\tb", "a\u{a0}\u{feff}\u{2028}\u{3000}b", " a b "] {
            assert!(is_in(" a \r\n b\u{feff}", within), "{within:?}");
        }
        for within in ["ab", "a.b", "b a", "a x b", "a\u{85}b", "a\u{200b}b"] {
            assert!(!is_in("a b", within), "{within:?}");
        }
        assert!(is_in("a", "cat"));
    }

    #[test]
    fn no_character_has_another_meaning() {
        for text in [".*", "a+b", "[a]", "(?i)", "\\d", "^a$", "a|b", "%", "_", "\"a\"", "\u{0}"] {
            assert!(is_in(text, &format!("x{text}x")));
            assert!(!is_in(text, "aab 1"), "{text}");
        }
    }

    #[test]
    fn case_is_that_of_unicode_in_both_directions() {
        for (one, other) in [
            ("Straße", "STRAẞE"),
            ("Ünïcode", "üNÏCODE"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
            ("ſo", "SO"),
            ("\u{212a}", "k"),
            ("\u{212b}", "å"),
            ("µ", "μ"),
            ("ǅ", "ǆ"),
            ("Ⴀ", "ⴀ"),
            ("ᏸ", "Ᏸ"),
            ("Ა", "ა"),
            ("ЖЁ", "жё"),
            ("𐐀", "𐐨"),
            ("ᾈ", "ᾀ"),
            ("\u{1fd3}", "\u{390}"),
            ("\u{1fe3}", "\u{3b0}"),
            ("\u{fb05}", "\u{fb06}"),
        ] {
            assert!(is_in(one, other) && is_in(other, one), "{one} {other}");
        }
        for (one, other) in [("ß", "ss"), ("ı", "i"), ("İ", "i"), ("é", "e"), ("e\u{301}", "é"), ("ŉ", "n")] {
            assert!(!is_in(one, other) && !is_in(other, one), "{one} {other}");
        }
    }

    #[test]
    fn a_text_without_a_word_is_refused() {
        for text in ["", " ", "\n\t\u{feff}\u{a0}"] {
            LiteralText::new(text).unwrap_err();
        }
    }

    #[test]
    fn a_text_that_nearly_fits_everywhere_costs_no_more_than_its_length() {
        let text = "a".repeat(200_000);
        assert!(!is_in(&format!("{}b", "a".repeat(100_000)), &text));
        assert!(is_in(&"a".repeat(100_000), &text));
    }
}
