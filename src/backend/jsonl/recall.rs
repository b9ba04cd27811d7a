//! [`Recollection`]: what the last writer of a long log knew of it, kept beside the log so that the next process need not
//! pass over all of it first.
//!
//! It counts for the very file that it was written of only: the same number, size and times, of which no program sets that
//! of the last change. It is written by the owner of the session when it gives that up. What of the log is not known to
//! survive a loss of power by then may be gone or never have been written after one, whatever the file's size says: of that
//! a checksum is noted, and compared. It checks itself and promises nothing: who cannot read it, or finds a log that is not
//! what it tells, passes over the log.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::disk::{Disk, DiskFile, Stat};
use super::files::{Files, Key};
use super::frames::Unpacker;
use super::glance::{Allowance, look};
use super::stored_log::Log;
use crate::log::SessionId;

/// The file in a session's folder.
pub(super) const RECALL: &str = "session.recall";

/// A shorter log is passed over in less time than is worth a file, in bytes. In the crate's own tests nearly all are longer.
const LEAST: u64 = if cfg!(test) { 256 } else { 1 << 20 };

/// A longer file is none of ours, in bytes.
const LONGEST: u64 = 64 << 20;

/// Where more of a log is not known to survive, nothing is noted, in bytes: who reads all of the log next would read that much
/// twice.
const LONGEST_TAIL: u64 = 1 << 20;

/// What is looked at at once, in bytes.
const PIECE: usize = 64 << 10;

/// The version of the format.
const VERSION: u32 = 1;

/// What a writer leaves of a log.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recollection {
    version: u32,
    pub(super) file: Stamp,
    /// How many bytes of the log are known to survive, and the XXH3-64 of those that are [looked at](doubted) all the same.
    pub(super) durable: u64,
    tail: u64,
    pub(super) count: u64,
    pub(super) last_time: Option<i64>,
    pub(super) inherited: u64,
    /// What its events take in memory, about, in bytes.
    pub(super) event_bytes: usize,
    /// The first event of each type that is not marked ignorable.
    pub(super) first_required: Vec<(String, u64)>,
    /// Places where reading can start: a seq, and the place of its row or frame.
    pub(super) marks: Vec<(u64, u64)>,
}

/// By what a file is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    device: u64,
    number: u64,
    size: u64,
    modified: u64,
    /// Nanoseconds since 1970.
    changed: i64,
}

impl Stamp {
    /// Nothing where a change is not told for sure.
    pub(super) fn of(stat: &Stat) -> Option<Self> {
        let changed = i64::try_from(stat.changed).ok().filter(|changed| *changed != 0)?;
        let (device, number) = (stat.identity.device, stat.identity.number);
        Some(Self { device, number, size: stat.size, modified: stat.modified, changed })
    }
}

impl Recollection {
    /// What there is to be told of a log, of which the first `durable` bytes are known to survive, and whose file has this
    /// `stat` and ends where it does; nothing of a short one.
    pub(super) fn of(log: &Log, file: &dyn DiskFile, stat: &Stat, durable: u64) -> io::Result<Option<Self>> {
        let Some(stamp) = Stamp::of(stat) else { return Ok(None) };
        let is_whole = log.damage.is_none() && log.torn == 0 && log.end == stat.size;
        if stat.size < LEAST || !is_whole || log.end - durable > LONGEST_TAIL {
            return Ok(None);
        }
        Ok(Some(Self {
            version: VERSION,
            file: stamp,
            durable,
            tail: checksum(file, doubted(durable, log.end), log.end)?,
            count: log.count,
            last_time: log.last_time,
            inherited: log.inherited,
            event_bytes: log.event_bytes(),
            first_required: log.first_required().map(|(name, seq)| (name.to_owned(), seq.get())).collect(),
            marks: log.marks().collect(),
        }))
    }

    /// Writes it into a session's folder. Who reads it meanwhile, or after a death in between, finds that it is not whole.
    pub(super) fn write(&self, disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string(self)?;
        let checksum = xxh3_64(text.as_bytes());
        text.push_str(&format!("\n{checksum:016x}\n"));
        let file = disk.open_or_create(&folder.join(RECALL))?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)
    }

    /// Reads what was left in a session's folder, if that is whole.
    fn read(disk: &dyn Disk, folder: &Path) -> io::Result<Option<Self>> {
        let file = match disk.open(&folder.join(RECALL)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let size = file.stat()?.size;
        if size > LONGEST {
            return Ok(None);
        }
        let mut text = vec![0; usize::try_from(size).unwrap_or(0)];
        let mut at = 0;
        while at < text.len() {
            match file.read_at(&mut text[at..], at as u64)? {
                0 => return Ok(None),
                read => at += read,
            }
        }
        Ok(Self::parse(&text))
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let (json, checksum) = text.strip_suffix(b"\n")?.split_last_chunk::<16>()?;
        let json = json.strip_suffix(b"\n")?;
        if format!("{:016x}", xxh3_64(json)).as_bytes() != checksum {
            return None;
        }
        serde_json::from_slice(json).ok().filter(|told: &Self| told.version == VERSION)
    }
}

impl Files {
    /// The log of a file that still is what its last writer left, where that was noted.
    pub(super) fn recall(&self, id: &SessionId, key: &Key, stat: &Stat) -> Option<Log> {
        if stat.size < LEAST {
            return None;
        }
        let (place, file) = (&key.0.place, &*key.0.file);
        let read = || {
            let told = Recollection::read(&*self.disk, &place.folder)?;
            let Some(told) = told.filter(|told| Stamp::of(stat) == Some(told.file)) else { return Ok(None) };
            if checksum(file, doubted(told.durable, stat.size), stat.size)? != told.tail {
                return Ok(None);
            }
            let glance = look(file, stat.size, id, place.generation, &mut Unpacker::new()?, &mut Allowance::none())?;
            Ok(glance.header.ok().map(|header| Log::recalled(header, place.generation.encoding, stat.size, told)))
        };
        read().unwrap_or_else(|e: io::Error| {
            log::debug!("what was noted of {} is not read: {e}", key.0.path.display());
            None
        })
    }
}

/// From where on a log is looked at that ends at `end`: what is not known to survive, and its last stretch in any case. The
/// system tells of a write that failed once, so that the sync of another process may have counted what never arrived.
fn doubted(durable: u64, end: u64) -> u64 {
    durable.min(end.saturating_sub(PIECE as u64))
}

/// The checksum of a part of a file.
fn checksum(file: &dyn DiskFile, mut at: u64, end: u64) -> io::Result<u64> {
    let mut hash = Xxh3::new();
    let mut piece = vec![0; PIECE];
    while at < end {
        let wanted = usize::try_from(end - at).map_or(PIECE, |left| left.min(PIECE));
        match file.read_at(&mut piece[..wanted], at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                hash.update(&piece[..read]);
                at += read as u64;
            }
        }
    }
    Ok(hash.digest())
}
