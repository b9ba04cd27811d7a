//! The file itself: pages, indexes, triggers and views, and what lies beside it.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use rusqlite::{Connection, ErrorCode};

use super::super::failure::Context;
use super::super::side_files::beside;
use super::super::{Database, schema};
use crate::seam::{Fault, FaultKind, Result};

/// The most problems of its pages that SQLite is asked for.
const MOST_PROBLEMS: usize = 100;

/// A larger WAL is told of, in bytes. A checkpoint that nobody hinders keeps it at about 4 MiB.
const LARGE_WAL: u64 = 64 << 20;

/// What the tables of this store's schema hold.
const EVENTS: &str = "events";
const SESSIONS: &str = "sessions";

const RECOVER: &str = "copy the file away with its -wal, then restore a backup, or copy the sessions that can be read \
                       into a new store";
const COPY: &str = "copy the sessions into a new store";

impl Database {
    /// Looks for triggers, indexes and views that are not what this build makes.
    pub(super) fn check_schema(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        let context = self.context();
        let mut fresh = Connection::open_in_memory().map_err(|e| context.sqlite(e))?;
        schema::create(&mut fresh, &context)?;
        let expected = objects(&fresh).map_err(|e| context.sqlite(e))?;
        let look = |view: &Connection| Ok((schema::identity(view)?.1, objects(view)?));
        let (version, stored) = self.read(&context, |view| look(view).map_err(|e| context.sqlite(e)))?;
        for ((kind, name), sql) in &expected {
            let (what, advice) = match stored.get(&(kind.clone(), name.clone())) {
                Some(same) if same == sql => continue,
                // Where it is read as it is.
                None if version < schema::VERSION && kind == "index" => continue,
                Some(_) => ("is not what it was made as", "drop it and run its statement of schema.sql"),
                None => ("is missing", "run its statement of schema.sql"),
            };
            let matters = match &**kind {
                "trigger" => ", so that other programs can change what is stored",
                "index" => ", so that lists are slow or wrong",
                _ => "",
            };
            let reason = format!("the {kind} {name} {what}{matters}");
            let advice = format!("{advice} with sqlite3, or {COPY}");
            found(Fault::new(FaultKind::Structure, reason, advice));
        }
        Ok(())
    }

    /// Lets SQLite check its own pages and indexes.
    pub(super) fn check_pages(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        let context = self.context();
        let problems = self.read(&context, |view| {
            let mut problems = Vec::new();
            match find_problems(view, &mut problems) {
                Ok(()) => {}
                Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                    problems.push(format!("the check cannot go on: {e}"));
                }
                Err(e) => return Err(context.sqlite(e)),
            }
            let roots = if problems.is_empty() { Ok(HashMap::new()) } else { roots(view) };
            let roots = roots.map_err(|e| context.sqlite(e))?;
            Ok(problems.into_iter().map(|problem| told(&problem, &roots)).collect::<Vec<_>>())
        })?;
        let is_cut = problems.len() >= MOST_PROBLEMS;
        problems.into_iter().for_each(&mut *found);
        if is_cut {
            let reason = format!("SQLite was asked for {MOST_PROBLEMS} problems, and there may be more than these");
            found(Fault::new(FaultKind::Structure, reason, RECOVER));
        }
        Ok(())
    }

    /// Looks for rows of the user's own tables that refer to rows that are not there; ours are looked at one by one.
    pub(super) fn check_references(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        let context = self.context();
        let broken = self.read(&context, |view| broken_references(view, &context))?;
        for (table, count) in broken {
            let reason = format!("{count} rows of the table {table} refer to rows that are not there");
            found(Fault::new(FaultKind::Structure, reason, "change these rows; `PRAGMA foreign_key_check` lists them"));
        }
        Ok(())
    }

    /// Looks for a WAL that no checkpoint could give back.
    pub(super) fn check_wal(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        if self.is_in_memory() {
            return Ok(());
        }
        let size = match fs::metadata(beside(&self.path, "-wal")) {
            Ok(wal) => wal.len(),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => 0,
            Err(e) => return Err(self.context().io("looking at the -wal of", e)),
        };
        if size > LARGE_WAL {
            let reason = format!("the -wal has {size} bytes: a program that reads for long holds it");
            let advice = "find the program and close it; the room is used again, and given back when all have closed";
            found(Fault::new(FaultKind::Leftover, reason, advice));
        }
        Ok(())
    }
}

/// The triggers, views and indexes of a database, by kind and name, with their text but for its white space. Tables are
/// not told: the text of one that was migrated is another.
fn objects(connection: &Connection) -> rusqlite::Result<BTreeMap<(String, String), String>> {
    let mut objects = connection.prepare(
        "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('trigger', 'view', 'index') AND sql IS NOT NULL",
    )?;
    let rows = objects.query_map([], |row| {
        let sql: String = row.get(2)?;
        Ok(((row.get(0)?, row.get(1)?), sql.split_whitespace().collect::<Vec<_>>().join(" ")))
    })?;
    rows.collect()
}

fn find_problems(view: &Connection, problems: &mut Vec<String>) -> rusqlite::Result<()> {
    let mut check = view.prepare(&format!("PRAGMA integrity_check({MOST_PROBLEMS})"))?;
    let mut rows = check.query([])?;
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        // The problems of one tree may come in one row.
        problems
            .extend(text.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "ok").map(str::to_owned));
    }
    Ok(())
}

/// The tables and indexes of a database by the page that their tree starts at, with the kind of each.
fn roots(view: &Connection) -> rusqlite::Result<HashMap<u64, (String, String)>> {
    let mut roots = view.prepare("SELECT rootpage, type, name FROM sqlite_schema WHERE rootpage > 0")?;
    let rows = roots.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    rows.collect()
}

/// A problem that SQLite tells, with what it is about: whether it is what was stored, or follows from it.
fn told(problem: &str, roots: &HashMap<u64, (String, String)>) -> Fault {
    let tree = problem.split_once("Tree ").and_then(|(_, rest)| rest.split([' ', ':']).next()?.parse::<u64>().ok());
    let of_index = || {
        let (_, name) = problem.rsplit_once(" index ")?;
        roots.values().find(|(kind, index)| kind == "index" && index == name)
    };
    let (matter, advice) = match tree.and_then(|tree| roots.get(&tree)).or_else(of_index) {
        Some((kind, name)) if kind == "table" && name == EVENTS => (" (in the events)".to_owned(), RECOVER),
        Some((kind, name)) if kind == "table" && name == SESSIONS => (" (in the sessions)".to_owned(), RECOVER),
        Some((_, name)) => (format!(" (in {name}, which is derived: the events are not affected)"), COPY),
        None => (String::new(), RECOVER),
    };
    Fault::new(FaultKind::Structure, format!("SQLite finds: {problem}{matter}"), advice)
}

/// How many rows of which tables refer to rows that are not there.
fn broken_references(view: &Connection, context: &Context<'_>) -> Result<Vec<(String, u64)>> {
    let count = || -> rusqlite::Result<Vec<(String, u64)>> {
        let mut check = view.prepare(
            "SELECT \"table\", count(*) FROM pragma_foreign_key_check WHERE \"table\" <> 'session_types' GROUP BY 1",
        )?;
        let rows = check.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    };
    match count() {
        Ok(broken) => Ok(broken),
        // The user's own tables may refer to what never was one, and the pages were checked before.
        Err(e) if matches!(e.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::Unknown)) => {
            log::debug!("the references were not checked: {e}");
            Ok(Vec::new())
        }
        Err(e) => Err(context.sqlite(e)),
    }
}
