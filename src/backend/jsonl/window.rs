//! [`Window`]: a file read through a buffer, from wherever the reader looks.

use std::io;

use super::disk::DiskFile;

/// The first `size` bytes of a file, read through a buffer.
pub(super) struct Window<'f> {
    file: &'f dyn DiskFile,
    size: u64,
    /// The least that is read at once, in bytes.
    step: usize,
    buffer: Vec<u8>,
    /// Where the buffer stands in the file.
    at: u64,
}

impl<'f> Window<'f> {
    pub(super) fn new(file: &'f dyn DiskFile, size: u64, step: usize) -> Self {
        Self { file, size, step, buffer: Vec::new(), at: 0 }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The bytes from `offset` on, `length` of them, or fewer where the file ends before.
    pub(super) fn bytes(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let left = self.size.saturating_sub(offset);
        let length = usize::try_from(left).map_or(length, |left| length.min(left));
        if length == 0 {
            return Ok(&[]);
        }
        let held = self.at..self.at + self.buffer.len() as u64;
        if offset < held.start || offset + length as u64 > held.end {
            let wanted = usize::try_from(left).map_or(self.step, |left| self.step.min(left)).max(length);
            self.fill(offset, wanted)?;
        }
        let start = usize::try_from(offset.saturating_sub(self.at)).unwrap_or(usize::MAX).min(self.buffer.len());
        Ok(&self.buffer[start..(start + length).min(self.buffer.len())])
    }

    fn fill(&mut self, offset: u64, length: usize) -> io::Result<()> {
        self.buffer.resize(length, 0);
        self.at = offset;
        let mut filled = 0;
        while filled < length {
            match self.file.read_at(&mut self.buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) => {
                    self.buffer.clear();
                    return Err(e);
                }
            }
        }
        // Shorter than its size was when it was looked at: another program cut it meanwhile.
        if filled < length {
            self.buffer.truncate(filled);
            self.size = offset + filled as u64;
        }
        Ok(())
    }

    /// Whether only zeros stand from `offset` to the end.
    pub(super) fn is_zero_from(&mut self, mut offset: u64) -> io::Result<bool> {
        let step = self.step.max(4 << 10);
        while offset < self.size {
            let bytes = self.bytes(offset, step)?;
            if bytes.iter().any(|b| *b != 0) {
                return Ok(false);
            }
            offset += bytes.len().max(1) as u64;
        }
        Ok(true)
    }
}
