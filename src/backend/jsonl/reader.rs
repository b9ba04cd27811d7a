//! [`Log`]: what one pass over a log file finds, and slices of it.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use super::disk::DiskFile;
use super::failure::Damage;
use super::frames::{Frame, Step, Unpacked, Unpacker, is_half_written, step};
use super::layout::{Encoding, Generation};
use super::rows::{self, Row};
use super::window::Window;
use crate::log::{Seq, SessionEvent, SessionHeader, SessionId};
use crate::seam::checks;

/// What is read of a file at once, in bytes.
const PIECE: usize = 256 << 10;

/// A slice is read from a place at most this many bytes before it, or from the start of its frame.
const MARK_EVERY: u64 = 256 << 10;

/// A frame whose content is larger is unpacked twice, once to check it and once for its rows, and never held whole.
const LARGE_FRAME: usize = 16 << 20;

/// A finished turn proves that what stands before it was stored whole.
const TURN_END: &str = "turn/end";

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
    version: u32,
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
            version: header.version(),
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
    fn mark(&mut self, offset: u64) {
        if self.marks.last().is_none_or(|last| offset - last.offset >= MARK_EVERY) {
            self.marks.push(Mark { seq: self.count, offset });
        }
    }

    fn add(&mut self, event: &SessionEvent, keep: usize) {
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
            version: self.version,
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

/// Hands the rows from `start` to the end of a file that was read before to `take`, as long as it answers true.
fn read_rows(
    file: &mut Window<'_>,
    encoding: Encoding,
    start: u64,
    take: &mut dyn FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let mut lines = Lines::default();
    let mut at = start;
    if encoding == Encoding::Raw {
        loop {
            let piece = file.bytes(at, PIECE)?;
            at += piece.len() as u64;
            if piece.is_empty() || !lines.feed(piece, take) {
                return Ok(());
            }
        }
    }
    let mut unpacker = Unpacker::new()?;
    while let Step::Frame(frame) = step(file, at)? {
        if unpacker.unpack(file, &frame, &mut |piece| lines.feed(piece, take))? != Unpacked::Whole {
            return Ok(());
        }
        at = frame.range.end;
    }
    Ok(())
}

/// Cuts text that comes in pieces into lines.
#[derive(Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Takes a piece and hands each line that it completes to `take`, without its line feed; whether `take` wants more.
    pub(super) fn feed(&mut self, piece: &[u8], take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut rest = piece;
        while let Some(at) = find_line_feed(rest) {
            let (line, behind) = rest.split_at(at);
            rest = &behind[1..];
            let wants_more = if self.partial.is_empty() {
                take(line)
            } else {
                self.partial.extend_from_slice(line);
                let wants_more = take(&self.partial);
                self.partial.clear();
                // One line of a huge event must not cost its size for as long as the file is read.
                self.partial.shrink_to(PIECE);
                wants_more
            };
            if !wants_more {
                return false;
            }
        }
        self.partial.extend_from_slice(rest);
        true
    }

    pub(super) fn is_complete(&self) -> bool {
        self.partial.is_empty()
    }
}

/// The place of the first line feed. A byte of another character is never one in UTF-8.
pub(super) fn find_line_feed(bytes: &[u8]) -> Option<usize> {
    // In steps, so that the compiler can look at many bytes at once.
    const STEP: usize = 64;
    let mut at = 0;
    for chunk in bytes.chunks(STEP) {
        if chunk.iter().fold(false, |found, b| found | (*b == b'\n')) {
            return chunk.iter().position(|b| *b == b'\n').map(|place| at + place);
        }
        at += chunk.len();
    }
    None
}

/// Reads the header line of session `id`, whose file is of `generation`.
pub(super) fn parse_header(line: &[u8], id: &SessionId, generation: Generation) -> Result<SessionHeader, Damage> {
    let header = SessionHeader::parse(line).map_err(|e| Damage::header(format!("its header line: {e}")))?;
    if header.id() != id {
        return Err(Damage::header(format!("the header in its folder names session {:?}", header.id())));
    }
    if header.version() != generation.version {
        return Err(Damage::header(format!(
            "its header has format {}, and the name of its file says {}",
            header.version(),
            generation.version
        )));
    }
    Ok(header)
}

/// Reads a whole log; events beyond `keep` bytes are not held. An error of the inner result is one that leaves no log.
pub(super) fn scan(
    file: &dyn DiskFile,
    size: u64,
    id: &SessionId,
    generation: Generation,
    keep: usize,
) -> io::Result<Result<Log, Damage>> {
    let mut file = Window::new(file, size, PIECE);
    match generation.encoding {
        Encoding::Raw => scan_raw(&mut file, id, generation, keep),
        Encoding::Zstd => scan_zstd(&mut file, id, generation, keep),
    }
}

fn scan_raw(
    file: &mut Window<'_>,
    id: &SessionId,
    generation: Generation,
    keep: usize,
) -> io::Result<Result<Log, Damage>> {
    let mut lines = Lines::default();
    let mut scan: Option<Result<Scan, Damage>> = None;
    let mut at = 0;
    let mut row_at = 0;
    loop {
        let piece = file.bytes(at, PIECE)?;
        if piece.is_empty() {
            break;
        }
        at += piece.len() as u64;
        let wants_more = lines.feed(piece, &mut |line| {
            let start = row_at;
            row_at += line.len() as u64 + 1;
            match &mut scan {
                None => {
                    let header = parse_header(line, id, generation);
                    scan = Some(header.map(|header| Scan::new(Log::new(header, Encoding::Raw, row_at), keep)));
                }
                Some(Ok(scan)) => scan.row(line, start, row_at),
                Some(Err(_)) => return false,
            }
            true
        });
        if !wants_more {
            break;
        }
    }
    Ok(match scan {
        Some(scan) => scan.map(|scan| scan.finish_raw(at)),
        None if at == 0 => Err(Damage::header("its file is empty")),
        None => Err(Damage::header("its file ends inside the header line")),
    })
}

fn scan_zstd(
    file: &mut Window<'_>,
    id: &SessionId,
    generation: Generation,
    keep: usize,
) -> io::Result<Result<Log, Damage>> {
    let mut unpacker = Unpacker::new()?;
    let (header, mut at) = match read_header_frame(file, &mut unpacker)? {
        Ok((line, end)) => (parse_header(&line, id, generation), end),
        Err(damage) => return Ok(Err(damage)),
    };
    let mut scan = match header {
        Ok(header) => Scan::new(Log::new(header, Encoding::Zstd, at), keep),
        Err(damage) => return Ok(Err(damage)),
    };
    loop {
        let frame = match step(file, at)? {
            Step::End => return Ok(Ok(scan.finish(0))),
            Step::Torn => return Ok(Ok(scan.finish(file.size() - at))),
            Step::Bad { reason, offset } => {
                scan.refuse(offset, reason.to_owned());
                return Ok(Ok(scan.finish(0)));
            }
            Step::Frame(frame) => frame,
        };
        at = frame.range.end;
        if let Some(broken) = scan.frame(file, &mut unpacker, &frame)? {
            if scan.issue.is_none() && is_half_written(file, &frame, &mut unpacker)? {
                return Ok(Ok(scan.finish(file.size() - frame.range.start)));
            }
            scan.refuse(frame.range.start, format!("the frame does not unpack: {broken}"));
        }
    }
}

/// Reads the first frame, which holds the header line and nothing else: the line, and where the frame ends.
pub(super) fn read_header_frame(
    file: &mut Window<'_>,
    unpacker: &mut Unpacker,
) -> io::Result<Result<(Vec<u8>, u64), Damage>> {
    /// Far more than any header has.
    const MOST: usize = 1 << 20;
    let frame = match step(file, 0)? {
        Step::Frame(frame) => frame,
        Step::End => return Ok(Err(Damage::header("its file is empty"))),
        Step::Torn => return Ok(Err(Damage::header("its file ends inside the header frame"))),
        Step::Bad { reason, offset } => {
            return Ok(Err(Damage { seq: None, offset: Some(offset), reason: reason.to_owned() }));
        }
    };
    let mut text = Vec::new();
    let unpacked = unpacker.unpack(file, &frame, &mut |piece| {
        text.extend_from_slice(piece);
        text.len() <= MOST
    })?;
    Ok(match unpacked {
        Unpacked::Whole if find_line_feed(&text).is_some_and(|at| at + 1 == text.len()) => {
            text.pop();
            Ok((text, frame.range.end))
        }
        Unpacked::Whole | Unpacked::Stopped => Err(Damage::header("its first frame is not exactly one header line")),
        Unpacked::Broken(reason) => Err(Damage::header(format!("its header frame does not unpack: {reason}"))),
    })
}

/// A pass over a log.
struct Scan {
    log: Log,
    keep: usize,
    line: u64,
    /// The first row that is not what has to come, and whether a finished turn stands behind it.
    issue: Option<Damage>,
    turn_ends_behind: bool,
    /// The types behind the issue.
    behind: Vec<(Box<str>, Seq)>,
    /// The content of a frame, kept for its memory.
    text: Vec<u8>,
}

impl Scan {
    fn new(log: Log, keep: usize) -> Self {
        Self { log, keep, line: 1, issue: None, turn_ends_behind: false, behind: Vec::new(), text: Vec::new() }
    }

    /// Takes the row that stands from `start` to `end`.
    fn row(&mut self, row: &[u8], start: u64, end: u64) {
        self.line += 1;
        match rows::parse(row, self.log.version) {
            Ok(row) if self.issue.is_none() && self.continues(&row) => {
                self.log.mark(start);
                row.events().iter().for_each(|event| self.log.add(event, self.keep));
                self.log.end = end;
            }
            Ok(row) => {
                let found = row.events().first().map_or(0, |event| event.seq().get());
                self.set_issue(start, || format!("seq {found} stands there"));
                self.look_behind(&row);
            }
            Err(e) => self.set_issue(start, || e.to_string()),
        }
    }

    fn continues(&self, row: &Row) -> bool {
        row.events().first().is_some_and(|event| event.seq().get() == self.log.count)
    }

    fn set_issue(&mut self, offset: u64, reason: impl FnOnce() -> String) {
        if self.issue.is_none() {
            let reason = format!("line {}: {}", self.line, reason());
            self.issue = Some(Damage { seq: Some(self.log.count), offset: Some(offset), reason });
        }
    }

    /// A row behind the first issue is not part of the log, and still tells what was stored.
    fn look_behind(&mut self, row: &Row) {
        for event in row.events() {
            self.turn_ends_behind |= event.event_type() == TURN_END;
            if !event.is_ignorable() && self.behind.iter().all(|(name, _)| **name != *event.event_type()) {
                self.behind.push((event.event_type().into(), event.seq()));
            }
        }
    }

    /// Takes the rows of a frame, all or, where the frame is broken, none; gives the reason then.
    fn frame(&mut self, file: &mut Window<'_>, unpacker: &mut Unpacker, frame: &Frame) -> io::Result<Option<String>> {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let unpacked = unpacker.unpack(file, frame, &mut |piece| {
            text.extend_from_slice(piece);
            text.len() <= LARGE_FRAME
        })?;
        let mut lines = Lines::default();
        let Range { start, end } = frame.range;
        match unpacked {
            Unpacked::Broken(reason) => return Ok(Some(reason)),
            Unpacked::Whole => {
                lines.feed(&text, &mut |row| {
                    self.row(row, start, end);
                    true
                });
                self.text = text;
            }
            Unpacked::Stopped => {
                drop(text);
                if let Unpacked::Broken(reason) = unpacker.unpack(file, frame, &mut |_| true)? {
                    return Ok(Some(reason));
                }
                unpacker.unpack(file, frame, &mut |piece| {
                    lines.feed(piece, &mut |row| {
                        self.row(row, start, end);
                        true
                    })
                })?;
            }
        }
        if !lines.is_complete() {
            self.line += 1;
            self.set_issue(start, || "the frame ends inside it".to_owned());
        }
        Ok(None)
    }

    /// Takes a frame that is none, or that is broken.
    fn refuse(&mut self, offset: u64, reason: String) {
        if self.issue.is_none() {
            self.issue = Some(Damage { seq: Some(self.log.count), offset: Some(offset), reason });
        }
    }

    /// The log of a file of text that ends at `size`: a bad row is the start of a torn tail, unless a finished turn
    /// proves that it was stored whole once.
    fn finish_raw(mut self, size: u64) -> Log {
        if !self.turn_ends_behind {
            self.issue = None;
            self.log.torn = size - self.log.end;
        }
        self.finish_with_issue()
    }

    /// The log of a file of frames of which the last `torn` bytes are none. Frames have checksums: a bad row in a whole
    /// one was not torn.
    fn finish(mut self, torn: u64) -> Log {
        if self.issue.is_none() {
            self.log.torn = torn;
        }
        self.finish_with_issue()
    }

    fn finish_with_issue(mut self) -> Log {
        if self.issue.is_some() {
            for (name, seq) in self.behind {
                self.log.first_required.entry(name).or_insert(seq);
            }
        }
        self.log.damage = self.issue;
        self.log
    }
}
