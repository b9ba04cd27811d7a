//! A log file into a store.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::log_file::LogFile;
use super::{Conflict, ImportError, Pages};
use crate::log::{SessionEvent, SessionHeader, SessionId};
use crate::seam::{CreateOptions, Error, OpenOptions, Result, SessionHandle, SessionPersistence, Snapshot, checks};

/// How to import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportOptions {
    /// Whether a file that goes on where the stored log ends may add to it.
    pub extend: bool,
}

impl ImportOptions {
    /// Options that let a longer file add to the stored log.
    pub const fn extending() -> Self {
        Self { extend: true }
    }
}

/// What an import did.
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
/// in errors. A log that is stored is held in memory as a whole.
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
    let session = header.id().clone();
    let failed = |source| ImportError::Store { file: name.to_owned(), session: session.clone(), source };
    match store.stat(&session).map_err(failed)? {
        None => create(store, header, file),
        Some(snapshot) => compare(store, &snapshot, header, file, options),
    }
}

fn create<R: BufRead>(
    store: &dyn SessionPersistence,
    header: SessionHeader,
    mut file: LogFile<R>,
) -> Result<Imported, ImportError> {
    let mut events = Vec::new();
    while let Some(event) = file.next_event()? {
        events.push(event);
    }
    let name = file.close();
    let target = Target { file: &name, session: header.id() };
    let inherited = checks::inherited_event_count(&header, &events);
    let create = if header.is_seeded() { CreateOptions::inheriting(inherited) } else { CreateOptions::default() };
    let handle = store.create(&header, create).map_err(|e| target.not_stored(e))?;
    if events.is_empty() {
        // Without events it is the flush that stores the session, so a failure leaves nothing behind.
        handle.flush().map_err(|e| target.not_stored(e))?;
    }
    target.append(&*handle, &events)?;
    Ok(Imported::Created { session: header.id().clone(), events: events.len() as u64 })
}

fn compare<R: BufRead>(
    store: &dyn SessionPersistence,
    snapshot: &Snapshot,
    header: SessionHeader,
    mut file: LogFile<R>,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    let name = file.name().to_owned();
    let target = Target { file: &name, session: header.id() };
    let handle = store.open(header.id(), OpenOptions::uninterpreted()).map_err(|e| target.not_stored(e))?;
    if *handle.header() != header {
        return Err(target.conflict(Conflict::Header));
    }
    let mut pages = Pages::new(&*handle, snapshot, 0);
    let mut stored = 0;
    loop {
        let page = pages.next_page().map_err(|e| target.not_stored(e))?;
        if page.is_empty() {
            break;
        }
        for (index, event) in page.iter().enumerate() {
            match file.next_event()? {
                Some(found) if found == *event => {}
                Some(_) => return Err(target.conflict(Conflict::Event { seq: event.seq() })),
                None => {
                    let file = stored + index as u64;
                    let known = snapshot.event_count.unwrap_or(0).max(stored + page.len() as u64);
                    return Err(target.conflict(Conflict::StoreGoesOn { file, stored: known }));
                }
            }
        }
        stored += page.len() as u64;
    }
    handle.close().map_err(|e| target.not_stored(e))?;

    let mut rest = Vec::new();
    let mut total = stored;
    // Read to its end even where it will be refused: a file that is no log is refused for that first.
    while let Some(event) = file.next_event()? {
        total += 1;
        if options.extend {
            rest.push(event);
        }
    }
    file.close();
    let session = header.id().clone();
    if total == stored {
        return Ok(Imported::Unchanged { session, events: total });
    }
    if !options.extend {
        return Err(target.conflict(Conflict::FileGoesOn { stored, file: total }));
    }
    let handle = store.open(&session, OpenOptions::write()).map_err(|e| target.not_stored(e))?;
    target.append(&*handle, &rest)?;
    Ok(Imported::Extended { session, events: total, added: rest.len() as u64 })
}

/// What an import is about, for its errors.
struct Target<'a> {
    file: &'a str,
    session: &'a SessionId,
}

impl Target<'_> {
    fn append(&self, handle: &dyn SessionHandle, events: &[SessionEvent]) -> Result<(), ImportError> {
        handle.append(events).map_err(|e| self.not_stored(e))?;
        handle.flush().and_then(|()| handle.close()).map_err(|source| ImportError::NotDurable {
            file: self.file.to_owned(),
            session: self.session.clone(),
            source,
        })
    }

    fn not_stored(&self, source: Error) -> ImportError {
        ImportError::Store { file: self.file.to_owned(), session: self.session.clone(), source }
    }

    fn conflict(&self, conflict: Conflict) -> ImportError {
        ImportError::Conflict { file: self.file.to_owned(), session: self.session.clone(), conflict }
    }
}
