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
