//! Folders and files that only their owner can read.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a folder as [`create_folder`] does, so that it survives a loss of power.
#[cfg(feature = "sqlite")]
pub(crate) fn create_lasting_folder(folder: &Path) -> io::Result<()> {
    let is_absent = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let absent: Vec<_> = folder.ancestors().take_while(is_absent).collect();
    create_folder(folder)?;
    absent.into_iter().filter_map(Path::parent).try_for_each(sync_folder)
}

/// Makes the names in a folder survive a loss of power. Elsewhere than on Unix a folder cannot be synced, and need not be.
#[cfg(any(feature = "sqlite", feature = "jsonl"))]
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if cfg!(unix) { std::fs::File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Makes a folder, and those above it that are absent, with mode 0700. One that exists keeps its mode.
#[cfg(any(feature = "sqlite", feature = "search"))]
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    self::folder().recursive(true).create(folder)
}

/// What makes folders with mode 0700.
pub(crate) fn folder() -> DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Options to open a file for reading and writing that make an absent one with mode 0600.
pub(crate) fn file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
