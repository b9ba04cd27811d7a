//! [`Files`]: the storage behind a [`JsonlStore`](super::JsonlStore).

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::runtime::{Listed, Slice, Storage, Stored};
use super::disk::{Disk, DiskFile, Identity, Stat, now};
use super::failure::{Context, Damage};
use super::frames::{Packer, Unpacker};
use super::glance::{Glance, Glances, Tail, look};
use super::layout::{Encoding, Found, Generation, Layout, Place};
use super::lease::{LOCK, Lease, Lock, lock_root, lock_session};
use super::memo::{Known, Memo};
use super::reader::{Log, scan};
use super::writer::{Draft, Unsynced, batch_bytes, header_bytes, is_draft, set_modified, write_behind};
use crate::log::{SessionEvent, SessionHeader, SessionId, Vocabulary};
use crate::seam::{Error, ListOrder, Position, Result, Revision, SeqRange, Snapshot, TornTail, checks};

/// Activities above this are those of sessions that are not stored yet.
const LATEST: u64 = (1 << 63) - 1;

/// How often a log is read again because it changed while it was read.
const READS: usize = 3;

/// How often the folder of a new session is made again because it was removed before it could be locked.
const TRIES: usize = 5;

/// The files of one root.
pub(super) struct Files {
    layout: Layout,
    disk: Arc<dyn Disk>,
    /// How new sessions are stored; nothing as long as the root has none.
    encoding: Mutex<Option<Encoding>>,
    wanted_encoding: Encoding,
    memo: Memo,
    glances: Glances,
    /// Where sessions were found, to look there first.
    folders: Mutex<HashMap<SessionId, Arc<Path>>>,
    packer: Packer,
    unsynced: Unsynced,
    /// The latest time of a file that was seen or given, in nanoseconds since 1970.
    latest: AtomicU64,
}

/// One incarnation of a stored session: its file, held open so that no other file gets its identity.
#[derive(Clone)]
pub(super) struct Key(Arc<Opened>);

struct Opened {
    place: Place,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    identity: Identity,
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    pub(super) fn open(layout: Layout, disk: Arc<dyn Disk>, encoding: Encoding, memo_bytes: usize) -> Result<Self> {
        let context = Context::store(layout.root());
        match disk.stat(layout.root()) {
            Ok(found) if found.is_dir => {}
            Ok(_) => return Err(context.unsupported("it is a file, and a store of plain files is a folder", None)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let reason = "there is no such folder; check the path, or import into it to make it";
                return Err(context.unsupported(reason, None));
            }
            Err(e) => return Err(context.reading(layout.root(), e)),
        }
        let failed = |e| context.reading(layout.root(), e);
        let found = layout.encoding().map_err(failed)?;
        if found.is_none() && !layout.is_plausible().map_err(failed)? {
            let reason = "the folder holds other things and no session; name the folder that holds the project folders";
            return Err(context.unsupported(reason, None));
        }
        let packer = Packer::new().map_err(|e| context.io("starting the compression".to_owned(), e.into()))?;
        Ok(Self {
            layout,
            disk,
            encoding: Mutex::new(found),
            wanted_encoding: encoding,
            memo: Memo::new(memo_bytes),
            glances: Glances::default(),
            folders: Mutex::default(),
            packer,
            unsynced: Unsynced::default(),
            latest: AtomicU64::new(0),
        })
    }

    fn context<'a>(&'a self, id: &'a SessionId) -> Context<'a> {
        Context::store(self.layout.root()).session(id)
    }

    /// Finds the log file of a session by its id.
    fn locate(&self, id: &SessionId) -> Result<Option<Place>> {
        let failed = |e| self.context(id).reading(self.layout.root(), e);
        let remembered = guard(&self.folders).get(id).cloned();
        let found = match remembered.map(|folder| self.layout.look_into(folder)).transpose().map_err(failed)?.flatten()
        {
            Some(found) => Some(found),
            None => one_of(self.layout.find(id).map_err(failed)?),
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
    fn is_its_own(&self, folder: &Path, id: &SessionId) -> Result<bool> {
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
    fn log(&self, id: &SessionId, key: &Key) -> Result<Arc<Log>> {
        let slot = self.memo.slot(&key.0.path);
        self.current(id, key, &mut slot.lock())
    }

    /// The log of a key as it is now, read from its file unless it is known.
    fn current(&self, id: &SessionId, key: &Key, known: &mut Option<Known>) -> Result<Arc<Log>> {
        if let Some(known) = known.as_ref().filter(|k| k.writing && k.stat.identity == key.0.identity) {
            return Ok(known.log.clone());
        }
        let mut stat = self.stat_key(id, key)?;
        if let Some(known) = known.as_ref().filter(|k| k.stat == stat) {
            return Ok(known.log.clone());
        }
        *known = None;
        let Opened { path, place, file, .. } = &*key.0;
        for remaining in (0..READS).rev() {
            let log = scan(&**file, stat.size, id, place.generation, self.memo.limit())
                .map_err(|e| self.context(id).reading(path, e))?;
            let before = std::mem::replace(&mut stat, self.stat_key(id, key)?);
            // A writer that never rests is followed from its last append: what was read is a log of its own.
            if stat == before || remaining == 0 {
                let log = Arc::new(log.map_err(|damage| damage.of(id))?);
                self.memo.note(path, log.bytes_held());
                *known = Some(Known { stat: before, log: log.clone(), writing: false });
                return Ok(log);
            }
        }
        unreachable!("the last reading returns")
    }

    /// The time for a write now: later than all that this store has seen, whatever the clock says.
    fn next_time(&self) -> u64 {
        let clock = now();
        let next = |latest: u64| clock.max(latest.saturating_add(1)).min(LATEST);
        let before = self.latest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |latest| Some(next(latest)));
        next(before.unwrap_or_else(|latest| latest))
    }

    /// The encoding of a new session. Call it with the root locked: of two stores that each make the first session the
    /// second goes by the first.
    fn encoding_for_new(&self, id: &SessionId) -> Result<Encoding> {
        let mut encoding = guard(&self.encoding);
        if let Some(encoding) = *encoding {
            return Ok(encoding);
        }
        let found = self.layout.encoding().map_err(|e| self.context(id).reading(self.layout.root(), e))?;
        Ok(*encoding.insert(found.unwrap_or(self.wanted_encoding)))
    }

    /// Makes and locks the folder of a new session.
    fn take_new_folder(&self, folder: &Path, id: &SessionId) -> Result<NewFolder<'_>> {
        let context = self.context(id);
        let mut new = NewFolder { disk: &*self.disk, made: Vec::new(), lock: None };
        for _ in 0..TRIES {
            for path in [folder.parent(), Some(folder)].into_iter().flatten() {
                match self.disk.make_dir(path) {
                    Ok(true) => new.made.push(path.to_owned()),
                    Ok(false) => {}
                    // The folder above it was just removed, with the last session in it.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => break,
                    Err(e) => return Err(context.writing(path, e)),
                }
            }
            match lock_session(&*self.disk, folder, id, &context) {
                Ok(Some(lock)) => {
                    new.lock = Some(lock);
                    return Ok(new);
                }
                Ok(None) => {}
                Err(Error::AlreadyOwned { session, .. }) => return Err(Error::AlreadyExists { session }),
                Err(other) => return Err(other),
            }
        }
        let root = self.layout.root();
        Err(context
            .writing(folder, io::Error::other(format!("it is removed again and again; is {} there?", root.display()))))
    }

    /// Refuses an id that is taken, in whatever project folder.
    fn check_free(&self, id: &SessionId) -> Result<()> {
        match self.layout.find(id).map_err(|e| self.context(id).reading(self.layout.root(), e))?.first() {
            None => Ok(()),
            Some(Found::One(Place { folder, .. }) | Found::Unclear { folder, .. })
                if self.is_its_own(folder, id)? =>
            {
                Err(Error::AlreadyExists { session: id.clone() })
            }
            Some(_) => Err(Error::InvalidArgument {
                session: Some(id.clone()),
                reason:
                    "its folder would be that of another session, because the file system does not tell upper from \
                         lower case; choose an id that differs in more"
                        .to_owned(),
            }),
        }
    }

    /// What is known of the session at a place; nothing when it is gone meanwhile.
    fn snapshot(
        &self,
        id: &SessionId,
        place: &Place,
        vocabulary: &Vocabulary,
        unpacker: &mut Unpacker,
    ) -> Result<Option<Snapshot>> {
        let path = place.log();
        let stat = match self.disk.stat(&path) {
            Ok(stat) => stat,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.context(id).reading(&path, e)),
        };
        self.latest.fetch_max(stat.modified, Ordering::Relaxed);
        if let Some(snapshot) = self.known_snapshot(&path, &stat, vocabulary) {
            return Ok(Some(snapshot));
        }
        let glance = match self.glances.get(&path, &stat) {
            Some(glance) => glance,
            None => {
                let looked = self.disk.open(&path).and_then(|file| {
                    let glance = look(&*file, stat.size, id, place.generation, unpacker)?;
                    // Of another file that took its place meanwhile nothing must be kept.
                    Ok((glance, file.stat()? == stat))
                });
                match looked {
                    Ok((glance, stays)) => {
                        let glance = Arc::new(glance);
                        if stays {
                            self.glances.put(&path, stat, glance.clone());
                        }
                        glance
                    }
                    Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                    Err(e) => Arc::new(Glance {
                        header: Err(Damage::header(format!("{} cannot be read: {e}", path.display()))),
                        tail: Tail::default(),
                    }),
                }
            }
        };
        let revision = revision(&stat);
        let mut snapshot = match &glance.header {
            Ok(header) => Snapshot::new(header.clone(), revision, vocabulary),
            Err(damage) if !self.is_its_own(&place.folder, id)? => {
                log::debug!("{} is not the folder of {id:?}: {}", place.folder.display(), damage.reason);
                return Ok(None);
            }
            Err(damage) => Snapshot::damaged(id.clone(), damage.reason.clone(), revision),
        };
        let Tail { count, last_time, torn } = glance.tail;
        snapshot.event_count = count;
        snapshot.last_time = last_time;
        snapshot.torn_tail = torn_tail(count.unwrap_or(0), torn.unwrap_or(0));
        snapshot.size_bytes = Some(stat.size);
        snapshot.activity = stat.modified.min(LATEST);
        Ok(Some(snapshot))
    }

    /// What is known of a session whose log was read, or is being written by this store.
    fn known_snapshot(&self, path: &Path, stat: &Stat, vocabulary: &Vocabulary) -> Option<Snapshot> {
        let slot = self.memo.known(path)?;
        // A log that is being read is not waited for.
        let known = slot.0.try_lock().ok()?;
        let known = known.as_ref().filter(|k| k.stat == *stat || k.writing && k.stat.identity == stat.identity)?;
        let log = &known.log;
        if log.damage.is_some() {
            return None;
        }
        let mut snapshot = Snapshot::new(log.header.clone(), revision(&known.stat), vocabulary);
        snapshot.event_count = Some(log.count);
        snapshot.last_time = log.last_time;
        snapshot.torn_tail = torn_tail(log.count, log.torn);
        snapshot.size_bytes = Some(known.stat.size);
        snapshot.activity = known.stat.modified.min(LATEST);
        Some(snapshot)
    }

    /// What is told of a session that no rule finds a log of.
    fn unclear_snapshot(&self, id: &SessionId, folder: &Path, reason: &str) -> Result<Snapshot> {
        let stat = self.disk.stat(folder).map_err(|e| self.context(id).reading(folder, e))?;
        let mut snapshot = Snapshot::damaged(id.clone(), reason.to_owned(), revision(&stat));
        snapshot.activity = stat.modified.min(LATEST);
        Ok(snapshot)
    }

    fn unpacker(&self) -> Result<Unpacker> {
        let context = Context::store(self.layout.root());
        Unpacker::new().map_err(|e| context.io("starting the decompression".to_owned(), e.into()))
    }
}

/// The locked folder of a session that is being made, removed again unless the session is stored.
struct NewFolder<'f> {
    disk: &'f dyn Disk,
    /// The folders that were not there before, from the outside in.
    made: Vec<PathBuf>,
    lock: Option<Lock>,
}

impl NewFolder<'_> {
    /// Leaves the folder where it is; its lock.
    fn keep(mut self) -> Option<Lock> {
        self.made.clear();
        self.lock.take()
    }

    fn remove(&self, folder: &Path) -> io::Result<()> {
        if self.lock.as_ref().is_some_and(|lock| lock.path().parent() == Some(folder)) {
            self.disk.unlink(&folder.join(LOCK))?;
        }
        self.disk.remove_dir(folder)
    }
}

impl Drop for NewFolder<'_> {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            // An empty folder is no session, and one that somebody else uses by now has to stay.
            if let Err(e) = self.remove(folder) {
                log::debug!("{} stays: {e}", folder.display());
            }
        }
    }
}

/// The one of several places where an id was found.
fn one_of(mut found: Vec<Found>) -> Option<Found> {
    let folder = |found: &Found| match found {
        Found::One(Place { folder, .. }) | Found::Unclear { folder, .. } => folder.clone(),
    };
    if found.len() < 2 {
        return found.pop();
    }
    let mut folders: Vec<_> = found.iter().map(folder).collect();
    folders.sort();
    let names = folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(" and ");
    let reason = format!("it is stored in several places, {names}; move all but one away");
    folders.pop().map(|folder| Found::Unclear { folder, reason })
}

fn revision(stat: &Stat) -> Revision {
    let Stat { identity: Identity { device, number }, size, modified, changed, .. } = stat;
    Revision::new(format!("file:{device:x}:{number:x}:{size:x}:{modified:x}:{changed:x}"))
}

fn torn_tail(seq: u64, bytes: u64) -> Option<TornTail> {
    (bytes > 0).then(|| TornTail::new(seq, bytes))
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
        let folder = &key.0.place.folder;
        match lock_session(&*self.disk, folder, id, &self.context(id))? {
            Some(lock) => {
                // What another process wrote and never flushed is acknowledged as well.
                self.unsynced.add_log(&key.0.path);
                Ok(Lease::new(folder.clone(), lock, self.memo.slot(&key.0.path)))
            }
            None => Err(Error::NotFound { session: id.clone() }),
        }
    }

    fn materialize(&self, header: &SessionHeader, _: u64, events: &[SessionEvent]) -> Result<(Key, Lease)> {
        let id = header.id();
        let context = self.context(id);
        checks::check_contiguous(id, 0, events)?;
        let folder: Arc<Path> = self.layout.folder(header.cwd(), id).into();
        let new = self.take_new_folder(&folder, id)?;
        let _root = lock_root(&*self.disk, self.layout.root(), id, &context)?;
        self.check_free(id)?;
        for name in self.layout.names(&folder).map_err(|e| context.reading(&folder, e))? {
            let path = folder.join(&name.text);
            if is_draft(&name.text) {
                self.disk.unlink(&path).map_err(|e| context.writing(&path, e))?;
            }
        }

        let generation = Generation { version: header.version(), encoding: self.encoding_for_new(id)? };
        let mut bytes = header_bytes(header, generation.encoding, &self.packer, &context)?;
        let mut log = Log::new(header.clone(), generation.encoding, bytes.len() as u64);
        if !events.is_empty() {
            bytes.extend(batch_bytes(events, header.version(), generation.encoding, &self.packer, &context)?);
            log.extend(events, bytes.len() as u64, self.memo.limit());
        }
        let draft = Draft::write(&*self.disk, &folder, generation, &bytes, self.next_time(), &context)?;
        let place = Place { folder: folder.clone(), generation };
        let path = place.log();
        // Before it is published, so that nothing can fail afterwards.
        let file = self.disk.open(draft.path()).map_err(|e| context.reading(draft.path(), e))?;
        let identity = file.stat().map_err(|e| context.reading(draft.path(), e))?.identity;
        match draft.publish(&path) {
            Ok(true) => {}
            Ok(false) => return Err(Error::AlreadyExists { session: id.clone() }),
            Err(e) => return Err(context.writing(&path, e)),
        }
        let Some(lock) = new.keep() else { return Err(Error::OwnershipLost { session: id.clone() }) };
        self.unsynced.add_log(&path);
        guard(&self.folders).insert(id.clone(), folder.clone());

        let slot = self.memo.slot(&path);
        self.memo.note(&path, log.bytes_held());
        // Where it cannot be looked at now it is read when it is needed.
        let stat = self.disk.stat(&path).ok();
        *slot.lock() = stat.map(|stat| Known { stat, log: log.into(), writing: false });
        let lease = Lease::new(folder, lock, slot);
        Ok((Key(Arc::new(Opened { place, path, file, identity })), lease))
    }

    fn append(&self, id: &SessionId, key: &Key, lease: &mut Lease, events: &[SessionEvent]) -> Result<()> {
        let Opened { path, place, identity, .. } = &*key.0;
        let context = self.context(id);
        if lease.folder != place.folder {
            return Err(Error::OwnershipLost { session: id.clone() });
        }
        let log = self.current(id, key, &mut lease.slot.lock())?;
        if let Some(damage) = &log.damage {
            return Err(damage.of(id));
        }
        checks::check_contiguous(id, log.count, events)?;
        let bytes = batch_bytes(events, place.generation.version, place.generation.encoding, &self.packer, &context)?;
        let file = match &lease.log {
            Some(file) => file,
            None => {
                let file = self.disk.open_for_writing(path).map_err(|e| context.writing(path, e))?;
                if file.stat().map_err(|e| context.reading(path, e))?.identity != *identity {
                    return Err(Error::NotFound { session: id.clone() });
                }
                lease.log.insert(file)
            }
        };
        let end = log.end;
        drop(log);

        if let Some(known) = &mut *lease.slot.lock() {
            known.writing = true;
        }
        let had_leftovers = lease.has_leftovers;
        let written = write_behind(&**file, end, &bytes, &mut lease.has_leftovers);
        if written.is_ok() {
            set_modified(&**file, path, self.next_time());
            self.unsynced.add_file(path);
        }
        let mut slot = lease.slot.lock();
        let Some(known) = &mut *slot else { return written.map(|_| ()).map_err(|e| context.writing(path, e)) };
        known.writing = lease.has_leftovers;
        let looked = self.disk.stat(path);
        match written {
            Ok(cut) => {
                if cut > 0 && !had_leftovers {
                    let place = path.display();
                    log::warn!("session {id:?}: cut {cut} bytes of an unfinished write off the end of {place}");
                }
                let log = Arc::make_mut(&mut known.log);
                log.extend(events, end + bytes.len() as u64, self.memo.limit());
                self.memo.note(path, log.bytes_held());
                match looked {
                    Ok(stat) => known.stat = stat,
                    // Where it cannot be looked at now it is read when it is needed.
                    Err(_) => *slot = None,
                }
                Ok(())
            }
            Err(e) => {
                if let Ok(stat) = looked
                    && stat.size == end
                    && !lease.has_leftovers
                {
                    Arc::make_mut(&mut known.log).torn = 0;
                    known.stat = stat;
                }
                Err(context.writing(path, e))
            }
        }
    }

    fn check_interpretable(&self, id: &SessionId, key: &Key, vocabulary: &Vocabulary) -> Result<()> {
        check_interpretable(id, &*self.log(id, key)?, vocabulary)
    }

    fn read(&self, id: &SessionId, key: &Key, range: SeqRange, vocabulary: Option<&Vocabulary>) -> Result<Slice> {
        let log = self.log(id, key)?;
        if let Some(vocabulary) = vocabulary {
            check_interpretable(id, &log, vocabulary)?;
        }
        if let Some(damage) = &log.damage {
            let asked = range.within(u64::MAX);
            if !asked.is_empty() && asked.end > log.count {
                return Err(damage.of(id));
            }
        }
        let events = log
            .slice(&*key.0.file, range.within(log.count))
            .map_err(|e| self.context(id).reading(&key.0.path, e))?
            .map_err(|damage| damage.of(id))?;
        Ok(Slice { events, count: log.count })
    }

    fn stat(&self, id: &SessionId, vocabulary: &Vocabulary) -> Result<Option<Snapshot>> {
        match self.locate(id) {
            Ok(Some(place)) => self.snapshot(id, &place, vocabulary, &mut self.unpacker()?),
            Ok(None) => Ok(None),
            Err(Error::Corruption { .. }) => {
                let found = self.layout.find(id).map_err(|e| self.context(id).reading(self.layout.root(), e))?;
                match one_of(found) {
                    Some(Found::Unclear { folder, reason }) => self.unclear_snapshot(id, &folder, &reason).map(Some),
                    Some(Found::One(place)) => self.snapshot(id, &place, vocabulary, &mut self.unpacker()?),
                    None => Ok(None),
                }
            }
            Err(other) => Err(other),
        }
    }

    fn list(
        &self,
        order: ListOrder,
        after: Option<&Position>,
        limit: Option<usize>,
        vocabulary: &Vocabulary,
    ) -> Result<Vec<Listed>> {
        let context = Context::store(self.layout.root());
        let mut by_id: HashMap<SessionId, Vec<Found>> = HashMap::new();
        for (id, found) in self.layout.all().map_err(|e| context.reading(self.layout.root(), e))? {
            by_id.entry(id).or_default().push(found);
        }
        let mut unpacker = self.unpacker()?;
        let mut snapshot = |id: &SessionId, found: &Found| match found {
            Found::One(place) => self.snapshot(id, place, vocabulary, &mut unpacker),
            Found::Unclear { folder, reason } => self.unclear_snapshot(id, folder, reason).map(Some),
        };
        let mut listed = Vec::new();
        let behind = |key: u64, id: &SessionId| after.is_none_or(|a| a.is_before(key, id));
        let sort = |listed: &mut Vec<Listed>| {
            listed.sort_by(|a, b| b.key.cmp(&a.key).then_with(|| a.snapshot.id.cmp(&b.snapshot.id)));
            listed.truncate(limit.unwrap_or(usize::MAX));
        };
        let found = by_id.into_iter().filter_map(|(id, found)| Some((id, one_of(found)?)));
        match order {
            ListOrder::Created => {
                for (id, found) in found {
                    let Some(snapshot) = snapshot(&id, &found)? else { continue };
                    let key = snapshot.header.as_ref().map_or(0, SessionHeader::created_at);
                    if behind(key, &id) {
                        listed.push(Listed { key, snapshot });
                    }
                }
                sort(&mut listed);
            }
            // Only the files on the page are opened.
            ListOrder::Activity => {
                let mut places = Vec::new();
                for (id, found) in found {
                    let path = match &found {
                        Found::One(place) => place.log(),
                        Found::Unclear { folder, .. } => folder.to_path_buf(),
                    };
                    match self.disk.stat(&path) {
                        Ok(stat) => places.push((stat.modified.min(LATEST), id, found)),
                        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                        Err(e) => return Err(context.session(&id).reading(&path, e)),
                    }
                }
                places.retain(|(key, id, _)| behind(*key, id));
                places.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
                for (_, id, found) in places {
                    if limit.is_some_and(|limit| listed.len() >= limit) {
                        break;
                    }
                    if let Some(snapshot) = snapshot(&id, &found)? {
                        listed.push(Listed { key: snapshot.activity, snapshot });
                    }
                }
                listed.retain(|listed| behind(listed.key, &listed.snapshot.id));
                sort(&mut listed);
            }
        }
        Ok(listed)
    }

    fn remove(&self, id: &SessionId) -> Result<bool> {
        let context = self.context(id);
        let found = self.layout.find(id).map_err(|e| context.reading(self.layout.root(), e))?;
        let several = found.len() > 1;
        let folder = match one_of(found) {
            None => return Ok(false),
            Some(Found::Unclear { reason, .. }) if several => {
                return Err(Damage { seq: None, offset: None, reason }.of(id));
            }
            Some(Found::One(Place { folder, .. }) | Found::Unclear { folder, .. }) => folder,
        };
        if !self.is_its_own(&folder, id)? {
            return Ok(false);
        }
        let Some(_lock) = lock_session(&*self.disk, &folder, id, &context)? else { return Ok(false) };
        // The oldest first: as long as the newest is there, the session is what it was.
        let mut removed = false;
        for generation in self.layout.generations(&folder).map_err(|e| context.reading(&folder, e))? {
            let path = folder.join(generation.file_name());
            self.disk.unlink(&path).map_err(|e| context.writing(&path, e))?;
            self.memo.forget(&path);
            self.glances.forget(&path);
            removed = true;
        }
        guard(&self.folders).remove(id);
        self.remove_folder(&folder);
        let above = folder.parent().unwrap_or(self.layout.root());
        self.disk.sync_dir(above).map_err(|e| context.writing(above, e))?;
        Ok(removed)
    }

    fn sync(&self) -> Result<()> {
        let context = Context::store(self.layout.root());
        let failures = self.unsynced.sync(&*self.disk);
        Error::collect(failures.into_iter().map(|(path, e)| context.writing(&path, e)).collect())
    }
}

impl Files {
    /// Removes the folder of a session that is gone; what is none of ours in it keeps it.
    fn remove_folder(&self, folder: &Path) {
        let remove = || {
            for name in self.layout.names(folder)? {
                if is_draft(&name.text) || name.text == LOCK {
                    self.disk.unlink(&folder.join(&name.text))?;
                }
            }
            self.disk.remove_dir(folder)
        };
        if let Err(e) = remove() {
            log::warn!("the session in {} is removed, its folder stays: {e}", folder.display());
        }
    }
}

fn check_interpretable(id: &SessionId, log: &Log, vocabulary: &Vocabulary) -> Result<()> {
    checks::check_version(id, log.header.version(), vocabulary)?;
    checks::check_types(id, log.first_required(), vocabulary)
}
