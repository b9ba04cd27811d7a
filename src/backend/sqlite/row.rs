//! Events and sessions as rows: keys, checksums, values.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::failure::corruption;
use crate::log::digest;
use crate::log::stored::{StoredValues, stored_event};
use crate::log::text::{parse_event, utf8, write_event};
use crate::log::{SessionEvent, SessionHeader, SessionId};
use crate::seam::{Error, Result, checks};

/// Events a session can hold: the seq is the lower half of a row's key.
pub(super) const MAX_EVENTS: u64 = 1 << 32;

/// Finds one incarnation of a session.
#[derive(Clone)]
pub(super) struct SessionKey {
    pub(super) number: i64,
    pub(super) incarnation: i64,
    /// The format of the log.
    pub(super) version: u32,
    /// Whether events of the log mark the end of an inherited seed.
    pub(super) has_seed_mark: bool,
    known: Arc<Known>,
}

/// What is known of the types of a session, so that neither an append nor a read asks for them again.
#[derive(Default)]
struct Known {
    /// Those that are noted already.
    noted: Mutex<HashSet<String>>,
    /// The checksum of those that were last found to be interpretable, all of them.
    interpretable: Mutex<Option<i64>>,
}

impl SessionKey {
    pub(super) fn new(number: i64, incarnation: i64, header: &SessionHeader) -> Self {
        Self {
            number,
            incarnation,
            version: header.version(),
            has_seed_mark: checks::has_seed_mark(header),
            known: Arc::default(),
        }
    }

    /// The key of an event's row.
    pub(super) fn row(&self, seq: u64) -> i64 {
        row_key(self.number, seq)
    }

    /// Whether a type is known to be noted in the database.
    pub(super) fn has_noted(&self, event_type: &str) -> bool {
        self.noted().contains(event_type)
    }

    /// Remembers types once the transaction that noted them has been committed.
    pub(super) fn note_types(&self, types: Vec<String>) {
        if !types.is_empty() {
            self.noted().extend(types);
        }
    }

    /// Whether all types of this checksum are known to be interpretable by the store that the key belongs to.
    pub(super) fn is_interpretable(&self, types_checksum: i64) -> bool {
        *self.interpretable() == Some(types_checksum)
    }

    pub(super) fn note_interpretable(&self, types_checksum: i64) {
        *self.interpretable() = Some(types_checksum);
    }

    fn noted(&self) -> MutexGuard<'_, HashSet<String>> {
        self.known.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn interpretable(&self) -> MutexGuard<'_, Option<i64>> {
        self.known.interpretable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of an event's row.
pub(super) fn row_key(number: i64, seq: u64) -> i64 {
    (number << 32) + seq as i64
}

/// The checksum of a header's or event's line.
pub(super) fn line_checksum(line: &str, incarnation: i64) -> i64 {
    digest::of_line(line, incarnation as u64) as i64
}

/// The chain of a log whose next row has `checksum`.
pub(super) fn chained(chain: i64, checksum: i64) -> i64 {
    digest::chained(chain as u64, checksum as u64) as i64
}

/// Checks a batch before anything is written.
pub(super) fn check_sizes(events: &[SessionEvent], max_event_bytes: usize, session: &SessionId) -> Result<()> {
    let refuse = |reason| Err(Error::InvalidArgument { session: Some(session.clone()), reason });
    for event in events {
        if event.seq().get() >= MAX_EVENTS {
            return refuse(format!("seq {} is beyond the {MAX_EVENTS} events that a session holds here", event.seq()));
        }
        if event.line_bound() <= max_event_bytes {
            continue;
        }
        let size = event.to_line().len();
        if size > max_event_bytes {
            return refuse(format!(
                "the event at seq {} has {size} bytes, and this store takes {max_event_bytes}; keep such data outside \
                 and store a reference",
                event.seq()
            ));
        }
    }
    Ok(())
}

/// The columns that [`event`] reads, in its order.
macro_rules! event_columns {
    () => {
        "key, type, time, data, source_event_seqs, surface_op, ignorable, envelope, checksum"
    };
}
pub(super) use event_columns;

/// The rows of a range of keys.
pub(super) const SLICE: &str =
    concat!("SELECT ", event_columns!(), " FROM events WHERE key >= ?1 AND key < ?2 ORDER BY key");

/// The place of the checksum among these columns.
pub(super) const CHECKSUM: usize = 8;

/// The event of a row, checked against its checksum. `line` is scratch space.
pub(super) fn event(
    row: &Row<'_>,
    session: &SessionId,
    seq: u64,
    key: &SessionKey,
    line: &mut String,
) -> Result<SessionEvent> {
    let changed = |what: String| corruption(session, Some(seq), what);
    let value = |index| row.get_ref(index).map_err(|e| changed(format!("its row cannot be read: {e}")));
    let text = |index| optional_text(value(index)?).map_err(&changed);
    let integer = |index| match value(index)? {
        ValueRef::Integer(n) => Ok(n),
        other => Err(changed(format!("a number of its row has become {}", other.data_type()))),
    };
    let required = |index| Ok::<_, Error>(text(index)?.unwrap_or_default());
    if integer(0)? != key.row(seq) {
        return Err(changed("its row is missing".to_owned()));
    }
    let values = StoredValues {
        source_event_seqs: text(4)?,
        surface_op: text(5)?,
        ignorable: !matches!(value(6)?, ValueRef::Null),
        envelope: text(7)?,
    };
    let event = stored_event(required(1)?, seq, integer(2)?, required(3)?, &values)
        .map_err(|e| changed(format!("its row is not an event: {e}")))?;
    line.clear();
    write_event(line, &event);
    if line_checksum(line, key.incarnation) != integer(CHECKSUM)? {
        return Err(changed("its row does not match its checksum".to_owned()));
    }
    // A line of its own spelling is all that the checksum covers, so the values must be those that it spells.
    if event.is_spelled() && parse_event(line.as_bytes()).ok().as_ref() != Some(&event) {
        return Err(changed("its values are not those of its line".to_owned()));
    }
    Ok(event)
}

fn optional_text(value: ValueRef<'_>) -> Result<Option<&str>, String> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => utf8(bytes).map(Some).map_err(|e| format!("invalid UTF-8 in its row: {e}")),
        other => Err(format!("a text of its row has become {}", other.data_type())),
    }
}
