//! [`SessionFacts`]: what is known of a session, and [`known_facts`] for whoever does not keep an index open.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::Row;

use super::file::{IndexFile, Unusable};
use super::{Counts, IndexError, IndexResult};
use crate::log::SessionId;
use crate::seam::Snapshot;

/// Whoever closes the file as the last one has it alone for a moment.
const MOMENT: Duration = Duration::from_millis(250);

/// What is known of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionFacts {
    /// The session.
    pub session: SessionId,
    /// The title that it was given last, or else the start of the first message of a person, on one line.
    pub title: Option<String>,
    /// Whether its last turn has no end: it is being written, or its process died.
    pub is_interrupted: bool,
    /// Whether no person said anything in it and no turn was started.
    pub is_blank: bool,
    /// The earliest time of an event, in milliseconds since 1970.
    pub first_time: Option<i64>,
    /// The latest time of an event, in milliseconds since 1970.
    pub last_time: Option<i64>,
    /// Why not all of it is indexed.
    pub problem: Option<String>,
    /// What happened in it.
    pub own: Counts,
    /// What happened in what it inherited.
    pub inherited: Counts,
}

pub(super) fn facts(file: &IndexFile, sessions: &[SessionId]) -> IndexResult<Vec<SessionFacts>> {
    let ids: Vec<_> = sessions.iter().map(SessionId::as_str).collect();
    Ok(read(file, &ids)?.into_iter().map(|(_, facts)| facts).collect())
}

/// What the index in a file knows of sessions, of each at exactly the revision that its snapshot tells and only where all of
/// it is indexed. One statement, whatever the number of sessions.
///
/// The index is neither made nor brought up to date, nor made anew where it is damaged: a file that is not there, or is
/// empty, knows nothing. Others are waited for a quarter of a second at most.
///
/// # Errors
///
/// `NotFilled`, `Busy`, `NotAnIndex`, `Damaged`, `Failed`.
pub fn known_facts(path: impl AsRef<Path>, sessions: &[Snapshot]) -> IndexResult<HashMap<SessionId, SessionFacts>> {
    let path = path.as_ref();
    let file = match IndexFile::look_at(path, MOMENT)? {
        Ok(file) => file,
        Err(Unusable::Damaged(reason)) => return Err(IndexError::Damaged { path: path.to_owned(), reason }),
        Err(Unusable::Outdated) => return Ok(HashMap::new()),
    };
    let asked: HashMap<_, _> = sessions.iter().map(|session| (session.id.as_str(), session)).collect();
    let known = read(&file, &asked.keys().copied().collect::<Vec<_>>())?.into_iter().filter(|(revision, facts)| {
        let now = asked.get(facts.session.as_str()).map(|session| session.revision.as_str());
        facts.problem.is_none() && now == revision.as_deref()
    });
    Ok(known.map(|(_, facts)| (facts.session.clone(), facts)).collect())
}

/// Sessions by their ids, with the revisions up to which they are indexed.
fn read(file: &IndexFile, ids: &[&str]) -> IndexResult<Vec<(Option<String>, SessionFacts)>> {
    file.filled()?;
    let sql = format!(
        "SELECT s.id, revision, title, is_open, first_time, last_time, problem, is_inherited, count.{} \
         FROM json_each(?) AS asked CROSS JOIN session AS s ON s.id = asked.value \
         LEFT JOIN count ON count.session = s.number ORDER BY s.number",
        Counts::COLUMNS.join(", count.")
    );
    let failed = |e: rusqlite::Error| file.failure(&e);
    let mut known: Vec<(Option<String>, SessionFacts)> = Vec::new();
    let mut statement = file.connection.prepare_cached(&sql).map_err(failed)?;
    let mut rows = statement.query([serde_json::Value::from(ids).to_string()]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let id: String = row.get(0).map_err(failed)?;
        if known.last().is_none_or(|(_, last)| last.session.as_str() != id) {
            let Ok(session) = SessionId::new(&id) else { return Err(file.damaged(format!("{id:?} is no id"))) };
            let start = SessionFacts::start(session, row).map_err(failed)?;
            known.push((row.get(1).map_err(failed)?, start));
        }
        if let Some((_, facts)) = known.last_mut() {
            facts.add(row).map_err(failed)?;
        }
    }
    Ok(known)
}

impl SessionFacts {
    /// From a row, without what is counted.
    fn start(session: SessionId, row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            session,
            title: row.get(2)?,
            is_interrupted: row.get(3)?,
            is_blank: true,
            first_time: row.get(4)?,
            last_time: row.get(5)?,
            problem: row.get(6)?,
            own: Counts::default(),
            inherited: Counts::default(),
        })
    }

    /// Adds what a row counts, if it does.
    fn add(&mut self, row: &Row<'_>) -> Result<(), rusqlite::Error> {
        let Some(is_inherited) = row.get(7)? else { return Ok(()) };
        let counts = Counts::read(row, 8)?;
        self.is_blank &= counts.user_messages + counts.turns == 0;
        if is_inherited { &mut self.inherited } else { &mut self.own }.add(&counts);
        Ok(())
    }
}
