//! The rules by which a log comes into a store, wherever it comes from.

use super::spool::{Spool, Spooled};
use super::{Conflict, ImportError, ImportOptions, Imported};
use crate::log::{InvalidRecord, SessionEvent, SessionHeader, SessionId};
use crate::paging::LogPages;
use crate::seam::{
    CreateOptions, Error, OpenOptions, Result, SessionHandle, SessionPersistence, SessionState, Snapshot,
};

/// The events of a log that comes into a store, in their order and dense from seq 0.
pub(super) trait Incoming {
    /// The next event; nothing at the end of the log, once all that can be wrong with it was looked at.
    fn next_event(&mut self) -> Result<Option<SessionEvent>, ImportError>;
}

/// The most bytes of data that the packed parts of one log may become.
const MAX_UNPACKED_BYTES: u64 = 4 << 30;

/// How much the packed parts of a log have become so far. Each has bounds of its own, but a log of a few megabytes may
/// hold any number of them.
#[derive(Default)]
pub(super) struct Unpacking {
    bytes: u64,
}

impl Unpacking {
    /// Counts the events of another part.
    pub(super) fn add(&mut self, events: &[SessionEvent]) -> Result<(), InvalidRecord> {
        self.bytes += events.iter().map(|event| event.data().as_str().len() as u64).sum::<u64>();
        if self.bytes > MAX_UNPACKED_BYTES {
            return Err(InvalidRecord::new(format!("its log unpacks to more than {MAX_UNPACKED_BYTES} bytes")));
        }
        Ok(())
    }
}

/// Puts a log into a store, as a whole or not at all: the events are stored in one step, and only when the last of them
/// was read. A stored log is compared, extended where that was asked for, and never replaced. `from` stands for the
/// source in errors.
pub(super) fn deposit(
    store: &dyn SessionPersistence,
    from: &str,
    header: SessionHeader,
    log: impl Incoming,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    let target = Target { from, session: header.id() };
    match store.stat(header.id()).map_err(|e| target.not_stored(e))? {
        None => create(store, target, &header, log, options),
        Some(snapshot) => compare(store, target, &snapshot, &header, log, options),
    }
}

fn create(
    store: &dyn SessionPersistence,
    target: Target<'_>,
    header: &SessionHeader,
    mut log: impl Incoming,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    let mut spool = Spool::new(header);
    while let Some(event) = log.next_event()? {
        spool.push(event).map_err(|e| target.not_stored(e))?;
    }
    // What the longest event took to be read is free before the store takes as much again.
    drop(log);
    match target.create(store, header, &mut spool) {
        Err(taken @ ImportError::Store { source: Error::AlreadyExists { .. }, .. }) => {
            // Another program was first, perhaps with the same log.
            match store.stat(header.id()).map_err(|e| target.not_stored(e))? {
                Some(snapshot) => {
                    let log = SetAside { events: spool.events().map_err(|e| target.not_stored(e))?, target };
                    compare(store, target, &snapshot, header, log, options)
                }
                None => Err(taken),
            }
        }
        created => created,
    }
}

/// A log whose events were all read.
struct SetAside<'s> {
    events: Spooled<'s>,
    target: Target<'s>,
}

impl Incoming for SetAside<'_> {
    fn next_event(&mut self) -> Result<Option<SessionEvent>, ImportError> {
        self.events.next().transpose().map_err(|e| self.target.not_stored(e))
    }
}

fn compare(
    store: &dyn SessionPersistence,
    target: Target<'_>,
    snapshot: &Snapshot,
    header: &SessionHeader,
    mut log: impl Incoming,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    let session = header.id();
    let handle = store.open(session, OpenOptions::uninterpreted()).map_err(|e| target.not_stored(e))?;
    if handle.header() != header {
        return Err(target.conflict(Conflict::Header));
    }
    let mut pages = LogPages::new(&*handle, snapshot);
    let mut stored = 0;
    while let Some(event) = pages.next_event().map_err(|e| target.not_stored(e))? {
        match log.next_event()? {
            Some(found) if found == event => stored += 1,
            Some(_) => return Err(target.conflict(Conflict::Event { seq: event.seq() })),
            None => {
                let known = snapshot.event_count.unwrap_or(0).max(pages.read());
                return Err(target.conflict(Conflict::StoreGoesOn { file: stored, stored: known }));
            }
        }
    }
    handle.close().map_err(|e| target.not_stored(e))?;

    let mut rest = Spool::new(header);
    let mut total = stored;
    // Read to its end even where it will be refused: what is no log is refused for that first.
    while let Some(event) = log.next_event()? {
        total += 1;
        if options.extend {
            rest.push(event).map_err(|e| target.not_stored(e))?;
        }
    }
    drop(log);
    if total == stored {
        return Ok(Imported::Unchanged { session: session.clone(), events: total });
    }
    if !options.extend {
        return Err(target.conflict(match snapshot.state {
            SessionState::OlderFormat { version } | SessionState::NewerFormat { version } => {
                Conflict::ReadOnlyGoesOn { stored, file: total, version }
            }
            _ => Conflict::FileGoesOn { stored, file: total },
        }));
    }
    let handle = store.open(session, OpenOptions::write()).map_err(|e| target.not_stored(e))?;
    target.append(&*handle, &mut rest)?;
    Ok(Imported::Extended { session: session.clone(), events: total, added: rest.count() })
}

/// What a deposit is about, for its errors.
#[derive(Clone, Copy)]
struct Target<'a> {
    from: &'a str,
    session: &'a SessionId,
}

impl Target<'_> {
    fn create(
        self,
        store: &dyn SessionPersistence,
        header: &SessionHeader,
        events: &mut Spool,
    ) -> Result<Imported, ImportError> {
        let inherited = events.inherited();
        let create = if header.is_seeded() { CreateOptions::inheriting(inherited) } else { CreateOptions::default() };
        let handle = store.create(header, create).map_err(|e| self.not_stored(e))?;
        if events.count() == 0
            && let Err(error) = handle.flush()
        {
            // Without events it is the flush that stores the session, and then syncs it.
            let told = store.stat(header.id()).map_err(|e| self.not_stored(e))?;
            let is_stored = told.is_some_and(|snapshot| snapshot.state != SessionState::Pending);
            return Err(if is_stored { self.not_durable(error) } else { self.not_stored(error) });
        }
        self.append(&*handle, events)?;
        Ok(Imported::Created { session: header.id().clone(), events: events.count() })
    }

    fn append(self, handle: &dyn SessionHandle, events: &mut Spool) -> Result<(), ImportError> {
        let appended = match events.held() {
            Some(events) => handle.append(events),
            None => events.events().and_then(|mut events| handle.append_from(&mut events)),
        };
        appended.map_err(|e| self.not_stored(e))?;
        handle.flush().and_then(|()| handle.close()).map_err(|e| self.not_durable(e))
    }

    fn not_durable(self, source: Error) -> ImportError {
        ImportError::NotDurable { file: self.from.to_owned(), session: self.session.clone(), source }
    }

    fn not_stored(self, source: Error) -> ImportError {
        ImportError::Store { file: self.from.to_owned(), session: self.session.clone(), source }
    }

    fn conflict(self, conflict: Conflict) -> ImportError {
        ImportError::Conflict { file: self.from.to_owned(), session: self.session.clone(), conflict }
    }
}
