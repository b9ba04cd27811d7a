//! [`SearchQuery`], and how its events are found: three letters that follow on one another lead to the events that may hold the
//! text, and each of these is compared with it. A shorter text is compared with every event.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Row, params_from_iter};
use xxhash_rust::xxh3::xxh3_64;

use super::super::LiteralText;
use super::super::literal_text::folded;
use super::file::{IndexFile, sqlite};
use super::hit::Rank;
use super::{IndexError, IndexResult, SearchCursor, SearchHit, SearchPage, Snippet};
use crate::log::SessionId;

/// A longer text is not looked for.
const MAX_CHARACTERS: usize = 1000;
/// The most events a page.
const MAX_LIMIT: usize = 100;
/// So many of its threes lead to a text; more would find little less.
const MAX_THREES: usize = 24;

/// A text to look for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SearchQuery {
    /// The text: words, compared as [`LiteralText`] does. At most 1000 characters.
    pub text: String,
    /// The session in which it is looked for; in all where there is none.
    pub session: Option<SessionId>,
    /// The types of event in which it is looked for; in all where there is none.
    pub event_types: Vec<String>,
    /// The working folder in whose sessions it is looked for, exactly as it stands in their headers.
    pub cwd: Option<String>,
    /// The earliest time of an event, in milliseconds since 1970.
    pub since: Option<i64>,
    /// The latest time of an event, in milliseconds since 1970.
    pub until: Option<i64>,
    /// The most events a page, 1 to 100; 20 unless told otherwise.
    pub limit: usize,
    /// Where the page starts: the [`SearchPage::next`] of the one before.
    pub cursor: Option<SearchCursor>,
}

impl SearchQuery {
    /// Looks for a text in all sessions.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            session: None,
            event_types: Vec::new(),
            cwd: None,
            since: None,
            until: None,
            limit: 20,
            cursor: None,
        }
    }

    /// The same in one session.
    #[must_use]
    pub fn in_session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// The same in events of these types; in those of any where there is none.
    #[must_use]
    pub fn of_types(mut self, event_types: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.event_types = event_types.into_iter().map(Into::into).collect();
        self
    }

    /// The same in the sessions of one working folder.
    #[must_use]
    pub fn in_cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// The same in events from this time on, in milliseconds since 1970.
    #[must_use]
    pub fn since(mut self, time: i64) -> Self {
        self.since = Some(time);
        self
    }

    /// The same in events up to this time, in milliseconds since 1970.
    #[must_use]
    pub fn until(mut self, time: i64) -> Self {
        self.until = Some(time);
        self
    }

    /// The same with another number of events a page.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// The page behind the one that gave the cursor.
    #[must_use]
    pub fn with_cursor(mut self, cursor: SearchCursor) -> Self {
        self.cursor = Some(cursor);
        self
    }
}

impl SearchQuery {
    /// Whether it can be looked for, its cursor aside, which only the index that gave it can tell.
    ///
    /// # Errors
    ///
    /// `InvalidQuery` for a text without a word or a too long one, or a limit that is not from 1 to 100.
    pub fn check(&self) -> IndexResult<()> {
        self.literal().map(drop)
    }

    fn literal(&self) -> IndexResult<LiteralText> {
        let invalid = |reason: String| Err(IndexError::InvalidQuery { reason });
        if !(1..=MAX_LIMIT).contains(&self.limit) {
            return invalid(format!("a page of {} events is asked for; ask for 1 to {MAX_LIMIT}", self.limit));
        }
        // Of a text without an end only the start is looked at.
        if self.text.chars().nth(MAX_CHARACTERS).is_some() {
            return invalid(format!("it has more than {MAX_CHARACTERS} characters; look for a part of it"));
        }
        match LiteralText::new(&self.text) {
            Ok(literal) => Ok(literal),
            Err(_) => invalid("it has no word; give one".to_owned()),
        }
    }
}

/// A text as it is indexed: in no language is a letter lost to the case of another. SQLite ends a text at the first NUL.
pub(super) fn letters(text: &str) -> String {
    without_nul(&folded(text))
}

fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

pub(super) fn search(file: &IndexFile, path: &Path, query: &SearchQuery) -> IndexResult<SearchPage> {
    let literal = query.literal()?;
    let SearchQuery { session, event_types, cwd, since, until, .. } = query;
    let what = format!("{session:?} {event_types:?} {cwd:?} {since:?} {until:?} {}", literal.as_folded());
    let fingerprint = xxh3_64(what.as_bytes());
    let behind = query.cursor.as_ref().map(|cursor| cursor.rank(&file.name, fingerprint)).transpose()?;
    let mut found = Found { literal: &literal, behind, limit: query.limit, total: 0, best: BTreeMap::new() };
    candidates(file, &literal, query, |row| found.consider(row)).map_err(|e| sqlite(path, &e))?;
    Ok(found.into_page(&file.name, fingerprint))
}

/// Calls back with every event that may hold a text.
fn candidates(
    file: &IndexFile,
    literal: &LiteralText,
    query: &SearchQuery,
    mut consider: impl FnMut(&Row<'_>) -> Result<(), rusqlite::Error>,
) -> Result<(), rusqlite::Error> {
    let threes = threes(&without_nul(literal.as_folded()));
    let mut values = Vec::new();
    // The order of the tables is told, so that the letters lead and not the sessions.
    let mut sql = match &threes {
        Some(threes) => {
            values.push(Value::from(threes.clone()));
            "SELECT id, seq, time, type, document.text FROM letters CROSS JOIN document ON document.number = letters.rowid \
             CROSS JOIN session ON session.number = document.session WHERE letters MATCH ?"
        }
        None => {
            "SELECT id, seq, time, type, document.text FROM document \
             CROSS JOIN session ON session.number = document.session WHERE true"
        }
    }
    .to_owned();
    let mut only = |condition: &str, value: Value| {
        sql.push_str(condition);
        values.push(value);
    };
    if let Some(session) = &query.session {
        only(" AND document.session = (SELECT number FROM session WHERE id = ?)", session.as_str().to_owned().into());
    }
    if let Some(cwd) = &query.cwd {
        only(" AND session.cwd = ?", cwd.clone().into());
    }
    if let Some(since) = query.since {
        only(" AND document.time >= ?", since.into());
    }
    if let Some(until) = query.until {
        only(" AND document.time <= ?", until.into());
    }
    let mut statement = file.connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        let event_type = row.get_ref(3)?.as_str()?;
        if query.event_types.is_empty() || query.event_types.iter().any(|wanted| wanted == event_type) {
            consider(row)?;
        }
    }
    Ok(())
}

/// What a text that holds this one must hold, for SQLite; nothing where it is too short.
fn threes(text: &str) -> Option<String> {
    let letters: Vec<char> = text.chars().collect();
    let mut seen = HashSet::new();
    let different: Vec<_> = letters.windows(3).filter(|three| seen.insert(*three)).collect();
    let step = different.len().div_ceil(MAX_THREES).max(1);
    let quoted = different.iter().step_by(step).map(|three| {
        let three: String = three.iter().collect();
        format!("\"{}\"", three.replace('"', "\"\""))
    });
    let quoted: Vec<_> = quoted.collect();
    (!quoted.is_empty()).then(|| quoted.join(" AND "))
}

/// The best of what was found, no more than a page needs.
struct Found<'a> {
    literal: &'a LiteralText,
    behind: Option<Rank>,
    limit: usize,
    total: u64,
    best: BTreeMap<Rank, SearchHit>,
}

impl Found<'_> {
    fn consider(&mut self, row: &Row<'_>) -> Result<(), rusqlite::Error> {
        let text = row.get_ref(4)?.as_str()?;
        let matches = self.literal.count_in(text);
        if matches == 0 {
            return Ok(());
        }
        self.total += 1;
        let (id, seq, time): (String, u64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let length = text.chars().count() as u64;
        let rank = Rank { matches: Reverse(matches), length, time: Reverse(time), seq: Reverse(seq), session: id };
        let is_before = self.behind.as_ref().is_some_and(|behind| rank <= *behind);
        let is_full = self.best.len() > self.limit;
        if is_before || (is_full && self.best.last_key_value().is_some_and(|(last, _)| rank > *last)) {
            return Ok(());
        }
        let Ok(session) = SessionId::new(&rank.session) else { return Ok(()) };
        let Some(place) = self.literal.first_in(text) else { return Ok(()) };
        let snippet = Snippet::around(text, place);
        self.best.insert(rank, SearchHit { session, seq, event_type: row.get(3)?, time, matches, snippet });
        if self.best.len() > self.limit + 1 {
            self.best.pop_last();
        }
        Ok(())
    }

    fn into_page(mut self, index: &str, query: u64) -> SearchPage {
        let goes_on = self.best.len() > self.limit;
        if goes_on {
            self.best.pop_last();
        }
        let last = self.best.last_key_value().filter(|_| goes_on);
        let next = last.map(|(rank, _)| SearchCursor::behind(index, query, rank));
        SearchPage { hits: self.best.into_values().collect(), total: self.total, next }
    }
}
