//! [`StatisticsRow`]: what happened in all sessions together.

use rusqlite::Row;

use super::IndexResult;
use super::file::IndexFile;
use crate::log::SessionId;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// How often something happened. No number grows past 2^63 - 1.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            pub(super) const COLUMNS: &'static [&'static str] = &[$(stringify!($name)),*];

            pub(super) fn add(&mut self, other: &Self) {
                // SQLite has 63 bits, and a producer may claim any number.
                $(self.$name = self.$name.saturating_add(other.$name).min(i64::MAX as u64);)*
            }

            pub(super) fn values(&self) -> Vec<i64> {
                vec![$(self.$name.cast_signed()),*]
            }

            /// From the columns of a row, from the one at `first` on.
            pub(super) fn read(row: &Row<'_>, first: usize) -> Result<Self, rusqlite::Error> {
                let mut column = first..;
                let mut next = || row.get::<_, u64>(column.next().unwrap_or_default());
                Ok(Self { $($name: next()?,)* })
            }
        }
    };
}

counts! {
    /// Events of any type.
    events,
    /// Messages of a person.
    user_messages,
    /// Turns that were started.
    turns,
    /// Steps that were started.
    steps,
    /// Calls of tools.
    tool_calls,
    /// Results of tools that name an error.
    tool_errors,
    /// Turns that ended with an error.
    turn_errors,
    /// Tokens that models read, as they were told with messages, summaries of compactions, and attempts that came to no
    /// message. The events of attempts name no model.
    input_tokens,
    /// Tokens that models wrote.
    output_tokens,
    /// Tokens that were read from a cache.
    cache_read_tokens,
    /// Tokens that were written to a cache.
    cache_write_tokens,
    /// Tokens that models thought with.
    reasoning_tokens,
}

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
    /// How many sessions have something in it.
    pub sessions: u64,
    /// What happened in it.
    pub counts: Counts,
}

/// What happened in all sessions; how many are indexed, those included in which nothing happened.
pub(super) fn total(file: &IndexFile) -> IndexResult<StatisticsRow> {
    file.filled()?;
    let read = || {
        let view = file.connection.unchecked_transaction()?;
        let sessions = view.query_row("SELECT count(*) FROM session", [], |row| row.get(0))?;
        let mut counts = Counts::default();
        let sql = format!("SELECT {} FROM count WHERE is_inherited = 0", Counts::COLUMNS.join(", "));
        let mut statement = view.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            counts.add(&Counts::read(row, 0)?);
        }
        Ok(StatisticsRow { key: String::new(), sessions, counts })
    };
    read().map_err(|e| file.failure(&e))
}

/// What sessions inherited from others that are not indexed.
pub(super) fn inherited_from_absent(file: &IndexFile) -> IndexResult<StatisticsRow> {
    file.filled()?;
    let sql = format!(
        "SELECT number, count.{} FROM count JOIN session ON number = session \
         WHERE is_inherited = 1 AND (parent IS NULL OR parent NOT IN (SELECT id FROM session)) ORDER BY number",
        Counts::COLUMNS.join(", count.")
    );
    let read = || {
        let (mut found, mut last) =
            (StatisticsRow { key: String::new(), sessions: 0, counts: Counts::default() }, None);
        let mut statement = file.connection.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            found.sessions += u64::from(last.replace(number) != Some(number));
            found.counts.add(&Counts::read(row, 1)?);
        }
        Ok(found)
    };
    read().map_err(|e| file.failure(&e))
}

/// The sessions of which not all is indexed, by id, and why.
pub(super) fn problems(file: &IndexFile) -> IndexResult<Vec<(SessionId, String)>> {
    file.filled()?;
    let read = || {
        let sql = "SELECT id, problem FROM session WHERE problem IS NOT NULL ORDER BY id";
        let mut statement = file.connection.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
        rows.collect::<Result<Vec<(String, String)>, _>>()
    };
    let rows = read().map_err(|e| file.failure(&e))?;
    let named = rows.into_iter().map(|(id, problem)| Some((SessionId::new(&id).ok()?, problem)));
    named.collect::<Option<_>>().ok_or_else(|| file.damaged("it names a session with what is no id".to_owned()))
}

pub(super) fn statistics(file: &IndexFile, by: GroupBy) -> IndexResult<Vec<StatisticsRow>> {
    file.filled()?;
    let key = match by {
        GroupBy::Day => "strftime('%Y-%m-%d', day * 86400, 'unixepoch')",
        GroupBy::Cwd => "cwd",
        GroupBy::Model => "iif(provider = '' AND model = '', '', provider || '/' || model)",
        GroupBy::Session => "id",
    };
    let order = if by == GroupBy::Day { "day" } else { "1" };
    // Added up here: a sum of SQLite fails where it grows too large.
    let sql = format!(
        "SELECT coalesce({key}, ''), number, count.{} FROM count JOIN session ON number = session \
         WHERE is_inherited = 0 ORDER BY {order}, number",
        Counts::COLUMNS.join(", count.")
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
