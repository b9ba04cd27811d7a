//! [`Log`]: what one pass over a log file finds, and slices of it.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::super::runtime::cores;
use super::cursor::{Cursor, Cursors, Origin};
use super::disk::DiskFile;
use super::failure::Damage;
use super::layout::Encoding;
use super::recall::Recollection;
use super::rows;
use super::writer::Batch;
use crate::log::{Seq, SessionEvent, SessionHeader};
use crate::seam::checks;

/// A slice that no cursor stands before is read from a place at most about this many bytes before it, or from the start
/// of its frame.
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
    /// What all events take in memory, about, in bytes, or would if they were held.
    event_bytes: usize,
    /// One for all that grew from the same pass over the file, or from the same creation, by appends of this store: each
    /// is the start of the next, byte by byte. After any other change the file is passed over again, and this is another.
    origin: Arc<Origin>,
    /// Where it ended when it was recalled, and how much of it was known to survive a loss of power; nothing of one that was
    /// passed over or made here.
    recalled: Option<(u64, u64)>,
}

/// Where a log stood.
pub(super) struct Place {
    count: u64,
    end: u64,
    last_time: Option<i64>,
    inherited: u64,
    marks: usize,
    event_bytes: usize,
}

/// Where in the file the row of an event stands, or the frame that starts with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) seq: u64,
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
            origin: Arc::default(),
            recalled: None,
        }
    }

    /// A log up to `end`, where its file ends, as its last writer left it.
    pub(super) fn recalled(header: SessionHeader, encoding: Encoding, end: u64, told: Recollection) -> Self {
        let Recollection { count, durable, last_time, inherited, event_bytes, first_required, marks, .. } = told;
        let seq = |(name, seq): (String, u64)| Some((name.into(), Seq::new(seq)?));
        Self {
            count,
            last_time,
            inherited,
            first_required: first_required.into_iter().filter_map(seq).collect(),
            marks: marks.into_iter().map(|(seq, offset)| Mark { seq, offset }).collect(),
            events: None,
            event_bytes,
            origin: Origin::recalled().into(),
            recalled: Some((end, durable)),
            ..Self::new(header, encoding, end)
        }
    }

    /// Whether what is known of it was recalled, and not seen in its file.
    pub(super) fn is_recalled(&self) -> bool {
        self.recalled.is_some()
    }

    /// Whether what is known of it is noted already.
    pub(super) fn is_noted(&self) -> bool {
        self.recalled.is_some_and(|(end, _)| end == self.end)
    }

    /// How many bytes of it were known to survive a loss of power when it was recalled.
    pub(super) fn durable(&self) -> u64 {
        self.recalled.map_or(0, |(_, durable)| durable)
    }

    /// What its events take in memory, about, in bytes, whether they are held or not.
    pub(super) fn event_bytes(&self) -> usize {
        self.event_bytes
    }

    /// Places where reading can start: a seq, and the place of its row or frame.
    pub(super) fn marks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.marks.iter().map(|mark| (mark.seq, mark.offset))
    }

    pub(super) fn place(&self) -> Place {
        Place {
            count: self.count,
            end: self.end,
            last_time: self.last_time,
            inherited: self.inherited,
            marks: self.marks.len(),
            event_bytes: self.event_bytes,
        }
    }

    /// Forgets what was added since.
    pub(super) fn go_back(&mut self, place: Place) {
        self.count = place.count;
        self.end = place.end;
        self.last_time = place.last_time;
        self.inherited = place.inherited;
        self.marks.truncate(place.marks);
        self.first_required.retain(|_, seq| seq.get() < place.count);
        self.event_bytes = place.event_bytes;
        if let Some(events) = &mut self.events {
            events.truncate(usize::try_from(place.count).unwrap_or(usize::MAX));
        }
    }

    /// The first event of each type that is not marked ignorable.
    pub(super) fn first_required(&self) -> impl Iterator<Item = (&str, Seq)> {
        self.first_required.iter().map(|(name, seq)| (&**name, *seq))
    }

    /// Whether the types of events of it are among those that are known of it.
    pub(super) fn has_noted_types_of(&self, events: &[SessionEvent]) -> bool {
        events.iter().all(|event| event.is_ignorable() || self.first_required.contains_key(event.event_type()))
    }

    /// What it takes in memory, about, in bytes.
    pub(super) fn bytes_held(&self) -> usize {
        let events = if self.events.is_some() { self.event_bytes } else { 0 };
        512 + events + self.marks.len() * size_of::<Mark>() + self.first_required.len() * 64
    }

    /// The same log after `events`, which were written at its end as `batch`; events beyond `keep` bytes are not held.
    pub(super) fn extend(&mut self, events: &[SessionEvent], batch: &Batch, keep: usize) {
        let mut places = batch.places.iter().peekable();
        for (index, event) in events.iter().enumerate() {
            if let Some((_, offset)) = places.next_if(|(at, _)| *at == index) {
                self.mark(self.end + offset);
            }
            self.add(event, keep);
        }
        self.end += batch.bytes.len() as u64;
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
        self.event_bytes += event.data().as_str().len() + size_of::<SessionEvent>() + 48;
        if self.event_bytes > keep {
            self.events = None;
        }
        if let Some(events) = &mut self.events {
            events.push(event.clone());
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

    /// Reads a slice that lies inside the log, from the file where the events are not held: from where a cursor stands, or
    /// else from the last mark before it.
    pub(super) fn slice(
        &self,
        file: &dyn DiskFile,
        range: Range<u64>,
        cursors: &Cursors,
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
        let mut cursor = match cursors.take(&self.origin, mark.seq..=range.start) {
            Some(cursor) => cursor,
            None => Cursor::new(mark.seq, mark.offset, self.encoding),
        };
        let middle = self.middle(&range).filter(|_| cores::are_several());
        let read = match middle {
            Some(middle) => self.read_in_halves(&mut cursor, file, &range, middle)?,
            None => self.read(&mut cursor, file, &range)?,
        };
        // One that met anything unexpected is not gone on with.
        if read.is_ok() {
            cursors.put(&self.origin, cursor);
        }
        Ok(read)
    }

    /// The mark that parts a long range.
    pub(super) fn middle(&self, range: &Range<u64>) -> Option<Mark> {
        if range.end - range.start < cores::LONG {
            return None;
        }
        let behind = self.marks.partition_point(|mark| mark.seq <= range.start.midpoint(range.end));
        let middle = *self.marks.get(behind.checked_sub(1)?)?;
        (middle.seq > range.start).then_some(middle)
    }

    /// Reads a range from a cursor and from a mark in it at once; the cursor is then where the range ends.
    fn read_in_halves(
        &self,
        cursor: &mut Cursor,
        file: &dyn DiskFile,
        range: &Range<u64>,
        middle: Mark,
    ) -> io::Result<Result<Vec<SessionEvent>, Damage>> {
        let back = || {
            let mut cursor = Cursor::new(middle.seq, middle.offset, self.encoding);
            (self.read(&mut cursor, file, &(middle.seq..range.end)), cursor)
        };
        let (front, (back, behind)) = cores::both(|| self.read(cursor, file, &(range.start..middle.seq)), back);
        let mut events = match front? {
            // Between the halves stands nothing else.
            Ok(_) if !cursor.is_at(middle.offset) => return Ok(Err(changed(middle.seq))),
            Ok(events) => events,
            damaged => return Ok(damaged),
        };
        *cursor = behind;
        Ok(back?.map(|back| {
            events.extend(back);
            events
        }))
    }

    fn read(
        &self,
        cursor: &mut Cursor,
        file: &dyn DiskFile,
        range: &Range<u64>,
    ) -> io::Result<Result<Vec<SessionEvent>, Damage>> {
        let mut events = Vec::with_capacity((range.end - range.start) as usize);
        let mut rows = cursor.rows(file, self.end);
        let mut next = rows.seq();
        while next < range.end {
            let row = match rows.next()? {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(Err(changed(next))),
                Err(reason) => return Ok(Err(unpacks_no_more(next, &reason))),
            };
            let row = match rows::parse(row, self.header.version()) {
                Ok(row) => row,
                Err(e) => return Ok(Err(Damage { seq: Some(next), offset: None, reason: e.to_string() })),
            };
            for event in row.events() {
                if event.seq().get() != next {
                    return Ok(Err(changed(next)));
                }
                if range.contains(&next) {
                    events.push(event.clone());
                }
                next += 1;
            }
            // The next slice may start inside this row.
            if next <= range.end {
                rows.pass(next);
            }
        }
        Ok(match rows.finish(&self.origin)? {
            Ok(()) => Ok(events),
            Err(reason) => Err(unpacks_no_more(next, &reason)),
        })
    }
}

/// The file is not what it was when the log was read last, although it says that it is.
fn changed(seq: u64) -> Damage {
    let reason = "the file was changed while it was read, by a program that does not only append".to_owned();
    Damage { seq: Some(seq), offset: None, reason }
}

/// A frame that was whole when the log was read last.
fn unpacks_no_more(seq: u64, reason: &str) -> Damage {
    Damage { seq: Some(seq), offset: None, reason: format!("the frame does not unpack any more: {reason}") }
}
