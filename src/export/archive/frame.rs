//! The frame of an archive: that every byte of the file has one meaning.

use std::io::{self, Read, Seek, SeekFrom};

use zip::ZipArchive;

use super::ArchiveProblem;

/// The record that ends an archive, without the comment that may follow it.
const END_BYTES: u64 = 22;
/// The two records that stand before it where a count needs more than its 16 or 32 bits.
const LONG_END_BYTES: u64 = 56;
const LOCATOR_BYTES: u64 = 20;
/// The most that stands behind the packed bytes of an entry: its checksum and sizes once more.
const MAX_DESCRIPTOR_BYTES: u64 = 24;

/// Checks that the directory ends where the last record starts, and this one where the file ends: what stands before the
/// first entry or behind the last record, other readers might take for the archive.
pub(super) fn check_end(reader: &mut (impl Read + Seek)) -> io::Result<Result<(), ArchiveProblem>> {
    let size = reader.seek(SeekFrom::End(0))?;
    let Some(end) = size.checked_sub(END_BYTES) else { return Ok(cut()) };
    let record = read_at::<{ END_BYTES as usize }>(reader, end)?;
    if !record.starts_with(b"PK\x05\x06") {
        let has_one = contains_end(reader, size)?;
        return Ok(if has_one { ambiguous("it has a comment, or bytes behind its end") } else { cut() });
    }
    if number(&record, 20, 2) != 0 {
        return Ok(ambiguous("the record that ends it tells of a comment that is not there"));
    }
    let (directory_bytes, directory) = (number(&record, 12, 4), number(&record, 16, 4));
    if directory_bytes != u64::from(u32::MAX) && directory != u64::from(u32::MAX) && number(&record, 10, 2) != 0xffff {
        return Ok(ends_at(directory, directory_bytes, end));
    }
    let Some(long_end) = end.checked_sub(LOCATOR_BYTES + LONG_END_BYTES) else { return Ok(cut()) };
    let long = read_at::<{ LONG_END_BYTES as usize }>(reader, long_end)?;
    let locator = read_at::<{ LOCATOR_BYTES as usize }>(reader, long_end + LONG_END_BYTES)?;
    if !long.starts_with(b"PK\x06\x06") || !locator.starts_with(b"PK\x06\x07") || number(&locator, 8, 8) != long_end {
        return Ok(ambiguous("the records that end it do not follow each other"));
    }
    Ok(ends_at(number(&long, 48, 8), number(&long, 40, 8), long_end))
}

fn ends_at(directory: u64, bytes: u64, end: u64) -> Result<(), ArchiveProblem> {
    if directory.checked_add(bytes) == Some(end) {
        return Ok(());
    }
    ambiguous("its directory does not end where the record that ends it starts, so something stands before or between")
}

/// Checks that the entries stand one behind the other from the first byte on, and that each tells of itself what the
/// directory tells.
pub(super) fn check_entries<R: Read + Seek>(archive: &mut ZipArchive<R>) -> Result<(), ArchiveProblem> {
    let stray = |reason: &str| ambiguous(reason);
    archive.validate_header_consistency().map_err(|e| ArchiveProblem::Ambiguous { reason: e.to_string() })?;
    let mut ranges = Vec::with_capacity(archive.len());
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(|e| damaged(&e))?;
        let data = entry.data_start().ok_or_else(|| damaged(&"an entry has no data"))?;
        ranges.push((entry.header_start(), data.saturating_add(entry.compressed_size())));
    }
    ranges.sort_unstable();
    let mut end = 0;
    for (start, next_end) in ranges {
        let room = if end == 0 { 0 } else { MAX_DESCRIPTOR_BYTES };
        if start < end {
            return stray("two entries share bytes");
        }
        if start - end > room {
            return stray(&format!("the {} bytes before byte {start} belong to no entry", start - end));
        }
        end = next_end;
    }
    let directory = archive.central_directory_start();
    if end > directory || directory - end > MAX_DESCRIPTOR_BYTES {
        return stray("there are bytes between the last entry and the directory, or they share some");
    }
    Ok(())
}

fn read_at<const N: usize>(reader: &mut (impl Read + Seek), at: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.seek(SeekFrom::Start(at))?;
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Whether a record that ends an archive stands where a comment of the greatest length would leave it.
fn contains_end(reader: &mut (impl Read + Seek), size: u64) -> io::Result<bool> {
    reader.seek(SeekFrom::Start(size.saturating_sub(END_BYTES + u64::from(u16::MAX))))?;
    let mut tail = Vec::new();
    reader.read_to_end(&mut tail)?;
    Ok(tail.windows(END_BYTES as usize).any(|bytes| bytes.starts_with(b"PK\x05\x06")))
}

fn number(record: &[u8], at: usize, length: usize) -> u64 {
    record[at..at + length].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn ambiguous(reason: &str) -> Result<(), ArchiveProblem> {
    Err(ArchiveProblem::Ambiguous { reason: reason.to_owned() })
}

fn cut() -> Result<(), ArchiveProblem> {
    Err(damaged(&"it has no end, so it was cut"))
}

pub(super) fn damaged(reason: &dyn std::fmt::Display) -> ArchiveProblem {
    ArchiveProblem::Damaged { reason: reason.to_string() }
}
