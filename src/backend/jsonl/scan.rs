//! [`scan`]: the one pass over a log file, which tells what is torn from what is damaged.

use std::io;
use std::ops::Range;
use std::thread;

use super::super::runtime::cores;
use super::disk::DiskFile;
use super::failure::Damage;
use super::frames::{Frame, Step, Unpacked, Unpacker, has_gap, is_half_written, next_whole, step};
use super::layout::{Encoding, Generation};
use super::lines::{Lines, PIECE, find_line_feed};
use super::parsing::{Parsed, Parsing};
use super::rows::{self, Row};
use super::stored_log::{Log, Place};
use super::wholeness::was_whole;
use super::window::Window;
use crate::log::{Seq, SessionHeader, SessionId};

/// A finished turn proves that what stands before it was stored whole.
const TURN_END: &str = "turn/end";

/// A smaller file is read in less time than a second thread takes to be of use, in bytes.
const LARGE: u64 = 4 << 20;

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
    scan_in(cores::are_several() && size >= LARGE, file, size, id, generation, keep)
}

/// The same in two threads or in one.
pub(super) fn scan_in(
    is_in_two: bool,
    file: &dyn DiskFile,
    size: u64,
    id: &SessionId,
    generation: Generation,
    keep: usize,
) -> io::Result<Result<Log, Damage>> {
    // A log that is known to be larger is not collected first and given up then.
    let keep = if size > keep as u64 { 0 } else { keep };
    let mut file = Window::new(file, size, PIECE);
    thread::scope(|scope| {
        let new = |log: Log| {
            let parsing = Parsing::new(log.header.version(), is_in_two.then_some(scope));
            Pass { scan: Scan::new(log, keep), parsing }
        };
        match generation.encoding {
            Encoding::Raw => scan_raw(&mut file, id, generation, new),
            Encoding::Zstd => scan_zstd(&mut file, id, generation, new),
        }
    })
}

fn scan_raw<'s, 'e: 's>(
    file: &mut Window<'_>,
    id: &SessionId,
    generation: Generation,
    new: impl Fn(Log) -> Pass<'s, 'e>,
) -> io::Result<Result<Log, Damage>> {
    let mut lines = Lines::default();
    let mut pass: Option<Result<Pass<'s, 'e>, Damage>> = None;
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
            match &mut pass {
                None => {
                    let header = parse_header(line, id, generation);
                    pass = Some(header.map(|header| new(Log::new(header, Encoding::Raw, row_at))));
                }
                Some(Ok(pass)) => pass.row(line, start, row_at),
                Some(Err(_)) => return false,
            }
            true
        });
        if !wants_more {
            break;
        }
    }
    Ok(match pass {
        Some(pass) => pass.map(|pass| pass.finish().finish_raw(at)),
        None if at == 0 => Err(Damage::header("its file is empty")),
        None => Err(Damage::header("its file ends inside the header line")),
    })
}

fn scan_zstd<'s, 'e: 's>(
    file: &mut Window<'_>,
    id: &SessionId,
    generation: Generation,
    new: impl Fn(Log) -> Pass<'s, 'e>,
) -> io::Result<Result<Log, Damage>> {
    let mut unpacker = Unpacker::new()?;
    let (header, mut at) = match read_header_frame(file, &mut unpacker)? {
        Ok((line, end)) => (parse_header(&line, id, generation), end),
        Err(damage) => return Ok(Err(damage)),
    };
    let mut pass = match header {
        Ok(header) => new(Log::new(header, Encoding::Zstd, at)),
        Err(damage) => return Ok(Err(damage)),
    };
    loop {
        let frame = match step(file, at)? {
            Step::End => return Ok(Ok(pass.finish().finish(at))),
            Step::Frame(frame) => frame,
            unreadable => {
                pass.take_rest();
                // A frame behind it proves that it was whole once, whatever its length says now, or else was never
                // written where later ones were.
                let next = next_whole(file, at, &mut unpacker)?;
                let behind = next.as_ref().map_or(file.size(), |frame| frame.range.start);
                let is_gap = has_gap(file, at, behind)?;
                match (unreadable, &next) {
                    (Step::Torn, None) if was_whole(file, at, &mut unpacker)? => {
                        pass.scan.refuse(
                            at,
                            "a length in the header of the frame is not what was written".to_owned(),
                            false,
                        );
                    }
                    (Step::Torn, None) => return Ok(Ok(pass.finish().finish(file.size()))),
                    (Step::Bad { reason, offset }, _) => pass.scan.refuse(offset, reason.to_owned(), is_gap),
                    (_, _) => {
                        let reason = "the frame has no end, and another one stands behind it";
                        pass.scan.refuse(at, reason.to_owned(), is_gap);
                    }
                }
                match next {
                    Some(frame) => frame,
                    None => return Ok(Ok(pass.finish().finish(file.size()))),
                }
            }
        };
        at = frame.range.end;
        if let Some(broken) = pass.frame(file, &mut unpacker, &frame)? {
            pass.take_rest();
            let start = frame.range.start;
            // What its zeros say of its length means nothing.
            let next = next_whole(file, start, &mut unpacker)?;
            at = next.map_or(file.size(), |next| next.range.start);
            let is_gap = is_half_written(file, &frame, at, &mut unpacker)?;
            pass.scan.refuse(start, format!("the frame does not unpack: {broken}"), is_gap);
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

/// A pass over a file.
struct Pass<'s, 'e> {
    scan: Scan,
    parsing: Parsing<'s, 'e>,
}

impl Pass<'_, '_> {
    /// Takes the row that stands from `start` to `end`, in its turn.
    fn row(&mut self, row: &[u8], start: u64, end: u64) {
        self.parsing.add(row, start, end, &mut |parsed| self.scan.row(parsed));
    }

    fn take_rest(&mut self) {
        self.parsing.finish(&mut |parsed| self.scan.row(parsed));
    }

    /// Takes the rows of a frame, all or, where the frame is broken, none; gives the reason then.
    fn frame(&mut self, file: &mut Window<'_>, unpacker: &mut Unpacker, frame: &Frame) -> io::Result<Option<String>> {
        let Range { start, end } = frame.range;
        let mut lines = Lines::default();
        if self.parsing.is_in_two() {
            let before = self.parsing.collected();
            let collected = unpacker.unpack(file, frame, &mut |piece| {
                lines.feed(piece, &mut |row| self.parsing.collect(row, start, end))
            })?;
            match collected {
                Unpacked::Whole if lines.is_complete() => {
                    self.parsing.hand_over_enough(&mut |parsed| self.scan.row(parsed));
                    return Ok(None);
                }
                _ => self.parsing.forget_behind(before),
            }
            self.take_rest();
            lines = Lines::default();
        }
        // They are taken as they are unpacked, so that no frame is held whole nor unpacked twice, and given back where its
        // checksum, which stands at its end, refutes them.
        let before = self.scan.place();
        let unpacked = unpacker.unpack(file, frame, &mut |piece| {
            lines.feed(piece, &mut |row| {
                self.scan.row(&Parsed { row: rows::parse(row, self.scan.log.header.version()), start, end });
                true
            })
        })?;
        if let Unpacked::Broken(reason) = unpacked {
            self.scan.go_back(before);
            return Ok(Some(reason));
        }
        if !lines.is_complete() {
            self.scan.line += 1;
            self.scan.set_issue(start, || "the frame ends inside it".to_owned());
        }
        Ok(None)
    }

    fn finish(mut self) -> Scan {
        self.take_rest();
        self.scan
    }
}

/// What a pass has found.
struct Scan {
    log: Log,
    keep: usize,
    line: u64,
    /// The first row that is not what has to come, and whether a finished turn stands behind it.
    issue: Option<Damage>,
    /// Whether the issue is that something was never written.
    is_gap: bool,
    turn_ends_behind: bool,
    /// The types behind the issue.
    behind: Vec<(Box<str>, Seq)>,
}

/// Where a pass stood before a frame.
struct Before {
    log: Place,
    line: u64,
    has_issue: bool,
    turn_ends_behind: bool,
    behind: usize,
}

impl Scan {
    fn new(log: Log, keep: usize) -> Self {
        Self { log, keep, line: 1, issue: None, is_gap: false, turn_ends_behind: false, behind: Vec::new() }
    }

    fn row(&mut self, &Parsed { ref row, start, end }: &Parsed) {
        self.line += 1;
        match row {
            Ok(row) if self.issue.is_none() && self.continues(row) => {
                self.log.mark(start);
                row.events().iter().for_each(|event| self.log.add(event, self.keep));
                self.log.end = end;
            }
            Ok(row) => {
                let found = row.events().first().map_or(0, |event| event.seq().get());
                self.set_issue(start, || format!("seq {found} stands there"));
                self.look_behind(row);
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

    fn place(&self) -> Before {
        Before {
            log: self.log.place(),
            line: self.line,
            has_issue: self.issue.is_some(),
            turn_ends_behind: self.turn_ends_behind,
            behind: self.behind.len(),
        }
    }

    fn go_back(&mut self, before: Before) {
        self.log.go_back(before.log);
        self.line = before.line;
        if !before.has_issue {
            self.issue = None;
        }
        self.turn_ends_behind = before.turn_ends_behind;
        self.behind.truncate(before.behind);
    }

    /// Takes a frame that is none, or that is broken, or was never written whole.
    fn refuse(&mut self, offset: u64, reason: String, is_gap: bool) {
        if self.issue.is_none() {
            self.issue = Some(Damage { seq: Some(self.log.count), offset: Some(offset), reason });
            self.is_gap = is_gap;
        }
    }

    /// The log of a file of text that ends at `size`: a bad row is the start of a torn tail, unless a finished turn
    /// proves that it was stored whole once.
    fn finish_raw(mut self, size: u64) -> Log {
        self.is_gap = true;
        self.finish(size)
    }

    /// The log of a file that ends at `size`: what was never written is the start of a torn tail, unless a finished turn
    /// behind it proves that it was stored once. Frames have checksums: a bad row in a whole one was not torn.
    fn finish(mut self, size: u64) -> Log {
        if self.is_gap && !self.turn_ends_behind {
            self.issue = None;
        }
        if self.issue.is_none() {
            self.log.torn = size - self.log.end;
        }
        self.finish_with_issue()
    }

    fn finish_with_issue(mut self) -> Log {
        if let Some(damage) = self.issue {
            self.log.set_damage(damage, self.behind);
        }
        self.log
    }
}
