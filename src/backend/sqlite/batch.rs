//! Events as rows, and what the row of their session tells of them.

use rusqlite::{Transaction, params};

use super::row::{SessionKey, chained, line_checksum};
use super::session_row::SessionRow;
use crate::log::SessionEvent;
use crate::log::text::{push_seqs, push_surface_op, write_event};
use crate::seam::checks;

const INSERT_EVENT: &str = "INSERT INTO events \
     (key, type, time, data, source_event_seqs, surface_op, ignorable, envelope, checksum) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

/// Stores events that continue the log, and tells the row of their session of them, and `new_types` which ones were noted.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    key: &SessionKey,
    row: &mut SessionRow<'_>,
    events: &[SessionEvent],
    new_types: &mut Vec<String>,
) -> Result<(), rusqlite::Error> {
    let mut insert = transaction.prepare_cached(INSERT_EVENT)?;
    let (mut line, mut sources, mut op) = (String::new(), String::new(), String::new());
    for event in events {
        line.clear();
        write_event(&mut line, event);
        let checksum = line_checksum(&line, key.incarnation);
        let source_event_seqs = event.source_event_seqs().map(|seqs| {
            sources.clear();
            push_seqs(&mut sources, seqs);
            &sources
        });
        let surface_op = event.surface_op().map(|value| {
            op.clear();
            push_surface_op(&mut op, value);
            &op
        });
        insert.execute(params![
            key.row(event.seq().get()),
            event.event_type(),
            event.time(),
            event.data().as_str(),
            source_event_seqs,
            surface_op,
            event.is_ignorable().then_some(1),
            event.envelope().to_code(),
            checksum,
        ])?;
        row.events += 1;
        row.size_bytes += line.len() as u64 + 1;
        row.last_time = Some(event.time());
        row.chain = chained(row.chain, checksum);
        if key.has_seed_mark
            && let Some(mark) = checks::inherited_mark(event)
        {
            row.inherited = mark.get();
        }
        let event_type = event.event_type();
        if !event.is_ignorable() && !new_types.iter().any(|new| new == event_type) && !key.has_noted(event_type) {
            let first_seq = event.seq().get();
            let noted = transaction
                .prepare_cached("INSERT INTO session_types VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
                .execute(params![key.number, event_type, first_seq])?;
            if noted > 0 {
                row.add_type(event_type, first_seq);
            }
            new_types.push(event_type.to_owned());
        }
    }
    Ok(())
}
