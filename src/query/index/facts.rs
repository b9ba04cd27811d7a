//! [`Facts`]: what happened in a session, folded event by event.

use std::collections::BTreeMap;

use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::Counts;
use crate::log::fields::{elements, field, fields, is_string, said, whole_number};
use crate::log::{SessionEvent, is_white_space, searchable_text};

/// A title that is made of a message has so many characters at most.
const TITLE: usize = 80;
const DAY: i64 = 86_400_000;

/// Where something is counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    is_inherited: bool,
    /// Days since 1970, in UTC.
    day: i64,
    provider: String,
    model: String,
}

/// What is known of a session, and what is to be added to its counts.
#[derive(Default, PartialEq)]
pub(super) struct Facts {
    title: Option<String>,
    is_open: bool,
    first_time: Option<i64>,
    last_time: Option<i64>,
    counts: BTreeMap<Place, Counts>,
}

impl Facts {
    pub(super) fn of(connection: &Connection, session: i64) -> Result<Self, rusqlite::Error> {
        let sql = "SELECT title, is_open, first_time, last_time FROM session WHERE number = ?";
        connection.prepare_cached(sql)?.query_row([session], |row| {
            Ok(Self {
                title: row.get(0)?,
                is_open: row.get(1)?,
                first_time: row.get(2)?,
                last_time: row.get(3)?,
                counts: BTreeMap::new(),
            })
        })
    }

    /// The same with all that is counted, to be compared.
    pub(super) fn whole(connection: &Connection, session: i64) -> Result<Self, rusqlite::Error> {
        let mut facts = Self::of(connection, session)?;
        let counts = Counts::COLUMNS.join(", ");
        let sql = format!("SELECT is_inherited, day, provider, model, {counts} FROM count WHERE session = ?");
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([session])?;
        while let Some(row) = rows.next()? {
            let place =
                Place { is_inherited: row.get(0)?, day: row.get(1)?, provider: row.get(2)?, model: row.get(3)? };
            facts.counts.insert(place, Counts::read(row, 4)?);
        }
        Ok(facts)
    }

    pub(super) fn observe(&mut self, event: &SessionEvent, is_inherited: bool) {
        self.first_time = Some(self.first_time.map_or(event.time(), |first| first.min(event.time())));
        self.last_time = Some(self.last_time.map_or(event.time(), |last| last.max(event.time())));
        let data = event.data().as_str();
        let mut counts = Counts { events: 1, ..Counts::default() };
        let mut model = (String::new(), String::new());
        match event.event_type() {
            "turn/start" => {
                self.is_open = true;
                counts.turns = 1;
            }
            "turn/end" => {
                self.is_open = false;
                let kind = field(data, "reason").and_then(|reason| field(reason, "kind"));
                counts.turn_errors = u64::from(is_string(kind, "error"));
            }
            "step/start" => counts.steps = 1,
            "tool/call" => counts.tool_calls = 1,
            "tool/result" => counts.tool_errors = u64::from(field(data, "error").is_some_and(|error| error != "null")),
            "user/message" => {
                let source = field(data, "source");
                // What programs say in the name of the user is told by its source.
                if source.is_none_or(|source| is_string(field(source, "kind"), "user")) {
                    counts.user_messages = 1;
                    if self.title.is_none() {
                        self.title = shortened(&searchable_text(event));
                    }
                }
            }
            "session/title" => {
                if let Some(title) = field(data, "title").and_then(said).and_then(|title| shortened(&title)) {
                    self.title = Some(title);
                }
            }
            "assistant/message" => {
                let [message, usage] = fields(data, ["message", "usage"]);
                if let Some(usage) = usage {
                    let source = message.and_then(|message| field(message, "source"));
                    model = source.map(of_model).unwrap_or_default();
                    add_usage(&mut counts, usage);
                }
            }
            "assistant/attempt" => {
                // What a model tells while it answers grows: the last is what was used.
                let chunks = field(data, "stream").map(elements).unwrap_or_default();
                let told = chunks.iter().rev().find_map(|record| field(field(record, "chunk")?, "usage"));
                if let Some(usage) = told {
                    add_usage(&mut counts, usage);
                }
            }
            "compaction/summary" => {
                if let Some(usage) = field(data, "usage") {
                    model = of_model(data);
                    add_usage(&mut counts, usage);
                }
            }
            _ => {}
        }
        let (provider, model) = model;
        let place = Place { is_inherited, day: event.time().div_euclid(DAY), provider, model };
        self.counts.entry(place).or_default().add(&counts);
    }

    pub(super) fn store(&self, connection: &Connection, session: i64) -> Result<(), rusqlite::Error> {
        let sql = "UPDATE session SET title = ?, is_open = ?, first_time = ?, last_time = ? WHERE number = ?";
        let values = params![self.title, self.is_open, self.first_time, self.last_time, session];
        connection.prepare_cached(sql)?.execute(values)?;
        let columns = Counts::COLUMNS.join(", ");
        let known = format!(
            "SELECT {columns} FROM count WHERE session = ? AND is_inherited = ? AND day = ? AND provider = ? AND model = ?"
        );
        let kept = format!(
            "INSERT OR REPLACE INTO count (session, is_inherited, day, provider, model, {columns}) VALUES (?, ?, ?, ?, ?{})",
            ", ?".repeat(Counts::COLUMNS.len())
        );
        for (place, counts) in &self.counts {
            let mut counts = counts.clone();
            let Place { is_inherited, day, provider, model } = place;
            if let Some(row) = connection
                .prepare_cached(&known)?
                .query(params![session, is_inherited, day, provider, model])?
                .next()?
            {
                counts.add(&Counts::read(row, 0)?);
            }
            let place: [Value; 5] =
                [session.into(), (*is_inherited).into(), (*day).into(), provider.clone().into(), model.clone().into()];
            let values = place.into_iter().chain(counts.values().into_iter().map(Value::from));
            connection.prepare_cached(&kept)?.execute(params_from_iter(values))?;
        }
        Ok(())
    }
}

fn of_model(source: &str) -> (String, String) {
    let [provider, model] = fields(source, ["provider", "model"]).map(|json| json.and_then(said).unwrap_or_default());
    (provider.into_owned(), model.into_owned())
}

fn add_usage(counts: &mut Counts, usage: &str) {
    let names = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"];
    let [input, output, read, written, reasoning] =
        fields(usage, names).map(|json| json.and_then(whole_number).unwrap_or(0));
    counts.input_tokens = input;
    counts.output_tokens = output;
    counts.cache_read_tokens = read;
    counts.cache_write_tokens = written;
    counts.reasoning_tokens = reasoning;
}

/// A text on one line, cut where it is too long; nothing where it says nothing.
fn shortened(text: &str) -> Option<String> {
    let words: Vec<_> = text.split(is_white_space).filter(|word| !word.is_empty()).take(TITLE + 1).collect();
    let line = words.join(" ");
    match line.char_indices().nth(TITLE) {
        Some(_) => {
            let kept: String = line.chars().take(TITLE - 1).collect();
            Some(format!("{}…", kept.trim_end()))
        }
        None if line.is_empty() => None,
        None => Some(line),
    }
}
