//! [`Files`]: the storage behind a [`JsonlStore`](super::JsonlStore).

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::runtime::{Batch, Listed, Slice, Storage, Stored, Wanted};
use super::JsonlOptions;
use super::cursor::Cursors;
use super::disk::{Disk, DiskFile, Identity, Stat, now};
use super::failure::{Context, Damage};
use super::frames::Packer;
use super::glance::Glances;
use super::layout::{Encoding, Found, Layout, Place, one_of};
use super::lease::Lease;
use super::log_file::{LogFile, Tail};
use super::log_lock::own;
use super::memo::{Known, Memo};
use super::scan::scan;
use super::stored_log::Log;
use super::unsynced::Unsynced;
use crate::log::{SessionHeader, SessionId, Vocabulary};
use crate::seam::{Durability, Error, ErrorKind, Fault, Removal, Result, Revision, SeqRange, Snapshot, checks};

/// Activities above this are those of sessions that are not stored yet.
pub(super) const LATEST: u64 = (1 << 63) - 1;

/// How often a log is read again because it changed while it was read.
const READS: usize = 3;

/// The files of one root.
pub(super) struct Files {
    /// The root, as it was opened.
    root: Identity,
    pub(super) layout: Layout,
    pub(super) disk: Arc<dyn Disk>,
    /// How new sessions are stored; nothing as long as the root has none.
    pub(super) encoding: Mutex<Option<Encoding>>,
    pub(super) wanted_encoding: Encoding,
    pub(super) memo: Memo,
    /// Where reading goes on in logs that are not held.
    pub(super) cursors: Cursors,
    pub(super) glances: Glances,
    /// Where sessions were found, to look there first.
    pub(super) folders: Mutex<HashMap<SessionId, Arc<Path>>>,
    pub(super) packer: Packer,
    pub(super) durability: Durability,
    pub(super) unsynced: Unsynced,
    /// The latest time of a file that was seen or given, in nanoseconds since 1970.
    pub(super) latest: AtomicU64,
}

/// One incarnation of a stored session: its file, held open so that no other file gets its identity.
#[derive(Clone)]
pub(super) struct Key(pub(super) Arc<Opened>);

pub(super) struct Opened {
    pub(super) place: Place,
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn DiskFile>,
    pub(super) identity: Identity,
}

pub(super) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    pub(super) fn open(layout: Layout, disk: Arc<dyn Disk>, options: &JsonlOptions) -> Result<Self> {
        let context = Context::store(layout.root());
        let root = match disk.stat(layout.root()) {
            Ok(found) if found.is_dir => found.identity,
            Ok(_) => return Err(context.unsupported("it is a file, and a store of plain files is a folder", None)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let reason = "there is no such folder; check the path, or import into it to make it";
                return Err(context.unsupported(reason, None));
            }
            Err(e) => return Err(context.reading(layout.root(), e)),
        };
        let failed = |e| context.reading(layout.root(), e);
        let found = layout.encoding().map_err(failed)?;
        if found.is_none() && !layout.is_plausible().map_err(failed)? {
            let reason = "the folder holds other things and no session; name the folder that holds the project folders";
            return Err(context.unsupported(reason, None));
        }
        let packer = Packer::new().map_err(|e| context.io("starting the compression".to_owned(), e.into()))?;
        Ok(Self {
            root,
            layout,
            disk,
            encoding: Mutex::new(found),
            wanted_encoding: options.encoding,
            memo: Memo::new(options.memo_bytes),
            cursors: Cursors::default(),
            glances: Glances::default(),
            folders: Mutex::default(),
            packer,
            durability: options.durability,
            unsynced: Unsynced::default(),
            latest: AtomicU64::new(0),
        })
    }

    pub(super) fn context<'a>(&'a self, id: &'a SessionId) -> Context<'a> {
        Context::store(self.layout.root()).session(id)
    }

    /// Finds the log file of a session by its id.
    pub(super) fn locate(&self, id: &SessionId) -> Result<Option<Place>> {
        let failed = |e| self.context(id).reading(self.layout.root(), e);
        let remembered = guard(&self.folders).get(id).cloned();
        let found = match remembered.map(|folder| self.layout.look_into(folder)).transpose().map_err(failed)?.flatten()
        {
            Some(found) => Some(found),
            None => one_of(self.find_places(id).map_err(failed)?),
        };
        match found {
            Some(Found::One(place)) => {
                guard(&self.folders).insert(id.clone(), place.folder.clone());
                Ok(Some(place))
            }
            Some(Found::Unclear { reason, .. }) => Err(Damage { seq: None, offset: None, reason }.of(id)),
            None => {
                guard(&self.folders).remove(id);
                Ok(None)
            }
        }
    }

    /// Whether a folder that was found under a session's name has that very name. On a file system that does not tell
    /// upper from lower case it may be the folder of another session.
    pub(super) fn is_its_own(&self, folder: &Path, id: &SessionId) -> Result<bool> {
        self.layout.holds_exactly(folder).map_err(|e| self.context(id).reading(folder, e))
    }

    fn open_log(&self, place: Place, id: &SessionId) -> Result<Option<Key>> {
        let path = place.log();
        let failed = |e| self.context(id).reading(&path, e);
        let file = match self.disk.open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        let identity = file.stat().map_err(failed)?.identity;
        Ok(Some(Key(Arc::new(Opened { place, path, file, identity }))))
    }

    /// The file of a key as it is now; nothing when another one, or none, stands in its place.
    fn stat_key(&self, id: &SessionId, key: &Key) -> Result<Stat> {
        match self.disk.stat(&key.0.path) {
            Ok(stat) if stat.identity == key.0.identity => {
                self.latest.fetch_max(stat.modified, Ordering::Relaxed);
                Ok(stat)
            }
            Ok(_) => Err(Error::NotFound { session: id.clone() }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::NotFound { session: id.clone() }),
            Err(e) => Err(self.context(id).reading(&key.0.path, e)),
        }
    }

    /// The log of a key as it is now.
    pub(super) fn log(&self, id: &SessionId, key: &Key) -> Result<Arc<Log>> {
        let slot = self.memo.slot(&key.0.path);
        self.current(id, key, &mut slot.lock())
    }

    /// The log of a key as it is now, read from its file unless it is known.
    pub(super) fn current(&self, id: &SessionId, key: &Key, known: &mut Option<Known>) -> Result<Arc<Log>> {
        if let Some(known) = known.as_ref().filter(|k| k.writing && k.stat.identity == key.0.identity) {
            return Ok(known.log.clone());
        }
        let stat = self.stat_key(id, key)?;
        if let Some(known) = known.as_ref().filter(|k| k.stat == stat) {
            return Ok(known.log.clone());
        }
        *known = None;
        if let Some(log) = self.recall(id, key, &stat)
            && self.stat_key(id, key)? == stat
        {
            let log = Arc::new(log);
            self.memo.note(&key.0.path, log.bytes_held());
            *known = Some(Known { stat, log: log.clone(), writing: false });
            return Ok(log);
        }
        self.pass_over(id, key, stat, known)
    }

    /// The log of a key as it is now, read from its file, which has this `stat`.
    fn pass_over(&self, id: &SessionId, key: &Key, mut stat: Stat, known: &mut Option<Known>) -> Result<Arc<Log>> {
        let Opened { path, place, file, .. } = &*key.0;
        let mut reads = 0;
        loop {
            let log = scan(&**file, stat.size, id, place.generation, self.memo.limit())
                .map_err(|e| self.context(id).reading(path, e))?;
            reads += 1;
            let before = std::mem::replace(&mut stat, self.stat_key(id, key)?);
            // A writer that never rests is followed from its last append: what was read is a log of its own.
            if stat == before || reads == READS {
                let log = Arc::new(log.map_err(|damage| damage.of(id))?);
                self.memo.note(path, log.bytes_held());
                *known = Some(Known { stat: before, log: log.clone(), writing: false });
                return Ok(log);
            }
        }
    }

    /// The log of a key, seen in its file, where what was known of it was recalled.
    fn pass_over_recalled(&self, id: &SessionId, key: &Key) -> Result<Arc<Log>> {
        let slot = self.memo.slot(&key.0.path);
        let mut known = slot.lock();
        match &*known {
            // Of a log that is being written here the file may hold more than was stored.
            Some(known) if known.writing || !known.log.is_recalled() => Ok(known.log.clone()),
            _ => {
                *known = None;
                self.pass_over(id, key, self.stat_key(id, key)?, &mut known)
            }
        }
    }

    /// A part of a log, after the checks that are asked for.
    fn part(&self, id: &SessionId, key: &Key, log: &Log, range: SeqRange) -> Result<Slice> {
        if let Some(damage) = &log.damage {
            let asked = range.within(u64::MAX);
            if !asked.is_empty() && asked.end > log.count {
                return Err(damage.of(id));
            }
        }
        let events = log
            .slice(&*key.0.file, range.within(log.count), &self.cursors)
            .map_err(|e| self.context(id).reading(&key.0.path, e))?
            .map_err(|damage| damage.of(id))?;
        Ok(Slice { events, count: log.count })
    }

    /// The time for a write now: later than all that this store has seen, whatever the clock says.
    pub(super) fn next_time(&self) -> u64 {
        let clock = now();
        let next = |latest: u64| clock.max(latest.saturating_add(1)).min(LATEST);
        let before = self.latest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |latest| Some(next(latest)));
        next(before.unwrap_or_else(|latest| latest))
    }
}

impl Storage for Files {
    type Key = Key;
    type Lease = Lease;

    fn contains(&self, id: &SessionId) -> Result<bool> {
        match self.check_free(id) {
            Ok(()) => Ok(false),
            Err(Error::AlreadyExists { .. }) => Ok(true),
            Err(other) => Err(other),
        }
    }

    fn find(&self, id: &SessionId) -> Result<Option<Stored<Key>>> {
        let Some(place) = self.locate(id)? else { return Ok(None) };
        let folder = place.folder.clone();
        let Some(key) = self.open_log(place, id)? else { return Ok(None) };
        match self.log(id, &key) {
            Ok(log) => Ok(Some(Stored { key, header: log.header.clone(), inherited: log.inherited })),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(Error::Corruption { .. }) if !self.is_its_own(&folder, id)? => Ok(None),
            Err(other) => Err(other),
        }
    }

    fn lease(&self, id: &SessionId, key: &Key) -> Result<Lease> {
        let log = self.log(id, key)?;
        if let Some(damage) = &log.damage {
            return Err(damage.of(id));
        }
        let Opened { place, path, identity, .. } = &*key.0;
        let absent = || Error::NotFound { session: id.clone() };
        let file = match self.unsynced.file(path, *identity) {
            Some(file) => file,
            None => LogFile::new(place.clone(), *identity, id.clone(), None, log.durable()).into(),
        };
        // Before anything is locked: what cannot be written is refused, and looks as before.
        let opened = match file.open(&*self.disk) {
            Ok(opened) => opened,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(absent()),
            Err(e) => return Err(self.context(id).writing(path, e)),
        };
        let owned = own(&*self.disk, &opened, path, id, &self.context(id))?.ok_or_else(absent)?;
        owned.folder.note_stored(true);
        if let Err(e) = self.remove_drafts(&place.folder, id) {
            log::debug!("what a killed writer left stays: {e}");
        }
        // What its last writer stored until then counts, and what is torn now is nobody's.
        let log = self.log(id, key)?;
        // What another process wrote and never flushed is acknowledged as well.
        self.unsynced.add_file(&file);
        self.unsynced.add_folders_to(path);
        Ok(Lease::new(self.disk.clone(), file, owned, self.memo.slot(path), Tail::found(log.end, log.torn)))
    }

    fn materialize(&self, header: &SessionHeader, _: u64, events: Batch<'_>) -> Result<(Key, Lease)> {
        self.create(header, events)
    }

    fn append(&self, id: &SessionId, key: &Key, lease: &mut Lease, events: Batch<'_>) -> Result<()> {
        // Of a batch in several writes a part would stay where the process dies.
        self.append_batch(id, key, lease, &events.into_held()?)
    }

    fn check_interpretable(&self, id: &SessionId, key: &Key, vocabulary: &Vocabulary) -> Result<()> {
        check_interpretable(id, &*self.log(id, key)?, vocabulary)
    }

    fn read(&self, id: &SessionId, key: &Key, range: SeqRange, vocabulary: Option<&Vocabulary>) -> Result<Slice> {
        let mut log = self.log(id, key)?;
        // Of most of a log that can be held all is held: it is read once, whatever is read of it next.
        if log.is_recalled() && log.event_bytes() <= self.memo.limit() {
            let wanted = range.within(log.count);
            if (wanted.end - wanted.start).saturating_mul(2) > log.count {
                log = self.pass_over_recalled(id, key)?;
            }
        }
        if let Some(vocabulary) = vocabulary {
            check_interpretable(id, &log, vocabulary)?;
        }
        let read = self.part(id, key, &log, range);
        let is_as_left = match &read {
            Ok(slice) => !log.is_recalled() || log.has_noted_types_of(&slice.events),
            Err(e) => !log.is_recalled() || e.kind() != ErrorKind::Corruption,
        };
        if is_as_left {
            return read;
        }
        // It is not what its writer left. What is wrong with it is told by a look at all of it.
        let log = self.pass_over_recalled(id, key)?;
        if let Some(vocabulary) = vocabulary {
            check_interpretable(id, &log, vocabulary)?;
        }
        self.part(id, key, &log, range)
    }

    fn stat(&self, id: &SessionId, vocabulary: &Vocabulary) -> Result<Option<Snapshot>> {
        self.snapshot_of(id, vocabulary)
    }

    fn identity(&self) -> Result<String> {
        let Identity { device, number } = self.root;
        Ok(format!("files:{device:x}:{number:x}"))
    }

    fn list(&self, wanted: &Wanted<'_>) -> Result<Vec<Listed>> {
        self.page(wanted)
    }

    fn remove(&self, id: &SessionId, only: Option<&Revision>) -> Result<Removal> {
        self.remove_session(id, only)
    }

    fn sync(&self) -> Result<()> {
        let context = Context::store(self.layout.root());
        let failures = self.unsynced.sync(&*self.disk);
        Error::collect(failures.into_iter().map(|(path, e)| context.writing(&path, e)).collect())
    }

    fn check_stands(&self, id: &SessionId, lease: &Lease) -> Result<()> {
        let path = &lease.log.path;
        lease
            .log
            .check_stands(&*self.disk)
            .map_err(|e| self.context(id).io(format!("flushing {}", path.display()), e.into()))
    }

    fn inspect(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        self.inspect_folders(found)
    }
}

fn check_interpretable(id: &SessionId, log: &Log, vocabulary: &Vocabulary) -> Result<()> {
    checks::check_version(id, log.header.version(), vocabulary)?;
    checks::check_types(id, log.first_required(), vocabulary)
}
