//! [`Disk`]: all that this backend asks of a file system, in one place, so that a test can stand between.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::private;

/// A file system.
pub(super) trait Disk: Send + Sync {
    /// What is known of a file or folder.
    fn stat(&self, path: &Path) -> io::Result<Stat>;

    /// The names in a folder that are text, and whether each may be a folder.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<Name>>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file for reading and writing.
    fn open_for_writing(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Makes a file, with mode 0600, that must not exist.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file for reading and writing, and makes it, with mode 0600, where there is none.
    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Makes a folder, with mode 0700, in an existing one; whether there was none.
    fn make_dir(&self, path: &Path) -> io::Result<bool>;

    /// Gives a file a second name, which must be free.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name of a file.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder survive a loss of power.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Opens a folder to lock it.
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
}

/// An open file. Places are absolute: there is no position that calls could disturb each other by.
pub(super) trait DiskFile: Send + Sync {
    /// What is known of the file now.
    fn stat(&self) -> io::Result<Stat>;

    /// Reads at `offset`, at least one byte unless the file ends there.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts or extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes the content survive a loss of power.
    fn sync(&self) -> io::Result<()>;

    /// Sets the time of the last change, in nanoseconds since 1970.
    fn set_modified(&self, nanoseconds: u64) -> io::Result<()>;

    /// Locks the file for this opening of it, or says that another one holds it.
    fn try_lock(&self) -> Result<(), TryLockError>;

    /// Locks the file together with others that do the same, or says that another one holds it alone.
    fn try_lock_shared(&self) -> Result<(), TryLockError>;

    /// Gives the lock up, for all copies of this opening: a child process may hold one for a moment.
    fn unlock(&self) -> io::Result<()>;
}

/// A name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) text: String,
    /// Whether it names a folder, or something that may lead to one.
    pub(super) may_be_folder: bool,
    /// Whether it is a symbolic link.
    pub(super) is_link: bool,
}

/// What a file system tells of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) identity: Identity,
    pub(super) size: u64,
    /// Nanoseconds since 1970; 0 for a time before.
    pub(super) modified: u64,
    /// Changed by every change of the file or of what is known of it, and set by no program.
    pub(super) changed: i128,
    pub(super) is_dir: bool,
}

/// Which file it is, among all that exist at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) number: u64,
}

impl Stat {
    fn of(found: &fs::Metadata) -> Self {
        let modified = found.modified().unwrap_or(UNIX_EPOCH).duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            identity: identity(found),
            size: found.len(),
            modified: u64::try_from(modified.as_nanos()).unwrap_or(u64::MAX),
            changed: changed(found),
            is_dir: found.is_dir(),
        }
    }
}

#[cfg(unix)]
fn identity(found: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    Identity { device: found.dev(), number: found.ino() }
}

#[cfg(unix)]
fn changed(found: &fs::Metadata) -> i128 {
    use std::os::unix::fs::MetadataExt;
    i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec())
}

/// Where files have no number, the time of their making stands for it.
#[cfg(not(unix))]
fn identity(found: &fs::Metadata) -> Identity {
    let made = found.created().unwrap_or(UNIX_EPOCH).duration_since(UNIX_EPOCH).unwrap_or_default();
    Identity { device: 0, number: u64::try_from(made.as_nanos()).unwrap_or(u64::MAX) }
}

#[cfg(not(unix))]
fn changed(_: &fs::Metadata) -> i128 {
    0
}

/// The file system of the machine.
pub(super) struct RealDisk;

impl Disk for RealDisk {
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        fs::metadata(path).map(|found| Stat::of(&found))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<Name>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            // A name that is no text is none of ours.
            if let Ok(text) = entry.file_name().into_string() {
                names.push(Name {
                    text,
                    may_be_folder: kind.is_dir() || kind.is_symlink(),
                    is_link: kind.is_symlink(),
                });
            }
        }
        Ok(names)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        open(fs::File::options().read(true), path)
    }

    fn open_for_writing(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        open(fs::File::options().read(true).write(true), path)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        open(private::file().create_new(true), path)
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        open(&private::file(), path)
    }

    fn make_dir(&self, path: &Path) -> io::Result<bool> {
        match private::folder().create(path) {
            Ok(()) => Ok(true),
            // What stood there may be gone by now: not found, then.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                if fs::metadata(path)?.is_dir() {
                    Ok(false)
                } else {
                    Err(e)
                }
            }
            Err(e) => Err(e),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    #[cfg(unix)]
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    /// Only on Unix can a folder be opened to be synced.
    #[cfg(not(unix))]
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        fs::File::open(path).map(|folder| Box::new(folder) as Box<dyn DiskFile>)
    }
}

fn open(options: &fs::OpenOptions, path: &Path) -> io::Result<Box<dyn DiskFile>> {
    // Opening a pipe would wait for its other end.
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")),
        _ => options.open(path).map(|file| Box::new(file) as Box<dyn DiskFile>),
    }
}

impl DiskFile for File {
    fn stat(&self) -> io::Result<Stat> {
        self.metadata().map(|found| Stat::of(&found))
    }

    #[cfg(unix)]
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        retried(|| std::os::unix::fs::FileExt::read_at(self, buffer, offset))
    }

    #[cfg(windows)]
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        retried(|| std::os::windows::fs::FileExt::seek_read(self, buffer, offset))
    }

    #[cfg(unix)]
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, offset)
    }

    #[cfg(windows)]
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match retried(|| std::os::windows::fs::FileExt::seek_write(self, bytes, offset))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn set_modified(&self, nanoseconds: u64) -> io::Result<()> {
        self.set_modified(UNIX_EPOCH + Duration::from_nanos(nanoseconds))
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        self.try_lock()
    }

    fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.try_lock_shared()
    }

    fn unlock(&self) -> io::Result<()> {
        self.unlock()
    }
}

fn retried(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Nanoseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
