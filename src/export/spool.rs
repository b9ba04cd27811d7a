//! [`Spool`]: the events of one log, set aside until the last of them was read.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::slice;

use crate::log::text::{parse_event, write_event};
use crate::log::{SessionEvent, SessionHeader, SessionId};
use crate::seam::{Error, Result, checks};

/// Of larger logs the lines go to a temporary file, in bytes.
const MOST_HELD: usize = 4 << 20;

/// The lines that are written to the file at once, in bytes.
const PIECE: usize = 256 << 10;

/// The events of one log: in memory, or in a file without a name that the system removes with the process.
pub(super) struct Spool {
    session: SessionId,
    has_seed_mark: bool,
    /// How many of them were inherited, as far as they tell.
    inherited: u64,
    count: u64,
    held: Vec<SessionEvent>,
    held_bytes: usize,
    file: Option<File>,
    /// Lines that are not in the file yet.
    lines: String,
}

impl Spool {
    /// An empty one for the log of a header.
    pub(super) fn new(header: &SessionHeader) -> Self {
        Self {
            session: header.id().clone(),
            has_seed_mark: checks::has_seed_mark(header),
            inherited: header.seed_length().unwrap_or(0),
            count: 0,
            held: Vec::new(),
            held_bytes: 0,
            file: None,
            lines: String::new(),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The inherited event count that the log tells.
    pub(super) fn inherited(&self) -> u64 {
        self.inherited
    }

    /// Adds the next event.
    pub(super) fn push(&mut self, event: SessionEvent) -> Result<()> {
        self.count += 1;
        if self.has_seed_mark
            && let Some(mark) = checks::inherited_mark(&event)
        {
            self.inherited = mark.get();
        }
        if self.file.is_none() {
            self.held_bytes += event.data().as_str().len() + size_of::<SessionEvent>() + 48;
            self.held.push(event);
            if self.held_bytes > MOST_HELD {
                self.file = Some(tempfile::tempfile().map_err(|e| self.failed("making", e))?);
                for event in std::mem::take(&mut self.held) {
                    self.write(&event)?;
                }
            }
            return Ok(());
        }
        self.write(&event)
    }

    fn write(&mut self, event: &SessionEvent) -> Result<()> {
        write_event(&mut self.lines, event);
        self.lines.push('\n');
        if self.lines.len() >= PIECE { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> Result<()> {
        if let Some(file) = &mut self.file {
            let written = file.write_all(self.lines.as_bytes());
            written.map_err(|e| self.failed("writing", e))?;
            self.lines.clear();
        }
        Ok(())
    }

    /// All of them, where they are in memory.
    pub(super) fn held(&self) -> Option<&[SessionEvent]> {
        self.file.is_none().then_some(&self.held)
    }

    /// All of them, from the first on.
    pub(super) fn events(&mut self) -> Result<Spooled<'_>> {
        self.write_out()?;
        // What is written out is given back to the system before a store takes as much.
        self.lines = String::new();
        let rewound = self.file.as_mut().map(|file| file.seek(SeekFrom::Start(0))).transpose();
        rewound.map_err(|e| self.failed("reading", e))?;
        let lines = self.file.as_ref().map(|file| BufReader::with_capacity(PIECE, file));
        Ok(Spooled { spool: self, held: self.held.iter(), lines, line: Vec::new() })
    }

    fn failed(&self, doing: &str, source: io::Error) -> Error {
        let place = std::env::temp_dir();
        Error::Io {
            session: Some(self.session.clone()),
            operation: format!(
                "{doing} a temporary file in {}, where events are set aside until all were read (TMPDIR names another \
                 folder)",
                place.display()
            ),
            source: source.into(),
        }
    }
}

/// The events of a spool, from the first on.
pub(super) struct Spooled<'s> {
    spool: &'s Spool,
    held: slice::Iter<'s, SessionEvent>,
    lines: Option<BufReader<&'s File>>,
    line: Vec<u8>,
}

impl Iterator for Spooled<'_> {
    type Item = Result<SessionEvent>;

    fn next(&mut self) -> Option<Result<SessionEvent>> {
        let Some(lines) = &mut self.lines else { return self.held.next().cloned().map(Ok) };
        self.line.clear();
        match lines.read_until(b'\n', &mut self.line) {
            Ok(0) => None,
            Ok(_) => {
                let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
                Some(parse_event(line).map_err(|e| self.spool.failed("reading", io::Error::other(e.to_string()))))
            }
            Err(e) => Some(Err(self.spool.failed("reading", e))),
        }
    }
}
