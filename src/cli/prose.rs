//! Text in lines that fit.

use super::screen::visible;

/// A text of several lines, each safe and in lines of `width` columns at most.
pub(super) fn lines(text: &str, width: usize) -> impl Iterator<Item = String> {
    text.lines().flat_map(move |line| wrapped(&visible(&line.replace('\t', "    ")), width))
}

/// A text in lines of `width` columns at most. Much of what is shown is JSON or code, where a hyphen is no place to break.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let options = textwrap::Options::new(width).word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(text, &options).into_iter().map(|line| line.into_owned()).collect()
}
