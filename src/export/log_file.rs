//! [`LogFile`]: the lines of one log, checked one by one.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{BufRead, Read as _};

use super::ImportError;
use super::deposit::{Incoming, Unpacking};
use crate::log::packed::{self, Row};
use crate::log::{InvalidRecord, SessionEvent, SessionHeader, text};

/// The longest line, so that a file without line feeds does not fill the memory: just above the largest event that SQLite
/// takes.
const MAX_LINE_BYTES: u64 = 1_000_000_000;

/// A file that is read as a log: its header, and then its events in their order.
pub(super) struct LogFile<R> {
    name: String,
    reader: R,
    max_line_bytes: u64,
    line: Vec<u8>,
    number: u64,
    version: u32,
    next_seq: u64,
    /// Events of the row that was read last, which stands for several.
    unpacked: VecDeque<SessionEvent>,
    unpacking: Unpacking,
}

impl<R: BufRead> LogFile<R> {
    /// Reads the header.
    pub(super) fn open(name: &str, reader: R) -> Result<(SessionHeader, Self), ImportError> {
        Self::open_with(name, reader, MAX_LINE_BYTES)
    }

    fn open_with(name: &str, reader: R, max_line_bytes: u64) -> Result<(SessionHeader, Self), ImportError> {
        let mut file = Self {
            name: name.to_owned(),
            reader,
            max_line_bytes,
            line: Vec::new(),
            number: 0,
            version: 0,
            next_seq: 0,
            unpacked: VecDeque::new(),
            unpacking: Unpacking::default(),
        };
        if !file.advance()? {
            file.number = 1;
            return Err(file.refused("the file is empty, a log starts with the header of its session"));
        }
        if let Some(what) = foreign(&file.line) {
            return Err(file.refused(what));
        }
        let header = file.record(SessionHeader::parse, |line, error| {
            if text::parse_event(line).is_ok() {
                return "the file starts with an event, the header of the session must stand before it".into();
            }
            error.reason().to_owned()
        })?;
        file.version = header.version();
        Ok((header, file))
    }

    /// Reads the next line as the events it stands for; none at the end of the file.
    fn next_row(&mut self) -> Result<VecDeque<SessionEvent>, ImportError> {
        if !self.advance()? {
            return Ok(VecDeque::new());
        }
        let version = self.version;
        let row = self.record(
            |line| packed::parse_row(line, version),
            |line, error| match record_type(line) {
                Some(t) if t == "session" => {
                    "a second session header; a file holds one session, put the rest into a file of its own".into()
                }
                _ => error.reason().to_owned(),
            },
        )?;
        match row {
            Row::One(event) => Ok(VecDeque::from([event])),
            Row::Packed(events) => {
                self.unpacking.add(&events).map_err(|e| self.refused(e.reason()))?;
                Ok(events.into())
            }
        }
    }

    fn advance(&mut self) -> Result<bool, ImportError> {
        self.line.clear();
        let read = (&mut self.reader).take(self.max_line_bytes + 1).read_until(b'\n', &mut self.line);
        let read = read.map_err(|source| ImportError::Unreadable { file: self.name.clone(), source })?;
        self.number += u64::from(read > 0);
        if read as u64 > self.max_line_bytes {
            return Err(
                self.refused(format!("the line has more than {} bytes, which no store takes", self.max_line_bytes))
            );
        }
        Ok(read > 0)
    }

    fn record<T>(
        &self,
        parse: impl Fn(&[u8]) -> Result<T, InvalidRecord>,
        explain: impl Fn(&[u8], &InvalidRecord) -> String,
    ) -> Result<T, ImportError> {
        let (line, is_terminated) = match self.line.strip_suffix(b"\n") {
            Some(line) => (line, true),
            None => (&self.line[..], false),
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            return Err(self.refused("the line is empty; a log has none, remove it"));
        }
        if line.starts_with("\u{feff}".as_bytes()) {
            return Err(self.refused("the line starts with a byte-order mark (EF BB BF); remove these three bytes"));
        }
        if let Some(at) = line.iter().position(|b| *b == 0) {
            return Err(self.refused(format!("a NUL byte stands at byte {at} of the line, text holds none")));
        }
        match (parse(line), is_terminated) {
            (Ok(record), true) => Ok(record),
            (Ok(_), false) => Err(self.refused(
                "the last line has no line feed, so the file may have been cut; if it is whole, end it with a line feed \
                 and import it again",
            )),
            (Err(error), true) => Err(self.refused(explain(line, &error))),
            (Err(error), false) => Err(self.refused(format!(
                "the last line was cut: it has no line feed and does not read ({}); remove it to import what stands \
                 before it",
                explain(line, &error)
            ))),
        }
    }

    fn refused(&self, reason: impl Into<String>) -> ImportError {
        ImportError::Refused { file: self.name.clone(), line: self.number, reason: reason.into() }
    }
}

impl<R: BufRead> Incoming for LogFile<R> {
    fn next_event(&mut self) -> Result<Option<SessionEvent>, ImportError> {
        if self.unpacked.is_empty() {
            self.unpacked = self.next_row()?;
        }
        let Some(event) = self.unpacked.pop_front() else { return Ok(None) };
        let found = event.seq().get();
        if found != self.next_seq {
            return Err(self.refused(format!("seq {found} stands where {} comes next", self.next_seq)));
        }
        self.next_seq += 1;
        Ok(Some(event))
    }
}

/// What a file is that is no text at all: the reason that its first line gives would be of no help.
fn foreign(start: &[u8]) -> Option<&'static str> {
    let kinds: [(&[u8], &str); 6] = [
        (b"\xff\xfe", "the file starts with a byte-order mark of UTF-16 (FF FE); save it as UTF-8 without one"),
        (b"\xfe\xff", "the file starts with a byte-order mark of UTF-16 (FE FF); save it as UTF-8 without one"),
        (b"SQLite format 3\0", "this is an SQLite database and no log; import the file by its path"),
        (b"\x28\xb5\x2f\xfd", "the file is compressed (zstd); decompress it first"),
        (b"\x1f\x8b", "the file is compressed (gzip); decompress it first"),
        (b"PK\x03\x04", "this is a ZIP archive and no log; import the file by its path, or unpack it first"),
    ];
    kinds.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, what)| *what)
}

fn record_type(line: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(serde::Deserialize)]
    struct Record<'a> {
        #[serde(rename = "type", borrow)]
        record_type: Cow<'a, str>,
    }
    // Only for a better reason than the one that the line was refused for already.
    serde_json::from_slice::<Record<'_>>(line).ok().map(|r| r.record_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_refused_before_it_fills_the_memory() {
        let endless = std::io::BufReader::new(std::io::repeat(b'{'));
        let refused = LogFile::open_with("endless", endless, 1_000).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("endless, line 1") && refused.contains("1000 bytes"), "{refused}");
    }
}
