//! Whatever a path leads to into a store.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

#[cfg(feature = "sqlite")]
use super::dsh_database::{Found, Source, import_source};
use super::{ImportError, ImportOptions, Imported, Tally, import_file};
use crate::seam::SessionPersistence;

/// Imports what a path leads to, which is told by its content and not by its name:
///
/// - a log file, as [`import_file`] does;
/// - an archive of this crate (feature `zip`), as [`import_archive`](super::import_archive) does;
/// - a database of DeepSeek Harness (feature `sqlite`), as [`import_database`](super::import_database) does.
///
/// Sources are only read. Every session is stored whole or not at all and whatever becomes of the others, and what is
/// stored already is left as it is, so an import that was stopped half-way is finished by the same call. `report` is told
/// of each session as it is done, in an order that depends on the source alone, or of the one error that refuses the
/// source. One log at a time is held in memory.
pub fn import_path(
    store: &dyn SessionPersistence,
    path: &Path,
    options: ImportOptions,
    report: &mut dyn FnMut(Result<Imported, ImportError>),
) -> Tally {
    Tally::of(report, |tell| import(store, path, options, tell))
}

/// What fails before the first session is told; what fails with a session is reported.
fn import(
    store: &dyn SessionPersistence,
    path: &Path,
    options: ImportOptions,
    tell: &mut dyn FnMut(Result<Imported, ImportError>),
) -> Result<(), ImportError> {
    let name = path.display().to_string();
    let unreadable = |source| ImportError::Unreadable { file: name.clone(), source };
    let found = fs::metadata(path).map_err(unreadable)?;
    if found.is_dir() {
        return Err(ImportError::Foreign {
            file: name,
            reason: "is a folder; name the log files, archives or databases in it".to_owned(),
        });
    }
    if !found.is_file() {
        // A pipe cannot be looked at and then read again.
        tell(import_file(store, path, options));
        return Ok(());
    }
    // Before anything else opens it: see there.
    #[cfg(feature = "sqlite")]
    match Source::find(path)? {
        Found::Dsh(source) => return import_source(store, &source, options, tell),
        Found::Other(reason) => return Err(ImportError::Foreign { file: name, reason }),
        Found::NoDatabase => {}
    }
    #[cfg(feature = "zip")]
    if is_archive(path).map_err(unreadable)? {
        let file = io::BufReader::new(File::open(path).map_err(unreadable)?);
        return super::archive::import_entries(store, &name, file, options, tell);
    }
    tell(import_file(store, path, options));
    Ok(())
}

/// Whether a file starts like an archive with entries, or like one without.
#[cfg(feature = "zip")]
fn is_archive(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut start)?;
    Ok([b"PK\x03\x04", b"PK\x05\x06"].iter().any(|mark| start == *mark))
}
