//! [`ShadowDisk`]: the disk of the machine, beside which a folder grows that holds what a loss of power would leave: the
//! content of each file as of its last sync, under the names of each folder as of its last sync.

use std::fs::{self, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::disk::{Disk, DiskFile, Name, RealDisk, Stat};

pub(super) struct ShadowDisk(Arc<Shadow>);

struct Shadow {
    root: PathBuf,
    folder: PathBuf,
}

impl ShadowDisk {
    /// The disk under `root`, with its shadow in `folder`.
    pub(super) fn new(root: &Path, folder: &Path) -> Self {
        fs::create_dir_all(folder.join("files")).unwrap();
        fs::create_dir_all(folder.join("root")).unwrap();
        Self(Arc::new(Shadow { root: root.to_owned(), folder: folder.to_owned() }))
    }

    fn file(&self, opened: io::Result<Box<dyn DiskFile>>) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(ShadowedFile { shadow: self.0.clone(), file: opened? }))
    }

    /// What stays of a tree after a loss of power.
    pub(super) fn left_of(folder: &Path) -> PathBuf {
        folder.join("root")
    }
}

impl Shadow {
    fn file(&self, number: u64) -> PathBuf {
        self.folder.join("files").join(number.to_string())
    }

    /// Takes over what a file holds now.
    fn take_file(&self, file: &dyn DiskFile) -> io::Result<()> {
        let stat = file.stat()?;
        let mut bytes = vec![0; stat.size as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += file.read_at(&mut bytes[filled..], filled as u64)?;
        }
        let path = self.file(stat.identity.number);
        let before = fs::read(&path).unwrap_or_default();
        let same = before.iter().zip(&bytes).take_while(|(a, b)| a == b).count();
        let to = fs::File::options().create(true).truncate(false).write(true).open(path)?;
        // Cut first: who is killed in between leaves a start of it, and all that was there before and stays.
        to.set_len(same as u64)?;
        std::os::unix::fs::FileExt::write_all_at(&to, &bytes[same..], same as u64)
    }

    /// Takes over the names that a folder holds now.
    fn take_names(&self, folder: &Path) -> io::Result<()> {
        let Ok(inside) = folder.strip_prefix(&self.root) else { return Ok(()) };
        let shadow = self.folder.join("root").join(inside);
        fs::create_dir_all(&shadow)?;
        for entry in fs::read_dir(&shadow)? {
            let path = entry?.path();
            let stays = match fs::metadata(folder.join(path.file_name().unwrap())) {
                Ok(found) if found.is_dir() => path.is_dir(),
                // The same name may stand for another file by now.
                Ok(found) => {
                    fs::metadata(self.file(found.ino())).is_ok_and(|of| of.ino() == path.metadata().unwrap().ino())
                }
                Err(_) => false,
            };
            match path.is_dir() {
                _ if stays => {}
                true => fs::remove_dir_all(&path)?,
                false => fs::remove_file(&path)?,
            }
        }
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (found, path) = (entry.metadata()?, shadow.join(entry.file_name()));
            if found.is_dir() {
                fs::create_dir_all(&path)?;
            } else if !path.exists() {
                let file = self.file(found.ino());
                fs::File::options().create(true).truncate(false).write(true).open(&file)?;
                fs::hard_link(&file, &path)?;
            }
        }
        Ok(())
    }
}

impl Disk for ShadowDisk {
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        RealDisk.stat(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<Name>> {
        RealDisk.read_dir(path)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.file(RealDisk.open(path))
    }
    fn open_for_writing(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.file(RealDisk.open_for_writing(path))
    }
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let made = RealDisk.create_new(path)?;
        // The number of a file that is gone is given to another one.
        let number = made.stat()?.identity.number;
        match fs::remove_file(self.0.file(number)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => self.file(Ok(made)),
        }
    }
    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.file(RealDisk.open_or_create(path))
    }
    fn make_dir(&self, path: &Path) -> io::Result<bool> {
        RealDisk.make_dir(path)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.link(from, to)
    }
    fn unlink(&self, path: &Path) -> io::Result<()> {
        RealDisk.unlink(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_dir(path)?;
        self.0.take_names(path)
    }
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.open_dir(path)
    }
}

struct ShadowedFile {
    shadow: Arc<Shadow>,
    file: Box<dyn DiskFile>,
}

impl DiskFile for ShadowedFile {
    fn stat(&self) -> io::Result<Stat> {
        self.file.stat()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        self.shadow.take_file(&*self.file)
    }
    fn set_modified(&self, nanoseconds: u64) -> io::Result<()> {
        self.file.set_modified(nanoseconds)
    }
    fn try_lock(&self) -> Result<(), TryLockError> {
        self.file.try_lock()
    }
    fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.file.try_lock_shared()
    }
    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}
