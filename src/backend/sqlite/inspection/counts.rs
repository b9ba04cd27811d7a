//! What is counted and noted of each session, held against its rows.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension};

use super::super::failure::Context;
use super::super::row::{self, SessionKey, chained, line_checksum, row_key};
use super::super::session_row::{SessionRow, session_query, type_checksum};
use super::super::{Database, reader};
use crate::log::SessionId;
use crate::seam::{Error, Fault, FaultKind, Result, checks};

/// How many bytes of lines are read in one view.
const PAGE_BYTES: usize = 4 << 20;

/// How many rows at most, however small they are.
const PAGE_ROWS: u64 = 4096;

/// The most types of one session that are told of one by one.
const MOST_TYPES: usize = 10;

const NEXT: &str = session_query!("WHERE number > ?1 ORDER BY number LIMIT 1");

const SAME_ACTIVITY: &str = "SELECT id FROM sessions WHERE activity = ?1 AND number <> ?2 LIMIT 1";

const BEHIND: &str = "SELECT key FROM events WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT 1";

const TYPES: &str = "SELECT type, first_seq FROM session_types WHERE session = ?1";

/// What was done by one step through the sessions.
enum Step {
    /// There is no session any more.
    End,
    /// One whose row or header cannot be read, which reading it tells.
    Damaged(i64),
    Session(Box<Recorded>),
}

/// What a store tells of a session, in one view.
struct Recorded {
    row: SessionRow<'static>,
    id: SessionId,
    key: SessionKey,
    /// Whether the row matches its checksum. One that does not is never written.
    is_sealed: bool,
    /// The noted types with their first events; nothing where they cannot be read.
    types: Option<BTreeMap<String, u64>>,
    /// The first event behind those that are counted.
    behind: Option<u64>,
    /// Another session of the same activity.
    same_activity: Option<String>,
}

/// What the rows of a session tell.
#[derive(Clone)]
struct Counted {
    events: u64,
    size_bytes: u64,
    last_time: Option<i64>,
    chain: i64,
    mark: Option<u64>,
    types: BTreeMap<String, u64>,
}

impl Database {
    pub(super) fn check_counts(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        let context = self.context();
        let mut behind = i64::MIN;
        loop {
            let step = self.read(&context, |view| match next(view, behind) {
                Ok(step) => Ok(step),
                // A page that is no page was told of already, by SQLite's own check.
                Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt) => Ok(Step::End),
                Err(e) => Err(context.sqlite(e)),
            })?;
            match step {
                Step::End => return Ok(()),
                Step::Damaged(number) => behind = number,
                Step::Session(told) => {
                    behind = told.row.number;
                    // Nothing is counted where the rows are damaged, or the session is removed meanwhile.
                    if let Some(counted) = self.count(&told)? {
                        told.differences(&counted).into_iter().for_each(&mut *found);
                    }
                }
            }
        }
    }

    /// Counts the rows of a session, as many as were there when it was looked at.
    fn count(&self, told: &Recorded) -> Result<Option<Counted>> {
        let context = self.context().session(&told.id);
        let mut counted = Counted::new(&told.row);
        // Where the counter itself is in doubt the rows tell how many there are: nobody adds any.
        let end = if told.is_sealed { told.row.events } else { row::MAX_EVENTS };
        loop {
            let further = self.read(&context, |view| {
                let mut further = counted.clone();
                further.read_page(view, told, end, &context)?;
                Ok(further)
            });
            match further {
                Ok(further) if further.events > counted.events => counted = further,
                // Rows that are missing are damage, and no counter that is wrong.
                Ok(further) if told.is_sealed && further.events < end => return Ok(None),
                Ok(further) => return Ok(Some(further)),
                Err(Error::Corruption { .. } | Error::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

fn next(view: &Connection, behind: i64) -> rusqlite::Result<Step> {
    let mut statement = view.prepare_cached(NEXT)?;
    let mut rows = statement.query([behind])?;
    let Some(found) = rows.next()? else { return Ok(Step::End) };
    let number = found.get(0)?;
    let Ok((row, is_sealed)) = SessionRow::read_unsealed(found) else { return Ok(Step::Damaged(number)) };
    let (Ok(header), Ok(id)) = (row.header(), SessionId::new(&row.id)) else { return Ok(Step::Damaged(number)) };
    let key = SessionKey::new(row.number, row.incarnation, &header);
    let behind = match u32::try_from(row.events) {
        Ok(_) => {
            let bounds = [key.row(row.events), row_key(number + 1, 0)];
            let behind: Option<i64> = view.prepare_cached(BEHIND)?.query_row(bounds, |row| row.get(0)).optional()?;
            behind.map(|key| (key & 0xffff_ffff) as u64)
        }
        Err(_) => None,
    };
    let same_activity =
        view.prepare_cached(SAME_ACTIVITY)?.query_row([row.activity() as i64, number], |row| row.get(0)).optional()?;
    let types = noted_types(view, number)?;
    Ok(Step::Session(Box::new(Recorded { row: row.into_owned(), id, key, is_sealed, types, behind, same_activity })))
}

fn noted_types(view: &Connection, number: i64) -> rusqlite::Result<Option<BTreeMap<String, u64>>> {
    let mut statement = view.prepare_cached(TYPES)?;
    let mut rows = statement.query([number])?;
    let mut types = BTreeMap::new();
    while let Some(found) = rows.next()? {
        let (Ok(event_type), Ok(first_seq)) = (found.get(0), found.get(1)) else { return Ok(None) };
        types.insert(event_type, first_seq);
    }
    Ok(Some(types))
}

impl Counted {
    fn new(row: &SessionRow<'_>) -> Self {
        Self {
            events: 0,
            size_bytes: row.header.len() as u64 + 1,
            last_time: None,
            chain: line_checksum(&row.header, row.incarnation),
            mark: None,
            types: BTreeMap::new(),
        }
    }

    /// Counts the next rows, of those before `end`; none where there are no more.
    fn read_page(&mut self, view: &Connection, told: &Recorded, end: u64, context: &Context<'_>) -> Result<()> {
        if told.is_sealed {
            reader::session(view, &told.id, &told.key, context)?;
        }
        let failed = |e| context.sqlite(e);
        let last = end.min(self.events + PAGE_ROWS);
        let mut statement = view.prepare_cached(row::SLICE).map_err(failed)?;
        let mut rows = statement.query([told.key.row(self.events), told.key.row(last)]).map_err(failed)?;
        let (mut line, mut bytes) = (String::new(), 0);
        while bytes < PAGE_BYTES
            && let Some(found) = rows.next().map_err(failed)?
        {
            let event = row::event(found, &told.id, self.events, &told.key, &mut line)?;
            let checksum = found.get(row::CHECKSUM).map_err(failed)?;
            bytes += line.len();
            self.size_bytes += line.len() as u64 + 1;
            self.last_time = Some(event.time());
            self.chain = chained(self.chain, checksum);
            if told.key.has_seed_mark
                && let Some(mark) = checks::inherited_mark(&event)
            {
                self.mark = Some(mark.get());
            }
            if !event.is_ignorable() && !self.types.contains_key(event.event_type()) {
                self.types.insert(event.event_type().to_owned(), self.events);
            }
            self.events += 1;
        }
        Ok(())
    }
}

impl Recorded {
    /// What is told differently from what was counted.
    fn differences(&self, counted: &Counted) -> Vec<Fault> {
        let row = &self.row;
        let mut faults = Vec::new();
        let mut differs = |what: String, seq: Option<u64>| {
            let mut fault = Fault::new(FaultKind::Count, what, self.advice()).of(&self.id);
            fault.seq = seq;
            faults.push(fault);
        };
        let mut number = |column: &str, told: i128, is: i128| {
            if told != is {
                differs(format!("{column} is {told}, and its rows make it {is}"), None);
            }
        };
        number("event_count", row.events.into(), counted.events.into());
        number("size_bytes", row.size_bytes.into(), counted.size_bytes.into());
        number("chain", row.chain.into(), counted.chain.into());
        let inherited = match self.header_seed() {
            Some(length) => Some(length),
            None if self.key.has_seed_mark => counted.mark,
            None => Some(0),
        };
        number("inherited_count", row.inherited.into(), inherited.unwrap_or(row.inherited).into());
        if row.last_time != counted.last_time {
            let text = |time: Option<i64>| time.map_or_else(|| "NULL".to_owned(), |time| time.to_string());
            let (told, is) = (text(row.last_time), text(counted.last_time));
            differs(format!("last_time is {told}, and that of its last event {is}"), None);
        }
        if let Some(seq) = self.behind.filter(|_| self.is_sealed) {
            differs(format!("rows stand behind the {} events that are counted", row.events), Some(seq));
        }
        if let Some(other) = &self.same_activity {
            differs(format!("activity is {}, as that of session {other:?}", row.activity()), None);
        }
        self.type_differences(counted, &mut differs);
        faults
    }

    fn type_differences(&self, counted: &Counted, differs: &mut dyn FnMut(String, Option<u64>)) {
        let Some(noted) = &self.types else {
            return differs("a type that is noted of it cannot be read".to_owned(), None);
        };
        let missing = counted.types.iter().filter(|(name, seq)| noted.get(*name) != Some(seq));
        let missing =
            missing.map(|(name, seq)| (format!("type {name:?} is noted otherwise than at its first event"), *seq));
        let extra = noted.iter().filter(|(name, _)| !counted.types.contains_key(*name));
        let extra =
            extra.map(|(name, seq)| (format!("type {name:?} is noted, and no event that is to be known has it"), *seq));
        let mut all = missing.chain(extra);
        for (what, seq) in all.by_ref().take(MOST_TYPES) {
            differs(what, Some(seq));
        }
        let more = all.count();
        if more > 0 {
            differs(format!("{more} more types are noted otherwise than its events have them"), None);
        }
        let sum = |types: &BTreeMap<String, u64>| {
            let each = types.iter().map(|(name, seq)| type_checksum(name, *seq, self.row.incarnation));
            each.fold(0, i64::wrapping_add)
        };
        if sum(&counted.types) != self.row.types_checksum {
            differs("types_checksum is not that of the types of its events".to_owned(), None);
        }
    }

    /// How many inherited events the header itself tells of.
    fn header_seed(&self) -> Option<u64> {
        self.row.header().ok().and_then(|header| header.seed_length())
    }

    fn advice(&self) -> String {
        if self.is_sealed {
            return "its log is sound: salvage it into a new session, which is counted anew".to_owned();
        }
        "its log is sound, but the session cannot be opened: restore it from a backup, or ask for its events in SQL, \
         of the view session_events"
            .to_owned()
    }
}
