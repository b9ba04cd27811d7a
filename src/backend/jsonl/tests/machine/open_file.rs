//! [`OpenFile`]: one opening of a file or folder of a [`Machine`].

use std::fs::TryLockError;
use std::io;
use std::path::PathBuf;

use super::super::super::disk::{DiskFile, Stat};
use super::super::watch::Call;
use super::loss::{Content, What};
use super::{Held, Machine};

pub(super) struct OpenFile {
    pub(super) machine: Machine,
    pub(super) node: u64,
    pub(super) opening: u64,
    pub(super) path: PathBuf,
}

impl OpenFile {
    fn lock_for(&self, wanted: Held) -> Result<(), TryLockError> {
        let mut state = self.machine.state();
        state.step(Call::Lock, &self.path).map_err(TryLockError::Error)?;
        let locks = state.locks.entry(self.node).or_default();
        let others = locks.iter().filter(|(opening, _)| **opening != self.opening);
        if others.clone().any(|(_, held)| wanted == Held::Alone || *held == Held::Alone) {
            return Err(TryLockError::WouldBlock);
        }
        locks.insert(self.opening, wanted);
        Ok(())
    }
}

impl DiskFile for OpenFile {
    fn stat(&self) -> io::Result<Stat> {
        let mut state = self.machine.state();
        state.step(Call::Stat, &self.path)?;
        Ok(state.stat(self.node))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.machine.state();
        state.step(Call::Read, &self.path)?;
        let Content::File(bytes) = &state.nodes[&self.node].live else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let rest = &bytes[bytes.len().min(offset as usize)..];
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.machine.state();
        let (arrived, result) = match state.call(Call::Write, &self.path) {
            Ok(()) => (bytes.len(), Ok(())),
            Err((failed, is_short)) => (if is_short { bytes.len() / 2 } else { 0 }, Err(failed)),
        };
        state.written += arrived;
        if arrived > 0 {
            state.change(self.node, What::Write { at: offset as usize, bytes: bytes[..arrived].to_vec() });
        }
        result
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.machine.state();
        state.step(Call::SetLen, &self.path)?;
        state.change(self.node, What::SetLen(len as usize));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.machine.state();
        let is_on = state.off_at.is_none_or(|off_at| state.calls.len() < off_at);
        match state.step(Call::Sync, &self.path) {
            Ok(()) => state.sync(self.node),
            Err(failed) => {
                if is_on {
                    state.count_as_written(self.node);
                }
                return Err(failed);
            }
        }
        Ok(())
    }

    fn set_modified(&self, nanoseconds: u64) -> io::Result<()> {
        let mut state = self.machine.state();
        state.step(Call::SetModified, &self.path)?;
        state.clock += 1;
        let clock = state.clock;
        let node = state.nodes.get_mut(&self.node).unwrap();
        node.modified = nanoseconds;
        node.changed = clock;
        Ok(())
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        self.lock_for(Held::Alone)
    }

    fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.lock_for(Held::Together)
    }

    fn unlock(&self) -> io::Result<()> {
        if let Some(locks) = self.machine.state().locks.get_mut(&self.node) {
            locks.remove(&self.opening);
        }
        Ok(())
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut state = self.machine.state();
        state.open -= 1;
        if let Some(locks) = state.locks.get_mut(&self.node) {
            locks.remove(&self.opening);
        }
    }
}
