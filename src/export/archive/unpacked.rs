//! [`Unpacked`]: what an entry unpacks to, within bounds.

use std::io::{self, Read};

use super::{ArchiveProblem, FREE_BYTES, MAX_ARCHIVE_BYTES, MAX_ENTRY_BYTES, MAX_RATIO};

/// How much an archive has unpacked to so far.
#[derive(Default)]
pub(super) struct Budget {
    archive: u64,
}

impl Budget {
    /// The budget of the next entry, of so many packed bytes.
    pub(super) fn entry(&mut self, packed: u64) -> EntryBudget<'_> {
        EntryBudget { archive: &mut self.archive, packed, entry: 0 }
    }
}

/// How much an entry has unpacked to so far.
pub(super) struct EntryBudget<'a> {
    archive: &'a mut u64,
    packed: u64,
    entry: u64,
}

impl EntryBudget<'_> {
    pub(super) fn spend(&mut self, bytes: u64) -> Result<(), ArchiveProblem> {
        self.entry = self.entry.saturating_add(bytes);
        *self.archive = self.archive.saturating_add(bytes);
        if self.entry > MAX_ENTRY_BYTES {
            return Err(ArchiveProblem::EntryTooLarge);
        }
        if self.entry > FREE_BYTES && self.entry > self.packed.saturating_mul(MAX_RATIO) {
            return Err(ArchiveProblem::Ratio);
        }
        if *self.archive > MAX_ARCHIVE_BYTES {
            return Err(ArchiveProblem::ArchiveTooLarge);
        }
        Ok(())
    }
}

/// What an entry unpacks to. Past its budget it fails, whatever the entry declares.
pub(super) struct Unpacked<'a, R> {
    entry: R,
    budget: EntryBudget<'a>,
    problem: Option<ArchiveProblem>,
}

impl<'a, R> Unpacked<'a, R> {
    pub(super) fn new(entry: R, budget: EntryBudget<'a>) -> Self {
        Self { entry, budget, problem: None }
    }

    /// How many bytes were read.
    pub(super) fn bytes(&self) -> u64 {
        self.budget.entry
    }

    /// Why it failed, where that was the budget.
    pub(super) fn problem(&self) -> Option<&ArchiveProblem> {
        self.problem.as_ref()
    }
}

impl<R: Read> Read for Unpacked<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.entry.read(out)?;
        self.budget.spend(read as u64).map_err(|problem| {
            let error = io::Error::other(format!("the entry {problem}"));
            self.problem = Some(problem);
            error
        })?;
        Ok(read)
    }
}
