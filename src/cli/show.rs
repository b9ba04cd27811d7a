//! `sessions show`.

use std::collections::BTreeSet;
use std::io::Write as _;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use textwrap::core::display_width;

use super::failure::Failure;
use super::follow::Follow;
use super::list::{counted, descent};
use super::place::Place;
use super::screen::{BOLD, DIM, Screen, note, visible};
use super::{prose, summary, time};
use crate::export::warn_of_torn_tail;
use crate::log::{SessionEvent, SessionHeader, SessionId};
use crate::paging::Pages;
use crate::seam::{Error, ErrorKind, OpenOptions, SessionPersistence, Snapshot};

/// Show the events of one session
#[derive(Args)]
#[command(after_help = "\
With --follow events are shown as they are written, by whatever process, until Ctrl-C, or until
whoever reads the output goes away; the exit code is then 0. It is 1 when the session is
removed, or another one stands under its id.

Examples:
  sessions show fix-login-loop
  sessions show fix-login-loop --type tool/call,tool/result
  sessions show fix-login-loop --from 10 --limit 5 --json
  sessions show fix-login-loop --follow")]
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
    /// Only events of this type, as in tool/call; of several with commas, or repeated
    #[arg(long = "type", value_name = "T", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    types: Vec<String>,
    /// Go on with what is written from now on, up to the N events of --limit
    #[arg(long)]
    follow: bool,
}

impl Show {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        let store = place.open()?;
        tell_what_hinders(&*store, &self.session)?;
        // Whatever is stored can be looked at, whether it can be interpreted or not.
        let handle = store.open(&self.session, OpenOptions::uninterpreted())?;
        let snapshot = store.stat(&self.session)?;
        let snapshot = snapshot.ok_or_else(|| Error::NotFound { session: self.session.clone() })?;

        // What another process is just writing looks like a torn tail.
        if !self.follow {
            warn_of_torn_tail(&snapshot);
        }
        let left = self.limit.unwrap_or(u64::MAX);
        let mut shown =
            Shown { json: self.json, types: self.types, met: BTreeSet::new(), left, block: Block::new(screen) };
        if !self.json {
            shown.block.title(screen, handle.header(), &snapshot)?;
        }
        if self.follow {
            Follow::new(&*store, &*handle, snapshot, self.from)?.run(&mut shown, screen)?;
        } else {
            let mut pages = Pages::new(&*handle, &snapshot, self.from);
            if self.limit.is_some() && shown.types.is_empty() {
                pages = pages.up_to(left);
            }
            while shown.left > 0 {
                let page = pages.next_page()?;
                if page.is_empty() {
                    break;
                }
                shown.show(&page, screen)?;
            }
            if shown.left == left && left > 0 {
                note(&shown.nothing());
            }
        }
        Ok(handle.close()?)
    }
}

/// Which events are shown, and how.
pub(super) struct Shown {
    json: bool,
    types: Vec<String>,
    /// The types of the events that were passed over, as many as a person may read and one more.
    met: BTreeSet<String>,
    /// How many more are wanted.
    pub(super) left: u64,
    block: Block,
}

impl Shown {
    /// Shows those of some events that are wanted.
    pub(super) fn show(&mut self, events: &[SessionEvent], screen: &mut Screen) -> Result<(), Failure> {
        for event in events {
            if self.left == 0 {
                break;
            }
            if !self.types.is_empty() && !self.types.iter().any(|wanted| wanted == event.event_type()) {
                if self.met.len() <= MET && !self.met.contains(event.event_type()) {
                    self.met.insert(event.event_type().to_owned());
                }
                continue;
            }
            self.left -= 1;
            if self.json {
                writeln!(screen, "{}", event.to_line())?;
            } else {
                self.block.event(screen, event)?;
            }
        }
        Ok(())
    }

    /// Says that nothing was shown, and what would have been there.
    fn nothing(&self) -> String {
        if self.met.is_empty() {
            return "no event matches".to_owned();
        }
        let more = if self.met.len() > MET { ", …" } else { "" };
        let types: Vec<_> = self.met.iter().take(MET).map(|event_type| visible(event_type)).collect();
        format!("no event matches; of these types there are some: {}{more}", types.join(", "))
    }
}

/// So many types of events are told where none is of the wanted ones.
const MET: usize = 20;

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
        for paragraph in paragraphs {
            lines.extend(prose::lines(paragraph, self.width));
        }
        if lines.len() > LINES {
            let more = lines.len() - LINES + 1;
            lines.truncate(LINES - 1);
            lines.push(format!("… {more} more lines"));
        }
        lines
    }
}
