//! Sessions as one ZIP archive.

use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;

use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, DateTime, System, ZipWriter};

use super::MAX_ENTRY_BYTES;
use super::names::EntryNames;
use crate::export::jsonl::{LogText, failed};
use crate::export::lineage::descendants;
use crate::log::SessionId;
use crate::seam::{Error, Result, SessionPersistence};

/// What a ZIP export wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveReport {
    /// How many sessions, each an entry.
    pub sessions: u64,
    /// How many events of all sessions.
    pub events: u64,
    /// How many bytes the archive has.
    pub bytes: u64,
}

/// Writes a session, and with `include_descendants` all sessions that descend from it, as one ZIP archive of their
/// texts ([`jsonl`](crate::export::jsonl())). The archive is written from its start to its end, so `out` may be a pipe,
/// and takes the memory of one text's export.
///
/// The first entry is the session's own log, named by its format version: `session.v3.jsonl`, or `session.jsonl` for
/// format 0. The others are `subagents/<folder>/session.v3.jsonl`, depth first, children of one parent by the time of
/// their creation and then by id; a session that a circle of parents leads to again is not written again. The folder is
/// the [escaped id](SessionId::escaped); of ids that differ only in case, the second and later have `~~2`, `~~3`, ...
/// behind it, so that no two are one folder on a disk that does not tell upper from lower case.
///
/// Equal logs give equal bytes, from whatever store and at whatever time: order, times (1980-01-01), permissions (0600)
/// and compression (deflate, level 6) are fixed.
///
/// # Errors
///
/// As [`jsonl`](crate::export::jsonl()); `InvalidArgument` for a text of more than [`MAX_ENTRY_BYTES`]. What was written
/// until then is no archive: it has no directory.
pub fn zip(
    store: &dyn SessionPersistence,
    id: &SessionId,
    include_descendants: bool,
    out: &mut dyn Write,
) -> Result<ArchiveReport> {
    let gate = Gate { out, bytes: Rc::default(), is_shut: Rc::default() };
    let (bytes, is_shut) = (gate.bytes.clone(), gate.is_shut.clone());
    let mut archive = ZipWriter::new_stream(gate);
    let written = write_entries(store, id, include_descendants, &mut archive);
    // A dropped writer ends its archive: half of the sessions would look like all of them.
    is_shut.set(written.is_err());
    let mut report = written?;
    let finished = archive.finish().map_err(io::Error::from).and_then(|gate| gate.into_inner().out.flush());
    let lost = if is_shut.get() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) };
    finished.and(lost).map_err(|e| failed(id, e))?;
    report.bytes = bytes.get();
    Ok(report)
}

fn write_entries(
    store: &dyn SessionPersistence,
    id: &SessionId,
    include_descendants: bool,
    archive: &mut ZipWriter<StreamWriter<Gate<'_>>>,
) -> Result<ArchiveReport> {
    let mut report = ArchiveReport::default();
    let mut names = EntryNames::default();
    write_entry(store, id, |_, version| EntryNames::root(version), archive, &mut report)?;
    let descendants = if include_descendants { descendants(store, id)? } else { Vec::new() };
    for session in &descendants {
        write_entry(store, session, |id, version| names.descendant(id, version), archive, &mut report)?;
    }
    Ok(report)
}

fn write_entry(
    store: &dyn SessionPersistence,
    id: &SessionId,
    name: impl FnOnce(&SessionId, u32) -> String,
    archive: &mut ZipWriter<StreamWriter<Gate<'_>>>,
    report: &mut ArchiveReport,
) -> Result<()> {
    let log = LogText::open(store, id)?;
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(6))
        .last_modified_time(DateTime::DEFAULT)
        .system(System::Unix)
        .unix_permissions(0o600);
    archive.start_file(name(id, log.header().version()), options).map_err(|e| failed(id, e.into()))?;
    let mut entry = Entry { archive, left: MAX_ENTRY_BYTES, is_full: false };
    let written = log.write(&mut entry);
    if entry.is_full {
        return Err(Error::InvalidArgument {
            session: Some(id.clone()),
            reason: format!(
                "its text has more than the {MAX_ENTRY_BYTES} bytes that an archive holds of one session; export it as \
                 JSONL"
            ),
        });
    }
    report.events += written?.events;
    report.sessions += 1;
    Ok(())
}

/// One entry, of which no more than the bound is written.
struct Entry<'a, W: Write + io::Seek> {
    archive: &'a mut ZipWriter<W>,
    left: u64,
    is_full: bool,
}

impl<W: Write + io::Seek> Write for Entry<'_, W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if text.len() as u64 > self.left {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let written = self.archive.write(text)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.archive.flush()
    }
}

/// Counts what passes, and lets nothing pass once it is shut, by a failure or from outside: what a writer does when it is
/// dropped then neither reaches the output nor fails again, of which it would tell on the standard error.
struct Gate<'a> {
    out: &'a mut dyn Write,
    bytes: Rc<Cell<u64>>,
    is_shut: Rc<Cell<bool>>,
}

impl Write for Gate<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_shut.get() {
            return Ok(bytes.len());
        }
        let written = self.out.write(bytes);
        match &written {
            Ok(written) => self.bytes.set(self.bytes.get() + *written as u64),
            Err(error) => self.is_shut.set(error.kind() != io::ErrorKind::Interrupted),
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_shut.get() { Ok(()) } else { self.out.flush() }
    }
}
