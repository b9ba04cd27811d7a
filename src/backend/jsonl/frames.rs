//! Zstandard frames: walked by their structure, unpacked one at a time, written with a checksum.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh64::Xxh64;
use zstd::bulk::Compressor;
use zstd::stream::raw::{CParameter, Decoder, Operation};

use super::window::Window;

pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The bit of a frame's descriptor that promises a checksum.
pub(super) const CHECKSUM_FLAG: u8 = 1 << 2;

pub(super) const CHECKSUM_LENGTH: u64 = 4;

/// What is fed to and taken from the decoder at once, in bytes: the most that a block holds.
const PIECE: usize = 128 << 10;

/// A frame that is complete by its structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) range: Range<u64>,
    pub(super) has_checksum: bool,
}

/// What stands at a place of a file of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The end of the file.
    End,
    Frame(Frame),
    /// The start of a frame whose end was never written.
    Torn,
    /// No frame.
    Bad {
        reason: &'static str,
        offset: u64,
    },
}

/// Looks at what stands at `start`, without unpacking it.
pub(super) fn step(file: &mut Window<'_>, start: u64) -> io::Result<Step> {
    let head = file.bytes(start, MAGIC.len() + 1)?;
    if head.is_empty() {
        return Ok(Step::End);
    }
    let Some((&magic, rest)) = head.split_first_chunk::<4>() else { return Ok(Step::Torn) };
    if magic != MAGIC {
        return Ok(if is_unwritten(file, start)? {
            Step::Torn
        } else {
            Step::Bad { reason: "no Zstandard frame starts there", offset: start }
        });
    }
    let Some(&descriptor) = rest.first() else { return Ok(Step::Torn) };
    if descriptor & 0x18 != 0 {
        return Ok(Step::Bad { reason: "a reserved bit of a frame header is set", offset: start + 4 });
    }
    let mut at = start + first_block(descriptor);
    loop {
        // Aside, so that a large frame is not read once to find its end and once more to unpack it.
        let Some(&[a, b, c]) = file.look_aside(at, 3)?.first_chunk::<3>() else { return Ok(Step::Torn) };
        let header = u32::from_le_bytes([a, b, c, 0]);
        let size = u64::from(header >> 3);
        at += 3 + match header >> 1 & 3 {
            0 | 2 => size,
            1 => 1,
            _ => return Ok(Step::Bad { reason: "a block of a reserved type stands in a frame", offset: at }),
        };
        if header & 1 == 1 {
            break;
        }
    }
    let has_checksum = descriptor & CHECKSUM_FLAG != 0;
    if has_checksum {
        at += CHECKSUM_LENGTH;
    }
    Ok(if at > file.size() { Step::Torn } else { Step::Frame(Frame { range: start..at, has_checksum }) })
}

/// Where the first block stands in a frame with this descriptor.
pub(super) fn first_block(descriptor: u8) -> u64 {
    let single_segment = descriptor & 1 << 5 != 0;
    let window = u64::from(!single_segment);
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_size = match descriptor >> 6 {
        0 => u64::from(single_segment),
        power => 1 << power,
    };
    5 + window + dictionary + content_size
}

/// How many bytes of its content a decoder has to remember in the frame at `start`: its window.
pub(super) fn window_size(file: &mut Window<'_>, start: u64) -> io::Result<u64> {
    let head = file.bytes(start, 14)?;
    let Some((&descriptor, rest)) = head.get(4..).and_then(<[u8]>::split_first) else { return Ok(0) };
    if descriptor & 1 << 5 == 0 {
        let window = rest.first().copied().unwrap_or_default();
        let base = 1_u64 << (10 + (window >> 3));
        return Ok(base + base / 8 * u64::from(window & 7));
    }
    // A frame of a single segment is its own window, and tells how much that is.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let length = 1 << (descriptor >> 6);
    let mut size = [0; 8];
    for (to, from) in size.iter_mut().zip(rest.iter().skip(dictionary).take(length)) {
        *to = *from;
    }
    Ok(u64::from_le_bytes(size).saturating_add(if length == 2 { 256 } else { 0 }))
}

/// Whether what stands from `start` on is the start of a magic number and then zeros to the end of the file, as a crash
/// leaves a file that had grown before its content was written.
fn is_unwritten(file: &mut Window<'_>, start: u64) -> io::Result<bool> {
    let head = file.bytes(start, MAGIC.len())?;
    let written = head.iter().zip(MAGIC).take_while(|(a, b)| **a == *b).count();
    file.is_zero_from(start + written as u64)
}

/// The first whole frame behind `start`. It counts only by its checksum: the bytes of a magic number may stand anywhere.
pub(super) fn next_whole(file: &mut Window<'_>, start: u64, unpacker: &mut Unpacker) -> io::Result<Option<Frame>> {
    let mut at = start + 1;
    loop {
        let bytes = file.bytes(at, PIECE)?;
        if bytes.len() < MAGIC.len() {
            return Ok(None);
        }
        let Some(found) = bytes.windows(MAGIC.len()).position(|four| four == MAGIC) else {
            at += (bytes.len() + 1 - MAGIC.len()) as u64;
            continue;
        };
        at += found as u64;
        if let Step::Frame(frame) = step(file, at)?
            && frame.has_checksum
            && unpacker.unpack(file, &frame, &mut |_| true)? == Unpacked::Whole
        {
            return Ok(Some(frame));
        }
        at += 1;
    }
}

/// Whether a frame that does not unpack was never written whole: a part of it, up to `end`, is zeros. A frame that was
/// whole once and decayed has no such gap, and ends in a checksum.
pub(super) fn is_half_written(
    file: &mut Window<'_>,
    frame: &Frame,
    end: u64,
    unpacker: &mut Unpacker,
) -> io::Result<bool> {
    Ok(ends_half_written(file, frame, unpacker)? || has_gap(file, frame.range.start, end)?)
}

/// Whether the end of a frame, and all behind it, is zeros.
fn ends_half_written(file: &mut Window<'_>, frame: &Frame, unpacker: &mut Unpacker) -> io::Result<bool> {
    if !frame.has_checksum || !file.is_zero_from(frame.range.end - 1)? {
        return Ok(false);
    }
    let checksum = file.bytes(frame.range.end - CHECKSUM_LENGTH, 4)?;
    let Some(&stored) = checksum.first_chunk::<4>() else { return Ok(false) };
    let written = stored.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
    if written == 0 {
        return Ok(true);
    }
    // Only the checksum is incomplete, so the content is not: what there is of the checksum has to fit it.
    let mut hash = Xxh64::new(0);
    let unpacked = unpacker.run(file, frame, true, &mut |bytes| {
        hash.update(bytes);
        true
    })?;
    Ok(unpacked == Unpacked::Whole && (hash.digest() as u32).to_le_bytes()[..written] == stored[..written])
}

/// The least that a disk writes whole or not at all, in bytes.
const SECTOR: u64 = 512;

/// Whether some of what stands from `start` to `end`, where a frame does not, was never written: zeros up to the end of a
/// sector, as a loss of power leaves them where a disk wrote the sectors of a batch in an order of its own.
pub(super) fn has_gap(file: &mut Window<'_>, start: u64, end: u64) -> io::Result<bool> {
    let mut zeros_from = None;
    let mut at = start;
    while at < end {
        let wanted = usize::try_from(end - at).map_or(PIECE, |left| left.min(PIECE));
        let bytes = file.bytes(at, wanted)?;
        if bytes.is_empty() {
            break;
        }
        for byte in bytes {
            if *byte != 0 {
                if zeros_from.take().is_some_and(|from| is_gap(from..at, start, end)) {
                    return Ok(true);
                }
            } else if zeros_from.is_none() {
                zeros_from = Some(at);
            }
            at += 1;
        }
    }
    Ok(zeros_from.is_some_and(|from| is_gap(from..end, start, end)))
}

/// Whether a run of zeros is too long and too well placed to be a part of a frame. A few may stand in any.
fn is_gap(zeros: Range<u64>, start: u64, end: u64) -> bool {
    let reaches_to = if zeros.end == end { end } else { zeros.end / SECTOR * SECTOR };
    let is_long = reaches_to >= zeros.start + 4;
    // No frame starts with zeros, nor goes on with them before its magic number is complete.
    let is_start = reaches_to > zeros.start && zeros.start < start + MAGIC.len() as u64;
    is_long || is_start
}

/// How the unpacking of a frame ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unpacked {
    Whole,
    /// Whoever takes the content had enough.
    Stopped,
    /// The frame is not what was written, with the decoder's reason.
    Broken(String),
}

/// A piece of the content of a frame, and whether it is the last.
type Piece<'p> = (&'p [u8], bool);

/// Unpacks frames.
pub(super) struct Unpacker {
    decoder: Decoder<'static>,
    content: Vec<u8>,
}

impl Unpacker {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { decoder: Decoder::new()?, content: vec![0; PIECE] })
    }

    /// Hands the content of a frame to `take`, piece by piece, as long as it answers true. What it was given counts only
    /// when the whole frame was unpacked: the checksum stands at its end.
    pub(super) fn unpack(
        &mut self,
        file: &mut Window<'_>,
        frame: &Frame,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> io::Result<Unpacked> {
        self.run(file, frame, false, take)
    }

    fn run(
        &mut self,
        file: &mut Window<'_>,
        frame: &Frame,
        without_checksum: bool,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> io::Result<Unpacked> {
        self.start()?;
        let mut at = frame.range.start;
        let mut end = frame.range.end;
        if without_checksum {
            let Some(&(mut head)) = file.bytes(at, 5)?.first_chunk::<5>() else {
                return Ok(Unpacked::Broken("its header is gone".to_owned()));
            };
            head[4] &= !CHECKSUM_FLAG;
            if let Err(e) = self.decoder.run_on_buffers(&head, &mut self.content) {
                return Ok(Unpacked::Broken(e.to_string()));
            }
            at += 5;
            end -= CHECKSUM_LENGTH;
        }
        loop {
            let (content, is_done) = match self.go_on(file, &mut at, end)? {
                Ok(step) => step,
                Err(reason) => return Ok(Unpacked::Broken(reason)),
            };
            if !content.is_empty() && !take(content) {
                return Ok(Unpacked::Stopped);
            }
            if is_done {
                return Ok(if at == end {
                    Unpacked::Whole
                } else {
                    Unpacked::Broken(format!("it ends {} bytes early", end - at))
                });
            }
        }
    }

    /// Makes ready for another frame, of which [`Unpacker::go_on`] unpacks a piece at a time.
    pub(super) fn start(&mut self) -> io::Result<()> {
        self.decoder.reinit()
    }

    /// Unpacks one piece more of a frame, from `at` on, which is moved; and whether that was all of the frame, its
    /// checksum included. The inner error is the reason for which it is not what was written.
    pub(super) fn go_on(
        &mut self,
        file: &mut Window<'_>,
        at: &mut u64,
        end: u64,
    ) -> io::Result<Result<Piece<'_>, String>> {
        let wanted = usize::try_from(end.saturating_sub(*at)).map_or(PIECE, |left| left.min(PIECE));
        let status = match self.decoder.run_on_buffers(file.bytes(*at, wanted)?, &mut self.content) {
            Ok(status) => status,
            Err(e) => return Ok(Err(e.to_string())),
        };
        *at += status.bytes_read as u64;
        #[cfg(test)]
        super::work::UNPACKED.add(status.bytes_written);
        if status.remaining > 0 && status.bytes_read == 0 && status.bytes_written == 0 {
            return Ok(Err("it goes on behind its end".to_owned()));
        }
        Ok(Ok((&self.content[..status.bytes_written], status.remaining == 0)))
    }
}

/// Packs rows into frames.
pub(super) struct Packer {
    compressor: Mutex<Compressor<'static>>,
}

impl Packer {
    pub(super) fn new() -> io::Result<Self> {
        let mut compressor = Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Self { compressor: Mutex::new(compressor) })
    }

    /// One frame with a checksum.
    pub(super) fn pack(&self, rows: &[u8]) -> io::Result<Vec<u8>> {
        self.compressor.lock().unwrap_or_else(PoisonError::into_inner).compress(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_up_to_the_end_of_a_sector_are_a_gap_and_a_few_elsewhere_are_none() {
        // The frame stands from byte 1000 to byte 3000.
        for (zeros, expected) in [
            (1020..1024, true),
            (1021..1024, false),
            (1020..1023, false),
            (1500..1504, false),
            (1500..1537, true),
            (1532..1537, true),
            (1533..1537, false),
            (1536..2048, true),
            (2996..3000, true),
            (2997..3000, false),
            (1000..3000, true),
            (1000..1024, true),
            (1003..1024, true),
            (1000..1004, false),
        ] {
            assert_eq!(is_gap(zeros.clone(), 1000, 3000), expected, "{zeros:?}");
        }
        for (zeros, expected) in [(1023..1024, true), (1024..1026, false), (1024..1536, true), (1026..1027, false)] {
            assert_eq!(is_gap(zeros.clone(), 1023, 3000), expected, "{zeros:?}");
        }
    }

    #[test]
    fn a_gap_is_found_wherever_it_stands() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (zeros, expected) in [
            (PIECE - 700..PIECE + 700, true),
            (PIECE - 4..PIECE + 2, true),
            (PIECE - 3..PIECE + 2, false),
            (90..94, false),
        ] {
            let mut bytes = vec![7; 3 * PIECE];
            bytes[zeros.clone()].fill(0);
            std::fs::write(&path, &bytes).unwrap();
            let file = std::fs::File::open(&path).unwrap();
            let mut window = Window::new(&file, bytes.len() as u64, 1 << 10);
            assert_eq!(has_gap(&mut window, 10, bytes.len() as u64).unwrap(), expected, "{zeros:?}");
        }
    }
}
