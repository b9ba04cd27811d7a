//! [`Database`]: many readers and one writer, as what the shared runtime asks of a backend.

use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rusqlite::Connection;

use super::super::runtime::{Batch, Listed, Pieces, Slice, Storage, Stored, Wanted, cores};
use super::change::{Change, Done};
use super::commits::Commits;
use super::connections::{Connections, Reading};
use super::events::{Events, Given};
use super::failure::{Context, corruption};
use super::journal::Journal;
use super::lease::{Lease, Locks};
use super::listing;
use super::reader::{self, Numbered, Part};
use super::row::{SessionKey, check_sizes};
use super::session_row::SessionRow;
use super::view::View;
use super::writer::Writer;
use crate::log::{SessionHeader, SessionId, Vocabulary};
use crate::seam::{Durability, Fault, Holder, Removal, Result, Revision, SeqRange, Snapshot};

/// One database: many readers, one writer.
pub(super) struct Database {
    pub(super) path: PathBuf,
    pub(super) locks: Locks,
    pub(super) connections: Arc<Connections>,
    /// Who waits for the writer.
    pub(super) commits: Commits,
    /// The mode that it is switched to when it is written; nothing where it keeps its own.
    pub(super) journal: Option<Journal>,
    pub(super) durability: Durability,
    pub(super) busy_timeout: Duration,
    pub(super) max_event_bytes: usize,
    /// The identity of the store, once it was asked for.
    pub(super) store_id: OnceLock<String>,
}

impl Database {
    pub(super) fn context(&self) -> Context<'_> {
        Context::store(&self.path)
    }

    /// Runs `work` in one view of the database.
    pub(super) fn read<T>(&self, context: &Context<'_>, work: impl Fn(&Connection) -> Result<T>) -> Result<T> {
        let in_view = |connection: &Connection| {
            let view = View::of(connection).map_err(|e| context.sqlite(e))?;
            work(&view)
        };
        self.check_in_place()?;
        match &self.connections.reading {
            Reading::Pool(readers) => readers.with(context, in_view),
            // It looks through a view of its own.
            Reading::Visit(visit) => visit.read(context, work),
            Reading::Writer => self.write(context, |writer| in_view(writer.connection())),
        }
    }

    /// Runs `work`, which is a single statement and so sees one state of the database without a view.
    fn read_once<T>(&self, context: &Context<'_>, work: impl Fn(&Connection) -> Result<T>) -> Result<T> {
        self.check_in_place()?;
        match &self.connections.reading {
            Reading::Pool(readers) => readers.with(context, work),
            Reading::Visit(visit) => visit.read(context, work),
            Reading::Writer => self.write(context, |writer| work(writer.connection())),
        }
    }

    /// Reads a part of a log, unless that is more than `most` events.
    fn read_part(
        &self,
        id: &SessionId,
        key: &SessionKey,
        range: SeqRange,
        most: u64,
        vocabulary: Option<&Vocabulary>,
    ) -> Result<Part> {
        let context = self.context().session(id);
        let is_known = |row: &SessionRow<'_>| Ok(vocabulary.is_none_or(|_| key.is_interpretable(row.types_checksum)));
        let known = self.read_once(&context, |view| reader::read(view, id, key, range, most, is_known, &context))?;
        if let Some(part) = known {
            return Ok(part);
        }
        self.read(&context, |view| {
            let check = |row: &SessionRow<'_>| {
                vocabulary.map_or(Ok(()), |known| reader::check_interpretable(view, id, key, row, known, &context))?;
                Ok(true)
            };
            let part = reader::read(view, id, key, range, most, check, &context)?;
            Ok(part.expect("a session that passes its check is let through"))
        })
    }

    /// Reads a long part of a log on two connections at once. What is stored never changes, so that two states of the database
    /// have the same events of it, or the session is gone.
    fn read_in_halves(
        &self,
        id: &SessionId,
        key: &SessionKey,
        wanted: Range<u64>,
        vocabulary: Option<&Vocabulary>,
    ) -> Result<Slice> {
        let half = |range: Range<u64>| -> Result<Slice> {
            match self.read_part(id, key, range.into(), u64::MAX, vocabulary)? {
                Part::Read(slice) => Ok(slice),
                Part::Long(_) => unreachable!("no part has so many events"),
            }
        };
        let (start, middle, end) = (wanted.start, wanted.start.midpoint(wanted.end), wanted.end);
        let (front, back) = cores::both(|| half(start..middle), || half(middle..end));
        let (mut slice, back) = (front?, back?);
        slice.events.extend(back.events);
        let next = start + slice.events.len() as u64;
        if next < end {
            let reason = format!("its row is missing, of {end} that were counted when the reading began");
            return Err(corruption(id, Some(next), reason));
        }
        Ok(slice)
    }

    fn may_read_twice_at_once(&self) -> bool {
        matches!(self.connections.reading, Reading::Pool(_)) && cores::are_several()
    }

    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self.connections.reading, Reading::Writer)
    }

    pub(super) fn check_in_place(&self) -> Result<()> {
        self.connections.in_place.check(&self.context())
    }

    pub(super) fn check_writable(&self, context: &Context<'_>) -> Result<()> {
        match self.connections.reading {
            Reading::Visit(_) => {
                Err(context.read_only("it was opened where it cannot be written; open it again once it can"))
            }
            Reading::Pool(_) | Reading::Writer => Ok(()),
        }
    }

    /// Who writes the session of a number, in whatever process.
    fn owner(&self, number: i64, context: &Context<'_>) -> Result<Option<Holder>> {
        self.locks.owner(number).map_err(|e| context.io("looking at a lock of", e))
    }

    /// Has a change made, together with those that others want at the same time.
    fn change(&self, change: Change<'_>) -> Result<Done> {
        self.commits.make(change, &|changes| self.commit(changes))
    }

    /// Has a batch stored by a change; refuses an event that is larger than what is held.
    fn with_events<T>(
        &self,
        session: &SessionId,
        batch: Batch<'_>,
        store: impl FnOnce(Events<'_>) -> Result<T>,
    ) -> Result<T> {
        let max_event_bytes = self.max_event_bytes;
        match batch {
            Batch::Held(events) => {
                check_sizes(events, max_event_bytes, session)?;
                store(Events::Held(events.into()))
            }
            Batch::Given(events) => store(Events::Given(&Given { pieces: Pieces::of(events).into(), max_event_bytes })),
        }
    }

    fn commit(&self, changes: &[Change<'_>]) -> Vec<Result<Done>> {
        let context = self.context();
        let made = self.write(&context, |writer| Ok(writer.commit(changes, &self.locks, &context)));
        // Where there is no writer yet and none can be had, each is told why. It is waited for once.
        made.unwrap_or_else(|failed| changes.iter().map(|change| Err(failed.of_store_for(change.session()))).collect())
    }

    /// Runs `work` on the one writer.
    pub(super) fn write<T>(&self, context: &Context<'_>, work: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        self.check_in_place()?;
        self.check_writable(context)?;
        let mut writer = self.connections.writer();
        let writer = match &mut *writer {
            Some(writer) => writer,
            none => none.insert(self.open_writer(context)?),
        };
        let done = work(writer);
        self.connections.in_place.watch(writer.journal());
        done
    }

    fn open_writer(&self, context: &Context<'_>) -> Result<Writer> {
        let open = || Writer::open(&self.path, &self.locks, self.journal, self.durability, self.busy_timeout, context);
        match &self.connections.reading {
            // Nobody may have a database open that leaves WAL mode.
            Reading::Pool(readers) if self.journal == Some(Journal::Rollback) => readers.closed_for(open),
            _ => open(),
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.connections.forget_if_inherited();
    }
}

/// Each change has an outcome of its own kind.
const UNASKED: &str = "an outcome of another change";

impl Storage for Database {
    type Key = SessionKey;
    type Lease = Lease;

    fn contains(&self, id: &SessionId) -> Result<bool> {
        let context = self.context().session(id);
        self.read_once(&context, |view| reader::contains(view, id).map_err(|e| context.sqlite(e)))
    }

    fn find(&self, id: &SessionId) -> Result<Option<Stored<SessionKey>>> {
        let context = self.context().session(id);
        self.read_once(&context, |view| reader::find(view, id, &context))
    }

    fn lease(&self, id: &SessionId, key: &SessionKey) -> Result<Lease> {
        let context = self.context().session(id);
        self.check_writable(&context)?;
        let lease = self.locks.take(key.number, id, &context)?;
        match self.change(Change::Own { id: id.clone(), key: key.clone() })? {
            Done::Owned(fence) => Ok(lease.with_fence(fence)),
            _ => unreachable!("{UNASKED}"),
        }
    }

    fn materialize(&self, header: &SessionHeader, inherited: u64, events: Batch<'_>) -> Result<(SessionKey, Lease)> {
        let stored = self.with_events(header.id(), events, |events| {
            self.change(Change::Materialize { header: header.clone(), inherited, events })
        });
        match stored? {
            Done::Stored(key, lease) => Ok((key, lease)),
            _ => unreachable!("{UNASKED}"),
        }
    }

    fn append(&self, id: &SessionId, key: &SessionKey, lease: &mut Lease, events: Batch<'_>) -> Result<()> {
        let fence = lease.fence;
        let append = |events: Events<'_>| {
            self.change(Change::Append { id: id.clone(), key: key.clone(), fence, events }).map(drop)
        };
        self.with_events(id, events, append)
    }

    fn check_interpretable(&self, id: &SessionId, key: &SessionKey, vocabulary: &Vocabulary) -> Result<()> {
        let context = self.context().session(id);
        self.read(&context, |view| {
            let row = reader::session(view, id, key, &context)?;
            reader::check_interpretable(view, id, key, &row, vocabulary, &context)
        })
    }

    fn read(
        &self,
        id: &SessionId,
        key: &SessionKey,
        range: SeqRange,
        vocabulary: Option<&Vocabulary>,
    ) -> Result<Slice> {
        let at_once = if self.may_read_twice_at_once() { cores::LONG } else { u64::MAX };
        match self.read_part(id, key, range, at_once, vocabulary)? {
            Part::Read(slice) => Ok(slice),
            Part::Long(wanted) => self.read_in_halves(id, key, wanted, vocabulary),
        }
    }

    fn stat(&self, id: &SessionId, vocabulary: &Vocabulary) -> Result<Option<Snapshot>> {
        let context = self.context().session(id);
        let told = self.read_once(&context, |view| reader::stat(view, id, vocabulary, &context))?;
        let Some(Numbered { number, mut snapshot }) = told else { return Ok(None) };
        snapshot.owner = self.owner(number, &context)?;
        Ok(Some(snapshot))
    }

    fn identity(&self) -> Result<String> {
        if let Some(known) = self.store_id.get() {
            return Ok(known.clone());
        }
        let context = self.context();
        let found = self.read(&context, |view| reader::store_id(view, &context))?;
        Ok(self.store_id.get_or_init(|| found).clone())
    }

    fn list(&self, wanted: &Wanted<'_>) -> Result<Vec<Listed>> {
        let context = self.context();
        let locked = || self.locks.numbers().map_err(|e| context.io("looking at the locks of", e));
        let look_for_owner = |told: &mut Numbered, locked: &HashSet<i64>| -> Result<()> {
            if locked.contains(&told.number) {
                told.snapshot.owner = self.owner(told.number, &context)?;
            }
            Ok(())
        };
        let listed = |(key, told): (u64, Numbered)| Listed { key, snapshot: told.snapshot };
        if let Some(is_owned) = wanted.filter.is_owned() {
            let locked = locked()?;
            let found = self.read(&context, |view| {
                let let_through = |told: &mut Numbered| {
                    look_for_owner(told, &locked)?;
                    Ok(wanted.lets_through(&mut told.snapshot))
                };
                listing::list(view, wanted, is_owned.then_some(&locked), &context, let_through)
            })?;
            return Ok(found.into_iter().map(listed).collect());
        }
        let mut found = self.read(&context, |view| {
            let let_through = |told: &mut Numbered| Ok(wanted.filter.matches(&told.snapshot));
            listing::list(view, wanted, None, &context, let_through)
        })?;
        let locked = locked()?;
        found.iter_mut().try_for_each(|(_, told)| look_for_owner(told, &locked))?;
        Ok(found.into_iter().map(listed).collect())
    }

    fn remove(&self, id: &SessionId, only: Option<&Revision>) -> Result<Removal> {
        match self.change(Change::Remove { id: id.clone(), only: only.cloned() })? {
            Done::Removed(removal) => Ok(removal),
            _ => unreachable!("{UNASKED}"),
        }
    }

    fn sync(&self) -> Result<()> {
        self.change(Change::Flush).map(drop)
    }

    fn inspect(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        self.inspect_all(found)
    }
}
