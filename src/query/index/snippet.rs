//! [`Snippet`]: the part of a text that shows what was found.

use std::ops::Range;

/// So many code points of the text at most, but for marks that belong to the first or the last of them.
const LENGTH: usize = 240;
/// More marks than this on one letter are cut.
const MARKS: usize = 32;

/// The part of a text that shows what was found, with `…` at an end where the text goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snippet {
    /// The part.
    pub text: String,
    /// The bytes of it that were found; cut where they are more than the part shows.
    pub found: Range<usize>,
}

impl Snippet {
    /// The part of `text` around the bytes in `found`.
    pub(super) fn around(text: &str, found: Range<usize>) -> Self {
        let (before, rest) = text.split_at(found.start);
        let length = rest[..found.len()].chars().take(LENGTH).count();
        let lead = (LENGTH / 3).min(LENGTH - length);
        let mut start = before.char_indices().rev().take(lead).last().map_or(found.start, |(at, _)| at);
        for _ in 0..MARKS {
            let Some(last) = text[..start].chars().next_back() else { break };
            if !text[start..].starts_with(belongs_before) && last != JOINER {
                break;
            }
            start -= last.len_utf8();
        }
        let mut end = text[start..].char_indices().nth(LENGTH).map_or(text.len(), |(at, _)| start + at);
        for _ in 0..MARKS {
            let Some(next) = text[end..].chars().next() else { break };
            if !belongs_before(next) && !text[..end].ends_with(JOINER) {
                break;
            }
            end += next.len_utf8();
        }
        let mut shown = String::with_capacity(end - start + 6);
        if start > 0 {
            shown.push('…');
        }
        let shift = shown.len();
        shown.push_str(&text[start..end]);
        if end < text.len() {
            shown.push('…');
        }
        Self { text: shown, found: found.start - start + shift..found.end.min(end) - start + shift }
    }
}

const JOINER: char = '\u{200d}';

/// Whether it is a mark on the character before it.
fn belongs_before(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
        | '\u{3099}' | '\u{309a}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{1f3fb}'..='\u{1f3ff}'
        | JOINER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_wherever_the_match_stands() {
        let letters = ["a", "é", "e\u{301}", "字", "👩\u{200d}💻", "👍🏽"];
        for letter in letters {
            for count in [0, 1, 79, 80, 81, 400] {
                for behind in [0, 1, 158, 159, 160, 161, 400] {
                    let text = format!("{}x{}", letter.repeat(count), letter.repeat(behind));
                    let place = letter.len() * count;
                    let snippet = Snippet::around(&text, place..place + 1);
                    assert_eq!(&snippet.text[snippet.found.clone()], "x");
                    let bare = snippet.text.trim_matches('…').replace('x', "");
                    assert_eq!(bare, letter.repeat(bare.len() / letter.len()), "{letter} {count} {behind}");
                    assert!(bare.chars().count() <= LENGTH + 4);
                    assert_eq!(snippet.text.contains('…'), bare.len() < letter.len() * (count + behind));
                }
            }
        }
    }

    #[test]
    fn a_match_that_is_longer_than_a_snippet_is_cut() {
        let text = "字".repeat(900);
        let snippet = Snippet::around(&text, 30..2400);
        assert_eq!(snippet.text.chars().count(), LENGTH + 2);
        assert!(snippet.text[snippet.found.clone()].chars().all(|c| c == '字') && snippet.found.len() > 600);
    }
}
