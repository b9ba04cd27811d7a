//! [`SessionRow`]: what the `sessions` table tells of a session.

use std::borrow::Cow;

use rusqlite::types::ValueRef;
use rusqlite::{Row, Transaction, params};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::row::line_checksum;
use crate::log::text::utf8;
use crate::log::{SessionHeader, SessionId};
use crate::seam::now;

/// A row of `sessions` that matches its checksum.
pub(super) struct SessionRow<'r> {
    pub(super) number: i64,
    pub(super) id: Cow<'r, str>,
    pub(super) incarnation: i64,
    pub(super) created_at: u64,
    /// The header's line.
    pub(super) header: Cow<'r, str>,
    header_checksum: i64,
    pub(super) inherited: u64,
    pub(super) events: u64,
    pub(super) size_bytes: u64,
    pub(super) last_time: Option<i64>,
    pub(super) revision: u64,
    pub(super) chain: i64,
    /// Grows when the session passes another one.
    activity: u64,
    has_passed: bool,
    pub(super) types_checksum: i64,
    /// In milliseconds since 1970; nothing where it was not noted.
    pub(super) written_at: Option<i64>,
    pub(super) fence: i64,
}

/// The columns that [`SessionRow::read`] reads, in its order.
macro_rules! session_columns {
    () => {
        "number, id, incarnation, created_at, header, header_checksum, inherited_count, event_count, size_bytes, \
         last_time, revision, chain, activity, types_checksum, checksum, written_at, fence"
    };
}
pub(super) use session_columns;

/// These columns, and the identity of the store, in a query over `sessions` that ends as told.
macro_rules! session_query {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            $crate::backend::sqlite::session_row::session_columns!(),
            ", (SELECT store_id FROM store) FROM sessions ",
            $rest
        )
    };
}
pub(super) use session_query;

/// The place of the store's identity in such a query.
pub(super) const STORE_ID: usize = 17;

impl<'r> SessionRow<'r> {
    /// A new session without events.
    pub(super) fn new(header: &SessionHeader, incarnation: i64, inherited: u64, activity: u64) -> Self {
        let line = header.to_line();
        let header_checksum = line_checksum(&line, incarnation);
        Self {
            number: 0,
            id: header.id().to_string().into(),
            incarnation,
            created_at: header.created_at(),
            size_bytes: line.len() as u64 + 1,
            header: line.into(),
            header_checksum,
            inherited,
            events: 0,
            last_time: None,
            revision: 0,
            chain: header_checksum,
            activity,
            has_passed: false,
            types_checksum: 0,
            written_at: Some(now()),
            fence: 1,
        }
    }

    /// Reads a row of a [`session_query`]. What is wrong with it, where it is not what was stored.
    pub(super) fn read(row: &'r Row<'_>) -> Result<Self, String> {
        match Self::read_unsealed(row)? {
            (found, true) => Ok(found),
            (_, false) => Err("what is counted of it does not match its checksum".to_owned()),
        }
    }

    /// Reads a row that need not match its checksum; whether it does.
    pub(super) fn read_unsealed(row: &'r Row<'_>) -> Result<(Self, bool), String> {
        let found = Self {
            number: integer(row, 0)?,
            id: text(row, 1)?,
            incarnation: integer(row, 2)?,
            created_at: natural(row, 3)?,
            header: text(row, 4)?,
            header_checksum: integer(row, 5)?,
            inherited: natural(row, 6)?,
            events: natural(row, 7)?,
            size_bytes: natural(row, 8)?,
            last_time: optional_integer(row, 9)?,
            revision: natural(row, 10)?,
            chain: integer(row, 11)?,
            activity: natural(row, 12)?,
            has_passed: false,
            types_checksum: integer(row, 13)?,
            written_at: optional_integer(row, 15)?,
            fence: integer(row, 16)?,
        };
        let is_sealed = found.checksum() == integer(row, 14)?;
        Ok((found, is_sealed))
    }

    /// The same, of no row of a statement.
    pub(super) fn into_owned(self) -> SessionRow<'static> {
        SessionRow { id: self.id.into_owned().into(), header: self.header.into_owned().into(), ..self }
    }

    /// The id of a row that may be damaged, as well as it can be told.
    pub(super) fn id_of(row: &Row<'_>) -> SessionId {
        let bytes = match row.get_ref(1) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes,
            _ => &[],
        };
        let number = integer(row, 0).unwrap_or_default();
        SessionId::new(String::from_utf8_lossy(bytes))
            .or_else(|_| SessionId::new(format!("damaged-session-{number}")))
            .expect("digits and letters make an id")
    }

    /// The header, checked against its checksum.
    pub(super) fn header(&self) -> Result<SessionHeader, String> {
        if line_checksum(&self.header, self.incarnation) != self.header_checksum {
            return Err("its header does not match its checksum".to_owned());
        }
        let header =
            SessionHeader::parse(self.header.as_bytes()).map_err(|e| format!("its header cannot be read: {e}"))?;
        if header.id().as_str() != self.id {
            return Err(format!("its header names session {:?}", header.id()));
        }
        Ok(header)
    }

    fn checksum(&self) -> i64 {
        let values = [
            self.created_at as i64,
            self.header_checksum,
            self.inherited as i64,
            self.events as i64,
            self.size_bytes as i64,
            self.last_time.is_some().into(),
            self.last_time.unwrap_or(0),
            self.revision as i64,
            self.chain,
            self.activity as i64,
            self.types_checksum,
        ];
        let mut bytes = [0; 8 * 12];
        let mut length = 0;
        for (value, place) in values.into_iter().chain(self.written_at).zip(bytes.chunks_exact_mut(8)) {
            place.copy_from_slice(&value.to_le_bytes());
            length += 8;
        }
        xxh3_64_with_seed(&bytes[..length], self.incarnation as u64) as i64
    }

    /// Adds a type that is noted with its first event.
    pub(super) fn add_type(&mut self, event_type: &str, first_seq: u64) {
        self.types_checksum = self.types_checksum.wrapping_add(type_checksum(event_type, first_seq, self.incarnation));
    }

    pub(super) fn insert(&mut self, transaction: &Transaction<'_>) -> Result<(), rusqlite::Error> {
        transaction
            .prepare_cached(
                "INSERT INTO sessions (id, incarnation, created_at, header, header_checksum, inherited_count, \
                 event_count, size_bytes, last_time, revision, chain, activity, types_checksum, checksum, \
                 written_at, fence) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
            )?
            .execute(params![
                self.id,
                self.incarnation,
                self.created_at,
                self.header,
                self.header_checksum,
                self.inherited,
                self.events,
                self.size_bytes,
                self.last_time,
                self.revision,
                self.chain,
                self.activity,
                self.types_checksum,
                self.checksum(),
                self.written_at,
                self.fence,
            ])?;
        self.number = transaction.last_insert_rowid();
        Ok(())
    }

    pub(super) fn activity(&self) -> u64 {
        self.activity
    }

    /// Puts it before all others, of which the one that was written last has the activity `newest`.
    pub(super) fn pass(&mut self, newest: u64) {
        if self.activity != newest {
            self.activity = newest + 1;
            self.has_passed = true;
        }
    }

    /// Notes that it is written now. A clock that was set back does not make it older.
    pub(super) fn touch(&mut self) {
        self.written_at = Some(self.written_at.unwrap_or(i64::MIN).max(now()));
    }

    /// Stores what a batch changed.
    pub(super) fn update(&self, transaction: &Transaction<'_>) -> Result<(), rusqlite::Error> {
        transaction
            .prepare_cached(
                "UPDATE sessions SET inherited_count = ?2, event_count = ?3, size_bytes = ?4, last_time = ?5, \
                 revision = ?6, chain = ?7, types_checksum = ?8, checksum = ?9, written_at = ?10 WHERE number = ?1",
            )?
            .execute(params![
                self.number,
                self.inherited,
                self.events,
                self.size_bytes,
                self.last_time,
                self.revision,
                self.chain,
                self.types_checksum,
                self.checksum(),
                self.written_at,
            ])?;
        if self.has_passed {
            // By itself: SQLite writes every index of a column that a statement names, changed or not.
            transaction
                .prepare_cached("UPDATE sessions SET activity = ?2 WHERE number = ?1")?
                .execute(params![self.number, self.activity])?;
        }
        Ok(())
    }
}

/// What one noted type adds to the checksum of all.
pub(super) fn type_checksum(event_type: &str, first_seq: u64, incarnation: i64) -> i64 {
    let bytes = [event_type.as_bytes(), &first_seq.to_le_bytes()].concat();
    xxh3_64_with_seed(&bytes, incarnation as u64) as i64
}

fn integer(row: &Row<'_>, index: usize) -> Result<i64, String> {
    of_integer(row.get_ref(index))
}

fn of_integer(found: rusqlite::Result<ValueRef<'_>>) -> Result<i64, String> {
    match found {
        Ok(ValueRef::Integer(n)) => Ok(n),
        Ok(other) => Err(format!("a number of its row has become {}", other.data_type())),
        Err(e) => Err(format!("its row cannot be read: {e}")),
    }
}

fn optional_integer(row: &Row<'_>, index: usize) -> Result<Option<i64>, String> {
    match row.get_ref(index) {
        Ok(ValueRef::Null) => Ok(None),
        found => of_integer(found).map(Some),
    }
}

fn natural(row: &Row<'_>, index: usize) -> Result<u64, String> {
    let n = integer(row, index)?;
    u64::try_from(n).map_err(|_| format!("a count of its row has become {n}"))
}

fn text<'r>(row: &'r Row<'_>, index: usize) -> Result<Cow<'r, str>, String> {
    match row.get_ref(index) {
        Ok(ValueRef::Text(bytes)) => {
            utf8(bytes).map(Cow::Borrowed).map_err(|e| format!("invalid UTF-8 in its row: {e}"))
        }
        Ok(other) => Err(format!("a text of its row has become {}", other.data_type())),
        Err(e) => Err(format!("its row cannot be read: {e}")),
    }
}
