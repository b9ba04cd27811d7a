//! [`SideFiles`]: what lies beside a database. SQLite keeps changes there that are not in it yet, and takes whatever lies
//! there for its own; so what belongs to another database has to be told apart before SQLite sees it.
//!
//! These files are read here without SQLite, which has no locks on them. The database itself never is: closing any
//! descriptor of it would give up the locks that this process holds on it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The bytes of a WAL before its first frame, and of a frame before its page.
const WAL_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;

const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
const JOURNAL_HEADER: u64 = 28;

/// No database uses the page at this byte: SQLite's locks are there.
const LOCKED_BYTE: u64 = 0x4000_0000;

/// What lies beside a database.
pub(super) struct SideFiles {
    wal: PathBuf,
    wal_bytes: u64,
    journal: PathBuf,
    journal_bytes: u64,
    pub(super) has_shm: bool,
}

/// What a WAL says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wal {
    page_size: u64,
    /// What all its frames have in common with it.
    salts: [u8; 8],
}

/// What the journal of a change that was not finished says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unfinished {
    /// None where it leaves that to the database.
    page_size: Option<u64>,
    /// The application that the database names, where it holds the page that says so.
    application: Option<i64>,
}

/// The name of a file beside a database.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// What SQLite puts beside a database.
pub(super) fn side_files(database: &Path) -> [PathBuf; 3] {
    ["-wal", "-shm", "-journal"].map(|suffix| beside(database, suffix))
}

impl SideFiles {
    pub(super) fn of(database: &Path) -> io::Result<Self> {
        let (wal, journal) = (beside(database, "-wal"), beside(database, "-journal"));
        Ok(Self {
            wal_bytes: size(&wal)?,
            wal,
            journal_bytes: size(&journal)?,
            journal,
            has_shm: beside(database, "-shm").try_exists()?,
        })
    }

    /// Whether there is a WAL with more in it than its header.
    pub(super) fn has_wal(&self) -> bool {
        self.wal_bytes > WAL_HEADER
    }

    /// Whether there is a journal with something in it.
    pub(super) fn has_journal(&self) -> bool {
        self.journal_bytes > 0
    }

    /// What the WAL says of itself; nothing where SQLite ignores it: it was never written whole. An error says that it is
    /// something else.
    pub(super) fn wal(&self) -> io::Result<Result<Option<Wal>, &'static str>> {
        let mut header = [0; WAL_HEADER as usize];
        if !self.has_wal() || !read_at(&self.wal, 0, &mut header)? || header[..4] == [0; 4] {
            return Ok(Ok(None));
        }
        let magic = big_endian(&header, 0);
        if magic & !1 != 0x377f_0682 {
            return Ok(Err("what lies there as its -wal is no WAL of SQLite"));
        }
        let word = if magic & 1 == 1 { u32::from_be_bytes } else { u32::from_le_bytes };
        let (mut one, mut two) = (0_u32, 0_u32);
        for pair in header[..24].as_chunks::<8>().0 {
            let [a, b, c, d, e, f, g, h] = *pair;
            one = one.wrapping_add(word([a, b, c, d])).wrapping_add(two);
            two = two.wrapping_add(word([e, f, g, h])).wrapping_add(one);
        }
        if (one, two) != (big_endian(&header, 24), big_endian(&header, 28)) {
            return Ok(Ok(None));
        }
        let mut salts = [0; 8];
        salts.copy_from_slice(&header[16..24]);
        Ok(Ok(Some(Wal { page_size: big_endian(&header, 8).into(), salts })))
    }

    /// A page that is in the database as its WAL leaves it, and neither in the file nor in the WAL: the WAL continues a
    /// longer file. `bytes` is the size of the file, `pages` how many pages the database has with the WAL.
    pub(super) fn missing_page(&self, wal: &Wal, bytes: u64, pages: u64) -> io::Result<Option<u64>> {
        let in_file = bytes / wal.page_size;
        let locked = LOCKED_BYTE / wal.page_size + 1;
        let frame = FRAME_HEADER + wal.page_size;
        let frames = size(&self.wal)?.saturating_sub(WAL_HEADER) / frame;
        let wanted = pages.saturating_sub(in_file);
        // More than the WAL can hold, one of them being the page that is never used.
        if wanted > frames + 1 {
            return Ok(Some(in_file + 1));
        }
        let mut is_missing = vec![true; usize::try_from(wanted).unwrap_or(usize::MAX)];
        let mut file = match File::open(&self.wal) {
            // Its last writer has put it away.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut header = [0; FRAME_HEADER as usize];
        for number in 0..if wanted == 0 { 0 } else { frames } {
            file.seek(SeekFrom::Start(WAL_HEADER + number * frame))?;
            if !read_whole(&mut file, &mut header)? || header[8..16] != wal.salts {
                break;
            }
            let page = u64::from(big_endian(&header, 0));
            let at = page.checked_sub(in_file + 1).and_then(|at| usize::try_from(at).ok());
            if let Some(missing) = at.and_then(|at| is_missing.get_mut(at)) {
                *missing = false;
            }
        }
        let missing = (in_file + 1..).zip(is_missing).find(|(page, is_missing)| *is_missing && *page != locked);
        Ok(missing.map(|(page, _)| page))
    }

    /// What the journal says of itself; nothing where SQLite finds nothing in it to take back. An error says that it is
    /// something else.
    pub(super) fn unfinished(&self) -> io::Result<Result<Option<Unfinished>, &'static str>> {
        let mut header = [0; JOURNAL_HEADER as usize];
        // SQLite goes by the first byte.
        if !read_at(&self.journal, 0, &mut header[..1])? || header[0] == 0 {
            return Ok(Ok(None));
        }
        let is_whole = read_at(&self.journal, 0, &mut header)?;
        if header[..8] != JOURNAL_MAGIC {
            // SQLite writes these bytes last, before it changes the database; a loss of power may cut them off.
            let written = header.iter().zip(JOURNAL_MAGIC).take_while(|(found, magic)| *found == magic).count();
            if header[written..8].iter().all(|byte| *byte == 0) {
                return Ok(Ok(None));
            }
            return Ok(Err("what lies there as its -journal is no journal of SQLite"));
        }
        if !is_whole {
            return Ok(Ok(None));
        }
        let page_size = u64::from(big_endian(&header, 24));
        if page_size == 0 {
            return Ok(Ok(Some(Unfinished { page_size: None, application: None })));
        }
        if !page_size.is_power_of_two() || !(512..=65536).contains(&page_size) {
            return Ok(Err("what lies there as its -journal is no journal of SQLite"));
        }
        let application = self.first_page(&header, page_size)?.map(|page| big_endian(&page, 68).cast_signed().into());
        Ok(Ok(Some(Unfinished { page_size: Some(page_size), application })))
    }

    /// The first page of the database as it was before the change, where the journal holds it whole.
    fn first_page(&self, header: &[u8], page_size: u64) -> io::Result<Option<Vec<u8>>> {
        let (counted, nonce) = (big_endian(header, 8), big_endian(header, 12));
        let sector = u64::from(big_endian(header, 20));
        let record = 4 + page_size + 4;
        let held = self.journal_bytes.saturating_sub(sector) / record;
        let records = if counted == u32::MAX { held } else { held.min(counted.into()) };
        // Whoever was at it may have finished meanwhile.
        let mut file = match File::open(&self.journal) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        for number in 0..records {
            let mut page_number = [0; 4];
            file.seek(SeekFrom::Start(sector + number * record))?;
            if !read_whole(&mut file, &mut page_number)? {
                return Ok(None);
            }
            if page_number != [0, 0, 0, 1] {
                continue;
            }
            let mut page = vec![0; page_size as usize];
            let mut told = [0; 4];
            if !read_whole(&mut file, &mut page)? || !read_whole(&mut file, &mut told)? {
                return Ok(None);
            }
            let mut sum = nonce;
            let mut at = page.len().saturating_sub(200);
            while at > 0 {
                sum = sum.wrapping_add(page[at].into());
                at = at.saturating_sub(200);
            }
            return Ok((sum == big_endian(&told, 0)).then_some(page));
        }
        Ok(None)
    }
}

impl Wal {
    /// Whether its pages have the size of those of the database.
    pub(super) fn has_pages_of(&self, page_size: u64) -> bool {
        self.page_size == page_size
    }
}

impl Unfinished {
    /// Why it cannot be of a database with pages of this size and this application.
    pub(super) fn misfit(&self, page_size: u64, application: i64) -> Option<&'static str> {
        if self.page_size.is_some_and(|size| size != page_size) {
            return Some("the pages in its -journal have another size");
        }
        if self.application.is_some_and(|other| other != application) {
            return Some("its -journal is of another program's database");
        }
        None
    }
}

/// The size of a file in bytes; 0 where there is none.
fn size(path: &Path) -> io::Result<u64> {
    match fs::metadata(path) {
        Ok(found) => Ok(found.len()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(0),
        Err(e) => Err(e),
    }
}

/// Fills `bytes` from a place in a file; whether there are so many. A file that is gone has none.
fn read_at(path: &Path, at: u64, bytes: &mut [u8]) -> io::Result<bool> {
    match File::open(path) {
        Ok(mut file) => {
            file.seek(SeekFrom::Start(at))?;
            read_whole(&mut file, bytes)
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

fn read_whole(file: &mut File, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

fn big_endian(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}
