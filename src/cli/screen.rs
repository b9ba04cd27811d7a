//! [`Screen`]: the standard output, with or without a person in front of it.

use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal as _, Seek as _, StdoutLock, Write};

use tempfile::SpooledTempFile;

pub(super) use clap::builder::styling::{AnsiColor, Style};

/// The standard output.
pub(super) struct Screen {
    out: BufWriter<StdoutLock<'static>>,
    /// What is written while the output is held back.
    held: Option<SpooledTempFile>,
    is_terminal: bool,
    has_colors: bool,
}

impl Screen {
    pub(super) fn new() -> Self {
        let out = io::stdout().lock();
        let is_terminal = out.is_terminal();
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        Self {
            held: None,
            is_terminal,
            has_colors: is_terminal && !unwanted,
            out: BufWriter::with_capacity(64 << 10, out),
        }
    }

    /// Holds back what is written from now on, in memory and above 8 MB in a temporary file.
    pub(super) fn hold(&mut self) {
        self.held = Some(SpooledTempFile::new(8 << 20));
    }

    /// Shows what was held back.
    pub(super) fn release(&mut self) -> io::Result<()> {
        if let Some(mut held) = self.held.take() {
            held.rewind()?;
            io::copy(&mut held, &mut self.out)?;
        }
        Ok(())
    }

    /// Whether a person reads it.
    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// How many columns a line of prose may take.
    pub(super) fn width(&self) -> usize {
        if self.is_terminal { textwrap::termwidth().clamp(40, 120) } else { 100 }
    }

    pub(super) fn paint(&self, style: Style, text: &str) -> String {
        if self.has_colors && !text.is_empty() {
            format!("{}{text}{}", style.render(), style.render_reset())
        } else {
            text.to_owned()
        }
    }
}

impl Write for Screen {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        match &mut self.held {
            Some(held) => held.write(text),
            None => self.out.write(text),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const BOLD: Style = Style::new().bold();

pub(super) const fn color(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(clap::builder::styling::Color::Ansi(color)))
}

/// Writes a line for the person, beside the data.
pub(super) fn note(text: &str) {
    // When the standard error is closed, there is nobody left to tell.
    writeln!(io::stderr(), "{text}").ok();
}

/// The text with everything that would move the cursor, change the terminal or reorder the line as its escape.
pub(super) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_unsafe(c) => write!(out, "\\u{{{:x}}}", u32::from(c)).expect("a String takes any text"),
            c => out.push(c),
        }
    }
    out
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_drives_a_terminal_passes() {
        assert_eq!(visible("a\u{1b}[2J\nb\u{9b}\u{7f}\0"), "a\\u{1b}[2J\\nb\\u{9b}\\u{7f}\\u{0}");
        assert_eq!(visible("\u{202e}abc\u{2066}"), "\\u{202e}abc\\u{2066}");
        assert_eq!(visible("Grüße, 世界 😀"), "Grüße, 世界 😀");
    }
}
