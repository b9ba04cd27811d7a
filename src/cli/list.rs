//! `sessions list`.

use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::num::NonZeroUsize;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::failure::Failure;
use super::index::IndexPlace;
use super::period::{Bounds, PageStart, Period};
use super::place::Place;
use super::record::{Record, State, print_line, unreadable};
use super::screen::{AnsiColor, BOLD, Screen, Style, color, note, visible};
use super::stat::holder;
use super::table::{Cell, Column, Kept, Table};
use super::time;
use crate::log::{Origin, SessionHeader, SessionId};
use crate::query::index::SessionFacts;
use crate::seam::{Error, ListFilter, ListOrder, ListQuery, SessionPersistence, SessionState, Snapshot};

/// List sessions, most recently active first
#[derive(Args)]
#[command(after_help = "\
ACTIVE is the last write to a session, and where the store has not noted it the time of its last
event, or of its creation; --since and --until go by that. Only sessions are listed that every
given filter lets through. TITLE, and interrupted in NOTE, are what the search index knows.

With --json each session is one object, and so is the answer of `sessions stat --json`. Times are in
milliseconds since 1970 in UTC, sizes in bytes; what is not known is null.
  id                the name of the session
  version           the format of its log; this build extends those of format 3
  createdAt         when it was created
  cwd               its working folder
  parentSession     the session that it comes from, which need not be stored
  origin            subagent, if another session delegated to it
  delegationDepth   how many delegations led to it
  agentPreset       what the agent was set up as
  isSeeded          whether it starts with events of its parent
  eventCount        how many events it has; null in a folder with much that was not read yet: ask
                    `sessions stat`
  sizeBytes         the size of its text in a file of SQLite, of its log file in a folder
  lastTime          the time of its last event
  revision          changes with the log, and with nothing else; to be compared only
  writtenAt         the last write, as the store noted it. ACTIVE is writtenAt, else lastTime, else
                    createdAt
  owner             who writes it now: process, host, since
Only where the search index knows the session as it is now; `sessions stats > /dev/null` brings the
index up to date. Nothing else is read for these, and no store is written. What was inherited is not
counted:
  title             the last title, else the start of the first message of a person
  turns, toolCalls, inputTokens, outputTokens: how many of each
  interrupted       whether its last turn has no end
  blank             whether no person said anything in it and no turn was started
Only where there is such a thing:
  state             newer-format or damaged, which cannot be interpreted, or older-format, which
                    cannot be extended
  tornTail          what does not check out at the end of its log: seq, bytes
  lastFailure       the last write that failed: at, operation, kind, message

With --limit the line behind the last session is {\"cursor\":...}, if there are more. A session that
is written between two pages moves to the front of the order by activity, and is on no later page;
with --sort created each stands on exactly one. All of them, a hundred at a time, for a shell:
  cursor=
  while page=$(sessions list --sort created --limit 100 --json ${cursor:+--cursor \"$cursor\"}); do
    printf '%s\\n' \"$page\" | jq -r 'select(.id) | .id'
    cursor=$(printf '%s\\n' \"$page\" | jq -r 'select(.cursor) | .cursor')
    [ -n \"$cursor\" ] || break
  done

Examples:
  sessions list --limit 20
  sessions list --cwd . --since 7d
  sessions list --json | jq -r 'select(.eventCount > 100) | .id'")]
pub(super) struct List {
    /// One JSON object a line, and the cursor of the next page as the last
    #[arg(long)]
    json: bool,
    /// At most N sessions, and where the next page starts [default: all]. One that is written between two pages moves to the
    /// front and is on no later page; with --sort created each is on exactly one
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
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    parent: Option<String>,
    #[command(flatten)]
    period: Period,
    /// Only those that were started so
    #[arg(long, value_enum)]
    origin: Option<Started>,
    /// Only those in this state, as their headers tell it; damage behind a header is found by `sessions verify`
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
        let uncounted = if self.json { HashSet::new() } else { fill_in(&*store, &mut page.items)? };
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
        print_table(screen, &page.items, &known, &uncounted)?;
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
            filter = filter.in_states([state.kind()]);
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
struct Next<'a> {
    cursor: &'a str,
}

/// Asks for the counts that a list leaves open in a folder of many log files, as many as a person may read. Tells the
/// sessions whose logs have no count.
fn fill_in(store: &dyn SessionPersistence, snapshots: &mut [Snapshot]) -> Result<HashSet<SessionId>, Failure> {
    const MOST: usize = 1000;
    let mut uncounted = HashSet::new();
    let is_open = |snapshot: &&mut Snapshot| snapshot.event_count.is_none() && snapshot.header.is_some();
    for snapshot in snapshots.iter_mut().filter(is_open).take(MOST) {
        // One that is gone by now stays as it was listed.
        if let Some(told) = store.stat(&snapshot.id)? {
            if told.event_count.is_none() && told.state != SessionState::Pending {
                uncounted.insert(told.id.clone());
            }
            *snapshot = told;
        }
    }
    Ok(uncounted)
}

/// Prints all sessions of a store for a person.
pub(super) fn print_all(store: &dyn SessionPersistence, screen: &mut Screen) -> Result<(), Failure> {
    let page = store.list(&ListQuery::default())?;
    Ok(print_table(screen, &page.items, &HashMap::new(), &HashSet::new())?)
}

/// So many columns are left of a title and of a folder on the narrowest terminal.
const NARROW: usize = 12;

fn print_table(
    screen: &mut Screen,
    snapshots: &[Snapshot],
    known: &HashMap<SessionId, SessionFacts>,
    uncounted: &HashSet<SessionId>,
) -> std::io::Result<()> {
    let mut table = Table::new(vec![
        Column::text("SESSION"),
        Column::text("TITLE").cut(Kept::Start, NARROW),
        Column::text("ACTIVE"),
        Column::number("EVENTS"),
        Column::number("SIZE"),
        Column::text("FOLDER").cut(Kept::End, NARROW),
        Column::text("NOTE"),
    ]);
    let now = time::now();
    for snapshot in snapshots {
        let header = snapshot.header.as_ref();
        let active = snapshot.written_at.or(snapshot.last_time).or_else(|| header.map(|h| h.created_at() as i64));
        let state = unreadable(snapshot);
        let facts = known.get(&snapshot.id);
        let name = if state.is_some() { color(AnsiColor::Red) } else { BOLD };
        let (remark, style) = match (&snapshot.owner, state) {
            (_, Some(state)) => (state, color(AnsiColor::Red)),
            (Some(owner), None) => (format!("in use by {}", holder(owner)), color(AnsiColor::Green)),
            (None, None) => match doubt(snapshot, uncounted) {
                Some(doubt) => (doubt, color(AnsiColor::Yellow)),
                None => {
                    let interrupted = facts.filter(|facts| facts.is_interrupted).map(|_| "interrupted".to_owned());
                    let remarks = interrupted.into_iter().chain(header.and_then(descent));
                    (remarks.collect::<Vec<_>>().join(", "), Style::new())
                }
            },
        };
        table.push(vec![
            Cell::painted(visible(snapshot.id.as_str()), name),
            Cell::new(facts.and_then(|facts| facts.title.as_deref()).map(title).unwrap_or_default()),
            Cell::new(active.map(|t| time::ago(t, now)).unwrap_or_default()),
            Cell::new(snapshot.event_count.map(|n| n.to_string()).unwrap_or_default()),
            Cell::new(snapshot.size_bytes.map(size).unwrap_or_default()),
            Cell::painted(header.and_then(SessionHeader::cwd).map(folder).unwrap_or_default(), color(AnsiColor::Cyan)),
            Cell::painted(visible(&remark), style),
        ]);
    }
    table.drop_empty_columns();
    table.fit(screen);
    table.print(screen)
}

/// What is known of the end of a log that may not be as it was written.
fn doubt(snapshot: &Snapshot, uncounted: &HashSet<SessionId>) -> Option<String> {
    if let Some(tail) = snapshot.torn_tail {
        return Some(format!("unfinished end of {}: run verify", counted(tail.bytes, "byte")));
    }
    // A count that nobody asked for is none that is in doubt.
    uncounted.contains(&snapshot.id).then(|| "count unknown: run verify".to_owned())
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
pub(super) fn title(title: &str) -> String {
    Kept::Start.of(&visible(title), 40)
}

/// A folder in few columns: the home of the user is `~`, and of a long path the end is what tells.
fn folder(cwd: &str) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    let below = cwd.strip_prefix(&home).filter(|rest| home.len() > 1 && (rest.is_empty() || rest.starts_with('/')));
    let text = visible(&below.map_or_else(|| cwd.to_owned(), |rest| format!("~{rest}")));
    Kept::End.of(&text, 36)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use crate::seam::{CreateOptions, TornTail};

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
    fn a_count_is_in_doubt_only_where_it_was_asked_for() {
        let store = MemoryStore::new();
        let header = SessionHeader::new(SessionId::new("s").unwrap(), 0).unwrap();
        let _writer = store.create(&header, CreateOptions::default()).unwrap();
        let mut snapshot = store.stat(header.id()).unwrap().unwrap();
        let asked = HashSet::from([header.id().clone()]);
        snapshot.event_count = None;
        assert_eq!(doubt(&snapshot, &HashSet::new()), None);
        assert!(doubt(&snapshot, &asked).unwrap().contains("run verify"));
        snapshot.torn_tail = Some(TornTail { seq: 3, bytes: 16 });
        assert!(doubt(&snapshot, &HashSet::new()).unwrap().starts_with("unfinished end of 16 bytes"));
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
