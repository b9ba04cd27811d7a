//! Text in lines that fit.

/// A text in lines of `width` columns at most. Much of what is shown is JSON or code, where a hyphen is no place to break.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let options = textwrap::Options::new(width).word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(text, &options).into_iter().map(|line| line.into_owned()).collect()
}
