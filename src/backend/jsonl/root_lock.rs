//! [`RootLock`]: what keeps those who make sessions in one root apart.

use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::runtime::writer_of;
use super::disk::{Disk, DiskFile};
use super::failure::Context;
use super::lock::unlock;
use crate::log::SessionId;
use crate::seam::{Error, Result};

/// How long to wait for another program that makes a session in the same root.
const CREATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The locked root of a store; unlocked when it is dropped.
pub(super) struct RootLock {
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

impl RootLock {
    /// Keeps all other creators of sessions off a root for as long as it lives: whether an id is taken is a question to
    /// all project folders. Nothing where a folder cannot be locked: of two creators of one id in two working folders both
    /// may win there at the same time. `StoreBusy` when another one takes too long.
    pub(super) fn take(disk: &dyn Disk, root: &Path, id: &SessionId, context: &Context<'_>) -> Result<Option<Self>> {
        if cfg!(not(unix)) {
            return Ok(None);
        }
        let file = disk.open_dir(root).map_err(|e| context.reading(root, e))?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self { file, path: root.to_owned() })),
                Err(TryLockError::Error(e)) => {
                    log::debug!("{} cannot be locked, creators are not kept apart: {e}", root.display());
                    return Ok(None);
                }
                Err(TryLockError::WouldBlock) if started.elapsed() > CREATION_TIMEOUT => {
                    let (session, store) = (Some(id.clone()), root.display().to_string());
                    return Err(Error::StoreBusy {
                        session,
                        store,
                        holder: writer_of(root, 0..u64::MAX),
                        source: None,
                    });
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

impl Drop for RootLock {
    fn drop(&mut self) {
        unlock(&*self.file, &self.path);
    }
}
