//! `sessions show`.

use std::io::Write as _;

use clap::Args;
use textwrap::core::display_width;

use super::failure::Failure;
use super::list::{counted, descent};
use super::place::Place;
use super::screen::{BOLD, DIM, Screen, note, visible};
use super::{summary, time};
use crate::export::warn_of_torn_tail;
use crate::log::{SessionEvent, SessionHeader, SessionId};
use crate::paging::Pages;
use crate::seam::{Error, ErrorKind, OpenOptions, SessionPersistence, Snapshot};

/// Show the events of one session
#[derive(Args)]
#[command(after_help = "\
Examples:
  sessions show fix-login-loop
  sessions show fix-login-loop --type tool/call
  sessions show fix-login-loop --from 10 --limit 5 --json")]
pub(super) struct Show {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionId,
    /// Start at this event
    #[arg(long, value_name = "SEQ", default_value_t = 0, hide_default_value = true)]
    from: u64,
    /// At most N events [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// The lines of the events as `export` writes them
    #[arg(long)]
    json: bool,
    /// Only events of this type, as in tool/call
    #[arg(long = "type", value_name = "T")]
    event_type: Option<String>,
}

impl Show {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        let store = place.open()?;
        tell_what_hinders(&*store, &self.session)?;
        // Whatever is stored can be looked at, whether it can be interpreted or not.
        let handle = store.open(&self.session, OpenOptions::uninterpreted())?;
        let snapshot = store.stat(&self.session)?;
        let snapshot = snapshot.ok_or_else(|| Error::NotFound { session: self.session.clone() })?;

        warn_of_torn_tail(&snapshot);
        let mut block = Block::new(screen);
        if !self.json {
            block.title(screen, handle.header(), &snapshot)?;
        }
        let mut left = self.limit.unwrap_or(u64::MAX);
        let is_asked_for_some = left > 0;
        let mut is_empty = true;
        let mut pages = Pages::new(&*handle, &snapshot, self.from);
        if self.limit.is_some() && self.event_type.is_none() {
            pages = pages.up_to(left);
        }
        while left > 0 {
            let page = pages.next_page()?;
            if page.is_empty() {
                break;
            }
            let wanted = page.iter().filter(|e| self.event_type.as_deref().is_none_or(|t| t == e.event_type()));
            for event in wanted.take(usize::try_from(left).unwrap_or(usize::MAX)) {
                left -= 1;
                is_empty = false;
                if self.json {
                    writeln!(screen, "{}", event.to_line())?;
                } else {
                    block.event(screen, event)?;
                }
            }
        }
        if is_empty && is_asked_for_some {
            note("no event matches");
        }
        Ok(handle.close()?)
    }
}

/// Says on the side why a session cannot be interpreted, where that is so.
fn tell_what_hinders(store: &dyn SessionPersistence, session: &SessionId) -> Result<(), Failure> {
    match store.open(session, OpenOptions::read()) {
        Ok(handle) => Ok(handle.close()?),
        Err(error) if error.kind() == ErrorKind::FormatUnsupported => {
            note(&format!("sessions: note: {}", visible(&error.to_string())));
            Ok(())
        }
        // Damage is told where it stands, behind the events before it.
        Err(error) if error.kind() == ErrorKind::Corruption => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// How events are laid out for a person.
struct Block {
    width: usize,
    day: String,
}

/// The columns of the seq, the time of day and the type.
const SEQ: usize = 6;
const TYPE: usize = 20;
const INDENT: usize = SEQ + 2 + 8 + 2 + TYPE;
/// How many lines of an event are shown.
const LINES: usize = 12;

impl Block {
    fn new(screen: &Screen) -> Self {
        Self { width: screen.width().saturating_sub(INDENT).max(24), day: String::new() }
    }

    fn title(&self, screen: &mut Screen, header: &SessionHeader, snapshot: &Snapshot) -> Result<(), Failure> {
        let mut facts = vec![screen.paint(BOLD, &visible(header.id().as_str()))];
        facts.extend(snapshot.event_count.map(|n| counted(n, "event")));
        facts.extend(descent(header).map(|d| visible(&d)));
        facts.extend(header.cwd().map(visible));
        Ok(writeln!(screen, "{}", facts.join(" · "))?)
    }

    fn event(&mut self, screen: &mut Screen, event: &SessionEvent) -> Result<(), Failure> {
        let day = time::day(event.time());
        if day != self.day {
            writeln!(screen, "\n{}", screen.paint(DIM, &day))?;
            self.day = day;
        }
        let summary = summary::of(event);
        let event_type = visible(event.event_type());
        let fill = " ".repeat(TYPE.saturating_sub(display_width(&event_type)).max(1));
        let time = screen.paint(DIM, &format!("{:8}", time::of_day(event.time())));
        let event_type = screen.paint(summary.style, &event_type);
        write!(screen, "{:>SEQ$}  {time}  {event_type}{fill}", event.seq())?;

        let lines = self.lines(&summary.paragraphs);
        for (index, line) in lines.iter().enumerate() {
            let indent = if index == 0 { 0 } else { INDENT };
            writeln!(screen, "{}{line}", " ".repeat(indent))?;
        }
        if lines.is_empty() {
            writeln!(screen)?;
        }
        Ok(())
    }

    fn lines(&self, paragraphs: &[String]) -> Vec<String> {
        let mut lines = Vec::new();
        // Much of it is JSON or code, where a hyphen is no place to break.
        let options = textwrap::Options::new(self.width).word_splitter(textwrap::WordSplitter::NoHyphenation);
        for paragraph in paragraphs {
            for line in paragraph.lines() {
                let safe = visible(&line.replace('\t', "    "));
                lines.extend(textwrap::wrap(&safe, &options).into_iter().map(|l| l.into_owned()));
            }
        }
        if lines.len() > LINES {
            let more = lines.len() - LINES + 1;
            lines.truncate(LINES - 1);
            lines.push(format!("… {more} more lines"));
        }
        lines
    }
}
