//! [`Shadow`]: what of a disk is durable, kept in files that outlive the process.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::outage::{Change, FileId, Files};

/// A folder with one file for each file of the disk, named by its number, and one for each durable name, which holds that
/// number.
///
/// A process that is killed in the middle of a sync leaves it half made, as a loss of power in the middle of one does.
pub(crate) struct Shadow {
    folder: PathBuf,
    contents: BTreeMap<FileId, File>,
}

impl Shadow {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), contents: BTreeMap::new() }
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { file, at, bytes } => self.content(*file).write_all_at(bytes, *at as u64).unwrap(),
            Change::Truncate { file, length } => self.content(*file).set_len(*length as u64).unwrap(),
            Change::Name { name, file } => {
                self.content(*file);
                let made = self.folder.join("being-named");
                fs::write(&made, file.to_string()).unwrap();
                fs::rename(made, self.name(name)).unwrap();
            }
            Change::Unname { name } => {
                // Absent where the file was never synced.
                let _absent = fs::remove_file(self.name(name));
            }
        }
    }

    /// Takes a file over that was there before.
    pub(crate) fn replace(&mut self, file: FileId, content: &[u8]) {
        let to = self.content(file);
        to.set_len(0).unwrap();
        to.write_all_at(content, 0).unwrap();
    }

    fn content(&mut self, file: FileId) -> &File {
        let path = self.folder.join(file.to_string());
        self.contents.entry(file).or_insert_with(|| File::create(path).unwrap())
    }

    fn name(&self, name: &str) -> PathBuf {
        self.folder.join(format!("name:{}", name.replace('/', ":")))
    }

    /// What is left after a loss of power of the disk of a process that ended.
    pub(crate) fn left_in(folder: &Path) -> Files {
        let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let named = entries.filter_map(|entry| {
            let number = fs::read_to_string(folder.join(&entry)).ok()?;
            Some((entry.strip_prefix("name:")?.replace(':', "/"), fs::read(folder.join(number)).unwrap()))
        });
        Files(named.collect())
    }
}
