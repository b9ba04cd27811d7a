//! A ZIP archive into a store.

use std::collections::HashSet;
use std::io::{self, BufRead as _, BufReader, Read, Seek};

use zip::read::{ArchiveOffset, Config};
use zip::{CompressionMethod, ZipArchive};

use super::frame::{check_end, check_entries, damaged};
use super::names::EntryName;
use super::unpacked::{Budget, Unpacked};
use super::{ArchiveProblem, MAX_ENTRIES};
use crate::export::{ImportError, ImportOptions, Imported, Tally, import_reader};
use crate::log::{SessionHeader, SessionId};
use crate::seam::SessionPersistence;

/// How much of an entry is read at once.
const READ_BYTES: usize = 256 << 10;

/// The most bytes of a line that may be a header.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// Imports the sessions of an archive that [`zip`](super::zip()) made, in the order of their entries, each by the rules
/// of [`import_reader`] and whatever becomes of the others. `name` stands for the archive in errors.
///
/// The archive as a whole is looked at before anything is stored, to the last packed byte, and trusted in nothing:
/// anything that is not a log of an export by its name, its kind and its header, that hides in the archive, or that
/// unpacks beyond bounds ([`MAX_ENTRIES`], [`MAX_ENTRY_BYTES`](super::MAX_ENTRY_BYTES),
/// [`MAX_ARCHIVE_BYTES`](super::MAX_ARCHIVE_BYTES), and [`MAX_RATIO`](super::MAX_RATIO) past
/// [`FREE_BYTES`](super::FREE_BYTES)), refuses all of it. `report` is told of each session, or of the one error that
/// refuses the archive: [`ImportError::Archive`] with an [`ArchiveProblem`], or [`ImportError::Unreadable`].
pub fn import_archive(
    store: &dyn SessionPersistence,
    name: &str,
    reader: impl Read + Seek,
    options: ImportOptions,
    report: &mut dyn FnMut(Result<Imported, ImportError>),
) -> Tally {
    Tally::of(report, |tell| import_entries(store, name, reader, options, tell))
}

/// The same, where the error that refuses the archive is the caller's to tell.
pub(in crate::export) fn import_entries(
    store: &dyn SessionPersistence,
    name: &str,
    reader: impl Read + Seek,
    options: ImportOptions,
    tell: &mut dyn FnMut(Result<Imported, ImportError>),
) -> Result<(), ImportError> {
    let mut archive = Archive::open(name, reader)?;
    for index in 0..archive.entries.len() {
        tell(archive.import(index, store, options));
    }
    Ok(())
}

/// An archive in which nothing was found that refuses it.
struct Archive<'a, R> {
    name: &'a str,
    zip: ZipArchive<R>,
    entries: Vec<String>,
}

impl<'a, R: Read + Seek> Archive<'a, R> {
    fn open(name: &'a str, mut reader: R) -> Result<Self, ImportError> {
        let refused = |problem| ImportError::Archive { file: name.to_owned(), entry: None, problem };
        let unreadable = |source| ImportError::Unreadable { file: name.to_owned(), source };
        check_end(&mut reader).map_err(unreadable)?.map_err(refused)?;
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let zip = ZipArchive::with_config(config, reader).map_err(|e| refused(damaged(&e)))?;
        let mut archive = Self { name, zip, entries: Vec::new() };
        archive.check_directory()?;
        check_entries(&mut archive.zip).map_err(refused)?;
        archive.check_logs()?;
        Ok(archive)
    }

    /// What the directory tells: names, kinds and sizes.
    fn check_directory(&mut self) -> Result<(), ImportError> {
        let refused = |entry, problem| ImportError::Archive { file: self.name.to_owned(), entry, problem };
        if self.zip.len() as u64 > MAX_ENTRIES {
            return Err(refused(None, ArchiveProblem::TooManyEntries));
        }
        let mut names = HashSet::new();
        let mut roots = 0;
        let mut budget = Budget::default();
        for index in 0..self.zip.len() {
            let entry = self.zip.by_index_data(index).map_err(|e| refused(None, damaged(&e)))?;
            let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
            let problem = |problem| refused(Some(name.clone()), problem);
            let parsed = check_name(&name).map_err(problem)?;
            roots += usize::from(parsed.is_root());
            if !is_plain(entry.external_attributes()) {
                return Err(problem(ArchiveProblem::NotAFile));
            }
            if entry.encrypted() {
                return Err(problem(ArchiveProblem::Encrypted));
            }
            if !matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated) {
                return Err(problem(ArchiveProblem::OtherCompression));
            }
            if !names.insert(name.to_lowercase()) {
                return Err(problem(ArchiveProblem::DuplicateName));
            }
            // What it declares is not believed; what it declares to be too much need not be unpacked to be refused.
            budget.entry(entry.compressed_size()).spend(entry.size()).map_err(problem)?;
            self.entries.push(name);
        }
        if self.zip.has_duplicate_names() {
            return Err(refused(None, ArchiveProblem::DuplicateName));
        }
        if roots != 1 {
            return Err(refused(None, ArchiveProblem::NotOneRoot { found: roots }));
        }
        Ok(())
    }

    /// What the entries hold: whose logs they are, and that all of them unpack.
    fn check_logs(&mut self) -> Result<(), ImportError> {
        let mut sessions = HashSet::new();
        let mut budget = Budget::default();
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            let refused =
                |problem| ImportError::Archive { file: self.name.to_owned(), entry: Some(entry.clone()), problem };
            let name = EntryName::parse(entry).ok_or_else(|| refused(ArchiveProblem::ForeignName))?;
            let file = self.zip.by_index(index).map_err(|e| refused(damaged(&e)))?;
            let (size, packed) = (file.size(), file.compressed_size());
            let mut log = Log(BufReader::with_capacity(READ_BYTES, Unpacked::new(file, budget.entry(packed))));
            let header = log.header().map_err(refused)?;
            check_header(&name, &header).map_err(refused)?;
            let unpacked = log.drain().map_err(refused)?;
            if unpacked != size {
                return Err(refused(damaged(&format!("it unpacks to {unpacked} bytes where it declares {size}"))));
            }
            if !sessions.insert(header.id().clone()) {
                return Err(refused(ArchiveProblem::DuplicateSession { session: header.id().clone() }));
            }
        }
        Ok(())
    }

    fn import(
        &mut self,
        index: usize,
        store: &dyn SessionPersistence,
        options: ImportOptions,
    ) -> Result<Imported, ImportError> {
        let entry = &self.entries[index];
        let file = format!("{}, entry {entry}", self.name);
        let unpacked = self.zip.by_index(index).map_err(|e| ImportError::Archive {
            file: self.name.to_owned(),
            entry: Some(entry.clone()),
            problem: damaged(&e),
        })?;
        let packed = unpacked.compressed_size();
        // The file could have been changed since it was looked at, so the bounds hold here too.
        let mut budget = Budget::default();
        let log = Unpacked::new(unpacked, budget.entry(packed));
        import_reader(store, &file, BufReader::with_capacity(READ_BYTES, log), options)
    }
}

fn check_name(name: &str) -> Result<EntryName<'_>, ArchiveProblem> {
    let bytes = name.as_bytes();
    if name.contains('\\') {
        return Err(ArchiveProblem::Backslash);
    }
    if name.starts_with('/') {
        return Err(ArchiveProblem::AbsolutePath);
    }
    if bytes.get(1) == Some(&b':') && bytes[0].is_ascii_alphabetic() {
        return Err(ArchiveProblem::DriveLetter);
    }
    if name.split('/').any(|part| part == "..") {
        return Err(ArchiveProblem::ParentFolder);
    }
    if name.ends_with('/') {
        return Err(ArchiveProblem::NotAFile);
    }
    EntryName::parse(name).ok_or(ArchiveProblem::ForeignName)
}

/// Whether the attributes of an entry are those of a plain file, as Unix tells its kind and as DOS does.
fn is_plain(attributes: u32) -> bool {
    const REGULAR: u32 = 0o10;
    const FOLDER_LABEL_OR_DEVICE: u32 = 0x10 | 0x08 | 0x40;
    matches!(attributes >> 28, 0 | REGULAR) && attributes & FOLDER_LABEL_OR_DEVICE == 0
}

fn check_header(name: &EntryName<'_>, header: &SessionHeader) -> Result<(), ArchiveProblem> {
    let session: &SessionId = header.id();
    if !name.is_of(session) {
        return Err(ArchiveProblem::OtherSession { session: session.clone() });
    }
    if name.version != header.version() {
        return Err(ArchiveProblem::OtherVersion { version: header.version() });
    }
    Ok(())
}

/// The log of an entry, to be looked at.
struct Log<'a, R: Read>(BufReader<Unpacked<'a, R>>);

impl<R: Read> Log<'_, R> {
    fn header(&mut self) -> Result<SessionHeader, ArchiveProblem> {
        let mut line = Vec::new();
        let read = (&mut self.0).take(MAX_HEADER_BYTES).read_until(b'\n', &mut line);
        read.map_err(|e| self.problem(&e))?;
        while line.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
            line.pop();
        }
        SessionHeader::parse(&line).map_err(|e| ArchiveProblem::NoHeader { reason: e.to_string() })
    }

    /// Reads to the end, which compares the checksum; gives how many bytes the whole log has.
    fn drain(&mut self) -> Result<u64, ArchiveProblem> {
        io::copy(&mut self.0, &mut io::sink()).map_err(|e| self.problem(&e))?;
        Ok(self.0.get_ref().bytes())
    }

    fn problem(&self, error: &io::Error) -> ArchiveProblem {
        self.0.get_ref().problem().cloned().unwrap_or_else(|| damaged(error))
    }
}
