//! [`was_whole`]: whether what looks like the start of a frame is all of one, of which a length decayed.

use std::io;

use super::frames::{CHECKSUM_FLAG, CHECKSUM_LENGTH, Frame, MAGIC, Step, Unpacked, Unpacker, first_block, step};
use super::window::Window;

/// The most bytes that a block has.
const LONGEST_BLOCK: u64 = 128 << 10;

/// Whether what stands from `start` to the end of the file, which looks like a frame whose end was never written, was
/// whole once: with one field of its headers as it must have been it unpacks, and its checksum fits.
pub(super) fn was_whole(file: &mut Window<'_>, start: u64, unpacker: &mut Unpacker) -> io::Result<bool> {
    let head = file.bytes(start, MAGIC.len() + 1)?;
    let Some(&descriptor) = head.strip_prefix(&MAGIC).and_then(<[u8]>::first) else { return Ok(false) };
    for other in descriptors().filter(|other| *other != descriptor) {
        if is_whole(&mut file.with(start + MAGIC.len() as u64, vec![other]), start, unpacker)? {
            return Ok(true);
        }
    }
    for block in last_blocks(file, start + first_block(descriptor))? {
        let Some(length) = (file.size() - block).checked_sub(3 + CHECKSUM_LENGTH) else { continue };
        if length > LONGEST_BLOCK {
            continue;
        }
        for kind in [2, 0] {
            let header = (length << 3 | kind << 1 | 1).to_le_bytes();
            if is_whole(&mut file.with(block, header[..3].to_vec()), start, unpacker)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The descriptors of frames with a checksum and without a dictionary.
fn descriptors() -> impl Iterator<Item = u8> {
    (0..8).map(|sizes| sizes << 5 | CHECKSUM_FLAG)
}

/// Whether exactly one frame stands from `start` to the end of the file, and checks out.
fn is_whole(file: &mut Window<'_>, start: u64, unpacker: &mut Unpacker) -> io::Result<bool> {
    match step(file, start)? {
        Step::Frame(frame @ Frame { has_checksum: true, .. }) if frame.range.end == file.size() => {
            Ok(unpacker.unpack(file, &frame, &mut |_| true)? == Unpacked::Whole)
        }
        _ => Ok(false),
    }
}

/// Where the last two block headers stand of a frame whose first one stands at `at`. Of the very last the length may be
/// wrong, or else the one before it is the last.
fn last_blocks(file: &mut Window<'_>, mut at: u64) -> io::Result<Vec<u64>> {
    let mut blocks = Vec::new();
    while let Some(&[a, b, c]) = file.look_aside(at, 3)?.first_chunk::<3>() {
        if blocks.len() == 2 {
            blocks.remove(0);
        }
        blocks.push(at);
        let header = u32::from_le_bytes([a, b, c, 0]);
        at += 3 + if header >> 1 & 3 == 1 { 1 } else { u64::from(header >> 3) };
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::super::frames::Packer;
    use super::*;

    /// Bytes that no compression makes shorter.
    fn noise(count: usize) -> Vec<u8> {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        (0..count).map(|_| next()).collect()
    }

    /// What stands at the start of a file with these bytes, and whether that was whole once.
    fn look(bytes: &[u8]) -> (Step, bool) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let file = std::fs::File::open(file.path()).unwrap();
        let mut window = Window::new(&file, bytes.len() as u64, 1 << 10);
        let found = step(&mut window, 0).unwrap();
        (found, was_whole(&mut window, 0, &mut Unpacker::new().unwrap()).unwrap())
    }

    /// Where the last block of a whole frame starts.
    fn last_block(frame: &[u8]) -> usize {
        let mut at = first_block(frame[4]) as usize;
        loop {
            let header = u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], 0]);
            if header & 1 == 1 {
                return at;
            }
            at += 3 + (header >> 3) as usize;
        }
    }

    #[test]
    fn a_frame_of_which_a_length_decayed_was_whole_and_one_that_was_cut_short_was_not() {
        for size in [10, 300, 100_000, 300_000] {
            let text: Vec<_> = noise(size).iter().map(|byte| b'a' + byte % 26).collect();
            for content in [noise(size), text] {
                let frame = Packer::new().unwrap().pack(&content).unwrap();
                let block = last_block(&frame);
                let mut torn = 0;
                for at in (4..first_block(frame[4]) as usize).chain(block..block + 3) {
                    for bit in 0..8 {
                        let mut decayed = frame.clone();
                        decayed[at] ^= 1 << bit;
                        let (found, was_whole) = look(&decayed);
                        if found == Step::Torn {
                            torn += 1;
                            assert!(was_whole, "{size} bytes, bit {bit} of byte {at}, the last block at {block}");
                        }
                    }
                }
                assert!(torn > 0, "{size} bytes");
                for cut in (0..40).chain([1, 2, 3, 4, 5, 8].map(|left| frame.len() - left)).chain([frame.len() / 2]) {
                    let cut = cut.min(frame.len() - 1);
                    assert!(!look(&frame[..cut]).1, "{size} bytes, cut to {cut} of {}", frame.len());
                    let padded = [&frame[..cut], &[0; 600]].concat();
                    assert!(!look(&padded).1, "{size} bytes, cut to {cut} and zeros");
                }
            }
        }
    }
}
