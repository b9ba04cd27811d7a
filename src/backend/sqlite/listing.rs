//! [`list`]: the sessions that are wanted, found by the index that fits the filter.
//!
//! An index only has to find all that the filter lets through: what is told is what the filter lets through of the headers as
//! the crate reads them.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::iter;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::super::runtime::Wanted;
use super::failure::Context;
use super::reader::{Numbered, snapshot};
use super::session_row::session_query;
use crate::log::Vocabulary;
use crate::seam::{ListFilter, ListOrder, Result, StateKind};

const SELECT: &str = session_query!("");

/// The headers of which the generated columns may tell something else than the crate reads, as their index has it.
const TOLD_OTHERWISE: &str =
    r"(json_valid(header) = 0 OR instr(header, '\u0000') > 0 OR instr(lower(header), '\ud') > 0)";

/// So many sessions are sorted for a page rather than looked for in the order of the list, where one in so many may be
/// wanted.
const FEW: usize = 500;

/// For more values the index is not asked one by one.
const MOST_VALUES: usize = 16;

/// Where a part of the sessions is found: a condition with its values.
#[derive(Debug, Clone)]
struct Part {
    condition: String,
    values: Vec<Value>,
    /// Whether an index has them in the order of the list; else they are few, and sorted.
    is_ordered: bool,
}

impl Part {
    /// All.
    fn walk() -> Self {
        Self { condition: "TRUE".to_owned(), values: Vec::new(), is_ordered: true }
    }

    fn few(condition: impl Into<String>, values: impl IntoIterator<Item = Value>) -> Self {
        Self { condition: condition.into(), values: values.into_iter().collect(), is_ordered: false }
    }

    /// The statements that find it in order from a place on, with their arguments.
    fn statements(&self, wanted: &Wanted<'_>) -> Vec<(String, Vec<Value>)> {
        let condition = &self.condition;
        // A column behind a plus is not looked for in an index, which would be that of the order.
        let plus = if self.is_ordered { "" } else { "+" };
        let with = |more: &[Value]| self.values.iter().chain(more).cloned().collect::<Vec<_>>();
        let integer = |n| Value::Integer(as_integer(n));
        match wanted.order {
            ListOrder::Activity => {
                let highest = integer(wanted.after.as_ref().map_or(u64::MAX, |after| after.highest()));
                let sql = format!("{SELECT}WHERE {condition} AND {plus}activity <= ? ORDER BY {plus}activity DESC");
                vec![(sql, with(&[highest]))]
            }
            ListOrder::Created => {
                let ranges = wanted.filter.created().unwrap_or(&[]);
                let asks = wanted.filter.created().is_some();
                let lowest = ranges.iter().map(|range| *range.start()).min().map_or(i64::MIN, as_integer);
                let lowest = if asks && ranges.is_empty() { i64::MAX } else { lowest };
                let highest = ranges.iter().map(|range| *range.end()).max().map_or(i64::MAX, as_integer);
                let mut statements = Vec::new();
                // Behind a place come first the rest of its tie, then everything older: two ranges of one index.
                if let Some(after) = &wanted.after {
                    let sql = format!(
                        "{SELECT}WHERE {condition} AND {plus}created_at = ? AND {plus}id > ? ORDER BY {plus}id"
                    );
                    statements.push((sql, with(&[integer(after.key), Value::Text(after.id.to_string())])));
                }
                let below = wanted.after.as_ref().map_or(i64::MAX, |after| as_integer(after.key));
                let below = below.min(highest.saturating_add(1));
                let sql = format!(
                    "{SELECT}WHERE {condition} AND {plus}created_at < ? AND {plus}created_at >= ? \
                     ORDER BY {plus}created_at DESC, {plus}id"
                );
                statements.push((sql, with(&[Value::Integer(below), Value::Integer(lowest)])));
                statements
            }
        }
    }
}

fn as_integer(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A column by which an index finds sessions, with the values that are asked for.
struct Asked {
    column: &'static str,
    values: Vec<Option<Value>>,
    /// Whether the index has the sessions of one value in the order of activity too.
    has_activity: bool,
    /// Whether the index has those without a value.
    has_null: bool,
}

impl Asked {
    /// What a filter asks for that an index has, the most telling first.
    fn all(filter: &ListFilter) -> Vec<Self> {
        let text = |value: &Option<String>| value.clone().map(Value::Text);
        let of = |column, values| Self { column, values, has_activity: false, has_null: false };
        let mut all = Vec::new();
        all.extend(filter.parents().map(|parents| of("parent_session", parents.iter().map(text).collect())));
        all.extend(filter.cwds().map(|cwds| Self {
            has_activity: true,
            has_null: true,
            ..of("cwd", cwds.iter().map(text).collect())
        }));
        all.extend(filter.origins().map(|origins| {
            let name = |origin: &Option<_>| origin.map(|o: crate::log::Origin| Value::Text(o.as_str().to_owned()));
            of("origin", origins.iter().map(name).collect())
        }));
        let number = |version: u32| Some(Value::Integer(version.into()));
        all.extend(filter.versions().map(|versions| of("version", versions.iter().copied().map(number).collect())));
        all.retain(|asked| asked.has_null || !asked.values.contains(&None));
        all
    }

    /// One part a value.
    fn each(&self) -> Vec<Part> {
        let part = |value: &Option<Value>| match value {
            Some(value) => {
                Part { condition: format!("{} = ?", self.column), values: vec![value.clone()], is_ordered: true }
            }
            None => Part { condition: format!("{} IS NULL", self.column), values: Vec::new(), is_ordered: true },
        };
        self.values.iter().map(part).collect()
    }

    /// All values together.
    fn together(&self) -> Part {
        let column = self.column;
        let given = self.values.iter().flatten().cloned().map(|value| match value {
            Value::Text(text) => serde_json::Value::from(text),
            Value::Integer(n) => n.into(),
            _ => serde_json::Value::Null,
        });
        let given = Value::Text(serde_json::Value::from_iter(given).to_string());
        let listed = format!("{column} IN (SELECT value FROM json_each(?))");
        let condition = if self.values.contains(&None) { format!("({listed} OR {column} IS NULL)") } else { listed };
        Part::few(condition, [given])
    }
}

/// The parts in which all stand that a filter may let through; with `owned`, the numbers of the sessions that may have a
/// writer as far as the store knows, only those.
fn parts(view: &Connection, wanted: &Wanted<'_>, owned: Option<&HashSet<i64>>) -> rusqlite::Result<Vec<Part>> {
    let filter = wanted.filter;
    let ids = |ids: &mut dyn Iterator<Item = &str>| {
        let ids = Value::Text(serde_json::Value::from_iter(ids).to_string());
        Part::few("id IN (SELECT value FROM json_each(?))", [ids])
    };
    if let Some(asked) = filter.ids() {
        return Ok(vec![ids(&mut asked.iter().map(|id| id.as_str()))]);
    }
    if let Some(owned) = owned {
        let numbers = Value::Text(serde_json::Value::from_iter(owned.iter().copied()).to_string());
        let locked = Part::few("number IN (SELECT value FROM json_each(?))", [numbers]);
        return Ok(vec![locked, ids(&mut wanted.claimed.keys().map(|id| id.as_str()))]);
    }
    let told_otherwise = || Part::few(TOLD_OTHERWISE, []);
    for asked in Asked::all(filter) {
        let is_ordered = wanted.order == ListOrder::Created || asked.has_activity;
        if is_ordered && asked.values.len() <= MOST_VALUES {
            return Ok(asked.each().into_iter().chain(iter::once(told_otherwise())).collect());
        }
        let part = asked.together();
        if is_few(view, &part)? {
            return Ok(vec![part, told_otherwise()]);
        }
    }
    if let Some(part) = of_states(filter, wanted.vocabulary)
        && is_few(view, &part)?
    {
        return Ok(vec![part, told_otherwise()]);
    }
    if wanted.order == ListOrder::Activity
        && let Some(ranges) = filter.created()
    {
        let lowest = ranges.iter().map(|range| as_integer(*range.start())).min().unwrap_or(i64::MAX);
        let highest = ranges.iter().map(|range| as_integer(*range.end())).max().unwrap_or(i64::MIN);
        let part = Part::few("created_at BETWEEN ? AND ?", [Value::Integer(lowest), Value::Integer(highest)]);
        if is_few(view, &part)? {
            return Ok(vec![part]);
        }
    }
    Ok(vec![Part::walk()])
}

/// The sessions in the states that are asked for, where their versions tell.
fn of_states(filter: &ListFilter, vocabulary: &Vocabulary) -> Option<Part> {
    let pieces = filter.states()?.iter().map(|state| match state {
        StateKind::Readable => Some(Some("version = ?")),
        StateKind::NewerFormat => Some(Some("version > ?")),
        StateKind::OlderFormat => Some(Some("version < ?")),
        // Such are never stored.
        StateKind::Pending => Some(None),
        StateKind::Damaged => None,
    });
    let pieces: Vec<_> = pieces.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
    let condition = if pieces.is_empty() { "FALSE".to_owned() } else { format!("({})", pieces.join(" OR ")) };
    Some(Part::few(condition, pieces.iter().map(|_| Value::Integer(vocabulary.version().into()))))
}

/// Whether so few sessions are in a part that sorting them is cheap.
fn is_few(view: &Connection, part: &Part) -> rusqlite::Result<bool> {
    let sql = format!("SELECT 1 FROM sessions WHERE {} LIMIT {}", part.condition, FEW + 1);
    let mut statement = view.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(&part.values))?;
    let mut count = 0;
    while rows.next()?.is_some() {
        count += 1;
    }
    Ok(count <= FEW)
}

/// The sessions that are wanted, in the order of the list and with their keys in it, as far as they are let through.
pub(super) fn list(
    view: &Connection,
    wanted: &Wanted<'_>,
    owned: Option<&HashSet<i64>>,
    context: &Context<'_>,
    let_through: impl Fn(&mut Numbered) -> Result<bool>,
) -> Result<Vec<(u64, Numbered)>> {
    let failed = |e| context.sqlite(e);
    let parts = parts(view, wanted, owned).map_err(failed)?;
    let mut seen = HashSet::new();
    let mut listed = Vec::with_capacity(wanted.most().min(FEW));
    for part in &parts {
        let mut count = 0;
        for (sql, arguments) in part.statements(wanted) {
            let mut statement = view.prepare_cached(&sql).map_err(failed)?;
            let mut rows = statement.query(params_from_iter(&arguments)).map_err(failed)?;
            while count < wanted.most()
                && let Some(found) = rows.next().map_err(failed)?
            {
                let place = match wanted.order {
                    ListOrder::Activity => found.get(12),
                    ListOrder::Created => found.get(3),
                };
                // The index holds numbers only; a row that has become something else is told with the last ones.
                let key = place.unwrap_or(0);
                let mut told = snapshot(found, wanted.vocabulary, context)?;
                // Such a row must not be listed on every page again.
                if wanted.is_behind(key, &told.snapshot.id) && let_through(&mut told)? {
                    count += 1;
                    // It may stand in several parts.
                    if parts.len() == 1 || seen.insert(told.number) {
                        listed.push((key, told));
                    }
                }
            }
        }
    }
    let place = |listed: &(u64, Numbered)| (Reverse(listed.0), listed.1.snapshot.id.clone());
    if !listed.is_sorted_by_key(place) {
        listed.sort_by_cached_key(place);
    }
    listed.truncate(wanted.most());
    Ok(listed)
}

#[cfg(test)]
mod tests;
