//! [`SmallDisk`]: a file system of a few megabytes, where the machine lets a test mount one.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A file system in memory, unmounted with its value.
pub(crate) struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// Mounts one with options as for `mount`; nothing where that is not allowed, which is told.
    pub(crate) fn mounted(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        match run("mount", &["-t", "tmpfs", "-o", options, "small-disk", path(folder.path())]) {
            Ok(_) => Some(Self { folder }),
            Err(why) => {
                eprintln!("skipped: no file system can be mounted here: {why}");
                None
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Changes the options.
    pub(crate) fn remount(&self, options: &str) {
        run("mount", &["-o", &format!("remount,{options}"), path(self.path())]).unwrap();
    }

    /// Fills it to the last page.
    pub(crate) fn fill(&self) {
        let mut ballast = File::create(self.path().join("ballast")).unwrap();
        let full = loop {
            if let Err(e) = ballast.write_all(&[0xba; 4096]) {
                break e;
            }
        };
        assert!(full.kind() == ErrorKind::StorageFull, "{full}");
    }

    /// Frees some of what was filled, in bytes.
    pub(crate) fn free(&self, bytes: u64) {
        let ballast = File::options().write(true).open(self.path().join("ballast")).unwrap();
        ballast.set_len(ballast.metadata().unwrap().len().saturating_sub(bytes)).unwrap();
    }

    /// Frees all that was filled.
    pub(crate) fn empty(&self) {
        fs::remove_file(self.path().join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(e) = run("umount", &[path(self.folder.path())]) {
            eprintln!("{} stays mounted: {e}", self.folder.path().display());
        }
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a temporary folder has a plain name")
}

fn run(program: &str, arguments: &[&str]) -> Result<Output, String> {
    let done = Command::new(program).args(arguments).output().map_err(|e| format!("{program}: {e}"))?;
    if done.status.success() { Ok(done) } else { Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()) }
}
