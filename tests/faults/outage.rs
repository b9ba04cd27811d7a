//! [`Outage`]: what a disk held when the power went, and what may be left of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Files by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Files(pub(crate) BTreeMap<String, Vec<u8>>);

impl Files {
    /// Those of a folder in which nothing is open.
    pub(crate) fn of(folder: &Path) -> Self {
        Self(Self::names(folder).map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect())
    }

    /// The names of the files in a folder, but for the `-shm` file, which no process trusts that did not see it made.
    pub(crate) fn names(folder: &Path) -> impl Iterator<Item = String> {
        let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap());
        let files = entries.filter(|e| e.file_type().unwrap().is_file());
        files.map(|e| e.file_name().into_string().unwrap()).filter(|name| !name.ends_with("-shm"))
    }

    pub(crate) fn write_to(&self, folder: &Path) {
        for (name, bytes) in &self.0 {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("it lies in the folder")).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
}

/// A file of a disk, by its place in a list.
pub(crate) type FileId = usize;

/// A change that nothing was told about the mode of.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Write { file: FileId, at: usize, bytes: Vec<u8> },
    Truncate { file: FileId, length: usize },
    Name { name: String, file: FileId },
    Unname { name: String },
}

impl Change {
    /// Whether a sync of `file` makes it durable.
    pub(crate) fn is_of(&self, file: FileId) -> bool {
        match self {
            Self::Write { file: f, .. } | Self::Truncate { file: f, .. } | Self::Name { file: f, .. } => *f == file,
            Self::Unname { .. } => false,
        }
    }
}

/// Contents and names of files.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    pub(crate) contents: Vec<Vec<u8>>,
    pub(crate) names: BTreeMap<String, FileId>,
}

impl Image {
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { file, at, bytes } => write(&mut self.contents[*file], *at, bytes),
            Change::Truncate { file, length } => self.contents[*file].resize(*length, 0),
            Change::Name { name, file } => {
                self.names.insert(name.clone(), *file);
            }
            Change::Unname { name } => {
                self.names.remove(name);
            }
        }
    }

    fn files(&self) -> Files {
        Files(self.names.iter().map(|(name, file)| (name.clone(), self.contents[*file].clone())).collect())
    }
}

fn write(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(bytes);
}

/// What a disk held when the power went.
#[derive(Debug, Clone)]
pub(crate) struct Outage {
    pub(crate) live: Image,
    pub(crate) durable: Image,
    /// What was not durable, in the order in which it happened.
    pub(crate) unsynced: Vec<Change>,
}

impl Outage {
    /// What a process finds that follows one that died: the system still has all.
    pub(crate) fn everything(&self) -> Files {
        self.live.files()
    }

    /// What is left when nothing reached the disk but what a sync was told to have.
    pub(crate) fn least(&self) -> Files {
        self.surviving(|_| false, None)
    }

    /// What is left when of the changes those survive that `survives` says by their number, the last of them with its first
    /// bytes only where `torn` says how many.
    pub(crate) fn surviving(&self, survives: impl Fn(usize) -> bool, torn: Option<usize>) -> Files {
        let mut image = self.durable.clone();
        let surviving: Vec<_> = (0..self.unsynced.len()).filter(|n| survives(*n)).collect();
        for n in &surviving {
            match (&self.unsynced[*n], torn) {
                (Change::Write { file, at, bytes }, Some(length)) if Some(n) == surviving.last() => {
                    image.apply(&Change::Write {
                        file: *file,
                        at: *at,
                        bytes: bytes[..length.min(bytes.len())].to_vec(),
                    });
                }
                (change, _) => image.apply(change),
            }
        }
        image.files()
    }

    /// How long a write is, and 0 for another change.
    pub(crate) fn length(&self, change: usize) -> usize {
        match &self.unsynced[change] {
            Change::Write { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }
}
