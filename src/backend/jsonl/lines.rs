//! [`Lines`]: the rows of a file, whatever pieces it is read in.

/// What is read of a file at once, in bytes.
pub(super) const PIECE: usize = 256 << 10;

/// No row is longer, in bytes: a small file that unpacks to one endless line must not take the memory of the machine.
const LONGEST_ROW: usize = 1_000_000_000;

/// Cuts text that comes in pieces into lines.
#[derive(Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Takes a piece and hands each line that it completes to `take`, without its line feed; whether `take` wants more.
    pub(super) fn feed(&mut self, piece: &[u8], take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut rest = piece;
        while let Some(at) = find_line_feed(rest) {
            let (line, behind) = rest.split_at(at);
            rest = &behind[1..];
            let wants_more = if self.partial.is_empty() {
                take(line)
            } else {
                self.keep(line);
                let wants_more = take(&self.partial);
                self.partial.clear();
                // One line of a huge event must not cost its size for as long as the file is read.
                self.partial.shrink_to(PIECE);
                wants_more
            };
            if !wants_more {
                return false;
            }
        }
        self.keep(rest);
        true
    }

    /// Keeps a part of a line. Of one that is longer than any row the start is kept only, which is no row.
    fn keep(&mut self, part: &[u8]) {
        let room = LONGEST_ROW.saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&part[..part.len().min(room)]);
    }

    pub(super) fn is_complete(&self) -> bool {
        self.partial.is_empty()
    }
}

/// The place of the first line feed. A byte of another character is never one in UTF-8.
pub(super) fn find_line_feed(bytes: &[u8]) -> Option<usize> {
    memchr::memchr(b'\n', bytes)
}
