//! What is told of sessions without reading their logs: one by one, and in lists.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::runtime::{Listed, Wanted, cores};
use super::disk::{Identity, Stat};
use super::failure::{Context, Damage};
use super::files::{Files, LATEST};
use super::frames::Unpacker;
use super::glance::{Allowance, Glance, Tail, look};
use super::layout::{Found, Place, one_of};
use crate::log::{SessionId, Vocabulary};
use crate::seam::{Error, ListFilter, ListOrder, Result, Revision, Snapshot, TornTail};

impl Files {
    pub(super) fn snapshot_of(&self, id: &SessionId, vocabulary: &Vocabulary) -> Result<Option<Snapshot>> {
        let found = match self.locate(id) {
            Ok(place) => place.map(Found::One),
            Err(Error::Corruption { .. }) => {
                one_of(self.find_places(id).map_err(|e| self.context(id).reading(self.layout.root(), e))?)
            }
            Err(other) => return Err(other),
        };
        let Some(found) = found else { return Ok(None) };
        let whole = &mut Allowance::of(u64::MAX);
        let snapshot = self.snapshot_at(id, &found, vocabulary, &mut self.unpacker()?, whole)?;
        Ok(snapshot.map(|snapshot| Snapshot { owner: self.owner(found.folder()), ..snapshot }))
    }

    /// What is known of what was found under the name of a session, its writer aside.
    fn snapshot_at(
        &self,
        id: &SessionId,
        found: &Found,
        vocabulary: &Vocabulary,
        unpacker: &mut Unpacker,
        allowance: &mut Allowance,
    ) -> Result<Option<Snapshot>> {
        match found {
            Found::One(place) => self.snapshot(id, place, vocabulary, unpacker, allowance),
            Found::Unclear { folder, reason } => self.unclear_snapshot(id, folder, reason),
        }
    }

    /// The sessions that are wanted. What is looked at of a session grows from its name over what is known of its file to
    /// its header, and is no more than the order and the filter ask for.
    pub(super) fn page(&self, wanted: &Wanted<'_>) -> Result<Vec<Listed>> {
        let context = Context::store(self.layout.root());
        let mut by_id: HashMap<SessionId, Vec<Found>> = HashMap::new();
        for (id, found) in self.named(wanted.filter).map_err(|e| context.reading(self.layout.root(), e))? {
            by_id.entry(id).or_default().push(found);
        }
        for (id, found) in by_id.iter_mut().filter(|(_, found)| found.len() > 1) {
            *found = self.find_places(id).map_err(|e| context.session(id).reading(self.layout.root(), e))?;
        }
        let found = by_id.into_iter().filter_map(|(id, found)| Some((id, one_of(found)?)));
        match wanted.order {
            ListOrder::Created => self.page_by_creation(found, wanted),
            ListOrder::Activity => self.page_by_activity(found, wanted),
        }
    }

    /// Every header has to be known, and nothing else of those that are not on the page.
    fn page_by_creation(
        &self,
        found: impl Iterator<Item = (SessionId, Found)>,
        wanted: &Wanted<'_>,
    ) -> Result<Vec<Listed>> {
        let mut unpacker = self.unpacker()?;
        let mut behind = Vec::new();
        for (id, found) in found {
            let told = self.snapshot_at(&id, &found, wanted.vocabulary, &mut unpacker, &mut Allowance::none())?;
            let Some(told) = told else { continue };
            let key = wanted.order.key(&told);
            if wanted.is_behind(key, &id) {
                behind.push((key, told, found));
            }
        }
        behind.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.id.cmp(&b.1.id)));
        let mut allowance = Allowance::of(Allowance::OF_LIST);
        let mut listed = Vec::new();
        for (key, told, found) in behind {
            if listed.len() >= wanted.most() {
                break;
            }
            if let Some(told) = self.let_through(wanted, told, &found) {
                let snapshot = self.with_end(told, &found, wanted, &mut unpacker, &mut allowance)?;
                listed.push(Listed { key, snapshot });
            }
        }
        Ok(listed)
    }

    /// Only the files on the page are opened, and those before them that the filter does not let through.
    fn page_by_activity(
        &self,
        found: impl Iterator<Item = (SessionId, Found)>,
        wanted: &Wanted<'_>,
    ) -> Result<Vec<Listed>> {
        let context = Context::store(self.layout.root());
        let found: Vec<_> = found.collect();
        let last_write = |(id, found): &(SessionId, Found)| {
            let path = match found {
                Found::One(place) => place.log(),
                Found::Unclear { folder, .. } => folder.to_path_buf(),
            };
            match self.disk.stat(&path) {
                Ok(stat) => Ok(Some(stat.modified.min(LATEST))),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(context.session(id).reading(&path, e)),
            }
        };
        let mut places = Vec::with_capacity(found.len());
        for (key, (id, found)) in cores::each(&found, last_write).into_iter().zip(found) {
            if let Some(key) = key? {
                places.push((key, id, found));
            }
        }
        places.retain(|(key, id, _)| wanted.is_behind(*key, id));
        places.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let mut unpacker = self.unpacker()?;
        let mut allowance = Allowance::of(Allowance::OF_LIST);
        let lets_all_through = *wanted.filter == ListFilter::new();
        let mut listed = Vec::new();
        for (key, id, found) in places {
            if listed.len() >= wanted.most() {
                break;
            }
            let mut none = Allowance::none();
            let first = if lets_all_through { &mut allowance } else { &mut none };
            let told = self.snapshot_at(&id, &found, wanted.vocabulary, &mut unpacker, first)?;
            // Where the session is written meanwhile it stands where it stood: a page is not to end early.
            if let Some(told) = told
                && let Some(mut snapshot) = self.let_through(wanted, told, &found)
            {
                if !lets_all_through {
                    snapshot = self.with_end(snapshot, &found, wanted, &mut unpacker, &mut allowance)?;
                }
                listed.push(Listed { key, snapshot });
            }
        }
        Ok(listed)
    }

    /// A session on the page, with what the end of its log tells. Where it was removed meanwhile, or became one that the
    /// filter does not let through, it stays on the page as it was: a page is not to end early.
    fn with_end(
        &self,
        told: Snapshot,
        found: &Found,
        wanted: &Wanted<'_>,
        unpacker: &mut Unpacker,
        allowance: &mut Allowance,
    ) -> Result<Snapshot> {
        if told.event_count.is_some() || !allowance.is_left() {
            return Ok(told);
        }
        let whole = self.snapshot_at(&told.id, found, wanted.vocabulary, unpacker, allowance)?;
        let whole = whole.map(|whole| Snapshot { owner: told.owner.clone(), ..whole });
        Ok(whole.filter(|whole| wanted.filter.matches(whole)).unwrap_or(told))
    }

    /// The sessions by the names of their folders: all, or those that a filter asks for by their ids.
    fn named(&self, filter: &ListFilter) -> io::Result<Vec<(SessionId, Found)>> {
        let Some(ids) = filter.ids() else { return self.layout.all() };
        let mut named = Vec::new();
        for id in ids {
            named.extend(self.find_places(id)?.into_iter().map(|found| (id.clone(), found)));
        }
        Ok(named)
    }

    /// A session that the filter lets through, with its owner. Locks are looked at of no other, unless it asks for owners.
    fn let_through(&self, wanted: &Wanted<'_>, told: Snapshot, found: &Found) -> Option<Snapshot> {
        match wanted.filter.is_owned() {
            Some(_) => wanted.let_through(self.with_owner(told, found)),
            None => wanted.let_through(told).map(|told| self.with_owner(told, found)),
        }
    }

    fn with_owner(&self, told: Snapshot, found: &Found) -> Snapshot {
        Snapshot { owner: self.owner(found.folder()), ..told }
    }

    /// What is known of the session at a place; nothing when it is gone meanwhile.
    fn snapshot(
        &self,
        id: &SessionId,
        place: &Place,
        vocabulary: &Vocabulary,
        unpacker: &mut Unpacker,
        allowance: &mut Allowance,
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
        let known = self.glances.get(&path, &stat).filter(|known| known.tail.is_some() || !allowance.is_left());
        let glance = match known {
            Some(glance) => glance,
            None => {
                let looked = self.disk.open(&path).and_then(|file| {
                    let glance = look(&*file, stat.size, id, place.generation, unpacker, allowance)?;
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
                    Err(e) => {
                        let header = Err(Damage::header(unreadable(&path, &e)));
                        Arc::new(Glance { header, tail: None })
                    }
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
        let Tail { count, last_time, torn } = glance.tail.unwrap_or_default();
        snapshot.event_count = count;
        snapshot.last_time = last_time;
        snapshot.torn_tail = torn_tail(count.unwrap_or(0), torn.unwrap_or(0));
        snapshot.size_bytes = Some(stat.size);
        snapshot.activity = stat.modified.min(LATEST);
        snapshot.written_at = written_at(&stat);
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
        snapshot.written_at = written_at(&known.stat);
        Some(snapshot)
    }

    /// What is told of a session that no rule finds a log of.
    fn unclear_snapshot(&self, id: &SessionId, folder: &Path, reason: &str) -> Result<Option<Snapshot>> {
        let stat = match self.disk.stat(folder) {
            Ok(stat) => stat,
            // Removed meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.context(id).reading(folder, e)),
        };
        let mut snapshot = Snapshot::damaged(id.clone(), reason.to_owned(), revision(&stat));
        snapshot.activity = stat.modified.min(LATEST);
        snapshot.written_at = written_at(&stat);
        Ok(Some(snapshot))
    }

    fn unpacker(&self) -> Result<Unpacker> {
        let context = Context::store(self.layout.root());
        Unpacker::new().map_err(|e| context.io("starting the decompression".to_owned(), e.into()))
    }
}

fn revision(stat: &Stat) -> Revision {
    let Stat { identity: Identity { device, number }, size, modified, changed, .. } = stat;
    Revision::new(format!("file:{device:x}:{number:x}:{size:x}:{modified:x}:{changed:x}"))
}

/// Why a file tells nothing. One that may not be read is not known to be damaged.
fn unreadable(path: &Path, failed: &io::Error) -> String {
    let advice = match failed.kind() {
        io::ErrorKind::PermissionDenied => "; check the permissions of the file and of the folders that lead to it",
        _ => "",
    };
    format!("{} cannot be read: {failed}{advice}", path.display())
}

fn torn_tail(seq: u64, bytes: u64) -> Option<TornTail> {
    (bytes > 0).then(|| TornTail::new(seq, bytes))
}

/// When a file was last changed, in milliseconds since 1970.
fn written_at(stat: &Stat) -> Option<i64> {
    i64::try_from(stat.modified / 1_000_000).ok()
}
