//! Who writes a session, through whatever store.

use std::io;
use std::path::Path;

use super::files::Files;
use super::lock::{LOCK, Told, probe};
use crate::seam::Holder;

impl Files {
    /// Who writes the session in a folder. Where nobody does, which the size of its lock file tells in most cases, that is
    /// all that is looked at, and nothing is changed in any case.
    ///
    /// A holder that leaves no record in its lock file is not seen: to look for one would cost three calls more for each of the
    /// many sessions that nobody writes.
    pub(super) fn owner(&self, folder: &Path) -> Option<Holder> {
        let path = folder.join(LOCK);
        let found = self.disk.stat(&path).and_then(|stat| {
            let is_signed = Told::by_size(stat.size) == Told::Signed && !stat.is_dir;
            if is_signed { probe(&*self.disk, &path) } else { Ok(None) }
        });
        found.unwrap_or_else(|e| {
            if e.kind() != io::ErrorKind::NotFound {
                log::debug!("{}: whether somebody has it is not to be seen: {e}", path.display());
            }
            None
        })
    }
}
