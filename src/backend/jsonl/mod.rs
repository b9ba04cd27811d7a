//! The JSONL backend: plain files in the layout of DeepSeek Harness, one folder a session.

mod append;
mod catalog;
mod creation;
mod cursor;
mod disk;
mod failure;
mod files;
mod frames;
mod glance;
mod inspection;
mod layout;
mod lease;
mod lines;
mod lock;
mod log_file;
mod log_lock;
mod memo;
mod owner;
mod parsing;
mod recall;
mod removal;
mod root_lock;
mod rows;
mod scan;
mod search;
mod stored_log;
#[cfg(test)]
mod tests;
mod unsynced;
mod wholeness;
mod window;
#[cfg(test)]
mod work;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::disk::{Disk, RealDisk};
use self::failure::Context;
use self::files::Files;
use self::layout::Layout;
use super::runtime::{Runtime, store_over_runtime};
use crate::log::Vocabulary;
use crate::seam::{Durability, Result};

pub use self::layout::Encoding;

/// A store in a folder of plain files, the very layout that DeepSeek Harness keeps: its users' sessions open as they
/// are, and what is written here opens there.
///
/// ```text
/// ROOT/--srv-app--/my-session/session.v3.jsonl.zstd    the log of session `my-session`, whose folder is /srv/app
/// ROOT/--srv-app--/my-session/session.lock             locked by its writer
/// ROOT/--srv-app--/my-session/session.recall           what its last writer knew of a log above 1 MiB
/// ```
///
/// A session is found by its id, whatever project folder it stands in; an empty working folder stands in `--root--`, one
/// that is absent in `_no-cwd`. New files have mode 0600, new folders 0700.
///
/// - **Appending** writes at once, which survives the death of the process; a flush syncs the files that were written
///   since, once each, and the folders that lead to new ones. With [`Durability::EveryAppend`] an append syncs its file
///   before it answers, and the first one of a session all that leads to it. An append that fails, by its sync too, is
///   cut off again, and nothing of it is ever read.
/// - **A sync that fails** is not simply repeated: the system counts as written what it could not write. All that is not
///   known to survive, which is what came behind the last sync of this store that succeeded, is checked and written again
///   by the next flush, under the session's lock. Where it is gone from memory by then the flush goes on to fail.
/// - **A torn tail** is what a crash in the middle of a write leaves at the end of a file: a row without its line feed, a
///   frame without its end, which is discarded whole, zeros. It is never read, told in
///   [`Snapshot::torn_tail`](crate::Snapshot::torn_tail), and cut off by the first append, which logs a warning. In a file
///   of text a bad row behind the last finished turn counts as torn; before that it is damage, an error that tells where.
///   The same goes, in a file of frames, for a batch with sectors that were never written, as a disk leaves them that
///   loses its power while it writes in an order of its own. Only what a writer found torn when it opened the session, or
///   has left itself, is cut off: bytes that somebody else adds meanwhile stay, and the append is refused.
/// - **Ownership** is a lock on `session.lock`, held by the kernel: it ends with the process, however that ends. Releases
///   of DeepSeek Harness that lock the same file keep off and are kept off; earlier ones know no lock. File systems
///   without such locks are not for writing. A writer has the log itself locked as well (but on Windows, where that keeps
///   out readers): removing the lock file takes no session from it, paused or not, and its next append makes the file
///   again. To take a session over by force, end the process that has it. Every append checks that the file beside the log
///   is still the one that it locked and still holds the record that it left there: a writer for which another program has
///   put another one in its place, or has written over it, gets `OwnershipLost` from then on, stores nothing, cuts nothing,
///   and leaves the new owner alone when it closes.
/// - **Owners** are told in [`Snapshot::owner`](crate::Snapshot::owner) whatever store or process they write through. A
///   writer that closes empties the lock file, so that one look at its size tells that nobody writes; only where it holds
///   a record, of a writer or of one that was killed, is the lock tried, together with others who look and only for that
///   moment. A program that locks the file and leaves it empty is not told there; whoever opens for writing is refused all
///   the same. Looking makes and changes no file.
/// - **Removing** takes the oldest generation first and the newest last, so that all of the session is there or nothing; a
///   folder that is left with nothing but a lock or drafts is no session, keeps nobody from its id, and is cleaned up with
///   the next creation. A session whose folder is a symbolic link is read and written like any other, and not removed:
///   `InvalidArgument`.
/// - **Damage** in one file leaves the rest alone: a session whose header cannot be read is listed by the name of its
///   folder.
/// - **Listing** looks at every file's size and time, and reads the first line and the last of each session on the page; by
///   creation, or with a filter that asks for it, the first line of the others too. So its cost grows with the number of
///   sessions, and not with their length. One list reads at most 1 MiB of the ends of logs that the store does not know
///   yet; of the sessions beyond that it tells no count of events and no time of the last, and `stat` does. What is
///   missing far from both ends is found when the log is read. Looking for an id looks once into every project folder.
/// - **Reading in pages**, each from where one ended, costs as much as reading the log once, whatever the size of its
///   batches, after one pass over it when it is first opened or was changed by another program. Logs that are not held in
///   memory are gone on with from where a page ended: the store remembers up to 64 such places, in at most 32 MiB
///   together, about 3 MiB for each that is inside a compressed batch. Where that is not enough, and for a frame with a
///   window of more than 31 MiB, which this store does not write, a page unpacks its batch from the start.
/// - **Checksums**: a compressed batch is verified whole before any of its rows is given out, when its file is first passed
///   over and after each change by another program; and once more when a reader comes to its end.
/// - **A long log is not passed over** where its last writer left what it knew of it, above 1 MiB, in `session.recall`: how
///   many events it has, which types, and where reading can start. That counts only as long as the file is the same, of the
///   same size and times, that of the last change included, and what was not known to survive, and the last 64 KB, have the same
///   checksum. Each part of the log is then checked when it is read, a compressed batch whole before any of its rows is given
///   out; where it is not what was noted, all of it is passed over as if nothing was. The file may be removed at any time,
///   and other programs need not know it.
/// - [`Snapshot::activity`](crate::Snapshot::activity) is the time of the file, set by each append to a value above all
///   that this store has seen. [`Snapshot::size_bytes`](crate::Snapshot::size_bytes) is the size of the file.
/// - Every open handle keeps a file open, every writer two more. Of the sessions that were written, closed and not
///   flushed about 64 stay open, or up to twice as many.
/// - Logs of the formats 0 to 2 are listed and read as they are stored, packed rows as the events that they stand for.
///   No file is ever migrated.
///
/// On a file system that does not tell upper from lower case, two ids that differ in nothing else cannot both be stored:
/// the second is refused.
pub struct JsonlStore {
    runtime: Runtime<Files>,
}

/// How to open a [`JsonlStore`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JsonlOptions {
    /// What the host can interpret. Default: [`Vocabulary::v3`].
    pub vocabulary: Vocabulary,
    /// How new sessions are stored in a root that holds none; in any other they are stored like those that it holds.
    /// Default: [`Encoding::Zstd`].
    pub encoding: Encoding,
    /// The most memory for logs that were read, to be read again without their files, in bytes, about. A larger log is
    /// read from its file each time, from where the last page ended or from near the place that is asked for; the memory
    /// for such places comes on top, see [`JsonlStore`]. Default: 64 MiB.
    pub memo_bytes: usize,
    /// What an acknowledged append survives. Default: [`Durability::OnFlush`].
    pub durability: Durability,
}

impl Default for JsonlOptions {
    fn default() -> Self {
        Self {
            vocabulary: Vocabulary::default(),
            encoding: Encoding::default(),
            memo_bytes: 64 << 20,
            durability: Durability::default(),
        }
    }
}

impl JsonlOptions {
    /// The same options with another vocabulary.
    #[must_use]
    pub fn with_vocabulary(mut self, vocabulary: Vocabulary) -> Self {
        self.vocabulary = vocabulary;
        self
    }

    /// The same options with another encoding for new sessions.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// The same options with another limit for the memory for logs that were read, in bytes.
    #[must_use]
    pub fn with_memo_bytes(mut self, memo_bytes: usize) -> Self {
        self.memo_bytes = memo_bytes;
        self
    }

    /// The same options with another promise of an acknowledged append.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }
}

impl JsonlStore {
    /// Opens the store in the folder `root`, and makes the folder where there is none.
    ///
    /// # Errors
    ///
    /// `UnsupportedStore` for a file, and for a folder that holds other things and no session; nothing in it is changed.
    /// `StorageReadOnly`, `StorageFull`, `Io`.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(root, JsonlOptions::default())
    }

    /// [`JsonlStore::open`] with options.
    ///
    /// # Errors
    ///
    /// As for [`JsonlStore::open`].
    pub fn open_with(root: impl AsRef<Path>, options: JsonlOptions) -> Result<Self> {
        let root = root.as_ref();
        if !root.try_exists().map_err(|e| Context::store(root).reading(root, e))? {
            make_root(root, &RealDisk)?;
        }
        Self::open_existing_with(root, options)
    }

    /// Opens the store in the folder `root`, which must exist.
    ///
    /// # Errors
    ///
    /// As for [`JsonlStore::open`]; `UnsupportedStore` where there is no folder.
    pub fn open_existing(root: impl AsRef<Path>) -> Result<Self> {
        Self::open_existing_with(root, JsonlOptions::default())
    }

    /// [`JsonlStore::open_existing`] with options.
    ///
    /// # Errors
    ///
    /// As for [`JsonlStore::open_existing`].
    pub fn open_existing_with(root: impl AsRef<Path>, options: JsonlOptions) -> Result<Self> {
        Self::over(Arc::new(RealDisk), root.as_ref().to_owned(), options)
    }

    /// The folder that it was opened as.
    pub(crate) fn root(&self) -> &Path {
        self.runtime.storage().layout.root()
    }

    /// How its sessions are stored; nothing as long as it has none.
    pub(crate) fn encoding(&self) -> Option<Encoding> {
        *files::guard(&self.runtime.storage().encoding)
    }

    fn over(disk: Arc<dyn Disk>, root: PathBuf, options: JsonlOptions) -> Result<Self> {
        let files = Files::open(Layout::new(root, disk.clone()), disk, &options)?;
        Ok(Self { runtime: Runtime::new(files, options.vocabulary) })
    }
}

store_over_runtime!(JsonlStore);

impl std::fmt::Debug for JsonlStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonlStore").finish_non_exhaustive()
    }
}

/// Makes the folder of a new store, and those above it.
fn make_root(root: &Path, disk: &dyn Disk) -> Result<()> {
    let context = Context::store(root);
    let mut missing: Vec<_> =
        root.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
    while let Some(folder) = missing.pop() {
        disk.make_dir(folder).map_err(|e| context.writing(folder, e))?;
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        disk.sync_dir(above).map_err(|e| context.writing(above, e))?;
    }
    Ok(())
}
