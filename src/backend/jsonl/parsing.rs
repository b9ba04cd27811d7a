//! [`Parsing`]: rows that a second thread parses while the first one reads on and takes those that are parsed.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope};

use super::rows::{self, Row};
use crate::log::InvalidRecord;

/// So many bytes of rows are handed over at once: to wake a thread takes as long as parsing some tens of kilobytes.
const BLOCK: usize = 256 << 10;

/// More is never collected, in bytes.
const MOST: usize = 4 << 20;

/// So many blocks are handed over before the first of them is taken.
const AHEAD: usize = 2;

/// What a row is, and where it stands in the file.
pub(super) struct Parsed {
    pub(super) row: Result<Row, InvalidRecord>,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Rows one behind the other.
#[derive(Default)]
struct Block {
    text: Vec<u8>,
    /// Where each ends in the text, and where it stands in the file.
    rows: Vec<(usize, u64, u64)>,
    parsed: Vec<Parsed>,
}

impl Block {
    /// Parses what it has, in place of what was parsed before: what a thread has allocated it gives back in less time than
    /// another one.
    fn parse(&mut self, version: u32) {
        let mut from = 0;
        self.parsed.clear();
        self.parsed.extend(self.rows.drain(..).map(|(to, start, end)| {
            let row = rows::parse(&self.text[from..to], version);
            from = to;
            Parsed { row, start, end }
        }));
        self.text.clear();
    }
}

/// Parses the rows of a log of one format.
pub(super) struct Parsing<'scope, 'env> {
    version: u32,
    /// Where the second thread may be started; nothing where one does it all.
    scope: Option<&'scope Scope<'scope, 'env>>,
    second: Option<Second>,
    filling: Block,
}

/// The second thread, which ends when it is given up.
struct Second {
    blocks: SyncSender<Block>,
    parsed: Receiver<Block>,
    /// How many blocks it has.
    at_work: usize,
    spare: Vec<Block>,
}

impl<'scope, 'env> Parsing<'scope, 'env> {
    pub(super) fn new(version: u32, scope: Option<&'scope Scope<'scope, 'env>>) -> Self {
        Self { version, scope, second: None, filling: Block::default() }
    }

    /// Parses the row that stands from `start` to `end`, now or later, and gives those that are parsed and not taken yet.
    pub(super) fn add(&mut self, row: &[u8], start: u64, end: u64, take: &mut dyn FnMut(&Parsed)) {
        if self.is_in_two() && self.collect(row, start, end) {
            return self.hand_over_enough(take);
        }
        self.finish(take);
        take(&Parsed { row: rows::parse(row, self.version), start, end });
    }

    pub(super) fn is_in_two(&self) -> bool {
        self.scope.is_some()
    }

    /// Keeps a row to be parsed later, unless there is too much of them.
    pub(super) fn collect(&mut self, row: &[u8], start: u64, end: u64) -> bool {
        if self.filling.text.len() + row.len() > MOST {
            return false;
        }
        self.filling.text.extend_from_slice(row);
        self.filling.rows.push((self.filling.text.len(), start, end));
        true
    }

    /// How many rows are collected.
    pub(super) fn collected(&self) -> usize {
        self.filling.rows.len()
    }

    /// Forgets all but so many of the rows that are collected.
    pub(super) fn forget_behind(&mut self, count: usize) {
        self.filling.rows.truncate(count);
        self.filling.text.truncate(self.filling.rows.last().map_or(0, |(end, ..)| *end));
    }

    /// Hands over what is collected, where that is worth it.
    pub(super) fn hand_over_enough(&mut self, take: &mut dyn FnMut(&Parsed)) {
        if self.filling.text.len() >= BLOCK {
            self.hand_over(take);
        }
    }

    /// Gives all that was added and not taken yet.
    pub(super) fn finish(&mut self, take: &mut dyn FnMut(&Parsed)) {
        if !self.filling.rows.is_empty() {
            self.hand_over(take);
        }
        if let Some(second) = &mut self.second {
            second.take_all(take);
        }
    }

    fn hand_over(&mut self, take: &mut dyn FnMut(&Parsed)) {
        self.start_second();
        let Some(second) = &mut self.second else {
            self.filling.parse(self.version);
            return self.filling.parsed.iter().for_each(take);
        };
        if second.at_work == AHEAD && !second.take_ready(take) {
            // It has enough to do: this one is parsed here, and taken behind those that it has.
            self.filling.parse(self.version);
            second.take_all(take);
            return self.filling.parsed.iter().for_each(take);
        }
        let next = second.spare.pop().unwrap_or_default();
        second.at_work += 1;
        let block = std::mem::replace(&mut self.filling, next);
        assert!(second.blocks.send(block).is_ok(), "the second thread takes blocks until it is given up");
    }

    /// Starts the second thread, unless it was or may not be.
    fn start_second(&mut self) {
        let (None, Some(scope), version) = (&self.second, self.scope, self.version) else { return };
        let (blocks, work) = sync_channel::<Block>(AHEAD);
        let (done, parsed) = sync_channel(AHEAD);
        let started = Builder::new().spawn_scoped(scope, move || {
            for mut block in work {
                block.parse(version);
                if done.send(block).is_err() {
                    break;
                }
            }
        });
        match started {
            Ok(_) => self.second = Some(Second { blocks, parsed, at_work: 0, spare: Vec::new() }),
            Err(e) => {
                log::debug!("parsing in one thread, for there is no other: {e}");
                self.scope = None;
            }
        }
    }
}

impl Second {
    /// Takes the rows of all blocks that it has, once they are parsed.
    fn take_all(&mut self, take: &mut dyn FnMut(&Parsed)) {
        while self.at_work > 0 {
            let block = self.parsed.recv().expect("the second thread gives back what it was given");
            self.take(block, take);
        }
    }

    /// Takes the rows of the block that it was given first, if they are parsed.
    fn take_ready(&mut self, take: &mut dyn FnMut(&Parsed)) -> bool {
        match self.parsed.try_recv() {
            Ok(block) => {
                self.take(block, take);
                true
            }
            Err(_) => false,
        }
    }

    fn take(&mut self, block: Block, take: &mut dyn FnMut(&Parsed)) {
        self.at_work -= 1;
        block.parsed.iter().for_each(take);
        self.spare.push(block);
    }
}
