//! Inspection: what a root holds beside its logs.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::runtime::Storage;
use super::disk::{DiskFile, Name, Stat};
use super::failure::Context;
use super::files::Files;
use super::frames::{Unpacker, next_whole};
use super::layout::{Encoding, Generation, unescape};
use super::lines::{PIECE, find_line_feed};
use super::lock::{LOCK, Told};
use super::recall::RECALL;
use super::stored_log::Log;
use super::window::Window;
use super::writer::is_draft;
use crate::log::{SessionId, Vocabulary};
use crate::seam::{Error, Fault, FaultKind, Result};

/// The folder of a session that is being made has no lock for a moment. Who has the lock makes the session, however long that
/// takes.
const MOMENT: Duration = Duration::from_millis(20);

/// How much of what stands behind the end of a log is looked at, in bytes.
const LONGEST_TAIL: u64 = 1 << 20;

impl Files {
    /// Looks into every folder that has the name of a session, one after the other.
    pub(super) fn inspect_folders(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        let context = Context::store(self.layout.root());
        let failed = |path: &Path, e: io::Error| context.reading(path, e);
        for project in self.layout.projects().map_err(|e| failed(self.layout.root(), e))? {
            for name in self.layout.names(&project).map_err(|e| failed(&project, e))? {
                let folder = project.join(&name.text);
                let Some(id) = unescape(&name.text).filter(|_| name.may_be_folder) else { continue };
                for fault in self.inspect_folder(&id, &folder).map_err(|e| failed(&folder, e))? {
                    found(fault);
                }
                if let Some(fault) = self.inspect_tail(&id)? {
                    found(fault);
                }
            }
        }
        Ok(())
    }

    /// What stands in the folder of a session beside its log.
    fn inspect_folder(&self, id: &SessionId, folder: &Path) -> io::Result<Vec<Fault>> {
        let mut content = Content::of(&self.layout.names(folder)?);
        if content.is_without_log() {
            std::thread::sleep(MOMENT);
            if !self.is_folder(folder)? {
                return Ok(Vec::new());
            }
            content = Content::of(&self.layout.names(folder)?);
            if content.is_without_log() && self.owner(folder).is_some() {
                return Ok(Vec::new());
            }
            let lock = self.look_at_lock(folder)?;
            content.lock = lock.as_ref().map(|lock| Told::by_size(lock.size));
            // Of different moments the two say nothing: it may have been made and removed meanwhile.
            if !self.is_folder(folder)?
                || content.is_without_log() && !Content::of(&self.layout.names(folder)?).is_without_log()
                || self.look_at_lock(folder)? != lock
            {
                return Ok(Vec::new());
            }
        }
        Ok(content.faults(id, folder))
    }

    fn look_at_lock(&self, folder: &Path) -> io::Result<Option<Stat>> {
        match self.disk.stat(&folder.join(LOCK)) {
            Ok(lock) => Ok(Some(lock)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn is_folder(&self, path: &Path) -> io::Result<bool> {
        match self.disk.stat(path) {
            Ok(found) => Ok(found.is_dir),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// What counts as the tail of an unfinished write, and is none that a single one leaves: whole rows that do not check
    /// out, of which the line feed was written last, or whole frames behind what was never written.
    fn inspect_tail(&self, id: &SessionId) -> Result<Option<Fault>> {
        let told = match self.snapshot_of(id, &Vocabulary::default()) {
            Ok(told) => told,
            // What cannot be looked at is told by reading it.
            Err(Error::Corruption { .. } | Error::Io { .. }) => None,
            Err(other) => return Err(other),
        };
        // Nothing stands there where the end of the file tells how many events there are.
        if !told.is_some_and(|told| told.torn_tail.is_some() || told.event_count.is_none()) {
            return Ok(None);
        }
        let (key, log) = match self
            .find(id)
            .and_then(|found| found.map(|stored| self.log(id, &stored.key).map(|log| (stored.key, log))).transpose())
        {
            Ok(Some(found)) => found,
            Ok(None) | Err(Error::Corruption { .. } | Error::NotFound { .. } | Error::Io { .. }) => return Ok(None),
            Err(other) => return Err(other),
        };
        if log.torn == 0 || log.damage.is_some() {
            return Ok(None);
        }
        let file = &*key.0.file;
        let reason = match key.0.place.generation.encoding {
            Encoding::Raw => has_whole_row(file, &log).map(|found| found.then_some(ROWS_BEHIND)),
            Encoding::Zstd => has_whole_frame(file, &log).map(|found| found.then_some(FRAMES_BEHIND)),
        };
        let Some(reason) = reason.map_err(|e| self.context(id).reading(&key.0.path, e))? else { return Ok(None) };
        let advice = "the next append cuts them off: look at them first, or restore the session from a backup";
        Ok(Some(Fault::new(FaultKind::Damage, reason, advice).of(id).at_seq(log.count).at_offset(log.end)))
    }
}

const ROWS_BEHIND: &str =
    "whole rows stand behind the last event and do not check out, as no unfinished write leaves them";

const FRAMES_BEHIND: &str =
    "whole batches stand behind the last event and what was lost behind it, as no single unfinished write leaves them";

fn has_whole_row(file: &dyn DiskFile, log: &Log) -> io::Result<bool> {
    let mut tail = vec![0; usize::try_from(log.torn.min(LONGEST_TAIL)).unwrap_or(0)];
    let length = file.read_at(&mut tail, log.end)?;
    Ok(find_line_feed(&tail[..length]).is_some())
}

fn has_whole_frame(file: &dyn DiskFile, log: &Log) -> io::Result<bool> {
    let mut window = Window::new(file, log.end + log.torn, PIECE);
    Ok(next_whole(&mut window, log.end, &mut Unpacker::new()?)?.is_some())
}

/// What stands in the folder of a session.
struct Content {
    logs: Vec<Generation>,
    drafts: Vec<String>,
    /// What its lock tells, where that is asked.
    lock: Option<Told>,
    others: usize,
}

impl Content {
    fn of(names: &[Name]) -> Self {
        let mut content = Self { logs: Vec::new(), drafts: Vec::new(), lock: None, others: 0 };
        for name in names {
            match Generation::named(&name.text) {
                Some(generation) => content.logs.push(generation),
                None if is_draft(&name.text) => content.drafts.push(name.text.clone()),
                None if name.text == LOCK || name.text == RECALL => {}
                None => content.others += 1,
            }
        }
        content.logs.sort_by_key(|generation| generation.version);
        content
    }

    fn is_without_log(&self) -> bool {
        self.logs.is_empty()
    }

    fn faults(&self, id: &SessionId, folder: &Path) -> Vec<Fault> {
        let at = folder.display();
        let told = |kind, reason: String, advice: &str| Fault::new(kind, reason, advice).of(id);
        let mut faults = Vec::new();
        for draft in &self.drafts {
            let path: PathBuf = folder.join(draft);
            let reason =
                format!("{} is the draft of a log whose creation was stopped, or is under way", path.display());
            faults.push(told(FaultKind::Leftover, reason, "remove it, if no program makes that session now"));
        }
        if let Some((newest, older)) = self.logs.split_last() {
            for generation in older.iter().filter(|older| older.version < newest.version) {
                let path = folder.join(generation.file_name());
                let reason = format!("{} is an older generation of the log, which nobody reads", path.display());
                faults.push(told(FaultKind::Leftover, reason, "nothing needs to be done: it goes with the session"));
            }
            return faults;
        }
        if self.lock == Some(Told::Signed) && self.others == 0 {
            let reason =
                format!("{at} holds the lock of a writer that died, most likely while it made the session, and no log");
            let advice = "remove the folder, unless the session was ever listed: then restore it from a backup";
            faults.push(told(FaultKind::Leftover, reason, advice));
        } else if self.lock == Some(Told::GivenUp) {
            let reason = format!("{at} holds the lock of a session that was stored, and no log of it");
            faults.push(told(FaultKind::Orphan, reason, "restore the session from a backup, or remove the folder"));
        } else if self.others > 0 {
            let reason = format!("{at} holds other files and no log");
            faults.push(told(FaultKind::Orphan, reason, "restore the session from a backup, or move them away"));
        } else if self.drafts.is_empty() {
            let reason = format!("{at} holds no session: it was removed, or never made");
            faults.push(told(FaultKind::Leftover, reason, "remove the folder"));
        }
        faults
    }
}
