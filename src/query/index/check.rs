//! Whether an index holds what the logs of its store make of it.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::catch_up::inherited;
use super::document::{Document, letters};
use super::facts::Facts;
use super::file::{IndexFile, Unusable, faults};
use super::watermark::Watermark;
use super::{IndexError, IndexResult};
use crate::log::{LogDigest, SessionId, searchable_text};
use crate::paging::Pages;
use crate::seam::{Error, ErrorKind, Fault, FaultKind, OpenOptions, SessionHandle, SessionPersistence, Snapshot};

/// Looks at a file, and tells each fault when it is found.
pub(super) fn check(
    path: &Path,
    patience: Duration,
    store: &dyn SessionPersistence,
    tell: &mut dyn FnMut(&Fault),
) -> IndexResult<()> {
    let mut tell = |session: Option<&SessionId>, reason: &str| {
        let advice = "remove the file: the next search makes it anew, and the store is not affected";
        let fault = Fault::new(FaultKind::Index, format!("{}: {reason}", path.display()), advice);
        tell(&match session {
            Some(session) => fault.of(session),
            None => fault,
        });
    };
    let checked = match IndexFile::look_at(path, patience) {
        Ok(Ok(file)) => file.check(store, &mut tell),
        Ok(Err(Unusable::Damaged(reason))) => {
            tell(None, &reason);
            Ok(())
        }
        Ok(Err(Unusable::Outdated)) => Ok(()),
        Err(error) => Err(error),
    };
    match checked {
        Err(IndexError::Damaged { reason, .. } | IndexError::NotAnIndex { reason, .. }) => {
            tell(None, &reason);
            Ok(())
        }
        done => done,
    }
}

type Tell<'t> = dyn FnMut(Option<&SessionId>, &str) + 't;

impl IndexFile {
    fn check(&self, store: &dyn SessionPersistence, tell: &mut Tell<'_>) -> IndexResult<()> {
        let failed = |e: rusqlite::Error| self.failure(&e);
        // One view of the file, whoever brings it up to the store meanwhile.
        let view = self.connection.unchecked_transaction().map_err(failed)?;
        let found = faults(&view).map_err(failed)?;
        if !found.is_empty() {
            found.iter().for_each(|fault| tell(None, fault));
            return Ok(());
        }
        for (table, what) in [("document", "texts"), ("count", "counts")] {
            let sql = format!("SELECT 1 FROM {table} WHERE session NOT IN (SELECT number FROM session) LIMIT 1");
            if view.query_row(&sql, [], |_| Ok(())).optional().map_err(failed)?.is_some() {
                tell(None, &format!("it holds {what} of no session"));
            }
        }
        if letters_held(&view).map_err(failed)? != letters_of_documents(&view).map_err(failed)? {
            tell(None, "what leads to its texts is not what they are made of");
        }
        let mut statement = view.prepare("SELECT id FROM session ORDER BY number").map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let id: String = row.get(0).map_err(failed)?;
            let Ok(session) = SessionId::new(&id) else {
                tell(None, &format!("it names a session {id:?}, which is no id"));
                continue;
            };
            if let Some(reason) = self.check_session(&view, store, &session)? {
                tell(Some(&session), reason);
            }
        }
        Ok(())
    }

    /// Nothing is told of a session that cannot be read, or was written since: neither is a fault of the index.
    fn check_session(
        &self,
        view: &Connection,
        store: &dyn SessionPersistence,
        id: &SessionId,
    ) -> IndexResult<Option<&'static str>> {
        let failed = |e: rusqlite::Error| self.failure(&e);
        let Some(mark) = Watermark::of(view, id).map_err(failed)? else { return Ok(None) };
        let now = || store.stat(id).map(|told| told.filter(|told| mark.is_at(told)));
        let is_shorter = |told: &Snapshot| told.event_count.is_some_and(|count| count < mark.events);
        if store.stat(id)?.is_some_and(|told| is_shorter(&told)) {
            return Ok(Some(
                "the log ends before what was indexed of it: it was cut, replaced, or an older copy was put back",
            ));
        }
        let Some(snapshot) = now()?.filter(|_| mark.problem.is_none()) else { return Ok(None) };
        let log = store.open(id, OpenOptions::uninterpreted()).and_then(|handle| {
            let log = Log::read(&*handle, &snapshot, &mark);
            handle.close().and(log)
        });
        let log = match log {
            Ok(log) => log,
            // Told by who checks the store.
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let texts = texts(view, mark.number).map_err(failed)?;
        let reason = if log.digest != mark.digest || log.inherited != mark.inherited {
            "what is indexed is of another log"
        } else if log.facts != Facts::whole(view, mark.number).map_err(failed)? {
            "what is counted is not what happened"
        } else if texts != Some(log.texts) {
            "the texts are not those of the events"
        } else {
            return Ok(None);
        };
        Ok(now()?.map(|_| reason))
    }
}

/// What an index has to hold of a log.
struct Log {
    digest: LogDigest,
    inherited: u64,
    facts: Facts,
    /// The sum of the checksums of its texts.
    texts: i64,
}

impl Log {
    fn read(handle: &dyn SessionHandle, snapshot: &Snapshot, mark: &Watermark) -> Result<Self, Error> {
        let (mut facts, mut texts) = (Facts::default(), 0_i64);
        let mut digest = LogDigest::new(handle.header(), mark.digest.parts().0);
        let mut pages = Pages::new(handle, snapshot, 0).up_to(mark.events);
        loop {
            let page = pages.next_page()?;
            if page.is_empty() {
                break;
            }
            for event in &page {
                digest.push(event);
                facts.observe(event, event.seq().get() < mark.inherited);
                let text = searchable_text(event);
                if !text.is_empty() {
                    texts = texts.wrapping_add(Document::of(mark.number, event, &text).checksum());
                }
            }
        }
        Ok(Self { digest, inherited: inherited(snapshot, handle), facts, texts })
    }
}

/// The sum of the checksums of a session's texts; nothing where one of them is not what was stored.
fn texts(view: &Connection, session: i64) -> Result<Option<i64>, rusqlite::Error> {
    let mut sum = 0_i64;
    let sql = "SELECT seq, time, type, text, checksum FROM document WHERE session = ? ORDER BY seq";
    let mut statement = view.prepare_cached(sql)?;
    let mut rows = statement.query([session])?;
    while let Some(row) = rows.next()? {
        let (event_type, text) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?);
        let found = Document { session, seq: row.get(0)?, time: row.get(1)?, event_type, text }.checksum();
        if found != row.get::<_, i64>(4)? {
            return Ok(None);
        }
        sum = sum.wrapping_add(found);
    }
    Ok(Some(sum))
}

/// The sum over each three letters that lead to a text.
fn letters_held(view: &Connection) -> Result<u64, rusqlite::Error> {
    view.execute_batch("CREATE VIRTUAL TABLE IF NOT EXISTS temp.leading USING fts5vocab(main, letters, instance)")?;
    let mut sum = 0_u64;
    let mut statement = view.prepare("SELECT term, doc FROM temp.leading")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        sum = sum.wrapping_add(lead(row.get_ref(0)?.as_str()?, row.get(1)?));
    }
    Ok(sum)
}

/// The same sum, from the texts.
fn letters_of_documents(view: &Connection) -> Result<u64, rusqlite::Error> {
    let mut sum = 0_u64;
    let mut statement = view.prepare("SELECT number, text FROM document")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (number, text) = (row.get(0)?, letters(row.get_ref(1)?.as_str()?));
        let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]).skip(3);
        let threes: HashSet<_> = text.char_indices().zip(ends).map(|((start, _), end)| &text[start..end]).collect();
        sum = threes.iter().fold(sum, |sum, three| sum.wrapping_add(lead(three, number)));
    }
    Ok(sum)
}

fn lead(three: &str, document: i64) -> u64 {
    xxh3_64_with_seed(three.as_bytes(), document.cast_unsigned())
}
