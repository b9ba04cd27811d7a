//! [`SearchQuery`], and how its events are found: three letters that follow on one another lead to the events that may hold the
//! text, and each of these is compared with it. A shorter text is compared with every event.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use rusqlite::types::Value;
use rusqlite::{Row, params_from_iter};
use xxhash_rust::xxh3::xxh3_64;

use super::super::LiteralText;
use super::document::{Document, without_nul};
use super::file::IndexFile;
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

pub(super) fn search(file: &IndexFile, query: &SearchQuery) -> IndexResult<SearchPage> {
    let literal = query.literal()?;
    file.filled()?;
    let SearchQuery { session, event_types, cwd, since, until, .. } = query;
    let what = format!("{session:?} {event_types:?} {cwd:?} {since:?} {until:?} {}", literal.as_folded());
    let fingerprint = xxh3_64(what.as_bytes());
    let behind = query.cursor.as_ref().map(|cursor| cursor.rank(&file.name, fingerprint)).transpose()?;
    let mut found = Best { literal: &literal, behind, limit: query.limit, total: 0, best: BTreeMap::new() };
    found.look(file, query)?;
    Ok(found.into_page(&file.name, fingerprint))
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
struct Best<'a> {
    literal: &'a LiteralText,
    behind: Option<Rank>,
    limit: usize,
    total: u64,
    best: BTreeMap<Rank, SearchHit>,
}

impl Best<'_> {
    /// Looks at every event that may hold the text.
    fn look(&mut self, file: &IndexFile, query: &SearchQuery) -> IndexResult<()> {
        let threes = threes(&without_nul(self.literal.as_folded()));
        let mut values = Vec::new();
        // The order of the tables is told, so that the letters lead and not the sessions.
        let from = match threes {
            Some(threes) => {
                values.push(Value::from(threes));
                "letters CROSS JOIN document ON document.number = letters.rowid \
                 CROSS JOIN session ON session.number = document.session WHERE letters MATCH ?"
            }
            None => "document CROSS JOIN session ON session.number = document.session WHERE true",
        };
        let mut sql =
            format!("SELECT id, session.number, seq, time, type, document.text, document.checksum FROM {from}");
        let mut only = |condition: &str, value: Value| {
            sql.push_str(condition);
            values.push(value);
        };
        if let Some(session) = &query.session {
            only(
                " AND document.session = (SELECT number FROM session WHERE id = ?)",
                session.as_str().to_owned().into(),
            );
        }
        if !query.event_types.is_empty() {
            let types = serde_json::Value::from(query.event_types.clone()).to_string();
            only(" AND document.type IN (SELECT value FROM json_each(?))", types.into());
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
        let failed = |e: rusqlite::Error| file.failure(&e);
        let mut statement = file.connection.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query(params_from_iter(values)).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            if let Some(reason) = self.consider(row).map_err(failed)? {
                return Err(file.damaged(reason));
            }
        }
        Ok(())
    }

    /// Takes an event that holds the text; tells where what is indexed of it is not what was stored.
    fn consider(&mut self, row: &Row<'_>) -> Result<Option<String>, rusqlite::Error> {
        let (number, seq, time): (i64, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let (event_type, text) = (row.get_ref(4)?.as_str()?, row.get_ref(5)?.as_str()?);
        let (id, checksum): (String, i64) = (row.get(0)?, row.get(6)?);
        let (session, valid_seq) = (SessionId::new(&id), u64::try_from(seq));
        let is_stored = Document { session: number, seq, time, event_type, text }.checksum() == checksum;
        let (Ok(session), Ok(seq), true) = (session, valid_seq, is_stored) else {
            return Ok(Some(format!("the row of session {id:?}, seq {seq} is not what was indexed")));
        };
        let matches = self.literal.count_in(text);
        if matches == 0 {
            return Ok(None);
        }
        self.total += 1;
        let length = text.chars().count() as u64;
        let rank = Rank { matches: Reverse(matches), length, time: Reverse(time), seq: Reverse(seq), session: id };
        let is_before = self.behind.as_ref().is_some_and(|behind| rank <= *behind);
        let is_full = self.best.len() > self.limit;
        if is_before || (is_full && self.best.last_key_value().is_some_and(|(last, _)| rank > *last)) {
            return Ok(None);
        }
        if let Some(place) = self.literal.first_in(text) {
            let (event_type, snippet) = (event_type.to_owned(), Snippet::around(text, place));
            self.best.insert(rank, SearchHit { session, seq, event_type, time, matches, snippet });
        }
        if self.best.len() > self.limit + 1 {
            self.best.pop_last();
        }
        Ok(None)
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
