//! `sessions messages`.

use std::io::Write as _;
use std::sync::Arc;

use clap::Args;

use super::failure::Failure;
use super::list::counted;
use super::place::Place;
use super::screen::{AnsiColor, DIM, Screen, Style, color, note, visible};
use super::{prose, summary};
use crate::log::payload::{Content, Message};
use crate::log::{Messages as Fold, ModelMessage, SessionId};
use crate::query::{QueryError, SessionReader};

/// Show what the model would see of a session now
#[derive(Args)]
#[command(after_help = "\
What was taken off the surface of a log, as by a compaction, is not there; `sessions show` has
all that happened. A turn that has no end is ended in memory as a host would end it that takes
the session up again, also where another process is just writing it. Nothing is stored.

Examples:
  sessions messages fix-login-loop
  sessions messages fix-login-loop --json | jq -r .role")]
pub(super) struct Messages {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionId,
    /// One message a line, as it stands in its event
    #[arg(long)]
    json: bool,
}

impl Messages {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        let session = SessionReader::new(Arc::from(place.open()?)).observe(&self.session)?;
        let events = session.events(0..session.event_count());
        let folded = Fold::fold(session.header().version(), &events);
        let mut messages = folded.map_err(|source| QueryError::InvalidSurface { session: self.session, source })?;
        let messages = messages.current();
        let mut is_first = true;
        for message in messages.iter() {
            if self.json {
                writeln!(screen, "{}", message.as_json().as_str())?;
            } else {
                if !std::mem::take(&mut is_first) {
                    writeln!(screen)?;
                }
                print(message, screen)?;
            }
        }
        screen.flush()?;
        if messages.is_empty() {
            note("the model sees no message");
        }
        match session.closers().len() as u64 {
            0 => {}
            closers => note(&format!(
                "its last turn has no end: it is ended here by {}, which nothing stores",
                counted(closers, "event")
            )),
        }
        Ok(())
    }
}

/// Prints a message for a person: who says it and in which event, and below that all of it.
fn print(message: &ModelMessage, screen: &mut Screen) -> std::io::Result<()> {
    const INDENT: &str = "    ";
    let (title, style, paragraphs) = match message.read::<Message>() {
        Ok(said) => {
            let (title, style) = title(&said);
            (title, style, said.content.iter().flat_map(paragraphs).collect())
        }
        // Of another shape than this build knows: as it is.
        Err(_) => ("message".to_owned(), Style::new(), vec![message.as_json().as_str().to_owned()]),
    };
    let title = screen.paint(style, &visible(&title));
    writeln!(screen, "{title}  {}", screen.paint(DIM, &format!("seq {}", message.seq())))?;
    let width = screen.width() - INDENT.len();
    for line in paragraphs.iter().flat_map(|paragraph| prose::lines(paragraph, width)) {
        writeln!(screen, "{}", format!("{INDENT}{line}").trim_end())?;
    }
    Ok(())
}

fn title(message: &Message) -> (String, Style) {
    match (&*message.role, &*message.source.kind) {
        ("user", "tool") => ("tool".to_owned(), color(AnsiColor::Yellow)),
        ("user", "user" | "") => ("user".to_owned(), color(AnsiColor::Green)),
        ("user", from) => (format!("user (from {from})"), color(AnsiColor::Green)),
        ("assistant", _) => ("assistant".to_owned(), color(AnsiColor::Cyan)),
        (role, _) => (role.to_owned(), DIM),
    }
}

fn paragraphs(block: &Content) -> Vec<String> {
    match block {
        Content::ToolResult { content, is_error, .. } => {
            let error = is_error.then(|| "(an error)".to_owned());
            error.into_iter().chain(content.iter().flat_map(paragraphs)).collect()
        }
        block => vec![summary::of_block(block, usize::MAX, usize::MAX)],
    }
}
