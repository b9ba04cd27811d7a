//! [`Glance`]: what a log file tells by its first line and its last, without what stands between.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{DiskFile, Stat};
use super::failure::Damage;
use super::frames::{MAGIC, Step, Unpacked, Unpacker, has_gap, is_half_written, step};
use super::layout::{Encoding, Generation};
use super::lines::find_line_feed;
use super::rows::{self, Row};
use super::scan::{parse_header, read_header_frame};
use super::wholeness::was_whole;
use super::window::Window;
use crate::log::{SessionHeader, SessionId};

/// What is read first for the header, in bytes. Most headers are shorter.
const HEAD: usize = 512;

/// A longer header line is none.
const LONGEST_HEAD: usize = 1 << 20;

/// What is read first for the last row, in bytes; four times as much where that is not enough.
const TAIL: usize = 1 << 10;

/// A last row or frame that starts further from the end is not looked for, in bytes.
const LONGEST_TAIL: usize = 64 << 10;

/// A last frame with more content is not looked into, in bytes.
const LARGEST_CONTENT: usize = 4 << 20;

/// What a log file tells by its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glance {
    pub(super) header: Result<SessionHeader, Damage>,
    /// What its end tells; nothing where that was not looked at.
    pub(super) tail: Option<Tail>,
}

/// How many bytes of the ends of logs may be read. A header is read in any case.
pub(super) struct Allowance(u64);

impl Allowance {
    /// For a list. The ends of more sessions than fit stay untold: a first list is to read little, however many there are
    /// and whatever they end with.
    pub(super) const OF_LIST: u64 = 1 << 20;

    pub(super) const fn of(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Only the header.
    pub(super) const fn none() -> Self {
        Self(0)
    }

    /// Whether so many bytes are left, which are used up then.
    fn take(&mut self, bytes: u64) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }

    /// Whether anything is left.
    pub(super) fn is_left(&self) -> bool {
        self.0 > 0
    }
}

/// What the end of a log file tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tail {
    /// How many events there are, where the last row tells it.
    pub(super) count: Option<u64>,
    pub(super) last_time: Option<i64>,
    /// How many bytes at the end are a write that was never finished, where the last row tells it.
    pub(super) torn: Option<u64>,
}

impl Tail {
    fn empty(torn: u64) -> Self {
        Self { count: Some(0), last_time: None, torn: Some(torn) }
    }

    /// The tail behind a good last row.
    fn of(row: &Row, torn: u64) -> Self {
        match row.events().last() {
            Some(last) => Self { count: Some(last.seq().get() + 1), last_time: Some(last.time()), torn: Some(torn) },
            None => Self::default(),
        }
    }
}

/// Looks at a log file of `size` bytes, at its end as far as that is allowed.
pub(super) fn look(
    file: &dyn DiskFile,
    size: u64,
    id: &SessionId,
    generation: Generation,
    unpacker: &mut Unpacker,
    allowance: &mut Allowance,
) -> io::Result<Glance> {
    let mut head = Window::new(file, size, HEAD);
    let line = match generation.encoding {
        Encoding::Raw => first_line(&mut head)?,
        Encoding::Zstd => read_header_frame(&mut head, unpacker)?,
    };
    let (header, start) = match line.and_then(|(line, end)| Ok((parse_header(&line, id, generation)?, end))) {
        Ok(found) => found,
        Err(damage) => return Ok(Glance { header: Err(damage), tail: Some(Tail::default()) }),
    };
    let mut tail = Tail::default();
    let mut length = TAIL;
    loop {
        let from = size.saturating_sub(length as u64).max(start);
        // A frame is read once more where it is unpacked.
        let times = if generation.encoding == Encoding::Zstd { 2 } else { 1 };
        if !allowance.take((size - from) * times) {
            return Ok(Glance { header: Ok(header), tail: None });
        }
        let mut window = Window::new(file, size, 1);
        let bytes = window.bytes(from, usize::try_from(size - from).unwrap_or(usize::MAX))?;
        let found = match generation.encoding {
            Encoding::Raw => last_row(bytes, from == start, generation.version),
            Encoding::Zstd => {
                let starts: Vec<_> = (0..bytes.len()).rev().filter(|at| bytes[*at..].starts_with(&MAGIC)).collect();
                let starts = starts.into_iter().map(|at| from + at as u64);
                last_frame(&mut window, starts, from == start, start, generation.version, unpacker)?
            }
        };
        if let Some(found) = found {
            tail = found;
            break;
        }
        if from == start || length >= LONGEST_TAIL {
            break;
        }
        length *= 4;
    }
    Ok(Glance { header: Ok(header), tail: Some(tail) })
}

/// The first line of a file of text, and where it ends.
fn first_line(file: &mut Window<'_>) -> io::Result<Result<(Vec<u8>, u64), Damage>> {
    let mut length = HEAD;
    loop {
        let bytes = file.bytes(0, length)?;
        if let Some(at) = find_line_feed(bytes) {
            return Ok(Ok((bytes[..at].to_vec(), at as u64 + 1)));
        }
        let short = bytes.len() < length;
        if bytes.is_empty() {
            return Ok(Err(Damage::header("its file is empty")));
        }
        if short || length >= LONGEST_HEAD {
            return Ok(Err(Damage::header("its file ends inside the header line")));
        }
        length *= 8;
    }
}

/// The last good row of the end of a file of text, with the bad ones behind it as torn; nothing where it starts before. It
/// must continue the row before it: a seq alone proves no count.
fn last_row(bytes: &[u8], is_all: bool, version: u32) -> Option<Tail> {
    let row_before = |end: usize| {
        let row = bytes[..end].strip_suffix(b"\n")?;
        match row.iter().rposition(|b| *b == b'\n') {
            Some(before) => Some(before + 1..row.len()),
            None => is_all.then_some(0..row.len()),
        }
    };
    let mut end = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    while end > 0 {
        let place = row_before(end)?;
        let Ok(row) = rows::parse(&bytes[place.clone()], version) else {
            end = place.start;
            continue;
        };
        let follows = if place.start == 0 {
            0
        } else {
            let before = row_before(place.start)?;
            match rows::parse(&bytes[before], version) {
                Ok(before) => before.events().last().map_or(0, |last| last.seq().get() + 1),
                // Whether the rows are torn or damaged depends on all that stands before them.
                Err(_) => return Some(Tail::default()),
            }
        };
        return Some(match row.events() {
            [first, ..] if first.seq().get() == follows => Tail::of(&row, (bytes.len() - end) as u64),
            _ => Tail::default(),
        });
    }
    is_all.then(|| Tail::empty(bytes.len() as u64))
}

/// The last row of the last whole frame that starts at one of `starts`, which come last first; nothing where there is
/// none. A frame counts only by its checksum: the bytes of its magic number may stand in the content of another.
fn last_frame(
    file: &mut Window<'_>,
    starts: impl Iterator<Item = u64>,
    is_all: bool,
    first: u64,
    version: u32,
    unpacker: &mut Unpacker,
) -> io::Result<Option<Tail>> {
    for start in starts {
        let Step::Frame(frame) = step(file, start)? else { continue };
        if !frame.has_checksum {
            continue;
        }
        let mut content = Vec::new();
        let unpacked = unpacker.unpack(file, &frame, &mut |piece| {
            content.extend_from_slice(piece);
            content.len() <= LARGEST_CONTENT
        })?;
        if unpacked != Unpacked::Whole {
            continue;
        }
        let Some(row) = content.strip_suffix(b"\n") else { return Ok(Some(Tail::default())) };
        let row_at = row.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        // Neither a batch that decayed behind it nor a bad row in a whole frame is told by a look at the end, and how many
        // events there are is not known then: who asks has to read the log.
        let Some(torn) = torn_from(file, frame.range.end, unpacker)? else { return Ok(Some(Tail::default())) };
        return Ok(Some(rows::parse(&row[row_at..], version).map_or(Tail::default(), |row| Tail::of(&row, torn))));
    }
    Ok(if is_all { Some(torn_from(file, first, unpacker)?.map_or(Tail::default(), Tail::empty)) } else { None })
}

/// How many bytes from `start` on, where no whole frame follows, are a write that was never finished; nothing where they
/// are something else.
fn torn_from(file: &mut Window<'_>, start: u64, unpacker: &mut Unpacker) -> io::Result<Option<u64>> {
    let size = file.size();
    let is_torn = match step(file, start)? {
        Step::End => true,
        Step::Torn => !was_whole(file, start, unpacker)?,
        Step::Frame(frame) => is_half_written(file, &frame, size, unpacker)?,
        Step::Bad { .. } => has_gap(file, start, size)?,
    };
    Ok(is_torn.then_some(size - start))
}

/// What was seen of log files, kept for as long as they stay as they are.
#[derive(Default)]
pub(super) struct Glances(Mutex<HashMap<PathBuf, (Stat, Arc<Glance>)>>);

impl Glances {
    /// With more it starts anew: a glance costs two short reads.
    const MOST: usize = 16_384;

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, (Stat, Arc<Glance>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, path: &Path, stat: &Stat) -> Option<Arc<Glance>> {
        self.lock().get(path).filter(|(seen, _)| seen == stat).map(|(_, glance)| glance.clone())
    }

    pub(super) fn put(&self, path: &Path, stat: Stat, glance: Arc<Glance>) {
        let mut seen = self.lock();
        if seen.len() >= Self::MOST && !seen.contains_key(path) {
            seen.clear();
        }
        seen.insert(path.to_owned(), (stat, glance));
    }

    pub(super) fn forget(&self, path: &Path) {
        self.lock().remove(path);
    }
}
