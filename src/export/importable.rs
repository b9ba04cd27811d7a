//! [`Importable`]: whatever a path leads to that sessions can be imported from.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

#[cfg(feature = "sqlite")]
use super::dsh_database::{Found, Source, import_source};
#[cfg(feature = "jsonl")]
use super::dsh_root::{Root, find_root};
use super::{ImportError, ImportOptions, Imported, Tally, import_file};
use crate::seam::SessionPersistence;

/// What a path leads to, which is told by its content and not by its name:
///
/// - a log file, as for [`import_file`];
/// - an archive of this crate (feature `zip`), as for `import_archive`;
/// - a database of DeepSeek Harness (feature `sqlite`), as for `import_database`;
/// - a folder in the layout of DeepSeek Harness (feature `jsonl`), as for `import_root`.
pub struct Importable {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    LogFile,
    #[cfg(feature = "zip")]
    Archive(File),
    #[cfg(feature = "sqlite")]
    Database(Box<Source>),
    #[cfg(feature = "jsonl")]
    Root(Root),
}

impl Importable {
    /// Looks at what stands at a path. Nothing there is changed, now or when it is imported.
    ///
    /// # Errors
    ///
    /// [`ImportError::Unreadable`] where there is nothing or it cannot be opened, [`ImportError::Foreign`] for what holds
    /// no sessions that are known here. A file that may be a log is looked at when it is imported.
    pub fn find(path: &Path) -> Result<Self, ImportError> {
        let name = path.display().to_string();
        let unreadable = |source| ImportError::Unreadable { file: name.clone(), source };
        let importable = |kind| Ok(Self { path: path.to_owned(), kind });
        let found = fs::metadata(path).map_err(unreadable)?;
        if found.is_dir() {
            #[cfg(feature = "jsonl")]
            return importable(Kind::Root(find_root(path)?));
            #[cfg(not(feature = "jsonl"))]
            return Err(ImportError::Foreign {
                file: name,
                reason: "is a folder, which only builds with the feature `jsonl` import".to_owned(),
            });
        }
        if !found.is_file() {
            // A pipe cannot be looked at and then read again.
            return importable(Kind::LogFile);
        }
        // Before anything else opens it: see there.
        #[cfg(feature = "sqlite")]
        match Source::find(path)? {
            Found::Dsh(source) => return importable(Kind::Database(source)),
            Found::Other(reason) => return Err(ImportError::Foreign { file: name, reason }),
            Found::NoDatabase => {}
        }
        let file = File::open(path).map_err(unreadable)?;
        #[cfg(feature = "zip")]
        if is_archive(&file).map_err(unreadable)? {
            return importable(Kind::Archive(file));
        }
        drop(file);
        importable(Kind::LogFile)
    }

    /// Imports its sessions, each whole or not at all and whatever becomes of the others. What is stored already is left
    /// as it is, so an import that was stopped half-way is finished by the same call. `report` is told of each session as
    /// it is done, in an order that depends on the source alone, or of the one error that refuses the source. A log
    /// above a few megabytes is set aside in the folder of temporary files until it is read.
    pub fn import(
        self,
        store: &dyn SessionPersistence,
        options: ImportOptions,
        report: &mut dyn FnMut(Result<Imported, ImportError>),
    ) -> Tally {
        Tally::of(report, |tell| match self.kind {
            Kind::LogFile => {
                tell(Ok(import_file(store, &self.path, options)?));
                Ok(())
            }
            #[cfg(feature = "zip")]
            Kind::Archive(file) => {
                let name = self.path.display().to_string();
                super::archive::import_entries(store, &name, std::io::BufReader::new(file), options, tell)
            }
            #[cfg(feature = "sqlite")]
            Kind::Database(source) => import_source(store, &source, options, tell),
            #[cfg(feature = "jsonl")]
            Kind::Root(root) => root.import(store, options, tell),
        })
    }
}

/// Imports what a path leads to: [`Importable::find`] and [`Importable::import`], where the error of the first is reported
/// like those of the second.
pub fn import_path(
    store: &dyn SessionPersistence,
    path: &Path,
    options: ImportOptions,
    report: &mut dyn FnMut(Result<Imported, ImportError>),
) -> Tally {
    match Importable::find(path) {
        Ok(found) => found.import(store, options, report),
        Err(error) => Tally::of(report, |_| Err(error)),
    }
}

/// Whether a file starts like an archive with entries, or like one without.
#[cfg(feature = "zip")]
fn is_archive(mut file: &File) -> std::io::Result<bool> {
    use std::io::{Read as _, Seek as _};
    let mut start = Vec::new();
    file.take(4).read_to_end(&mut start)?;
    file.rewind()?;
    Ok([b"PK\x03\x04", b"PK\x05\x06"].iter().any(|mark| start == *mark))
}
