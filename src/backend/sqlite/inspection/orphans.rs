//! Rows without a session.

use rusqlite::{Connection, OptionalExtension};

use super::super::Database;
use super::super::row::row_key;
use crate::seam::{Fault, FaultKind, Result};

/// How many sessions are looked at in one view.
const PAGE: usize = 1000;

/// The highest number that a session can have.
const LAST_NUMBER: i64 = (1 << 31) - 1;

const NEXT_EVENT: &str = "SELECT key FROM events WHERE key >= ?1 ORDER BY key LIMIT 1";
const LAST_EVENT: &str = "SELECT key FROM events WHERE key < ?1 ORDER BY key DESC LIMIT 1";
const NEXT_TYPES: &str = "SELECT session FROM session_types WHERE session > ?1 ORDER BY session LIMIT 1";
const SESSION: &str = "SELECT 1 FROM sessions WHERE number = ?1";

/// Every statement of this check, for the test that looks at how SQLite runs them.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 4] = [NEXT_EVENT, LAST_EVENT, NEXT_TYPES, SESSION];

const ADVICE: &str = "no reader meets them; copy the sessions into a new store to be rid of them";

impl Database {
    /// Looks for events whose session is not there: from one session's keys to the next, never through all rows.
    pub(super) fn find_orphaned_events(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        self.in_pages(found, i64::MIN, |view, from, faults| {
            let Some(key): Option<i64> = one(view, NEXT_EVENT, from)? else { return Ok(None) };
            let number = key >> 32;
            let behind = if number >= LAST_NUMBER { i64::MAX } else { row_key(number + 1, 0) };
            if one(view, SESSION, number)?.is_none() {
                let last: i64 = one(view, LAST_EVENT, behind)?.unwrap_or(key);
                let seq = |key: i64| key & 0xffff_ffff;
                let reason = format!(
                    "events belong to a session number {number} that is not there, from seq {} to {}",
                    seq(key),
                    seq(last)
                );
                faults.push(Fault::new(FaultKind::Orphan, reason, ADVICE));
            }
            Ok((behind < i64::MAX).then_some(behind))
        })
    }

    /// Looks for noted types whose session is not there.
    pub(super) fn find_orphaned_types(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        self.in_pages(found, i64::MIN, |view, behind, faults| {
            let Some(number): Option<i64> = one(view, NEXT_TYPES, behind)? else { return Ok(None) };
            if one(view, SESSION, number)?.is_none() {
                let reason = format!("types are noted of a session number {number} that is not there");
                faults.push(Fault::new(FaultKind::Orphan, reason, ADVICE));
            }
            Ok(Some(number))
        })
    }

    /// Takes step after step from a place on, some in each view, until one gives no next place.
    fn in_pages(
        &self,
        found: &mut dyn FnMut(Fault),
        start: i64,
        step: impl Fn(&Connection, i64, &mut Vec<Fault>) -> rusqlite::Result<Option<i64>>,
    ) -> Result<()> {
        let context = self.context();
        let mut next = Some(start);
        while let Some(place) = next {
            let page = self.read(&context, |view| {
                let (mut place, mut faults) = (place, Vec::new());
                for _ in 0..PAGE {
                    match step(view, place, &mut faults) {
                        Ok(Some(behind)) => place = behind,
                        Ok(None) => return Ok((None, faults)),
                        // A page that is no page was told of already, by SQLite's own check.
                        Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
                            return Ok((None, faults));
                        }
                        Err(e) => return Err(context.sqlite(e)),
                    }
                }
                Ok((Some(place), faults))
            })?;
            next = page.0;
            page.1.into_iter().for_each(&mut *found);
        }
        Ok(())
    }
}

fn one(view: &Connection, statement: &str, argument: i64) -> rusqlite::Result<Option<i64>> {
    view.prepare_cached(statement)?.query_row([argument], |row| row.get(0)).optional()
}

#[cfg(test)]
mod tests {
    use super::super::super::{failure::Context, schema};
    use super::*;

    #[test]
    fn every_step_searches_an_index_and_sorts_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::create(&mut connection, &Context::store(std::path::Path::new(":memory:"))).unwrap();
        for statement in STATEMENTS {
            let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
            let plan: Vec<String> =
                explained.query_map([1], |row| row.get("detail")).unwrap().map(Result::unwrap).collect();
            assert!(plan.len() == 1 && plan[0].starts_with("SEARCH "), "{statement}: {plan:?}");
        }
    }
}
