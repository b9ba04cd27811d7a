//! [`Loss`]: what a loss of power leaves of a disk.

use std::collections::{BTreeMap, HashMap};

/// What a disk writes whole or not at all, in bytes.
const SECTOR: usize = 512;

/// What a file or a folder holds.
#[derive(Clone, PartialEq)]
pub(super) enum Content {
    File(Vec<u8>),
    Folder(BTreeMap<String, u64>),
}

/// A change of one of them.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) node: u64,
    pub(super) what: What,
}

#[derive(Clone)]
pub(super) enum What {
    Write { at: usize, bytes: Vec<u8> },
    SetLen(usize),
    Add(String, u64),
    Remove(String),
}

/// What a loss of power does to what is not durable.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Loss {
    /// It takes all.
    All,
    /// It takes nothing.
    Nothing,
    /// It takes all but the first changes, so many.
    AllBut(usize),
    /// It takes some changes, each by chance.
    Some(u64),
    /// Each sector of a file stays at some time of its own, and the size at another.
    Sectors(u64),
    /// It takes the end of the last write, of which so many bytes stay; the file may have grown to its new size before.
    Torn { stay: usize, is_grown: bool },
}

impl Loss {
    /// What it leaves of a disk on which `changes` were not durable.
    pub(super) fn leave(self, mut disk: HashMap<u64, Content>, changes: &[Change]) -> HashMap<u64, Content> {
        let mut chance = Chance::new(match self {
            Loss::Some(seed) | Loss::Sectors(seed) => seed,
            _ => 0,
        });
        match self {
            Loss::All => {}
            Loss::Nothing => changes.iter().for_each(|change| change.apply(&mut disk)),
            Loss::AllBut(first) => changes.iter().take(first).for_each(|change| change.apply(&mut disk)),
            Loss::Some(_) => changes.iter().filter(|_| chance.below(2) == 0).for_each(|change| change.apply(&mut disk)),
            Loss::Sectors(_) => {
                let mut numbers: Vec<_> = disk.keys().copied().collect();
                numbers.sort_unstable();
                for number in numbers {
                    let changes: Vec<_> = changes.iter().filter(|change| change.node == number).collect();
                    by_sectors(number, &changes, &mut disk, &mut chance);
                }
            }
            Loss::Torn { stay, is_grown } => {
                let (last, before) = changes.split_last().unwrap();
                before.iter().for_each(|change| change.apply(&mut disk));
                let What::Write { at, bytes } = &last.what else { panic!("the last change is no write") };
                if is_grown {
                    Change { node: last.node, what: What::SetLen(at + bytes.len()) }.grow(&mut disk);
                }
                let what = What::Write { at: *at, bytes: bytes[..stay].to_vec() };
                Change { node: last.node, what }.apply(&mut disk);
            }
        }
        disk
    }
}

/// Chooses for each sector of a file, and for its size, the time at which it stays.
fn by_sectors(number: u64, changes: &[&Change], disk: &mut HashMap<u64, Content>, chance: &mut Chance) {
    if changes.is_empty() {
        return;
    }
    let mut times = vec![disk[&number].clone()];
    for change in changes {
        change.apply(disk);
        times.push(disk[&number].clone());
    }
    let pick = |chance: &mut Chance| times[chance.below(times.len() as u64) as usize].clone();
    let Content::File(sized) = pick(chance) else {
        disk.insert(number, pick(chance));
        return;
    };
    let mut result = vec![0; sized.len()];
    for start in (0..result.len()).step_by(SECTOR) {
        let Content::File(from) = pick(chance) else { unreachable!("a file stays one") };
        let end = (start + SECTOR).min(result.len()).min(from.len());
        if start < end {
            result[start..end].copy_from_slice(&from[start..end]);
        }
    }
    disk.insert(number, Content::File(result));
}

impl Change {
    pub(super) fn apply(&self, disk: &mut HashMap<u64, Content>) {
        let content = disk.get_mut(&self.node).expect("what is changed is there");
        match (&self.what, content) {
            (What::Write { at, bytes }, Content::File(content)) => write_into(content, *at, bytes),
            (What::SetLen(length), Content::File(content)) => content.resize(*length, 0),
            (What::Add(name, node), Content::Folder(names)) => drop(names.insert(name.clone(), *node)),
            (What::Remove(name), Content::Folder(names)) => drop(names.remove(name)),
            _ => unreachable!("files have content, and folders names"),
        }
    }

    fn grow(&self, disk: &mut HashMap<u64, Content>) {
        if let (What::SetLen(length), Some(Content::File(content))) = (&self.what, disk.get_mut(&self.node)) {
            content.resize((*length).max(content.len()), 0);
        }
    }
}

fn write_into(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = at + bytes.len();
    content.resize(content.len().max(end), 0);
    content[at..end].copy_from_slice(bytes);
}

/// Numbers by chance, the same for the same seed.
pub(in super::super) struct Chance(u64);

impl Chance {
    pub(in super::super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    pub(in super::super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}
