//! What a row of such a database holds in place of plain text.

use std::io::Read as _;

use zstd::stream::read::Decoder;

use crate::log::InvalidRecord;

/// The most bytes of data that one row may unpack to. SQLite itself holds less than twice as much in one value.
const MAX_DATA_BYTES: u64 = 512 << 20;

/// Unpacks data that is one compressed frame.
pub(super) fn unpack(packed: &[u8]) -> Result<String, InvalidRecord> {
    let broken = |reason: String| InvalidRecord::new(format!("its compressed data cannot be unpacked: {reason}"));
    let decoder = Decoder::with_buffer(packed).map_err(|e| broken(e.to_string()))?.single_frame();
    let mut text = Vec::new();
    let mut bounded = decoder.take(MAX_DATA_BYTES + 1);
    bounded.read_to_end(&mut text).map_err(|e| broken(e.to_string()))?;
    if text.len() as u64 > MAX_DATA_BYTES {
        return Err(broken(format!("it has more than {MAX_DATA_BYTES} bytes")));
    }
    let behind = bounded.into_inner().finish();
    if !behind.is_empty() {
        return Err(broken(format!("{} bytes follow its end", behind.len())));
    }
    String::from_utf8(text).map_err(|e| broken(e.to_string()))
}

/// Reads a list of seqs: the first as it is and then the distances, each a whole number of 7 bits a byte, the lowest
/// first. A distance has its sign in its lowest bit.
pub(super) fn seqs(bytes: &[u8]) -> Result<Vec<u64>, InvalidRecord> {
    let mut seqs = Vec::new();
    let mut rest = bytes;
    let mut last = 0_i64;
    while !rest.is_empty() {
        let (number, behind) = number(rest)?;
        rest = behind;
        let distance = if seqs.is_empty() {
            i64::try_from(number).ok()
        } else {
            let half = i64::try_from(number >> 1).ok();
            if number & 1 == 0 { half } else { half.map(|half| -half - 1) }
        };
        let next = distance.and_then(|distance| last.checked_add(distance)).filter(|seq| *seq >= 0);
        last = next.ok_or_else(|| InvalidRecord::new("its sourceEventSeqs leave the range of seqs"))?;
        seqs.push(last.unsigned_abs());
    }
    Ok(seqs)
}

/// The number at the start, and what stands behind it. No number has two spellings.
fn number(bytes: &[u8]) -> Result<(u64, &[u8]), InvalidRecord> {
    let broken = |reason: &str| InvalidRecord::new(format!("its sourceEventSeqs {reason}"));
    let mut number = 0_u64;
    for (index, byte) in bytes.iter().enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * index as u32;
        if shift >= u64::BITS || bits << shift >> shift != bits {
            return Err(broken("hold a number without bound"));
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            if *byte == 0 && index > 0 {
                return Err(broken("spell a number longer than it is"));
            }
            return Ok((number, &bytes[index + 1..]));
        }
    }
    Err(broken("end inside a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_seqs_are_read_as_they_are_spelled() {
        for (bytes, expected) in [
            (&[][..], vec![]),
            (&[0], vec![0]),
            (&[4, 2, 2, 4], vec![4, 5, 6, 8]),
            (&[0xac, 0x02, 1], vec![300, 299]),
            (&[9, 13, 2, 2], vec![9, 2, 3, 4]),
            (&[5, 0], vec![5, 5]),
        ] {
            assert_eq!(seqs(bytes).unwrap(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn lists_that_are_spelled_otherwise_are_refused() {
        let endless = [0x80; 30];
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let over = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03];
        for bytes in [&[0x80][..], &[0x80, 0x00], &[5, 0x82, 0x00], &[0, 1], &endless, &huge, &over] {
            seqs(bytes).unwrap_err();
        }
    }

    #[test]
    fn compressed_data_is_one_whole_frame_of_text() {
        let packed = zstd::bulk::compress(b"[1,2]", 3).unwrap();
        assert_eq!(unpack(&packed).unwrap(), "[1,2]");
        let refused = |bytes: &[u8]| unpack(bytes).unwrap_err().reason().to_owned();
        assert!(refused(&[&packed[..], b"x"].concat()).contains("1 bytes follow"));
        assert!(refused(&[&packed[..], &packed[..]].concat()).contains("follow its end"));
        for length in 0..packed.len() {
            refused(&packed[..length]);
        }
        assert!(refused(&zstd::bulk::compress(b"\xff", 3).unwrap()).contains("utf-8"));
        assert!(refused(b"not packed").contains("cannot be unpacked"));
    }

    #[test]
    fn a_frame_of_a_few_bytes_cannot_ask_for_memory_without_bound() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        let zeros = vec![b' '; 1 << 20];
        for _ in 0..600 {
            std::io::Write::write_all(&mut encoder, &zeros).unwrap();
        }
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 1 << 20);
        assert!(unpack(&bomb).unwrap_err().reason().contains("more than 536870912 bytes"));
    }
}
