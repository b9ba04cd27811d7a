//! `sessions sql`.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::time::Duration;

use clap::Args;

use super::failure::Failure;
use super::place::Place;
use super::record::harmless;
use super::screen::{BOLD, Screen, visible};
use super::table::{Cell, Column, Table};
use crate::backend::sql::{Rows, Sql as Connection, Value};

/// How long to wait for another program that holds the database.
const BUSY: Duration = Duration::from_secs(5);

const VIEWS: &str = "SELECT l.name AS view, group_concat(c.name, ', ' ORDER BY c.cid) AS columns \
     FROM pragma_table_list AS l JOIN pragma_table_info(l.name) AS c \
     WHERE l.type = 'view' AND l.schema = 'main' GROUP BY l.name ORDER BY l.name";

/// Ask one question in SQL, read-only; without one, tell what can be asked
#[derive(Args)]
#[command(after_help = "\
The views stay as they are from version to version; the tables below them may change. A statement
that would change anything is refused. `data` is JSON, which ->> and json_each() take apart.

Examples:
  sessions sql
  sessions sql 'select session_id, count(*) from session_events group by 1'
  sessions sql --json \"select data ->> '$.title' as title from session_events where type = 'session/title'\"
  sessions sql < question.sql")]
pub(super) struct Sql {
    /// One SELECT; read from the standard input where it is left out and the input is no terminal
    #[arg(value_name = "QUERY", allow_hyphen_values = true)]
    query: Option<String>,
    /// One JSON object a row, with a key for each column
    #[arg(long)]
    json: bool,
}

impl Sql {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        // Held open: it has checked that the file is a store, and puts the files beside it away when it closes.
        let (path, _store) = place.open_sqlite()?;
        let query = match &self.query {
            Some(query) => query.clone(),
            None => piped()?,
        };
        let connection = Connection::open(&path, BUSY)?;
        // The answer is gathered before it is shown: whoever reads it slowly must not hold the database meanwhile.
        screen.hold();
        let answered = self.answer(&connection, &query, screen);
        screen.release()?;
        answered
    }

    fn answer(&self, connection: &Connection<'_>, query: &str, screen: &mut Screen) -> Result<(), Failure> {
        let is_question = !query.trim().is_empty();
        let query = if is_question { query } else { VIEWS };
        if self.json {
            return connection.query(query, &mut Objects { screen, keys: Vec::new() });
        }
        if !is_question {
            return connection.query(query, &mut Views { screen });
        }
        if screen.is_terminal() {
            let mut answer = Aligned { screen, names: Vec::new(), table: None, rows: 0 };
            connection.query(query, &mut answer)?;
            return answer.finish();
        }
        connection.query(query, &mut Tabbed { screen })
    }
}

fn piped() -> Result<String, Failure> {
    let mut query = String::new();
    let mut input = io::stdin().lock();
    if !input.is_terminal() {
        let read = input.read_to_string(&mut query);
        read.map_err(Failure::file("the standard input".as_ref(), "reading the query"))?;
    }
    Ok(query)
}

/// The views, each with its columns below its name.
struct Views<'a> {
    screen: &'a mut Screen,
}

impl Rows for Views<'_> {
    type Failure = Failure;

    fn columns(&mut self, _: &[&str]) -> Result<(), Failure> {
        Ok(())
    }

    fn row(&mut self, values: &[Value<'_>]) -> Result<(), Failure> {
        let [view, columns] = values else { return Ok(()) };
        writeln!(self.screen, "{}", self.screen.paint(BOLD, &text(view)))?;
        for line in textwrap::wrap(&text(columns), self.screen.width() - 4) {
            writeln!(self.screen, "    {line}")?;
        }
        Ok(())
    }
}

/// Rows for a program that cuts columns at tabs.
struct Tabbed<'a> {
    screen: &'a mut Screen,
}

impl Tabbed<'_> {
    fn print(&mut self, cells: impl Iterator<Item = String>) -> Result<(), Failure> {
        Ok(writeln!(self.screen, "{}", cells.collect::<Vec<_>>().join("\t"))?)
    }
}

impl Rows for Tabbed<'_> {
    type Failure = Failure;

    fn columns(&mut self, names: &[&str]) -> Result<(), Failure> {
        self.print(names.iter().map(|name| visible(name)))
    }

    fn row(&mut self, values: &[Value<'_>]) -> Result<(), Failure> {
        self.print(values.iter().map(text))
    }
}

/// Rows for a person. Only so many are held as it takes to find the widths.
struct Aligned<'a> {
    screen: &'a mut Screen,
    names: Vec<String>,
    table: Option<Table>,
    rows: usize,
}

/// Rows that are held to find the widths of their columns.
const HELD: usize = 200;
/// The most characters of a value that a person is shown.
const SHOWN: usize = 80;

impl Aligned<'_> {
    fn finish(self) -> Result<(), Failure> {
        match self.table {
            Some(table) => Ok(table.print(self.screen)?),
            None => Ok(()),
        }
    }
}

impl Rows for Aligned<'_> {
    type Failure = Failure;

    fn columns(&mut self, names: &[&str]) -> Result<(), Failure> {
        self.names = names.iter().map(|name| visible(name)).collect();
        self.table = Some(Table::new(self.names.iter().map(Column::text).collect()));
        Ok(())
    }

    fn row(&mut self, values: &[Value<'_>]) -> Result<(), Failure> {
        if self.rows == HELD
            && let Some(table) = self.table.take()
        {
            table.print(self.screen)?;
            self.rows = 0;
        }
        let columns = || self.names.iter().map(Column::text).collect();
        let table = self.table.get_or_insert_with(|| Table::new(columns()));
        table.push(values.iter().map(|v| Cell::new(shortened(text(v)))).collect());
        self.rows += 1;
        Ok(())
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn text(value: &Value<'_>) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(n) => n.to_string(),
        Value::Real(n) => real(*n),
        Value::Text(text) => visible(&String::from_utf8_lossy(text)),
        Value::Blob(bytes) => format!("x'{}'", data_encoding::HEXLOWER.encode(bytes)),
    }
}

/// SQLite has no NaN; an infinity is written as the number beyond all doubles that JSON can spell.
fn real(n: f64) -> String {
    if n.is_finite() { format!("{n:?}") } else { format!("{}9e999", if n < 0.0 { "-" } else { "" }) }
}

/// Rows for a program that reads JSON.
struct Objects<'a> {
    screen: &'a mut Screen,
    keys: Vec<String>,
}

impl Rows for Objects<'_> {
    type Failure = Failure;

    fn columns(&mut self, names: &[&str]) -> Result<(), Failure> {
        for name in names {
            let mut key = (*name).to_owned();
            // An object that holds a key twice loses one in most readers.
            let mut number = 1;
            while self.keys.contains(&key) {
                number += 1;
                key = format!("{name}_{number}");
            }
            self.keys.push(key);
        }
        Ok(())
    }

    fn row(&mut self, values: &[Value<'_>]) -> Result<(), Failure> {
        let mut before = '{';
        for (key, value) in self.keys.iter().zip(values) {
            write!(self.screen, "{before}{}:", quoted(key))?;
            before = ',';
            match value {
                Value::Null => write!(self.screen, "null")?,
                Value::Text(text) => write!(self.screen, "{}", quoted(&String::from_utf8_lossy(text)))?,
                Value::Blob(_) => write!(self.screen, "{}", quoted(&text(value)))?,
                Value::Integer(_) | Value::Real(_) => write!(self.screen, "{}", text(value))?,
            }
        }
        Ok(writeln!(self.screen, "}}")?)
    }
}

fn quoted(text: &str) -> String {
    harmless(&serde_json::Value::from(text).to_string())
}
