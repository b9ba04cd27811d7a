//! `sessions list`.

use std::collections::HashMap;
use std::io::Write as _;
use std::num::NonZeroUsize;

use clap::{Args, ValueEnum};
use serde::Serialize;
use textwrap::core::display_width;

use super::failure::Failure;
use super::index::IndexPlace;
use super::period::{Bounds, PageStart, Period};
use super::place::Place;
use super::record::{Record, print_line, unreadable};
use super::screen::{AnsiColor, BOLD, Screen, Style, color, note, visible};
use super::stat::holder;
use super::table::{Cell, Column, Table};
use super::time;
use crate::log::{Origin, SessionHeader, SessionId};
use crate::query::index::SessionFacts;
use crate::seam::{Error, ListFilter, ListOrder, ListQuery, SessionPersistence, SessionState, Snapshot, StateKind};

/// List sessions, most recently active first
#[derive(Args)]
#[command(after_help = "\
ACTIVE is the last write to a session, and where the store has not noted it the time of its last
event; --since and --until go by that. Only sessions are listed that every given filter lets
through.

Titles, and in JSON title, turns, toolCalls, inputTokens, outputTokens, interrupted and blank,
are told of sessions that are as the search index knows them, which `sessions search` and
`sessions stats` bring up to date; what a session inherited is not counted. Nothing else is read
for it, and nothing written.

Examples:
  sessions list --limit 20
  sessions list --cwd . --since 7d
  sessions list --json | jq -r 'select(.eventCount > 100) | .id'")]
pub(super) struct List {
    /// One JSON object a line, and the cursor of the next page as the last
    #[arg(long)]
    json: bool,
    /// At most N sessions [default: all]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    limit: Option<NonZeroUsize>,
    /// Go on behind the page that gave this cursor
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<PageStart>,
    /// What the order goes by
    #[arg(long, value_enum, default_value_t = Sort::Activity)]
    sort: Sort,
    /// Only those of this working folder, as their headers have it; ., .. and what starts with ./ or ../ is taken from here
    #[arg(long, value_name = "DIR", value_parser = folder_of_sessions)]
    cwd: Option<String>,
    /// Only the children of this session, which need not be stored
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    #[command(flatten)]
    period: Period,
    /// Only those that were started so
    #[arg(long, value_enum)]
    origin: Option<Started>,
    /// Only those in this state
    #[arg(long, value_enum)]
    state: Option<State>,
    /// Only those that are being written now
    #[arg(long)]
    owned: bool,
    #[command(flatten)]
    index: IndexPlace,
}

#[derive(Clone, Copy, ValueEnum)]
enum Started {
    /// By another session that delegates to them
    Subagent,
    /// In any other way
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum State {
    Readable,
    NewerFormat,
    OlderFormat,
    Damaged,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sort {
    /// The last write
    Activity,
    /// The time of creation
    Created,
}

impl List {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        let asked = PageStart::asked(self.cursor.as_ref());
        let order = match self.sort {
            Sort::Activity => ListOrder::Activity,
            Sort::Created => ListOrder::Created,
        };
        let mut query = ListQuery::default().with_filter(self.filter(asked)?).with_order(order);
        let store = place.open()?;
        // Without a limit it is one page and not many: a session that is written meanwhile could slip between pages.
        if let Some(limit) = self.limit {
            query = query.with_limit(limit.get());
        }
        if let Some(start) = &self.cursor {
            let Ok(cursor) = start.cursor.parse();
            query = query.with_cursor(cursor);
        }
        let mut page = store.list(&query).map_err(|error| match error {
            Error::InvalidArgument { session: None, reason } if self.cursor.is_some() => Failure::Usage(reason),
            other => other.into(),
        })?;
        if !self.json {
            fill_in(&*store, &mut page.items)?;
        }
        let known = self.index.known(place, &page.items)?;
        let next = page.next.map(|next| PageStart::behind(&next, &self.period, asked));
        if self.json {
            for snapshot in &page.items {
                Record::of(snapshot, known.get(&snapshot.id)).print(screen)?;
            }
            if let Some(next) = &next {
                print_line(screen, &Next { cursor: next })?;
            }
            return Ok(());
        }
        if page.items.is_empty() {
            let is_asked = query.filter != ListFilter::new() || self.cursor.is_some();
            let which = if is_asked { "no such sessions" } else { "no sessions" };
            note(&format!("{which} in {}", visible(&place.name().to_string_lossy())));
            return Ok(());
        }
        print_table(screen, &page.items, &known)?;
        screen.flush()?;
        if let Some(next) = next {
            note(&format!("there are more; the next page: add --cursor {next}"));
        }
        Ok(())
    }

    fn filter(&self, now: i64) -> Result<ListFilter, Failure> {
        let mut filter = ListFilter::new();
        if let Some(cwd) = &self.cwd {
            filter = filter.in_cwds([Some(cwd)]);
        }
        if let Some(parent) = &self.parent {
            filter = filter.with_parents([Some(parent)]);
        }
        if let Some(origin) = self.origin {
            filter = filter.with_origins([match origin {
                Started::Subagent => Some(Origin::Subagent),
                Started::None => None,
            }]);
        }
        if let Some(state) = self.state {
            filter = filter.in_states([match state {
                State::Readable => StateKind::Readable,
                State::NewerFormat => StateKind::NewerFormat,
                State::OlderFormat => StateKind::OlderFormat,
                State::Damaged => StateKind::Damaged,
            }]);
        }
        if self.owned {
            filter = filter.owned(true);
        }
        match self.period.at(now)? {
            Bounds { since: None, until: None } => Ok(filter),
            Bounds { since, until } => Ok(filter.active_in([since.unwrap_or(i64::MIN)..=until.unwrap_or(i64::MAX)])?),
        }
    }
}

/// A working folder as the headers of sessions have it: any text, but for what can only be meant from here.
pub(super) fn folder_of_sessions(text: &str) -> Result<String, String> {
    if text != "." && text != ".." && !text.starts_with("./") && !text.starts_with("../") {
        return Ok(text.to_owned());
    }
    let failed = |e: std::io::Error| format!("the present folder cannot be told: {e}");
    // Of a folder that is not there any more only the name is left.
    let path = std::fs::canonicalize(text).or_else(|_| std::path::absolute(text)).map_err(failed)?;
    path.into_os_string().into_string().map_err(|_| "the name of the present folder is no Unicode".to_owned())
}

fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "a limit is a number of at least 1".to_owned())
}

/// Where the next page starts.
#[derive(Serialize)]
pub(super) struct Next<'a> {
    pub(super) cursor: &'a str,
}

/// Asks for the counts that a list leaves open in a folder of many log files, as many as a person may read.
fn fill_in(store: &dyn SessionPersistence, snapshots: &mut [Snapshot]) -> Result<(), Failure> {
    const MOST: usize = 1000;
    let is_open = |snapshot: &&mut Snapshot| snapshot.event_count.is_none() && snapshot.header.is_some();
    for snapshot in snapshots.iter_mut().filter(is_open).take(MOST) {
        // One that is gone by now stays as it was listed.
        if let Some(told) = store.stat(&snapshot.id)? {
            *snapshot = told;
        }
    }
    Ok(())
}

/// Prints all sessions of a store for a person.
pub(super) fn print_all(store: &dyn SessionPersistence, screen: &mut Screen) -> Result<(), Failure> {
    let page = store.list(&ListQuery::default())?;
    Ok(print_table(screen, &page.items, &HashMap::new())?)
}

fn print_table(
    screen: &mut Screen,
    snapshots: &[Snapshot],
    known: &HashMap<SessionId, SessionFacts>,
) -> std::io::Result<()> {
    let mut table = Table::new(vec![
        Column::text("SESSION"),
        Column::text("TITLE"),
        Column::text("ACTIVE"),
        Column::number("EVENTS"),
        Column::number("SIZE"),
        Column::text("FOLDER"),
        Column::text("NOTE"),
    ]);
    let now = time::now();
    for snapshot in snapshots {
        let header = snapshot.header.as_ref();
        let active = snapshot.written_at.or(snapshot.last_time).or_else(|| header.map(|h| h.created_at() as i64));
        let state = unreadable(snapshot);
        let name = if state.is_some() { color(AnsiColor::Red) } else { BOLD };
        let (remark, style) = match (&snapshot.owner, state) {
            (_, Some(state)) => (state, color(AnsiColor::Red)),
            (Some(owner), None) => (format!("in use by {}", holder(owner)), color(AnsiColor::Green)),
            (None, None) => match doubt(snapshot) {
                Some(doubt) => (doubt, color(AnsiColor::Yellow)),
                None => (header.and_then(descent).unwrap_or_default(), Style::new()),
            },
        };
        table.push(vec![
            Cell::painted(visible(snapshot.id.as_str()), name),
            Cell::new(known.get(&snapshot.id).and_then(|facts| facts.title.as_deref()).map(title).unwrap_or_default()),
            Cell::new(active.map(|t| time::ago(t, now)).unwrap_or_default()),
            Cell::new(snapshot.event_count.map(|n| n.to_string()).unwrap_or_default()),
            Cell::new(snapshot.size_bytes.map(size).unwrap_or_default()),
            Cell::painted(header.and_then(SessionHeader::cwd).map(folder).unwrap_or_default(), color(AnsiColor::Cyan)),
            Cell::painted(visible(&remark), style),
        ]);
    }
    table.drop_empty_columns();
    table.print(screen)
}

/// What is known of the end of a log that may not be as it was written.
fn doubt(snapshot: &Snapshot) -> Option<String> {
    if let Some(tail) = snapshot.torn_tail {
        return Some(format!("unfinished end of {}: run verify", counted(tail.bytes, "byte")));
    }
    let is_unknown = snapshot.event_count.is_none() && snapshot.state != SessionState::Pending;
    is_unknown.then(|| "count unknown: run verify".to_owned())
}

/// Where a session comes from.
pub(super) fn descent(header: &SessionHeader) -> Option<String> {
    let parent = header.parent_session()?;
    let relation = match header.origin() {
        Some(Origin::Subagent) => "subagent",
        None if header.is_seeded() => "fork",
        None => "child",
    };
    Some(format!("{relation} of {parent}"))
}

/// A number of things by the name of one of them.
pub(super) fn counted(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// A number of bytes for a person.
pub(super) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KB", "MB", "GB", "TB"] {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    let digits = usize::from(unit != "B" && value < 9.95);
    format!("{value:.digits$} {unit}")
}

/// The start of a title, in few columns.
fn title(title: &str) -> String {
    const SHOWN: usize = 40;
    let text = visible(title);
    if display_width(&text) <= SHOWN {
        return text;
    }
    let mut width = 1;
    let fits = |c: &char| {
        width += display_width(c.encode_utf8(&mut [0; 4]));
        width <= SHOWN
    };
    let start: String = text.chars().take_while(fits).collect();
    format!("{}…", start.trim_end())
}

/// A folder in few columns: the home of the user is `~`, and of a long path the end is what tells.
fn folder(cwd: &str) -> String {
    const SHOWN: usize = 36;
    let home = std::env::var("HOME").unwrap_or_default();
    let below = cwd.strip_prefix(&home).filter(|rest| home.len() > 1 && (rest.is_empty() || rest.starts_with('/')));
    let text = visible(&below.map_or_else(|| cwd.to_owned(), |rest| format!("~{rest}")));
    let length = text.chars().count();
    if length <= SHOWN {
        return text;
    }
    let end: String = text.chars().skip(length - SHOWN + 1).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_two_or_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 KB"),
            (9_949, "9.9 KB"),
            (9_950, "10 KB"),
            (999_499, "999 KB"),
            (999_500, "1.0 MB"),
            (52_428_800, "52 MB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn of_a_long_title_the_start_is_shown() {
        assert_eq!(title("Grüße"), "Grüße");
        assert_eq!(title(&"字".repeat(20)), "字".repeat(20));
        assert_eq!(title(&"字".repeat(21)), format!("{}…", "字".repeat(19)));
        assert_eq!(title(&format!("{} b", "a".repeat(38))), format!("{} b", "a".repeat(38)));
        assert_eq!(title(&format!("{} bc", "a".repeat(38))), format!("{}…", "a".repeat(38)));
    }

    #[test]
    fn of_a_long_folder_the_end_is_shown() {
        assert_eq!(folder("/srv/app"), "/srv/app");
        let long = folder(&format!("/{}/src", "x".repeat(100)));
        assert!(long.starts_with('…') && long.ends_with("/src") && long.chars().count() == 36, "{long}");
    }
}
