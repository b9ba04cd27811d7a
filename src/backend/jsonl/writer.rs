//! Writing: the bytes of a batch, a new log made whole or not at all, and batches behind the end of one.

use std::collections::{HashSet, hash_map::RandomState};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::disk::{Disk, DiskFile};
use super::failure::Context;
use super::frames::Packer;
use super::layout::{Encoding, Generation};
use super::rows;
use crate::log::{SessionEvent, SessionHeader};
use crate::seam::Result;

/// The bytes of the header line of a new log.
pub(super) fn header_bytes(
    header: &SessionHeader,
    encoding: Encoding,
    packer: &Packer,
    context: &Context<'_>,
) -> Result<Vec<u8>> {
    let mut line = header.to_line();
    line.push('\n');
    encoded(line, encoding, packer, context)
}

/// How far apart the places are that are noted in a batch of text, in bytes, at the least.
const PLACE_EVERY: usize = 16 << 10;

/// What is written for some events.
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    /// Where reading can start: the index of an event, and the place of its row in the bytes. In a frame only the first.
    pub(super) places: Vec<(usize, u64)>,
}

/// A batch of a log of format `version`.
pub(super) fn batch(
    events: &[SessionEvent],
    version: u32,
    encoding: Encoding,
    packer: &Packer,
    context: &Context<'_>,
) -> Result<Batch> {
    let mut text = String::with_capacity(events.iter().map(|event| event.data().as_str().len() + 128).sum());
    let mut places = Vec::new();
    let mut next_place = 0;
    for (index, event) in events.iter().enumerate() {
        if text.len() >= next_place {
            places.push((index, text.len() as u64));
            next_place = match encoding {
                Encoding::Raw => text.len() + PLACE_EVERY,
                Encoding::Zstd => usize::MAX,
            };
        }
        rows::write(&mut text, event, version);
    }
    Ok(Batch { bytes: encoded(text, encoding, packer, context)?, places })
}

fn encoded(text: String, encoding: Encoding, packer: &Packer, context: &Context<'_>) -> Result<Vec<u8>> {
    match encoding {
        Encoding::Raw => Ok(text.into_bytes()),
        Encoding::Zstd => {
            packer.pack(text.as_bytes()).map_err(|e| context.io("compressing a batch".to_owned(), e.into()))
        }
    }
}

/// A log file under a name of its own, removed again unless it is published.
pub(super) struct Draft<'d> {
    disk: &'d dyn Disk,
    path: PathBuf,
    file: Box<dyn DiskFile>,
}

impl<'d> Draft<'d> {
    /// Writes a log that survives a loss of power before anybody can find it.
    pub(super) fn write(
        disk: &'d dyn Disk,
        folder: &Path,
        generation: Generation,
        bytes: &[u8],
        modified: u64,
        context: &Context<'_>,
    ) -> Result<Self> {
        let random = RandomState::new().build_hasher().finish() & 0xffff_ffff_ffff;
        let path = folder.join(format!("{}.{random:012x}.tmp", generation.file_name()));
        let file = disk.create_new(&path).map_err(|e| context.writing(&path, e))?;
        let draft = Self { disk, path, file };
        let failed = |e| context.writing(&draft.path, e);
        draft.file.write_all_at(bytes, 0).map_err(failed)?;
        set_modified(&*draft.file, &draft.path, modified);
        draft.file.sync().map_err(failed)?;
        Ok(draft)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Publishes the log under `path`, which must be free; whether it was.
    pub(super) fn publish(self, path: &Path) -> io::Result<bool> {
        match self.disk.link(&self.path, path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Err(e) = self.disk.unlink(&self.path) {
            log::debug!("removing {}: {e}; the next creation of its session removes it", self.path.display());
        }
    }
}

/// Whether a file is a draft that the death of a process left behind.
pub(super) fn is_draft(name: &str) -> bool {
    let parts = name.strip_suffix(".tmp").and_then(|rest| rest.rsplit_once('.'));
    parts.is_some_and(|(generation, random)| {
        Generation::named(generation).is_some() && random.len() == 12 && random.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

/// Writes a batch at `end`, where the log ends, after cutting off what stands behind it. Tells how many bytes were cut.
/// After a failure nothing of the batch is left, or, where that fails too, `leftovers` is set.
pub(super) fn write_behind(file: &dyn DiskFile, end: u64, bytes: &[u8], leftovers: &mut bool) -> io::Result<u64> {
    let size = file.stat()?.size;
    if size < end {
        return Err(io::Error::other(format!("the file has {size} bytes where its log has {end}")));
    }
    if size > end {
        file.set_len(end)?;
        // Durably before the first new byte: a mixture of the two must not be what a loss of power leaves.
        file.sync()?;
    }
    *leftovers = false;
    if let Err(failed) = file.write_all_at(bytes, end) {
        if let Err(e) = file.set_len(end) {
            log::warn!("cutting off what a failed append left: {e}; the next one tries again");
            *leftovers = true;
        }
        return Err(failed);
    }
    Ok(size - end)
}

/// Sets the time that orders sessions by activity: the clock of the file system is too coarse for two writes in a row.
pub(super) fn set_modified(file: &dyn DiskFile, path: &Path, nanoseconds: u64) {
    if let Err(e) = file.set_modified(nanoseconds) {
        // The file system has set a time of its own, which orders all but writes at the same time.
        log::debug!("setting the time of {}: {e}", path.display());
    }
}

/// What was written and would not survive a loss of power yet.
#[derive(Default)]
pub(super) struct Unsynced {
    pending: Mutex<Pending>,
    /// Held while syncing: who asks meanwhile must not be told that nothing is left to do.
    syncing: Mutex<()>,
}

#[derive(Default)]
struct Pending {
    files: HashSet<PathBuf>,
    folders: HashSet<PathBuf>,
}

impl Unsynced {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_file(&self, path: &Path) {
        let mut pending = self.pending();
        if !pending.files.contains(path) {
            pending.files.insert(path.to_owned());
        }
    }

    /// Adds a log file with the folders that lead to it: those of its session, its project and its root.
    pub(super) fn add_log(&self, path: &Path) {
        self.add_file(path);
        self.pending().folders.extend(path.ancestors().skip(1).take(3).map(Path::to_owned));
    }

    /// Syncs all; what fails stays to be synced, and the rest is synced all the same.
    pub(super) fn sync(&self, disk: &dyn Disk) -> Vec<(PathBuf, io::Error)> {
        let _turn = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let Pending { files, folders } = std::mem::take(&mut *self.pending());
        let mut failures = Vec::new();
        for path in files {
            if let Err(e) = gone_is_fine(disk.open_for_writing(&path).and_then(|file| file.sync())) {
                self.add_file(&path);
                failures.push((path, e));
            }
        }
        // A folder survives by the one that holds it, and its files by it: the innermost first.
        let mut folders: Vec<_> = folders.into_iter().collect();
        folders.sort_by_key(|path| std::cmp::Reverse(path.as_os_str().len()));
        for path in folders {
            if let Err(e) = gone_is_fine(disk.sync_dir(&path)) {
                self.pending().folders.insert(path.clone());
                failures.push((path, e));
            }
        }
        failures
    }
}

/// What was removed meanwhile has nothing left to survive.
fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_drafts_are_drafts() {
        assert!(is_draft("session.v3.jsonl.zstd.0123456789ab.tmp"));
        assert!(is_draft("session.jsonl.0123456789ab.tmp"));
        for name in [
            "session.v3.jsonl.zstd",
            "session.migration.0123456789abcdef.jsonl.tmp",
            "session.v3.jsonl.0123456789a.tmp",
            "session.v3.jsonl.0123456789zz.tmp",
            "notes.tmp",
            ".tmp",
        ] {
            assert!(!is_draft(name), "{name}");
        }
    }
}
