//! A log file into a store.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::ImportError;
use super::deposit::deposit;
use super::log_file::LogFile;
use crate::log::SessionId;
use crate::seam::{Result, SessionPersistence};

/// How to import or copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportOptions {
    /// Whether a log that goes on where the stored one ends may add to it.
    pub extend: bool,
}

impl ImportOptions {
    /// Options that let a longer log add to the stored log.
    pub const fn extending() -> Self {
        Self { extend: true }
    }
}

/// What an import did with a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Imported {
    /// The session was not there and is now.
    Created {
        /// The session.
        session: SessionId,
        /// How many events it has.
        events: u64,
    },
    /// The session was there with the very same log, and nothing was written.
    Unchanged {
        /// The session.
        session: SessionId,
        /// How many events it has.
        events: u64,
    },
    /// The session was there with the start of the log, and the rest was added.
    Extended {
        /// The session.
        session: SessionId,
        /// How many events it has.
        events: u64,
        /// How many of them were added.
        added: u64,
    },
}

impl Imported {
    /// The session.
    pub fn session(&self) -> &SessionId {
        match self {
            Self::Created { session, .. } | Self::Unchanged { session, .. } | Self::Extended { session, .. } => session,
        }
    }

    /// How many events it has.
    #[cfg(feature = "jsonl")]
    pub(crate) fn events(&self) -> u64 {
        match self {
            Self::Created { events, .. } | Self::Unchanged { events, .. } | Self::Extended { events, .. } => *events,
        }
    }
}

/// How many sessions came to which end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// How many were not there and are now.
    pub created: u64,
    /// How many were there with the very same log.
    pub unchanged: u64,
    /// How many were there with the start of the log, and have the rest now.
    pub extended: u64,
    /// How many sessions, or sources as a whole, failed.
    pub failed: u64,
}

impl Tally {
    /// Runs what tells of sessions one by one, and counts. The failure that ends it is told like that of a session.
    pub(super) fn of(
        report: &mut dyn FnMut(Result<Imported, ImportError>),
        run: impl FnOnce(&mut dyn FnMut(Result<Imported, ImportError>)) -> Result<(), ImportError>,
    ) -> Self {
        let mut tally = Self::default();
        let mut tell = |outcome| {
            match &outcome {
                Ok(Imported::Created { .. }) => tally.created += 1,
                Ok(Imported::Unchanged { .. }) => tally.unchanged += 1,
                Ok(Imported::Extended { .. }) => tally.extended += 1,
                Err(_) => tally.failed += 1,
            }
            report(outcome);
        };
        if let Err(error) = run(&mut tell) {
            tell(Err(error));
        }
        tally
    }

    /// How many sessions are stored now, whether anything was written for it or not.
    pub fn stored(&self) -> u64 {
        self.created + self.unchanged + self.extended
    }
}

/// Imports one log file, which is only read: [`import_reader`] over its content.
///
/// # Errors
///
/// As [`import_reader`]; [`ImportError::Unreadable`] also when the file cannot be opened.
pub fn import_file(
    store: &dyn SessionPersistence,
    path: &Path,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => import_reader(store, &name, BufReader::with_capacity(256 << 10, file), options),
        Err(source) => Err(ImportError::Unreadable { file: name, source }),
    }
}

/// Imports one log: a session's header line, then a line for each of its events, dense from seq 0. Nothing is stored
/// before the last line was checked, and then all of it in one step, so that whatever happens the session is there as a
/// whole or not at all. Its text is kept as the file has it, in whatever format version, and is not interpreted.
///
/// Importing the same log again changes nothing. A stored session is never replaced: a log that goes on where the stored
/// one ends adds to it with [`ImportOptions::extend`], and any other that differs is refused. `name` stands for the file
/// in errors. A log above a few megabytes is set aside in the folder of temporary files until it is read.
///
/// # Errors
///
/// [`ImportError`], which tells the file and the line or the session.
pub fn import_reader(
    store: &dyn SessionPersistence,
    name: &str,
    reader: impl BufRead,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    let (header, file) = LogFile::open(name, reader)?;
    deposit(store, name, header, file, options)
}
