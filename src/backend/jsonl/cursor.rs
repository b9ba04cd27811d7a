//! [`Cursor`]: where reading goes on in a log that is not held, so that a log of any size is read in pages at the cost of
//! reading it once.
//!
//! Reading could otherwise start only at a mark, and inside a frame there is none: each page would unpack all of the
//! batch before it. A cursor is what one page leaves for the next: where in the file to read on, and what was read or
//! unpacked already and not given out.
//!
//! - It stands for one origin of a log, which is another after each pass over the file, and so for the bytes that this
//!   pass looked at. An append of this store adds behind them and keeps the origin.
//! - It never reads behind the end of the log that it is used with, where a torn write may stand.
//! - A frame is verified by the pass that finds it, before any of its rows is known, or it was written by this store
//!   itself. A cursor verifies it once more when it comes to its end. In a log that was recalled no pass has done so: there a
//!   page that ends inside a frame verifies all of it first.
//! - What it holds is the rest of a piece of text, a piece of the file and a decoder with its window, about 3 MiB for a
//!   frame as this store writes it, and less outside of frames. All cursors of a store together hold 32 MiB at most while
//!   nobody reads by them: the one that was left longest ago goes first. One in a frame with a larger window, which only
//!   other programs write, is not kept.

use std::collections::HashSet;
use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::disk::DiskFile;
use super::files::guard;
use super::frames::{Step, Unpacked, Unpacker, step, window_size};
use super::layout::Encoding;
use super::lines::{PIECE, find_line_feed};
use super::window::{Held, Window};

/// The most that the cursors of a store hold together, in bytes.
const MOST_BYTES: usize = 32 << 20;

/// The most cursors of a store. Those outside of frames may hold next to nothing.
const MOST: usize = 64;

/// What a decoder takes besides the window of its frame, about, in bytes.
const DECODER: usize = 512 << 10;

/// What the logs have in common that grew by appends of one store.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// Where frames start that were verified, in a log that was recalled; in any other all are.
    verified: Option<Mutex<HashSet<u64>>>,
}

impl Origin {
    /// That of a log of which nothing was looked at yet.
    pub(super) fn recalled() -> Self {
        Self { verified: Some(Mutex::default()) }
    }

    fn has_verified(&self, frame: u64) -> bool {
        self.verified.as_ref().is_none_or(|frames| guard(frames).contains(&frame))
    }

    fn note_verified(&self, frame: u64) {
        if let Some(frames) = &self.verified {
            guard(frames).insert(frame);
        }
    }
}

/// A place in a log, at the start of a row.
pub(super) struct Cursor {
    encoding: Encoding,
    /// The first event that was not passed.
    seq: u64,
    /// Where in the file is read on.
    at: u64,
    /// Text that was read, of which the first `passed` bytes were given out.
    text: Vec<u8>,
    passed: usize,
    /// Bytes of a file of frames that were read and perhaps not unpacked yet.
    held: Held,
    unpacker: Option<Unpacker>,
    /// Whether the place in the file is inside a frame, and where that starts.
    is_in_frame: bool,
    frame_at: u64,
    /// The largest window of its frames, in bytes.
    window: u64,
}

impl Cursor {
    /// One at the row, or at the frame, that starts at `offset` with the event `seq`.
    pub(super) fn new(seq: u64, offset: u64, encoding: Encoding) -> Self {
        Self {
            encoding,
            seq,
            at: offset,
            text: Vec::new(),
            passed: 0,
            held: Held::default(),
            unpacker: None,
            is_in_frame: false,
            frame_at: offset,
            window: 0,
        }
    }

    /// The rows from here to `end`, where the log ends.
    pub(super) fn rows<'r>(&'r mut self, file: &'r dyn DiskFile, end: u64) -> Rows<'r> {
        let file = Window::over(file, end, PIECE, std::mem::take(&mut self.held));
        Rows { file, row_end: self.passed, cursor: self }
    }

    /// Whether it stands at an offset in the file where a row or a frame starts.
    pub(super) fn is_at(&self, offset: u64) -> bool {
        let unread = (self.text.len() - self.passed) as u64;
        match self.encoding {
            Encoding::Raw => self.at - unread == offset,
            Encoding::Zstd => !self.is_in_frame && unread == 0 && self.at == offset,
        }
    }

    /// What it takes in memory, about, in bytes.
    fn bytes_held(&self) -> usize {
        let window = usize::try_from(self.window).unwrap_or(usize::MAX);
        let decoder = if self.unpacker.is_some() { window.saturating_add(DECODER) } else { 0 };
        (size_of::<Self>() + self.text.capacity() + self.held.bytes_held()).saturating_add(decoder)
    }

    /// Reads or unpacks one piece more; false at the end. The inner error is the reason for which a frame is broken.
    fn read_on(&mut self, file: &mut Window<'_>) -> io::Result<Result<bool, String>> {
        if self.encoding == Encoding::Raw {
            let piece = file.bytes(self.at, PIECE)?;
            self.text.extend_from_slice(piece);
            self.at += piece.len() as u64;
            return Ok(Ok(!piece.is_empty()));
        }
        if !self.is_in_frame && self.at >= file.size() {
            return Ok(Ok(false));
        }
        let unpacker = match &mut self.unpacker {
            Some(unpacker) => unpacker,
            None => self.unpacker.insert(Unpacker::new()?),
        };
        if !self.is_in_frame {
            self.window = self.window.max(window_size(file, self.at)?);
            unpacker.start()?;
            self.is_in_frame = true;
            self.frame_at = self.at;
        }
        let end = file.size();
        Ok(unpacker.go_on(file, &mut self.at, end)?.map(|(content, is_done)| {
            self.text.extend_from_slice(content);
            self.is_in_frame = !is_done;
            true
        }))
    }

    /// Gives up what was given out, and the memory of a large row.
    fn forget_passed(&mut self) {
        self.text.drain(..self.passed);
        self.passed = 0;
        self.text.shrink_to(2 * PIECE);
    }
}

/// The rows from a cursor on.
pub(super) struct Rows<'r> {
    cursor: &'r mut Cursor,
    file: Window<'r>,
    /// Where in the text the row ends that was given last.
    row_end: usize,
}

impl Rows<'_> {
    /// The first event that was not passed.
    pub(super) fn seq(&self) -> u64 {
        self.cursor.seq
    }

    /// The next row, without its line feed; nothing at the end. The inner error is the reason for which a frame is
    /// broken.
    pub(super) fn next(&mut self) -> io::Result<Result<Option<&[u8]>, String>> {
        let cursor = &mut *self.cursor;
        let mut searched = cursor.passed;
        self.row_end = loop {
            if let Some(found) = find_line_feed(&cursor.text[searched..]) {
                break searched + found;
            }
            searched = cursor.text.len() - cursor.passed;
            if cursor.passed > 0 {
                cursor.forget_passed();
            }
            match cursor.read_on(&mut self.file)? {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(None)),
                Err(reason) => return Ok(Err(reason)),
            }
        };
        Ok(Ok(Some(&cursor.text[cursor.passed..self.row_end])))
    }

    /// Moves the cursor behind the row that was given last, to the event `seq`.
    pub(super) fn pass(&mut self, seq: u64) {
        self.cursor.passed = self.row_end + 1;
        self.cursor.seq = seq;
    }

    /// Leaves the cursor for the next page. Where all rows of a frame were given out its checksum is looked at.
    pub(super) fn finish(mut self, origin: &Origin) -> io::Result<Result<(), String>> {
        let cursor = self.cursor;
        // Not for every page: what is left would be moved each time.
        if cursor.passed >= cursor.text.len() / 2 {
            cursor.forget_passed();
        }
        while cursor.is_in_frame && cursor.text.is_empty() {
            if let Err(reason) = cursor.read_on(&mut self.file)? {
                return Ok(Err(reason));
            }
        }
        if cursor.is_in_frame && !origin.has_verified(cursor.frame_at) {
            if let Err(reason) = verify(&mut self.file, cursor.frame_at)? {
                return Ok(Err(reason));
            }
            origin.note_verified(cursor.frame_at);
        }
        let is_at_end = cursor.at >= self.file.size();
        if cursor.encoding == Encoding::Zstd && !is_at_end {
            cursor.held = self.file.into_held();
        }
        // Whoever follows the end of a log must not cost a decoder while nothing comes.
        if !cursor.is_in_frame && is_at_end {
            cursor.unpacker = None;
            cursor.window = 0;
            cursor.text.shrink_to_fit();
        }
        Ok(Ok(()))
    }
}

/// Unpacks the whole frame at `start`.
fn verify(file: &mut Window<'_>, start: u64) -> io::Result<Result<(), String>> {
    let Step::Frame(frame) = step(file, start)? else { return Ok(Err("it has no end".to_owned())) };
    Ok(match Unpacker::new()?.unpack(file, &frame, &mut |_| true)? {
        Unpacked::Broken(reason) => Err(reason),
        Unpacked::Whole | Unpacked::Stopped => Ok(()),
    })
}

/// The cursors of a store.
#[derive(Default)]
pub(super) struct Cursors(Mutex<Vec<Left>>);

/// A cursor that was left, those left longest ago first.
struct Left {
    /// Weak, so that it does not outlive the log; while it is here no other origin gets its address.
    origin: Weak<Origin>,
    cursor: Cursor,
    bytes: usize,
}

impl Cursors {
    fn lock(&self) -> MutexGuard<'_, Vec<Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the last cursor of a log that stands in `seqs`. Of two who read the same the second starts from a mark.
    pub(super) fn take(&self, origin: &Arc<Origin>, seqs: RangeInclusive<u64>) -> Option<Cursor> {
        let mut left = self.lock();
        let origin = Arc::downgrade(origin);
        let fits = |left: &Left| left.origin.ptr_eq(&origin) && seqs.contains(&left.cursor.seq);
        let places = left.iter().enumerate().filter(|(_, left)| fits(left));
        let (at, _) = places.max_by_key(|(_, left)| left.cursor.seq)?;
        Some(left.remove(at).cursor)
    }

    /// Leaves a cursor, and gives up those that are too much.
    pub(super) fn put(&self, origin: &Arc<Origin>, cursor: Cursor) {
        let bytes = cursor.bytes_held();
        if bytes > MOST_BYTES {
            return;
        }
        let mut left = self.lock();
        left.push(Left { origin: Arc::downgrade(origin), cursor, bytes });
        left.retain(|left| left.origin.strong_count() > 0);
        let mut held: usize = left.iter().map(|left| left.bytes).sum();
        let mut surplus = 0;
        while held > MOST_BYTES || left.len() - surplus > MOST {
            held -= left[surplus].bytes;
            surplus += 1;
        }
        left.drain(..surplus);
    }

    /// What they take in memory together, about, in bytes.
    #[cfg(test)]
    pub(super) fn bytes_held(&self) -> usize {
        self.lock().iter().map(|left| left.bytes).sum()
    }
}
