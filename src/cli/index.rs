//! [`IndexPlace`]: the search index beside the store.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use super::place::Place;
use super::progress::Bar;
use super::screen::{note, visible};
use crate::log::SessionId;
use crate::query::index::{
    IndexError, IndexOptions, IndexResult, SearchIndex, SessionFacts, UpdateReport, known_facts,
};
use crate::seam::{Fault, SessionPersistence, SessionState, Snapshot};

type Outcome<T> = std::result::Result<T, Failure>;

const VARIABLE: &str = "SESSIONS_INDEX";

/// Where the search index is.
#[derive(Args)]
pub(super) struct IndexPlace {
    /// The file of the search index [default: $SESSIONS_INDEX, else beside the store: STORE.index, or .sessions.index in a
    /// folder of log files]
    #[arg(long, value_name = "FILE")]
    index: Option<PathBuf>,
}

/// An index that tells what the store holds.
pub(super) struct Updated {
    index: SearchIndex,
    report: UpdateReport,
}

impl IndexPlace {
    /// The file: the one that was given with the call, else that of the environment, else the one beside the store.
    fn path(&self, place: &Place) -> Outcome<PathBuf> {
        let beside = place.index();
        let of_environment = || std::env::var_os(VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from);
        let Some(path) = self.index.clone().or_else(of_environment) else { return Ok(beside) };
        if path.as_os_str().is_empty() {
            return Err(Failure::Usage("the path of the search index is empty: name a file".to_owned()));
        }
        if place.is_index(&path) {
            return Ok(beside);
        }
        if place.owns(&path) {
            return Err(Failure::Usage(format!(
                "{} is a part of the store itself, and no place for its search index: name another file",
                path.display()
            )));
        }
        Ok(path)
    }

    /// Opens the index, which is made where there is none, and brings it up to the store.
    pub(super) fn updated(&self, place: &Place, store: &dyn SessionPersistence) -> Outcome<Updated> {
        let path = self.path(place)?;
        let index = SearchIndex::open(&path)?;
        let report = match update(&index, store) {
            // Nobody else's: the store was moved or copied with its index, or another one lies in its place.
            Err(IndexError::OtherStore { .. }) if path == place.index() => {
                index.start_anew()?;
                update(&index, store)
            }
            done => done,
        };
        Ok(Updated { index, report: report? })
    }

    /// Tells what in the index is not as the logs of the store make it.
    pub(super) fn check(&self, place: &Place, store: &dyn SessionPersistence, tell: impl FnMut(&Fault)) -> Outcome<()> {
        Ok(SearchIndex::check(self.path(place)?, IndexOptions::default(), store, tell)?)
    }

    /// What the index knows of sessions as they are now. Whatever keeps it from telling is no matter of who asks for them.
    pub(super) fn known(&self, place: &Place, sessions: &[Snapshot]) -> Outcome<HashMap<SessionId, SessionFacts>> {
        let path = self.path(place)?;
        Ok(known_facts(&path, sessions).unwrap_or_else(|error| {
            log::debug!("nothing is told from the search index: {error}");
            HashMap::new()
        }))
    }
}

impl Updated {
    /// Asks the index. One that turns out to be damaged, or that another process made anew meanwhile, is brought up to the
    /// store once more.
    pub(super) fn ask<T>(
        &mut self,
        store: &dyn SessionPersistence,
        read: impl Fn(&SearchIndex) -> IndexResult<T>,
    ) -> Outcome<T> {
        match read(&self.index) {
            Err(error @ (IndexError::Damaged { .. } | IndexError::NotFilled { .. })) => {
                note(&format!("sessions: note: {}", visible(&error.to_string())));
                self.report = update(&self.index, store)?;
                Ok(read(&self.index)?)
            }
            done => Ok(done?),
        }
    }

    /// Tells on the side which sessions could not be indexed to their end, of all or of one. Those of a newer format are
    /// for another program; any other is a failure.
    pub(super) fn tell_gaps(&mut self, store: &dyn SessionPersistence, only: Option<&SessionId>) -> Outcome<()> {
        let is_asked_for = |session: &SessionId| only.is_none_or(|only| only == session);
        let problems = self.ask(store, SearchIndex::problems)?;
        for (session, events) in self.report.shortened.iter().filter(|(session, _)| is_asked_for(session)) {
            note(&format!(
                "sessions: note: session {} has fewer than the {events} events that were indexed: it was cut, replaced, or \
                 an older copy was put back; what it does not hold any more is not found",
                visible(&format!("{session:?}"))
            ));
        }
        let failures = self.report.failures.iter();
        let failures: Vec<_> = failures.filter(|(session, _)| is_asked_for(session)).collect();
        for (_, error) in &failures {
            Failure::Index(IndexError::Store(error.clone())).tell();
        }
        let mut failed = !failures.is_empty();
        for (session, reason) in problems {
            if !is_asked_for(&session) || failures.iter().any(|(told, _)| *told == session) {
                continue;
            }
            let name = format!("session {session:?}");
            let message = if reason.contains(&name) { reason } else { format!("{name} is not indexed: {reason}") };
            match store.stat(&session)? {
                Some(Snapshot { state: SessionState::NewerFormat { .. }, .. }) => {
                    note(&format!("sessions: note: {}", visible(&message)));
                }
                Some(_) => {
                    failed = true;
                    Failure::Told { kind: "Corruption", message }.tell();
                }
                None => {}
            }
        }
        if failed { Err(Failure::Reported) } else { Ok(()) }
    }
}

fn update(index: &SearchIndex, store: &dyn SessionPersistence) -> IndexResult<UpdateReport> {
    let bar = Bar::new();
    index.update_telling(store, |session| bar.doing(&format!("indexing {}", visible(session.as_str()))))
}
