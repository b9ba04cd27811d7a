//! [`StatisticsRow`]: what happened in all sessions together.

use super::file::IndexFile;
use super::{Counts, IndexResult};

/// By what statistics are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupBy {
    /// The day in UTC, as `2026-01-31`, the earliest first.
    Day,
    /// The working folder, by name; empty where a session has none.
    Cwd,
    /// Provider and model, as `provider/model`, by name; empty for what no model did.
    Model,
    /// The session, by id.
    Session,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatisticsRow {
    /// What the group has in common.
    pub key: String,
    /// How many sessions it is of; grouped by day or model, only those with something in it.
    pub sessions: u64,
    /// What happened in it.
    pub counts: Counts,
}

/// What is added up.
struct Sum {
    /// What the groups have in common, in the order of `order`.
    key: &'static str,
    order: &'static str,
    /// Sessions with their counts: with a `LEFT JOIN` those without any too.
    join: &'static str,
    is_inherited: bool,
    condition: String,
}

/// Sessions of which something is known.
const INDEXED: &str = "(problem IS NULL OR session.events > 0)";

pub(super) fn statistics(file: &IndexFile, by: GroupBy) -> IndexResult<Vec<StatisticsRow>> {
    let (join, key, order) = match by {
        GroupBy::Day => ("JOIN", "strftime('%Y-%m-%d', day * 86400, 'unixepoch')", "day"),
        GroupBy::Cwd => ("LEFT JOIN", "cwd", "1"),
        GroupBy::Model => ("JOIN", "iif(provider = '' AND model = '', '', provider || '/' || model)", "1"),
        GroupBy::Session => ("LEFT JOIN", "id", "1"),
    };
    Sum { key, order, join, is_inherited: false, condition: INDEXED.to_owned() }.rows(file)
}

/// What happened in all sessions, those included in which nothing happened.
pub(super) fn total(file: &IndexFile) -> IndexResult<StatisticsRow> {
    Sum { key: "''", order: "1", join: "LEFT JOIN", is_inherited: false, condition: INDEXED.to_owned() }.row(file)
}

/// What sessions inherited from others of which nothing is indexed.
pub(super) fn inherited_from_absent(file: &IndexFile) -> IndexResult<StatisticsRow> {
    let condition = format!("(parent IS NULL OR parent NOT IN (SELECT id FROM session WHERE {INDEXED}))");
    Sum { key: "''", order: "1", join: "JOIN", is_inherited: true, condition }.row(file)
}

impl Sum {
    fn row(&self, file: &IndexFile) -> IndexResult<StatisticsRow> {
        let none = StatisticsRow { key: String::new(), sessions: 0, counts: Counts::default() };
        Ok(self.rows(file)?.pop().unwrap_or(none))
    }

    fn rows(&self, file: &IndexFile) -> IndexResult<Vec<StatisticsRow>> {
        file.filled()?;
        let Self { key, order, join, is_inherited, condition } = self;
        let counts: Vec<_> = Counts::COLUMNS.iter().map(|name| format!("ifnull(count.{name}, 0)")).collect();
        // Added up here: a sum of SQLite fails where it grows too large.
        let sql = format!(
            "SELECT coalesce({key}, ''), number, {} FROM session \
             {join} count ON count.session = number AND is_inherited = {is_inherited} \
             WHERE {condition} ORDER BY {order}, number",
            counts.join(", ")
        );
        let read = || {
            let mut groups: Vec<StatisticsRow> = Vec::new();
            let mut last = None;
            let mut statement = file.connection.prepare_cached(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (key, number): (String, i64) = (row.get(0)?, row.get(1)?);
                if groups.last().is_none_or(|group| group.key != key) {
                    groups.push(StatisticsRow { key, sessions: 0, counts: Counts::default() });
                    last = None;
                }
                if let Some(group) = groups.last_mut() {
                    group.sessions += u64::from(last != Some(number));
                    group.counts.add(&Counts::read(row, 2)?);
                }
                last = Some(number);
            }
            Ok(groups)
        };
        read().map_err(|e| file.failure(&e))
    }
}
