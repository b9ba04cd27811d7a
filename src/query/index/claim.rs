//! [`Claim`]: the files that this process has open as indexes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Identity = (u64, u64);

/// How often each file is open.
static OPEN: Mutex<BTreeMap<Identity, usize>> = Mutex::new(BTreeMap::new());

/// The start of a SQLite database.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Where its application id stands.
const ID: std::ops::Range<usize> = 68..72;

/// A file that is open as an index, as long as this lives.
pub(super) struct Claim(Option<Identity>);

impl Claim {
    /// Claims a file that says at its start that it belongs to an application; nothing where it says something else.
    ///
    /// SQLite is not asked: it removes what lies beside a file before it tells that this is no database. And a file that
    /// this process has open is not read: closing the descriptor would drop the locks that it holds on it.
    pub(super) fn of(path: &Path, application: u32) -> io::Result<Option<Self>> {
        let mut open = lock();
        let identity = identity(path);
        if identity.is_none_or(|identity| !open.contains_key(&identity)) {
            let mut start = Vec::new();
            File::open(path)?.take(ID.end as u64).read_to_end(&mut start)?;
            if !start.starts_with(MAGIC) || start.get(ID) != Some(&application.to_be_bytes()) {
                return Ok(None);
            }
        }
        if let Some(identity) = identity {
            *open.entry(identity).or_default() += 1;
        }
        Ok(Some(Self(identity)))
    }

    /// Whether it is the file that others find at a path.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.0 == identity(path)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(identity) = self.0 else { return };
        let mut open = lock();
        match open.get_mut(&identity) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&identity)),
        }
    }
}

fn lock() -> MutexGuard<'static, BTreeMap<Identity, usize>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Elsewhere a file that is open cannot be removed, and closing a descriptor drops no lock.
#[cfg(not(unix))]
fn identity(_: &Path) -> Option<Identity> {
    None
}
