//! `sessions search`.

use std::io::Write as _;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde::Serialize;

use super::failure::Failure;
use super::index::IndexPlace;
use super::list::{counted, folder_of_sessions};
use super::period::{Bounds, PageStart, Period};
use super::place::Place;
use super::prose;
use super::record::print_line;
use super::screen::{BOLD, DIM, Screen, note, visible};
use super::time;
use crate::log::SessionId;
use crate::query::index::{SearchHit, SearchQuery};
use crate::seam::Error;

/// Find events by their text
#[derive(Args)]
#[command(after_help = "\
TEXT is one phrase: its words are found in this order and one behind the other, with any white space
between them, in upper or lower case, and as parts of longer words; no character means anything else
than itself. To find events with words that stand apart, search for one of them.

What is searched: messages of the user and of the model, calls of tools and their results, to-do
items, and how turns ended that were not completed; not system prompts, what a model thought, and
titles. A call is found in the message that asks for it and in its own event; an event that a fork
inherited is found in each session that holds it. The events in which the text stands most often
come first, then the shorter, then the later.

The search index is made and brought up to date first; it can be deleted at any time, and the
store is only read. Sessions that cannot be read to their end are told, and the exit code is 1;
those of a newer format are told and no failure. An answer of no event is exit code 0.

--since and --until go by the times of events. With --json each event is one object: session,
seq, time in milliseconds since 1970 in UTC, type, matches, and snippet with the characters from
start to end of its text that were found. Where there are more, the last line is another object: the
cursor of the next page, and in total how many events match, on all pages.

Examples:
  sessions search 'connection refused'
  sessions search src/main.rs --type tool/call,tool/result --since 7d
  sessions search login --session fix-login-loop --json | jq -r 'select(.session) | .snippet.text'")]
pub(super) struct Search {
    /// What to look for: several words in quotes, and behind -- what starts with a dash
    #[arg(value_name = "TEXT")]
    text: String,
    /// Words without quotes.
    #[arg(hide = true)]
    more: Vec<String>,
    /// Only in this session
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
    /// Only in events of this type, as in tool/call; of several with commas, or repeated
    #[arg(long = "type", value_name = "T", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    types: Vec<String>,
    /// Only in sessions of this working folder, as their headers have it; ., .. and what starts with ./ or ../ is taken
    /// from here
    #[arg(long, value_name = "DIR", value_parser = folder_of_sessions)]
    cwd: Option<String>,
    #[command(flatten)]
    period: Period,
    /// At most N events, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Go on behind the page that gave this cursor, with the same text and filters
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<PageStart>,
    /// One JSON object an event, and the cursor of the next page with the number of all as the last
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    index: IndexPlace,
}

impl Search {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        if !self.more.is_empty() {
            let words = std::iter::once(&self.text).chain(&self.more).map(String::as_str);
            return Err(Failure::Usage(format!(
                "there are several texts: put what belongs together in quotes, as in sessions search '{}'",
                words.collect::<Vec<_>>().join(" ").replace('\'', "'\\''")
            )));
        }
        let asked = PageStart::asked(self.cursor.as_ref());
        let query = self.query(asked)?;
        query.check()?;
        let store = place.open()?;
        if let Some(session) = &self.session
            && store.stat(session)?.is_none()
        {
            return Err(Error::NotFound { session: session.clone() }.into());
        }
        let mut updated = self.index.updated(place, &*store)?;
        let page = updated.ask(&*store, |index| index.search(&query))?;
        for hit in &page.hits {
            if self.json { Found::of(hit).print(screen)? } else { print(hit, screen)? }
        }
        // What is told of the page stands behind it.
        screen.flush()?;
        match page.next.map(|next| PageStart::behind(&next, &self.period, asked)) {
            Some(next) if self.json => print_line(screen, &Next { cursor: &next, total: page.total })?,
            Some(next) => note(&format!(
                "{} of {}; the next page: add --cursor {next}",
                page.hits.len(),
                counted(page.total, "event")
            )),
            None if page.hits.is_empty() && self.text.split_whitespace().nth(1).is_some() => {
                note("no event matches: the words of the text are looked for as one phrase, in this order");
            }
            None if page.hits.is_empty() => note("no event matches"),
            None => {}
        }
        screen.flush()?;
        updated.tell_gaps(&*store, self.session.as_ref())
    }

    fn query(&self, now: i64) -> Result<SearchQuery, Failure> {
        let mut query = SearchQuery::new(&self.text).of_types(&self.types).with_limit(self.limit);
        let Bounds { since, until } = self.period.at(now)?;
        (query.since, query.until) = (since, until);
        query.session.clone_from(&self.session);
        query.cwd.clone_from(&self.cwd);
        query.cursor = self.cursor.as_ref().map(|start| {
            let Ok(cursor) = start.cursor.parse();
            cursor
        });
        Ok(query)
    }
}

/// Where the next page starts, and how many events match.
#[derive(Serialize)]
struct Next<'a> {
    cursor: &'a str,
    total: u64,
}

/// An event that was found, as one JSON object.
#[derive(Serialize)]
struct Found<'a> {
    session: &'a str,
    seq: u64,
    time: i64,
    #[serde(rename = "type")]
    event_type: &'a str,
    matches: u64,
    snippet: Part<'a>,
}

/// A part of its text, and which characters of that were found.
#[derive(Serialize)]
struct Part<'a> {
    text: &'a str,
    start: usize,
    end: usize,
}

impl<'a> Found<'a> {
    fn of(hit: &'a SearchHit) -> Self {
        let (text, found) = (&*hit.snippet.text, &hit.snippet.found);
        let start = text[..found.start].chars().count();
        let end = start + text[found.clone()].chars().count();
        Self {
            session: hit.session.as_str(),
            seq: hit.seq,
            time: hit.time,
            event_type: &hit.event_type,
            matches: hit.matches,
            snippet: Part { text, start, end },
        }
    }

    fn print(&self, screen: &mut Screen) -> std::io::Result<()> {
        print_line(screen, self)
    }
}

/// Prints an event for a person: where it stands, and below that the part of its text.
fn print(hit: &SearchHit, screen: &mut Screen) -> std::io::Result<()> {
    const INDENT: &str = "    ";
    let session = screen.paint(BOLD, &visible(hit.session.as_str()));
    let time = screen.paint(DIM, &time::full(hit.time));
    writeln!(screen, "{session}  {}  {}  {time}", hit.seq, visible(&hit.event_type))?;
    let found = hit.snippet.found.clone();
    let on_one_line = |text: &str| visible(&text.replace(['\n', '\t'], " "));
    let text = format!(
        "{}{}{}",
        on_one_line(&hit.snippet.text[..found.start]),
        screen.paint(BOLD, &on_one_line(&hit.snippet.text[found.clone()])),
        on_one_line(&hit.snippet.text[found.end..]),
    );
    // For a program it stays on one line.
    let lines = if screen.is_terminal() { prose::wrapped(&text, screen.width() - INDENT.len()) } else { vec![text] };
    lines.iter().try_for_each(|line| writeln!(screen, "{INDENT}{line}"))
}
