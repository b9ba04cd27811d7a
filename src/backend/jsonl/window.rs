//! [`Window`]: a file read through a buffer, from wherever the reader looks.

use std::io;

use super::disk::DiskFile;

/// The most that is read at once to look aside, in bytes.
const ASIDE: usize = 1 << 10;

/// The first `size` bytes of a file, read through a buffer.
pub(super) struct Window<'f> {
    file: &'f dyn DiskFile,
    size: u64,
    /// The least that is read at once, in bytes.
    step: usize,
    held: Held,
    aside: Held,
    /// Bytes that stand for those of the file, and from where on.
    instead: Option<(u64, Vec<u8>)>,
}

/// Bytes of a file that were read.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
    /// Where they stand in the file.
    at: u64,
}

impl Held {
    /// What stands at `offset`, as far as all of it is held.
    fn get(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.at)?).ok()?;
        self.bytes.get(start..start.checked_add(length)?)
    }

    /// Puts bytes in the place of those that were read, as far as they are held.
    fn put(&mut self, instead: Option<&(u64, Vec<u8>)>) {
        let Some((offset, bytes)) = instead else { return };
        for (byte, at) in bytes.iter().zip(*offset..) {
            let place = at.checked_sub(self.at).and_then(|place| usize::try_from(place).ok());
            if let Some(held) = place.and_then(|place| self.bytes.get_mut(place)) {
                *held = *byte;
            }
        }
    }

    /// What it takes in memory, in bytes.
    pub(super) fn bytes_held(&self) -> usize {
        self.bytes.capacity()
    }
}

impl<'f> Window<'f> {
    pub(super) fn new(file: &'f dyn DiskFile, size: u64, step: usize) -> Self {
        Self::over(file, size, step, Held::default())
    }

    /// A window on the same bytes as an earlier one, of which `held` was kept.
    pub(super) fn over(file: &'f dyn DiskFile, size: u64, step: usize, held: Held) -> Self {
        Self { file, size, step, held, aside: Held::default(), instead: None }
    }

    /// The same file as if `bytes` stood at `offset`.
    pub(super) fn with(&self, offset: u64, bytes: Vec<u8>) -> Self {
        Self { instead: Some((offset, bytes)), ..Self::new(self.file, self.size, self.step) }
    }

    /// What was read, to be gone on with.
    pub(super) fn into_held(self) -> Held {
        self.held
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The bytes from `offset` on, `length` of them, or fewer where the file ends before.
    pub(super) fn bytes(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let length = self.left(offset, length);
        if length == 0 {
            return Ok(&[]);
        }
        if self.held.get(offset, length).is_none() {
            let wanted = self.left(offset, self.step).max(length);
            fill(&mut self.held, self.file, &mut self.size, offset, wanted)?;
            self.held.put(self.instead.as_ref());
        }
        let start = usize::try_from(offset.saturating_sub(self.held.at)).unwrap_or(usize::MAX);
        let start = start.min(self.held.bytes.len());
        Ok(&self.held.bytes[start..(start + length).min(self.held.bytes.len())])
    }

    /// [`Window::bytes`] for a few bytes far from where reading goes on: what is held for that stays.
    pub(super) fn look_aside(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let length = self.left(offset, length);
        if self.held.get(offset, length).is_none() && self.aside.get(offset, length).is_none() {
            let wanted = self.left(offset, self.step.min(ASIDE)).max(length);
            fill(&mut self.aside, self.file, &mut self.size, offset, wanted)?;
            self.aside.put(self.instead.as_ref());
        }
        let found = self.held.get(offset, length).or_else(|| self.aside.get(offset, length));
        // Not all is there only where the file was cut meanwhile.
        Ok(found.unwrap_or_default())
    }

    /// `length`, or what the file has of it.
    fn left(&self, offset: u64, length: usize) -> usize {
        usize::try_from(self.size.saturating_sub(offset)).map_or(length, |left| length.min(left))
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

/// Reads `length` bytes at `offset`, of those that are held already only the ones that are missing.
fn fill(held: &mut Held, file: &dyn DiskFile, size: &mut u64, offset: u64, length: usize) -> io::Result<()> {
    let before = offset.checked_sub(held.at).and_then(|before| usize::try_from(before).ok());
    let mut filled = 0;
    if let Some(before) = before.filter(|before| *before < held.bytes.len()) {
        filled = held.bytes.len() - before;
        held.bytes.copy_within(before.., 0);
    }
    held.at = offset;
    // Most often it has that length already, and nothing is written twice.
    held.bytes.resize(length, 0);
    while filled < length {
        match file.read_at(&mut held.bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) => {
                held.bytes.clear();
                return Err(e);
            }
        }
    }
    // Shorter than its size was when it was looked at: another program cut it meanwhile.
    if filled < length {
        held.bytes.truncate(filled);
        *size = offset + filled as u64;
    }
    Ok(())
}
