//! Reading: every function works in the one view that it is given.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::runtime::{Listed, Slice, Stored};
use super::failure::{Context, corruption};
use super::row::{self, SessionKey};
use crate::log::{Seq, SessionHeader, SessionId, Vocabulary};
use crate::seam::{Error, ListOrder, Position, Result, Revision, SeqRange, Snapshot, checks};

const FIND: &str = "SELECT number, incarnation, header, header_checksum, inherited_count FROM sessions WHERE id = ?1";

const LOG: &str = "SELECT incarnation, event_count, version FROM sessions WHERE number = ?1";

const TYPES: &str = "SELECT type, first_seq FROM session_types WHERE session = ?1";

macro_rules! snapshot_query {
    ($rest:literal) => {
        concat!(
            "SELECT id, incarnation, header, header_checksum, event_count, size_bytes, last_time, revision, chain, ",
            "activity, created_at, (SELECT store_id FROM store) FROM sessions ",
            $rest
        )
    };
}

const STAT: &str = snapshot_query!("WHERE id = ?1");

const BY_ACTIVITY: &str = snapshot_query!("WHERE activity < ?1 ORDER BY activity DESC LIMIT ?2");

/// Behind a place in the order of creation come first the rest of its tie, then everything older: two ranges of one index.
const CREATED_TOGETHER: &str = snapshot_query!("WHERE created_at = ?1 AND id > ?2 ORDER BY id LIMIT ?3");

const CREATED_BEFORE: &str = snapshot_query!("WHERE created_at < ?1 ORDER BY created_at DESC, id LIMIT ?2");

/// Every statement that reads, for the tests that look at how SQLite runs them.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 8] =
    [FIND, LOG, TYPES, STAT, BY_ACTIVITY, CREATED_TOGETHER, CREATED_BEFORE, row::SLICE];

pub(super) fn find(view: &Connection, id: &SessionId, context: &Context<'_>) -> Result<Option<Stored<SessionKey>>> {
    let mut statement = view.prepare_cached(FIND).map_err(|e| context.sqlite(e))?;
    let mut rows = statement.query([id.as_str()]).map_err(|e| context.sqlite(e))?;
    let Some(found) = rows.next().map_err(|e| context.sqlite(e))? else { return Ok(None) };
    let incarnation = column(found, 1, context)?;
    let line: String = column(found, 2, context)?;
    let header = row::header(&line, column(found, 3, context)?, id.as_str(), incarnation)
        .map_err(|reason| corruption(id, None, reason))?;
    let key = SessionKey::new(column(found, 0, context)?, incarnation, &header);
    Ok(Some(Stored { key, header, inherited: column(found, 4, context)? }))
}

/// What a read needs to know of a session first.
pub(super) struct Log {
    count: u64,
    version: u32,
}

/// Looks up the session of a key; `NotFound` when it was removed, or removed and made anew.
pub(super) fn log(view: &Connection, id: &SessionId, key: &SessionKey, context: &Context<'_>) -> Result<Log> {
    let mut statement = view.prepare_cached(LOG).map_err(|e| context.sqlite(e))?;
    let found = statement
        .query_row([key.number], |row| Ok((row.get::<_, i64>(0)?, Log { count: row.get(1)?, version: row.get(2)? })))
        .optional()
        .map_err(|e| context.sqlite(e))?;
    match found {
        Some((incarnation, log)) if incarnation == key.incarnation => Ok(log),
        _ => Err(Error::NotFound { session: id.clone() }),
    }
}

pub(super) fn check_interpretable(
    view: &Connection,
    id: &SessionId,
    key: &SessionKey,
    log: &Log,
    vocabulary: &Vocabulary,
    context: &Context<'_>,
) -> Result<()> {
    checks::check_version(id, log.version, vocabulary)?;
    let mut statement = view.prepare_cached(TYPES).map_err(|e| context.sqlite(e))?;
    let rows = statement
        .query_map([key.number], |row| Ok((row.get::<_, String>(0)?, row.get::<_, u64>(1)?)))
        .map_err(|e| context.sqlite(e))?;
    let types = rows.collect::<Result<Vec<_>, _>>().map_err(|e| context.sqlite(e))?;
    let types = types.iter().filter_map(|(name, seq)| Some((name.as_str(), Seq::new(*seq)?)));
    checks::check_types(id, types, vocabulary)
}

pub(super) fn read(
    view: &Connection,
    id: &SessionId,
    key: &SessionKey,
    range: SeqRange,
    vocabulary: Option<&Vocabulary>,
    context: &Context<'_>,
) -> Result<Slice> {
    let log = log(view, id, key, context)?;
    if let Some(vocabulary) = vocabulary {
        check_interpretable(view, id, key, &log, vocabulary, context)?;
    }
    let wanted = range.within(log.count);
    let mut events = Vec::with_capacity((wanted.end - wanted.start) as usize);
    let mut statement = view.prepare_cached(row::SLICE).map_err(|e| context.sqlite(e))?;
    let bounds = [key.row(wanted.start), key.row(wanted.end)];
    let mut rows = statement.query(bounds).map_err(|e| context.sqlite(e))?;
    let mut line = String::new();
    let mut seq = wanted.start;
    while let Some(found) = rows.next().map_err(|e| context.sqlite(e))? {
        events.push(row::event(found, id, seq, key, &mut line)?);
        seq += 1;
    }
    if seq < wanted.end {
        return Err(corruption(id, Some(seq), format!("its row is missing, of {} that are counted", log.count)));
    }
    Ok(Slice { events, count: log.count })
}

pub(super) fn stat(
    view: &Connection,
    id: &SessionId,
    vocabulary: &Vocabulary,
    context: &Context<'_>,
) -> Result<Option<Snapshot>> {
    let mut statement = view.prepare_cached(STAT).map_err(|e| context.sqlite(e))?;
    let mut rows = statement.query([id.as_str()]).map_err(|e| context.sqlite(e))?;
    match rows.next().map_err(|e| context.sqlite(e))? {
        Some(found) => Ok(Some(snapshot(found, vocabulary, context)?)),
        None => Ok(None),
    }
}

pub(super) fn list(
    view: &Connection,
    order: ListOrder,
    after: Option<&Position>,
    limit: Option<usize>,
    vocabulary: &Vocabulary,
    context: &Context<'_>,
) -> Result<Vec<Listed>> {
    let mut listed = Vec::new();
    let limit = limit.map_or(i64::MAX, |n| i64::try_from(n).unwrap_or(i64::MAX));
    // Created but not stored sessions stand before all stored ones, at keys beyond SQLite's integers.
    let key = after.map_or(i64::MAX, |a| i64::try_from(a.key).unwrap_or(i64::MAX));
    let mut add = |statement: &str, arguments: &[&dyn rusqlite::ToSql]| -> Result<()> {
        let mut statement = view.prepare_cached(statement).map_err(|e| context.sqlite(e))?;
        let mut rows = statement.query(arguments).map_err(|e| context.sqlite(e))?;
        while let Some(found) = rows.next().map_err(|e| context.sqlite(e))? {
            let snapshot = snapshot(found, vocabulary, context)?;
            let key = match order {
                ListOrder::Activity => snapshot.activity,
                ListOrder::Created => column(found, 10, context)?,
            };
            listed.push(Listed { key, snapshot });
        }
        Ok(())
    };
    match order {
        ListOrder::Activity => add(BY_ACTIVITY, params![key, limit])?,
        ListOrder::Created => {
            if let Some(place) = after {
                add(CREATED_TOGETHER, params![key, place.id.as_str(), limit])?;
            }
            add(CREATED_BEFORE, params![key, limit])?;
            if let Ok(limit) = usize::try_from(limit) {
                listed.truncate(limit);
            }
        }
    }
    Ok(listed)
}

fn snapshot(found: &Row<'_>, vocabulary: &Vocabulary, context: &Context<'_>) -> Result<Snapshot> {
    let id: String = column(found, 0, context)?;
    let incarnation: i64 = column(found, 1, context)?;
    let (revision, chain): (i64, i64) = (column(found, 7, context)?, column(found, 8, context)?);
    let store: String = column(found, 11, context)?;
    let revision = Revision::new(format!("{store}:{incarnation:x}:{revision}:{chain:x}"));
    let line: String = column(found, 2, context)?;
    let header: Result<SessionHeader, String> = row::header(&line, column(found, 3, context)?, &id, incarnation);
    let mut snapshot = match header {
        Ok(header) => Snapshot::new(header, revision, vocabulary),
        Err(reason) => {
            let id = SessionId::new(&id)
                .map_err(|e| context.unsupported(format!("a session has an id that none can have: {e}"), None))?;
            Snapshot::damaged(id, reason, revision)
        }
    };
    snapshot.event_count = Some(column(found, 4, context)?);
    snapshot.size_bytes = Some(column(found, 5, context)?);
    snapshot.last_time = column(found, 6, context)?;
    snapshot.activity = column(found, 9, context)?;
    Ok(snapshot)
}

fn column<T: rusqlite::types::FromSql>(row: &Row<'_>, index: usize, context: &Context<'_>) -> Result<T> {
    row.get(index).map_err(|e| match e {
        // The tables are STRICT: a value of another type, or text that is not UTF-8, was put there behind SQLite's back.
        rusqlite::Error::FromSqlConversionFailure(
            _,
            Type::Null | Type::Text | Type::Integer | Type::Real | Type::Blob,
            _,
        )
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..) => {
            context.unsupported(format!("the row of a session has been changed: {e}"), Some(e.into()))
        }
        other => context.sqlite(other),
    })
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    /// How SQLite runs a statement, a line a step.
    fn plan(connection: &Connection, statement: &str) -> Vec<String> {
        let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let parameters = explained.parameter_count();
        let arguments = rusqlite::params_from_iter(vec![1; parameters]);
        explained.query_map(arguments, |row| row.get("detail")).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn every_reading_statement_searches_an_index_and_sorts_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::create(&mut connection, &Context::store(std::path::Path::new(":memory:"))).unwrap();
        for statement in STATEMENTS {
            let plan = plan(&connection, statement);
            let steps: Vec<_> = plan.iter().filter(|step| *step != "SCAN store").collect();
            let searches = |step: &&&String| step.starts_with("SEARCH ") && step.contains(" USING ");
            assert_eq!(steps.iter().filter(searches).count(), 1, "{statement}: {plan:?}");
            for step in &steps {
                assert!(searches(&step) || step.starts_with("SCALAR SUBQUERY"), "{statement}: {plan:?}");
            }
        }
    }

    #[test]
    fn no_list_and_no_stat_touches_the_events() {
        for statement in [STAT, BY_ACTIVITY, CREATED_TOGETHER, CREATED_BEFORE, FIND] {
            assert!(!statement.contains("events") && !statement.contains("session_"), "{statement}");
        }
    }

    #[test]
    fn the_views_read_the_events_of_the_session_that_is_asked_for() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::create(&mut connection, &Context::store(std::path::Path::new(":memory:"))).unwrap();
        for view in ["session_events", "session_turns", "session_tool_calls", "session_messages"] {
            let plan = plan(&connection, &format!("SELECT * FROM {view} WHERE session_id = 's'"));
            assert!(plan.iter().any(|s| s.contains("SEARCH s USING") && s.contains("id=?")), "{view}: {plan:?}");
            assert!(plan.iter().all(|s| !s.starts_with("SCAN") && !s.contains("TEMP B-TREE")), "{view}: {plan:?}");
        }
    }
}
