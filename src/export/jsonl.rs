//! The canonical text of a session.

use std::fmt;
use std::io::{self, Write};

use crate::log::{SessionHeader, SessionId, text};
use crate::paging::Pages;
use crate::seam::{Error, OpenOptions, Result, SessionHandle, SessionPersistence, Snapshot};

/// How much text is gathered before it is handed to the writer, which need not buffer.
const CHUNK_BYTES: usize = 64 << 10;

/// What an export wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportReport {
    /// How many events.
    pub events: u64,
    /// How many bytes, the header's line included.
    pub bytes: u64,
}

/// Writes the text of a session as it stands when the export starts: what is appended later is not part of it. A session
/// that cannot be interpreted here is exported like any other. The memory that it takes is a few megabytes, or what the
/// largest event takes, however long the log is.
///
/// # Errors
///
/// `NotFound`, `Corruption` and the failures of the store, after the part of the log before the failure was written. A
/// failure of `out` is an `Io` error that [`write_failure`] recognises.
pub fn jsonl(store: &dyn SessionPersistence, id: &SessionId, out: &mut dyn Write) -> Result<ExportReport> {
    let report = LogText::open(store, id)?.write(out)?;
    out.flush().map_err(|e| failed(id, e))?;
    Ok(report)
}

/// The text of a stored session, as it stands when this is made.
pub(super) struct LogText {
    handle: Box<dyn SessionHandle>,
    snapshot: Snapshot,
}

impl LogText {
    pub(super) fn open(store: &dyn SessionPersistence, id: &SessionId) -> Result<Self> {
        let handle = store.open(id, OpenOptions::uninterpreted())?;
        let snapshot = store.stat(id)?.ok_or_else(|| Error::NotFound { session: id.clone() })?;
        warn_of_torn_tail(&snapshot);
        Ok(Self { handle, snapshot })
    }

    pub(super) fn header(&self) -> &SessionHeader {
        self.handle.header()
    }

    /// Writes it, in pieces that depend on nothing but the text.
    pub(super) fn write(self, out: &mut dyn Write) -> Result<ExportReport> {
        let mut pages = Pages::new(&*self.handle, &self.snapshot, 0);
        let mut out = Chunks { id: self.handle.id(), out, text: String::with_capacity(CHUNK_BYTES), bytes: 0 };
        let mut events = 0;
        self.header().write_line(&mut out.text);
        out.end_line()?;
        let read = loop {
            match pages.next_page() {
                Ok(page) if page.is_empty() => break Ok(()),
                Ok(page) => {
                    for event in &page {
                        text::write_event(&mut out.text, event);
                        out.end_line()?;
                    }
                    events += page.len() as u64;
                }
                Err(error) => break Err(error),
            }
        };
        out.write()?;
        read?;
        let bytes = out.bytes;
        self.handle.close()?;
        Ok(ExportReport { events, bytes })
    }
}

/// Says what the end of a stored log holds that is no part of it.
pub(crate) fn warn_of_torn_tail(snapshot: &Snapshot) {
    if let Some(tail) = snapshot.torn_tail {
        log::warn!(
            "session {:?}: {} bytes from seq {} on do not check out and are left out",
            snapshot.id,
            tail.bytes,
            tail.seq
        );
    }
}

struct Chunks<'a> {
    id: &'a SessionId,
    out: &'a mut dyn Write,
    text: String,
    bytes: u64,
}

impl Chunks<'_> {
    fn end_line(&mut self) -> Result<()> {
        self.text.push('\n');
        if self.text.len() >= CHUNK_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.out.write_all(self.text.as_bytes()).map_err(|e| failed(self.id, e))?;
        self.bytes += self.text.len() as u64;
        self.text.clear();
        self.text.shrink_to(CHUNK_BYTES);
        Ok(())
    }
}

pub(super) fn failed(id: &SessionId, error: io::Error) -> Error {
    Error::Io {
        session: Some(id.clone()),
        operation: "writing the exported log".to_owned(),
        source: Box::new(WriteFailure(error)),
    }
}

/// Sets a failure of the caller's writer apart from an `io::Error` of the store.
#[derive(Debug)]
struct WriteFailure(io::Error);

impl fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for WriteFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// The failure of the writer that was given to an export, where `error` is one: a full disk, or a closed pipe
/// ([`io::ErrorKind::BrokenPipe`]). Nothing where the store failed.
pub fn write_failure(error: &Error) -> Option<&io::Error> {
    match error {
        Error::Io { source, .. } => source.downcast_ref::<WriteFailure>().map(|failure| &failure.0),
        _ => None,
    }
}
