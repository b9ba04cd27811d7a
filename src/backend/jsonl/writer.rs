//! Writing: the bytes of a batch, and a new log made whole or not at all.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    file: Arc<dyn DiskFile>,
    /// Where the next bytes go.
    end: u64,
}

impl<'d> Draft<'d> {
    /// Makes an empty one.
    pub(super) fn new(
        disk: &'d dyn Disk,
        folder: &Path,
        generation: Generation,
        context: &Context<'_>,
    ) -> Result<Self> {
        let random = RandomState::new().build_hasher().finish() & 0xffff_ffff_ffff;
        let path = folder.join(format!("{}.{random:012x}.tmp", generation.file_name()));
        let file = disk.create_new(&path).map_err(|e| context.writing(&path, e))?.into();
        Ok(Self { disk, path, file, end: 0 })
    }

    /// Writes the next bytes of the log.
    pub(super) fn write(&mut self, bytes: &[u8], context: &Context<'_>) -> Result<()> {
        self.file.write_all_at(bytes, self.end).map_err(|e| context.writing(&self.path, e))?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Makes the log survive a loss of power, before anybody can find it.
    pub(super) fn finish(&self, modified: u64, context: &Context<'_>) -> Result<()> {
        set_modified(&*self.file, &self.path, modified);
        self.file.sync().map_err(|e| context.writing(&self.path, e))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The log, open for writing.
    pub(super) fn file(&self) -> Arc<dyn DiskFile> {
        self.file.clone()
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

/// Sets the time that orders sessions by activity: the clock of the file system is too coarse for two writes in a row.
pub(super) fn set_modified(file: &dyn DiskFile, path: &Path, nanoseconds: u64) {
    if let Err(e) = file.set_modified(nanoseconds) {
        // The file system has set a time of its own, which orders all but writes at the same time.
        log::debug!("setting the time of {}: {e}", path.display());
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
