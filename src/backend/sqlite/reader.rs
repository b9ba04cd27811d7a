//! Reading: every function works in the one view that it is given.

use std::ops::Range;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::super::runtime::{Slice, Stored};
use super::failure::{Context, corruption};
use super::row::{self, MAX_EVENTS, SessionKey, event_columns};
use super::session_row::{STORE_ID, SessionRow, session_columns, session_query, type_checksum};
use crate::log::{LogDigest, Seq, SessionId, Vocabulary};
use crate::seam::{Error, Result, Revision, SeqRange, Snapshot, checks};

const BY_ID: &str = session_query!("WHERE id = ?1");

const CONTAINS: &str = "SELECT 1 FROM sessions WHERE id = ?1";

const BY_NUMBER: &str = session_query!("WHERE number = ?1");

const TYPES: &str = "SELECT type, first_seq FROM session_types WHERE session = ?1";

/// The row of a session, marked in a column of its own, and behind it the rows of a range of keys: in one statement they are
/// of one state of the database.
const LOG: &str = concat!(
    "SELECT ",
    session_columns!(),
    ", 1 FROM sessions WHERE number = ?1 UNION ALL SELECT ",
    event_columns!(),
    ", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM events WHERE key >= ?2 AND key < ?3"
);

/// The place of the mark.
const IS_SESSION: usize = 17;

/// Every statement that reads, for the tests that look at how SQLite runs them, with the number of tables that it reads.
#[cfg(test)]
pub(super) const STATEMENTS: [(&str, usize); 6] =
    [(CONTAINS, 1), (BY_ID, 1), (BY_NUMBER, 1), (TYPES, 1), (row::SLICE, 1), (LOG, 2)];

/// Whether an id is taken.
pub(super) fn contains(view: &Connection, id: &SessionId) -> Result<bool, rusqlite::Error> {
    view.prepare_cached(CONTAINS)?.exists([id.as_str()])
}

pub(super) fn find(view: &Connection, id: &SessionId, context: &Context<'_>) -> Result<Option<Stored<SessionKey>>> {
    let mut statement = view.prepare_cached(BY_ID).map_err(|e| context.sqlite(e))?;
    let mut rows = statement.query([id.as_str()]).map_err(|e| context.sqlite(e))?;
    let Some(found) = rows.next().map_err(|e| context.sqlite(e))? else { return Ok(None) };
    let damaged = |reason| corruption(id, None, reason);
    let row = SessionRow::read(found).map_err(damaged)?;
    let header = row.header().map_err(damaged)?;
    let key = SessionKey::new(row.number, row.incarnation, &header);
    Ok(Some(Stored { key, header, inherited: row.inherited }))
}

/// The row of the session of a key; `NotFound` when it was removed, or removed and made anew.
pub(super) fn session(
    view: &Connection,
    id: &SessionId,
    key: &SessionKey,
    context: &Context<'_>,
) -> Result<SessionRow<'static>> {
    let mut statement = view.prepare_cached(BY_NUMBER).map_err(|e| context.sqlite(e))?;
    let mut rows = statement.query([key.number]).map_err(|e| context.sqlite(e))?;
    let Some(found) = rows.next().map_err(|e| context.sqlite(e))? else {
        return Err(Error::NotFound { session: id.clone() });
    };
    let row = SessionRow::read(found).map_err(|reason| corruption(id, None, reason))?;
    if row.incarnation == key.incarnation { Ok(row.into_owned()) } else { Err(Error::NotFound { session: id.clone() }) }
}

pub(super) fn check_interpretable(
    view: &Connection,
    id: &SessionId,
    key: &SessionKey,
    row: &SessionRow<'_>,
    vocabulary: &Vocabulary,
    context: &Context<'_>,
) -> Result<()> {
    if key.is_interpretable(row.types_checksum) {
        return Ok(());
    }
    checks::check_version(id, key.version, vocabulary)?;
    let mut statement = view.prepare_cached(TYPES).map_err(|e| context.sqlite(e))?;
    let mut rows = statement.query([row.number]).map_err(|e| context.sqlite(e))?;
    // Most types are known: of those nothing is kept.
    let mut unknown = Vec::new();
    let mut checksum = 0_i64;
    while let Some(found) = rows.next().map_err(|e| context.sqlite(e))? {
        let noted = (found.get_ref(0).map(|name| name.as_str()), found.get::<_, u64>(1));
        let (Ok(Ok(event_type)), Ok(first_seq)) = noted else {
            return Err(corruption(id, None, "a type that is noted of it cannot be read"));
        };
        checksum = checksum.wrapping_add(type_checksum(event_type, first_seq, row.incarnation));
        if !vocabulary.knows(event_type) {
            unknown.extend(Seq::new(first_seq).map(|seq| (event_type.to_owned(), seq)));
        }
    }
    if checksum != row.types_checksum {
        return Err(corruption(id, None, "the types that are noted of it do not match their checksum"));
    }
    checks::check_types(id, unknown.iter().map(|(name, seq)| (name.as_str(), *seq)), vocabulary)?;
    key.note_interpretable(checksum);
    Ok(())
}

/// What came of reading a part of a log.
pub(super) enum Part {
    Read(Slice),
    /// It was not read: these are more events than were wanted at once.
    Long(Range<u64>),
}

/// Reads a part of a log, of at most so many events; nothing where its session is not let through.
pub(super) fn read(
    view: &Connection,
    id: &SessionId,
    key: &SessionKey,
    range: SeqRange,
    most: u64,
    let_through: impl Fn(&SessionRow<'_>) -> Result<bool>,
    context: &Context<'_>,
) -> Result<Option<Part>> {
    let possible = range.within(MAX_EVENTS);
    let bounds = [key.number, key.row(possible.start), key.row(possible.end)];
    let mut statement = view.prepare_cached(LOG).map_err(|e| context.sqlite(e))?;
    let mut rows = statement.query(bounds).map_err(|e| context.sqlite(e))?;
    let gone = || Error::NotFound { session: id.clone() };
    let found = rows.next().map_err(|e| context.sqlite(e))?.ok_or_else(gone)?;
    if found.get_ref(IS_SESSION).map_err(|e| context.sqlite(e))? == ValueRef::Null {
        return Err(gone());
    }
    let session = SessionRow::read(found).map_err(|reason| corruption(id, None, reason))?;
    if session.incarnation != key.incarnation {
        return Err(gone());
    }
    if !let_through(&session)? {
        return Ok(None);
    }
    let count = session.events;
    let wanted = range.within(count);
    if wanted.end - wanted.start > most {
        return Ok(Some(Part::Long(wanted)));
    }
    let mut events = Vec::with_capacity((wanted.end - wanted.start) as usize);
    let mut line = String::new();
    for seq in wanted {
        let Some(found) = rows.next().map_err(|e| context.sqlite(e))? else {
            let reason = format!("its row is missing, of {count} that are counted");
            return Err(corruption(id, Some(seq), reason));
        };
        events.push(row::event(found, id, seq, key, &mut line)?);
    }
    Ok(Some(Part::Read(Slice { events, count })))
}

pub(super) fn stat(
    view: &Connection,
    id: &SessionId,
    vocabulary: &Vocabulary,
    context: &Context<'_>,
) -> Result<Option<Numbered>> {
    let mut statement = view.prepare_cached(BY_ID).map_err(|e| context.sqlite(e))?;
    let mut rows = statement.query([id.as_str()]).map_err(|e| context.sqlite(e))?;
    match rows.next().map_err(|e| context.sqlite(e))? {
        Some(found) => Ok(Some(snapshot(found, vocabulary, context)?)),
        None => Ok(None),
    }
}

/// The identity of the store.
pub(super) fn store_id(view: &Connection, context: &Context<'_>) -> Result<String> {
    view.query_row("SELECT store_id FROM store", [], |row| row.get(0)).map_err(|e| context.sqlite(e))
}

/// A snapshot with the number of its session, by which its owner is found.
pub(super) struct Numbered {
    pub(super) number: i64,
    pub(super) snapshot: Snapshot,
}

pub(super) fn snapshot(found: &Row<'_>, vocabulary: &Vocabulary, context: &Context<'_>) -> Result<Numbered> {
    let store = found.get_ref(STORE_ID).and_then(|id| Ok(id.as_str()?)).map_err(|e| context.sqlite(e))?;
    let row = match SessionRow::read(found) {
        Ok(row) => row,
        Err(reason) => {
            let damaged = Revision::new(format!("{store}:damaged"));
            let number = found.get(0).unwrap_or_default();
            return Ok(Numbered { number, snapshot: Snapshot::damaged(SessionRow::id_of(found), reason, damaged) });
        }
    };
    let revision = revision(store, &row);
    let mut snapshot = match row.header() {
        Ok(header) => Snapshot::new(header, revision, vocabulary),
        Err(reason) => Snapshot::damaged(SessionRow::id_of(found), reason, revision),
    };
    snapshot.digest = Some(LogDigest::from_parts(row.incarnation as u64, row.chain as u64));
    snapshot.event_count = Some(row.events);
    snapshot.size_bytes = Some(row.size_bytes);
    snapshot.last_time = row.last_time;
    snapshot.activity = row.activity();
    snapshot.written_at = row.written_at;
    Ok(Numbered { number: row.number, snapshot })
}

/// What tells one state of a session from all others: the store, which session of this id it is, and what is in its log.
fn revision(store: &str, row: &SessionRow<'_>) -> Revision {
    // The machinery of format! takes a tenth of the time of a list.
    let mut text = String::with_capacity(store.len() + 56);
    let hex = |text: &mut String, n: i64| {
        let n = n.cast_unsigned();
        let digits = (67 - n.leading_zeros()).max(4) / 4;
        text.extend((0..digits).rev().map(|at| char::from(b"0123456789abcdef"[(n >> (4 * at)) as usize & 15])));
    };
    text.push_str(store);
    text.push(':');
    hex(&mut text, row.incarnation);
    text.push(':');
    text.push_str(itoa::Buffer::new().format(row.revision));
    text.push(':');
    hex(&mut text, row.chain);
    Revision::new(text.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;
    use crate::log::SessionHeader;

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
        for (statement, tables) in STATEMENTS {
            let plan = plan(&connection, statement);
            let steps: Vec<_> = plan.iter().filter(|step| *step != "SCAN store").collect();
            let searches = |step: &&&String| step.starts_with("SEARCH ") && step.contains(" USING ");
            assert_eq!(steps.iter().filter(searches).count(), tables, "{statement}: {plan:?}");
            let joins = ["SCALAR SUBQUERY", "COMPOUND QUERY", "LEFT-MOST SUBQUERY", "UNION ALL"];
            for step in &steps {
                let is_join = joins.iter().any(|join| step.starts_with(join));
                assert!(searches(&step) || is_join, "{statement}: {plan:?}");
            }
        }
    }

    #[test]
    fn no_stat_touches_the_events() {
        assert!(!BY_ID.contains(" events") && !BY_ID.contains("session_"), "{BY_ID}");
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

    #[test]
    fn a_revision_is_spelled_as_the_numbers_that_it_is_made_of() {
        let header = SessionHeader::new(SessionId::new("s").unwrap(), 1).unwrap();
        for (incarnation, chain) in [(0, 0), (1, 15), (16, -1), (i64::MIN, i64::MAX), (0x00ff_0000, -0x1234)] {
            let mut row = SessionRow::new(&header, incarnation, 0, 1);
            (row.revision, row.chain) = (10, chain);
            assert_eq!(revision("store", &row).as_str(), format!("store:{incarnation:x}:10:{chain:x}"));
        }
    }
}
