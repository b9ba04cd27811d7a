//! [`Ledger`]: what a store promised, and whether it kept it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::Connection;
use session_persistence::upkeep::{self, Progress};
use session_persistence::{ListQuery, OpenOptions, SeqRange, SessionPersistence, SqliteStore};

use super::sample::{self, Mode, check_log, event, id};

/// What is to be kept, and through what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Through {
    /// The death of the process.
    Death,
    /// A loss of power.
    Outage,
}

/// What a store was asked to keep and what it acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    mode: Mode,
    /// Whether an append that is acknowledged is durable.
    is_durable_at_once: bool,
    sessions: BTreeMap<String, Entry>,
    /// Whether the store was ever opened, which makes it.
    is_made: bool,
    /// What was acknowledged when a flush was started, by who started it.
    flushing: BTreeMap<String, BTreeMap<String, Known>>,
}

#[derive(Debug, Clone, Default)]
struct Entry {
    /// The lengths that the log can have: the ends of the batches.
    ends: BTreeSet<u64>,
    acknowledged: Known,
    durable: Known,
    is_being_removed: bool,
}

/// What is known of a session for certain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Known {
    /// It may or may not be there.
    #[default]
    Nothing,
    /// It has at least so many events.
    Stored(u64),
    Removed,
}

impl Ledger {
    pub(crate) fn new(mode: Mode) -> Self {
        let is_durable_at_once = mode != Mode::OnFlush;
        Self { mode, is_durable_at_once, sessions: BTreeMap::new(), is_made: false, flushing: BTreeMap::new() }
    }

    /// From now on only a flush makes anything durable.
    pub(crate) fn durable_when_flushed(&mut self) {
        self.is_durable_at_once = false;
    }

    /// The store is there, whatever happens.
    pub(crate) fn made(&mut self) {
        self.is_made = true;
    }

    fn entry(&mut self, session: &str) -> &mut Entry {
        self.sessions.entry(session.to_owned()).or_default()
    }

    /// A call was started after which the log may have this length.
    pub(crate) fn storing(&mut self, session: &str, length: u64) {
        self.entry(session).ends.insert(length);
    }

    /// That call returned a success.
    pub(crate) fn stored(&mut self, session: &str, length: u64) {
        let is_durable_at_once = self.is_durable_at_once;
        let entry = self.entry(session);
        entry.acknowledged = Known::Stored(length);
        if is_durable_at_once {
            entry.durable = entry.acknowledged;
        }
    }

    /// That call failed: the log never has this length.
    pub(crate) fn refused(&mut self, session: &str, length: u64) {
        self.entry(session).ends.remove(&length);
    }

    pub(crate) fn removing(&mut self, session: &str) {
        self.entry(session).is_being_removed = true;
    }

    pub(crate) fn removed(&mut self, session: &str) {
        self.entry(session).acknowledged = Known::Removed;
    }

    /// The removal failed: the session stays.
    pub(crate) fn kept(&mut self, session: &str) {
        self.entry(session).is_being_removed = false;
    }

    /// A flush returned a success.
    pub(crate) fn flushed(&mut self) {
        for entry in self.sessions.values_mut() {
            entry.durable = entry.acknowledged;
        }
    }

    /// A flush was started while others write.
    pub(crate) fn flushing(&mut self, by: &str) {
        let now = self.sessions.iter().map(|(session, entry)| (session.clone(), entry.acknowledged)).collect();
        self.flushing.insert(by.to_owned(), now);
    }

    /// The flush that was started by the same returned a success: what was acknowledged before it is durable.
    pub(crate) fn flushed_by(&mut self, by: &str) {
        for (session, then) in self.flushing.remove(by).expect("it was started") {
            let entry = self.entry(&session);
            entry.durable = match (then, entry.durable) {
                (Known::Stored(then), Known::Stored(durable)) => Known::Stored(then.max(durable)),
                (then, Known::Nothing) => then,
                (_, durable) => durable,
            };
        }
    }

    /// Somebody read so many events, which therefore are there.
    pub(crate) fn found(&mut self, session: &str, length: u64) {
        let entry = self.entry(session);
        assert!(entry.ends.contains(&length), "{session} has {length} events, where batches end at {:?}", entry.ends);
        if let Known::Stored(least) = entry.acknowledged {
            assert!(length >= least, "{session} has {length} events, where {least} were acknowledged");
        }
        entry.acknowledged = Known::Stored(length);
    }

    /// Those that were ever stored, or tried to be.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &str> {
        self.sessions.keys().map(String::as_str)
    }

    /// How many events of a session were acknowledged.
    pub(crate) fn length(&self, session: &str) -> u64 {
        self.certain(session, Through::Death)
    }

    /// How many events of a session are certain.
    pub(crate) fn certain(&self, session: &str, through: Through) -> u64 {
        match self.sessions.get(session).map(|entry| entry.known(through)) {
            Some(Known::Stored(length)) => length,
            _ => 0,
        }
    }

    /// Checks that an open store shows exactly what it acknowledged.
    pub(crate) fn check_shown(&self, store: &SqliteStore, what: &str) {
        for (session, entry) in &self.sessions {
            let stat = store.stat(&id(session)).unwrap_or_else(|e| panic!("{what}: stat of {session}: {}", chain(&e)));
            match (entry.acknowledged, stat) {
                (Known::Stored(length), Some(stat)) => {
                    assert!(stat.event_count == Some(length), "{what}: {session}: {stat:?}, not {length}");
                    let reader = store.open(&id(session), OpenOptions::read());
                    check_log(&*reader.unwrap_or_else(|e| panic!("{what}: {session}: {e}")), length, what);
                }
                (Known::Removed, None) => {}
                // Created and not stored yet, or stored without events by a flush that then failed.
                (Known::Nothing, stat) => assert!(stat.is_none_or(|s| s.event_count == Some(0)), "{what}: {session}"),
                (known, stat) => panic!("{what}: {session}: {stat:?} where {known:?} was acknowledged"),
            }
        }
    }

    /// Opens what is left at `path` and holds it against the promises: every session that was acknowledged is there with all
    /// its events, to the byte, and with no part of a batch; what is counted is what is stored; SQLite finds nothing wrong;
    /// and each log can be continued.
    pub(crate) fn check(&self, path: &Path, through: Through, what: &str) {
        if self.is_made {
            assert!(path.exists(), "{what}: the store is gone");
        }
        let store = sample::open(path, self.mode).unwrap_or_else(|e| panic!("{what}: opening: {}", chain(&e)));
        let mut present = BTreeMap::new();
        for (session, entry) in &self.sessions {
            if let Some(length) = entry.check(&store, session, through, what) {
                present.insert(session.clone(), length);
            }
        }
        let listed = store.list(&ListQuery::default()).unwrap_or_else(|e| panic!("{what}: list: {e}")).items;
        let listed: BTreeMap<_, _> = listed.iter().map(|s| (s.id.to_string(), s.event_count.unwrap())).collect();
        assert!(listed == present, "{what}: {listed:?} are listed, {present:?} can be opened");
        check_store(&store, path, what);
        for (session, length) in present {
            let writer = store.open(&id(&session), OpenOptions::write());
            let writer = writer.unwrap_or_else(|e| panic!("{what}: opening {session} for writing: {e}"));
            writer.append(&[event(&session, length)]).unwrap_or_else(|e| panic!("{what}: the next append: {e}"));
            check_log(&*writer, length + 1, what);
        }
        store.flush().unwrap_or_else(|e| panic!("{what}: the next flush: {e}"));
    }
}

impl Entry {
    fn known(&self, through: Through) -> Known {
        match through {
            Through::Death => self.acknowledged,
            Through::Outage => self.durable,
        }
    }

    /// How many events the session has, where it is there.
    fn check(&self, store: &SqliteStore, session: &str, through: Through, what: &str) -> Option<u64> {
        let stat = store.stat(&id(session)).unwrap_or_else(|e| panic!("{what}: stat of {session}: {e}"));
        let known = self.known(through);
        let Some(stat) = stat else {
            let may_be_gone = self.is_being_removed || !matches!(known, Known::Stored(_));
            assert!(may_be_gone, "{what}: {session} is gone, where {known:?} was acknowledged");
            return None;
        };
        assert!(known != Known::Removed, "{what}: {session} was removed and is back");
        let length = stat.event_count.unwrap();
        assert!(
            self.ends.contains(&length),
            "{what}: {session} has {length} events, where batches end at {:?}",
            self.ends
        );
        if let Known::Stored(least) = known {
            assert!(length >= least, "{what}: {session} has {length} events, where {least} were acknowledged");
        }
        let reader = store.open(&id(session), OpenOptions::read()).unwrap_or_else(|e| panic!("{what}: open: {e}"));
        check_log(&*reader, length, what);
        let read = reader.read(SeqRange::ALL).unwrap();
        let bytes = [reader.header().to_line()].into_iter().chain(read.iter().map(|e| e.to_line()));
        assert!(stat.size_bytes == Some(bytes.map(|line| line.len() as u64 + 1).sum()), "{what}: {session}: size");
        assert!(stat.last_time == read.last().map(|e| e.time()), "{what}: {session}: last time");
        Some(length)
    }
}

/// Checks that an open store is sound, whatever is stored in it.
pub(crate) fn check_store(store: &SqliteStore, path: &Path, what: &str) {
    let found = Connection::open(path)
        .and_then(|connection| connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)));
    assert!(found.as_deref() == Ok("ok"), "{what}: SQLite finds {found:?}");
    let mut faults = Vec::new();
    let verified = upkeep::verify(store, None, &mut |progress| {
        if let Progress::Fault(fault) = progress {
            faults.push(fault.to_string());
        }
    });
    assert!(verified.is_ok_and(|report| report.is_sound()), "{what}: {faults:?}");
}

/// An error with those below it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let below = std::iter::successors(error.source(), |e| e.source());
    below.fold(error.to_string(), |text, e| format!("{text}: {e}"))
}
