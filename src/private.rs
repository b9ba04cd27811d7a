//! Folders and files that only their owner can read.

use std::fs::{DirBuilder, OpenOptions};
#[cfg(feature = "sqlite")]
use std::io;
#[cfg(feature = "sqlite")]
use std::path::Path;

/// Makes a folder, and those above it that are absent, with mode 0700. One that exists keeps its mode.
#[cfg(feature = "sqlite")]
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
