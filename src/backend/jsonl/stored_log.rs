//! [`Log`]: what one pass over a log file finds, and slices of it.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use super::disk::DiskFile;
use super::failure::Damage;
use super::layout::Encoding;
use super::lines::{PIECE, read_rows};
use super::rows;
use super::window::Window;
use crate::log::{Seq, SessionEvent, SessionHeader};
use crate::seam::checks;

/// A slice is read from a place at most this many bytes before it, or from the start of its frame.
const MARK_EVERY: u64 = 256 << 10;

/// A log, as one pass over its file found it.
#[derive(Debug, Clone)]
pub(super) struct Log {
    pub(super) header: SessionHeader,
    /// How many events it has; before the damage, where there is some.
    pub(super) count: u64,
    /// Where the next batch goes: behind the last row, or frame, that counts.
    pub(super) end: u64,
    /// How many bytes stand behind the end: a write that was never finished.
    pub(super) torn: u64,
    pub(super) last_time: Option<i64>,
    pub(super) inherited: u64,
    pub(super) damage: Option<Damage>,
    encoding: Encoding,
    /// The first event of each type that is not marked ignorable, those behind the damage included.
    first_required: HashMap<Box<str>, Seq>,
    marks: Vec<Mark>,
    /// All events, where they are few enough to be kept.
    events: Option<Vec<SessionEvent>>,
    /// What the events take in memory, about, in bytes.
    event_bytes: usize,
}

/// Where in the file the row of an event stands, or the frame that starts with it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    seq: u64,
    offset: u64,
}

impl Log {
    /// A log that was just written: a header, and no event.
    pub(super) fn new(header: SessionHeader, encoding: Encoding, end: u64) -> Self {
        Self {
            inherited: header.seed_length().unwrap_or(0),
            header,
            encoding,
            count: 0,
            end,
            torn: 0,
            last_time: None,
            damage: None,
            first_required: HashMap::new(),
            marks: Vec::new(),
            events: Some(Vec::new()),
            event_bytes: 0,
        }
    }

    /// The first event of each type that is not marked ignorable.
    pub(super) fn first_required(&self) -> impl Iterator<Item = (&str, Seq)> {
        self.first_required.iter().map(|(name, seq)| (&**name, *seq))
    }

    /// What it takes in memory, about, in bytes.
    pub(super) fn bytes_held(&self) -> usize {
        512 + self.event_bytes + self.marks.len() * size_of::<Mark>() + self.first_required.len() * 64
    }

    /// The same log after a batch that was written from its end to `end`; events beyond `keep` bytes are not held.
    pub(super) fn extend(&mut self, batch: &[SessionEvent], end: u64, keep: usize) {
        self.mark(self.end);
        batch.iter().for_each(|event| self.add(event, keep));
        self.end = end;
        self.torn = 0;
    }

    /// Notes where the next event stands, where the last note is far enough.
    pub(super) fn mark(&mut self, offset: u64) {
        if self.marks.last().is_none_or(|last| offset - last.offset >= MARK_EVERY) {
            self.marks.push(Mark { seq: self.count, offset });
        }
    }

    /// Adds the next event; events beyond `keep` bytes are not held.
    pub(super) fn add(&mut self, event: &SessionEvent, keep: usize) {
        self.count += 1;
        self.last_time = Some(event.time());
        if checks::has_seed_mark(&self.header)
            && let Some(mark) = checks::inherited_mark(event)
        {
            self.inherited = mark.get();
        }
        self.note_type(event);
        if let Some(events) = &mut self.events {
            self.event_bytes += event.data().as_str().len() + size_of::<SessionEvent>() + 48;
            events.push(event.clone());
        }
        if self.event_bytes > keep {
            self.events = None;
            self.event_bytes = 0;
        }
    }

    fn note_type(&mut self, event: &SessionEvent) {
        if !event.is_ignorable() && !self.first_required.contains_key(event.event_type()) {
            self.first_required.insert(event.event_type().into(), event.seq());
        }
    }

    /// Notes damage, and the types that stand behind it.
    pub(super) fn set_damage(&mut self, damage: Damage, behind: Vec<(Box<str>, Seq)>) {
        self.damage = Some(damage);
        for (event_type, seq) in behind {
            self.first_required.entry(event_type).or_insert(seq);
        }
    }

    /// Reads a slice that lies inside the log, from the file where the events are not held.
    pub(super) fn slice(
        &self,
        file: &dyn DiskFile,
        range: Range<u64>,
    ) -> io::Result<Result<Vec<SessionEvent>, Damage>> {
        if let Some(events) = &self.events {
            return Ok(Ok(events[range.start as usize..range.end as usize].to_vec()));
        }
        if range.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let behind = self.marks.partition_point(|mark| mark.seq <= range.start);
        let Some(mark) = behind.checked_sub(1).and_then(|at| self.marks.get(at)) else {
            return Ok(Err(changed(range.start)));
        };
        let mut slice = Slice {
            version: self.header.version(),
            next: mark.seq,
            range: range.clone(),
            events: Vec::with_capacity((range.end - range.start) as usize),
            damage: None,
        };
        let mut file = Window::new(file, self.end, PIECE);
        read_rows(&mut file, self.encoding, mark.offset, &mut |row| slice.take(row))?;
        if let Some(damage) = slice.damage {
            return Ok(Err(damage));
        }
        if slice.next < range.end {
            return Ok(Err(changed(slice.next)));
        }
        Ok(Ok(slice.events))
    }
}

/// The file is not what it was when the log was read last, although it says that it is.
fn changed(seq: u64) -> Damage {
    let reason = "the file was changed while it was read, by a program that does not only append".to_owned();
    Damage { seq: Some(seq), offset: None, reason }
}

/// The events of a range, collected from the rows that hold them.
struct Slice {
    version: u32,
    next: u64,
    range: Range<u64>,
    events: Vec<SessionEvent>,
    damage: Option<Damage>,
}

impl Slice {
    /// Takes a row; whether more are wanted.
    fn take(&mut self, row: &[u8]) -> bool {
        let parsed = match rows::parse(row, self.version) {
            Ok(parsed) => parsed,
            Err(e) => {
                self.damage = Some(Damage { seq: Some(self.next), offset: None, reason: e.to_string() });
                return false;
            }
        };
        for event in parsed.events() {
            if event.seq().get() != self.next {
                self.damage = Some(changed(self.next));
                return false;
            }
            if self.range.contains(&self.next) {
                self.events.push(event.clone());
            }
            self.next += 1;
        }
        self.next < self.range.end
    }
}
