//! `sessions stats`.

use std::collections::HashMap;
use std::io::Write as _;

use clap::{Args, ValueEnum};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::failure::Failure;
use super::index::IndexPlace;
use super::list::{counted as number_of, title};
use super::place::Place;
use super::record::print_line;
use super::screen::{BOLD, Screen, note, visible};
use super::table::{Cell, Column, Kept, Table};
use crate::log::SessionId;
use crate::query::index::{Counts, GroupBy, IndexResult, SearchIndex, StatisticsRow};

/// Count turns, calls of tools, errors and tokens
#[derive(Args)]
#[command(after_help = "\
What a session inherited from its parent is counted there, and not again. Days are those of UTC,
by the times of events, whatever the zone of whoever asks. ERRORS are results of tools and ends of turns that name one. Turns and
calls belong to no model: by model they stand where that is empty.

The search index is made and brought up to date first; it can be deleted at any time, and the
store is only read. Of sessions that cannot be read to their end what stands before that is
counted; they are told, and the exit code is 1. Those of a newer format are told and no failure.

With --json each row is one object: day, cwd, model or session, if it is grouped by that, and
null where there is none; sessions, events, userMessages, turns, steps, toolCalls, toolErrors,
turnErrors, inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens. The one
row of all has inheritedFromAbsent with the same counts where sessions inherited from parents that
are not stored here, which are counted nowhere; otherwise that is a note on the side.

Examples:
  sessions stats
  sessions stats --by model
  sessions stats --by day --json | jq -r '[.day, .outputTokens] | @tsv'")]
pub(super) struct Stats {
    /// A row for each [default: one for all]
    #[arg(long, value_enum)]
    by: Option<By>,
    /// One JSON object a row
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    index: IndexPlace,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    /// The day in UTC, the earliest first
    Day,
    /// The working folder
    Cwd,
    /// The provider and the model
    Model,
    /// The session
    Session,
}

impl By {
    fn grouping(self) -> GroupBy {
        match self {
            Self::Day => GroupBy::Day,
            Self::Cwd => GroupBy::Cwd,
            Self::Model => GroupBy::Model,
            Self::Session => GroupBy::Session,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Cwd => "cwd",
            Self::Model => "model",
            Self::Session => "session",
        }
    }
}

impl Stats {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        let store = place.open()?;
        let mut updated = self.index.updated(place, &*store)?;
        let (rows, absent) = updated.ask(&*store, |index| {
            let rows = match self.by {
                Some(by) => index.statistics(by.grouping())?,
                None => vec![index.total()?],
            };
            Ok((rows, Some(index.inherited_from_absent()?).filter(|absent| absent.sessions > 0)))
        })?;
        let is_total = self.by.is_none();
        if self.json {
            for row in &rows {
                let inherited_from_absent = absent.as_ref().filter(|_| is_total);
                print_line(screen, &Row { by: self.by, row, inherited_from_absent })?;
            }
        } else if rows.is_empty() {
            note("nothing happened in any session");
        } else {
            let titles = match self.by {
                Some(By::Session) => updated.ask(&*store, |index| titles(index, &rows))?,
                _ => HashMap::new(),
            };
            let mut table = table(self.by, &rows, &titles);
            table.drop_empty_columns();
            table.fit(screen);
            table.print(screen)?;
        }
        screen.flush()?;
        // A row that tells it needs no note.
        if let Some(absent) = absent.filter(|_| !(self.json && is_total)) {
            note(&format!(
                "sessions: note: not counted is what {} inherited from a parent that is not stored here: {}",
                number_of(absent.sessions, "session"),
                number_of(absent.counts.events, "event"),
            ));
        }
        updated.tell_gaps(&*store, None)
    }
}

/// The counts by the names that a program knows them by.
fn counted(counts: &Counts) -> [(&'static str, u64); 12] {
    // Named one by one, so that none that is counted is left untold.
    let Counts {
        events,
        user_messages,
        turns,
        steps,
        tool_calls,
        tool_errors,
        turn_errors,
        input_tokens,
        output_tokens,
        cache_read_tokens,
        cache_write_tokens,
        reasoning_tokens,
    } = *counts;
    [
        ("events", events),
        ("userMessages", user_messages),
        ("turns", turns),
        ("steps", steps),
        ("toolCalls", tool_calls),
        ("toolErrors", tool_errors),
        ("turnErrors", turn_errors),
        ("inputTokens", input_tokens),
        ("outputTokens", output_tokens),
        ("cacheReadTokens", cache_read_tokens),
        ("cacheWriteTokens", cache_write_tokens),
        ("reasoningTokens", reasoning_tokens),
    ]
}

/// The titles of the sessions that have one.
fn titles(index: &SearchIndex, rows: &[StatisticsRow]) -> IndexResult<HashMap<String, String>> {
    let sessions: Vec<_> = rows.iter().filter_map(|row| SessionId::new(&row.key).ok()).collect();
    let facts = index.facts_of(&sessions)?.into_iter();
    Ok(facts.filter_map(|facts| Some((facts.session.to_string(), facts.title?))).collect())
}

/// A group as one JSON object.
struct Row<'a> {
    by: Option<By>,
    row: &'a StatisticsRow,
    inherited_from_absent: Option<&'a StatisticsRow>,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { by, row, inherited_from_absent } = self;
        let mut object = serializer.serialize_map(None)?;
        if let Some(by) = by {
            object.serialize_entry(by.name(), &Some(&row.key).filter(|key| !key.is_empty()))?;
        }
        object.serialize_entry("sessions", &row.sessions)?;
        for (name, count) in counted(&row.counts) {
            object.serialize_entry(name, &count)?;
        }
        if let Some(row) = inherited_from_absent {
            let inherited = Row { by: None, row, inherited_from_absent: None };
            object.serialize_entry("inheritedFromAbsent", &inherited)?;
        }
        object.end()
    }
}

fn table(by: Option<By>, rows: &[StatisticsRow], titles: &HashMap<String, String>) -> Table {
    let mut columns: Vec<_> = by.map(|by| Column::text(by.name().to_uppercase())).into_iter().collect();
    let is_by_session = matches!(by, Some(By::Session));
    columns.push(match is_by_session {
        true => Column::text("TITLE").cut(Kept::Start, 12),
        false => Column::number("SESSIONS"),
    });
    let names =
        ["EVENTS", "TURNS", "TOOL CALLS", "ERRORS", "TOKENS IN", "OUT", "CACHE READ", "CACHE WRITTEN", "REASONING"];
    columns.extend(names.map(Column::number));
    let mut table = Table::new(columns);
    for StatisticsRow { key, sessions, counts, .. } in rows {
        let mut cells = Vec::new();
        if by.is_some() {
            let key = if key.is_empty() { "(none)".to_owned() } else { visible(key) };
            cells.push(Cell::painted(key, BOLD));
        }
        cells.push(Cell::new(match is_by_session {
            true => titles.get(key).map(|text| title(text)).unwrap_or_default(),
            false => sessions.to_string(),
        }));
        let numbers = [
            counts.events,
            counts.turns,
            counts.tool_calls,
            counts.tool_errors.saturating_add(counts.turn_errors),
            counts.input_tokens,
            counts.output_tokens,
            counts.cache_read_tokens,
            counts.cache_write_tokens,
            counts.reasoning_tokens,
        ];
        cells.extend(numbers.map(|number| Cell::new(number.to_string())));
        table.push(cells);
    }
    table
}
