//! [`InPlace`]: whether the file under a path is still the one that was opened, with what was stored in it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rusqlite::ErrorCode;

use super::failure::Context;
use super::journal::Journal;
use super::schema::APPLICATION_ID;
use super::uri::{Mode, open_read_only};
use crate::seam::Result;

/// The coarsest step of file times that is assumed: changes further apart get different times.
const TICK: Duration = Duration::from_millis(20);

/// How long it takes SQLite at most to copy a WAL into a file that was cut before.
const COPYING: Duration = Duration::from_secs(1);

/// Which file a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

/// A file as it is at a time: another one, or the same one written since, has another stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Nothing where the system has none: there a file that is open can be neither replaced nor removed.
    pub(super) identity: Option<Identity>,
    pub(super) bytes: u64,
    modified: Option<SystemTime>,
    /// When its name, its size or its bytes changed, in nanoseconds since 1970: no program can set it.
    changed: i128,
}

impl Stamp {
    /// The file that a path names now, if there is one.
    pub(super) fn of(path: &Path) -> std::io::Result<Option<Self>> {
        let found = match std::fs::metadata(path) {
            Ok(found) => found,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let modified = found.modified().ok();
        #[cfg(unix)]
        let (identity, changed) = {
            use std::os::unix::fs::MetadataExt;
            let identity = Identity { device: found.dev(), inode: found.ino() };
            (Some(identity), i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec()))
        };
        #[cfg(not(unix))]
        let (identity, changed) = (None, 0);
        Ok(Some(Self { identity, bytes: found.len(), modified, changed }))
    }

    /// How long to wait until a change from now on gives another stamp for sure.
    pub(super) fn unsettled(&self) -> Option<Duration> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let age = i128::try_from(now.as_nanos()).ok()? - self.changed;
        // One from the future: the clock was set back, which it is not all the time.
        let is_fresh = (0..TICK.as_nanos().cast_signed()).contains(&age);
        is_fresh.then_some(TICK)
    }
}

/// The file of an open store.
pub(super) struct InPlace {
    path: PathBuf,
    identity: Option<Identity>,
    /// Whether its content is watched over.
    is_watched: AtomicBool,
    /// What was last seen in it.
    seen: Mutex<Option<Seen>>,
    is_overwritten: Arc<AtomicBool>,
}

struct Seen {
    stamp: Stamp,
    lineage: Lineage,
}

/// What of a store never goes back, each on one page, so that it is read whole while others are being written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lineage {
    store_id: String,
    flushes: i64,
    sessions: i64,
}

/// What a look at a file tells.
enum LookedAt {
    Lineage(Lineage),
    /// Pages are on their way into it.
    Nothing,
    /// It is no store at all.
    NoStore,
}

impl InPlace {
    /// For a database in memory, which nothing can happen to.
    pub(super) fn in_memory() -> Self {
        Self::named(PathBuf::new(), None)
    }

    pub(super) fn of(path: &Path) -> std::io::Result<Self> {
        let identity = Stamp::of(path)?.and_then(|stamp| stamp.identity);
        Ok(Self::named(path.to_owned(), identity))
    }

    fn named(path: PathBuf, identity: Option<Identity>) -> Self {
        let (is_watched, seen, is_overwritten) = Default::default();
        Self { path, identity, is_watched, seen, is_overwritten }
    }

    /// Watches over the content too in WAL mode. There SQLite trusts that only its own copying from the WAL changes the file:
    /// of what is written over it otherwise it would read some pages, and of what it remembers or finds in the WAL others.
    pub(super) fn watch(&self, journal: Journal) {
        self.is_watched.store(journal == Journal::Wal && self.identity.is_some(), Ordering::Release);
    }

    pub(super) fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// Set once the file was written over: then its WAL must not be copied into it.
    pub(super) fn is_overwritten(&self) -> &Arc<AtomicBool> {
        &self.is_overwritten
    }

    /// What is acknowledged must be found under the path: connections that are open still see a file that was replaced or
    /// removed, and those that are opened later do not.
    pub(super) fn check(&self, context: &Context<'_>) -> Result<()> {
        if self.identity.is_none() {
            return Ok(());
        }
        let looking = |e| context.io("looking at", e);
        let Some(stamp) = Stamp::of(&self.path).map_err(looking)?.filter(|stamp| stamp.identity == self.identity)
        else {
            return Err(
                context.unsupported("the file was replaced or removed while it was open; open the store again", None)
            );
        };
        if !self.is_watched.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = seen.as_ref().is_some_and(|seen| seen.stamp == stamp);
        if !self.is_overwritten.load(Ordering::Acquire) && (is_same || goes_on(&mut seen, stamp, &self.path)) {
            return Ok(());
        }
        self.is_overwritten.store(true, Ordering::Release);
        Err(context.unsupported(
            "the file was written over while it was open, by an older state of it or by something else; close the store, \
             move the -wal beside it away, which does not belong to it any more, and open it again",
            None,
        ))
    }
}

/// Whether the file that has this stamp now goes on from what was seen.
fn goes_on(seen: &mut Option<Seen>, stamp: Stamp, path: &Path) -> bool {
    let has_shrunk = seen.as_ref().is_some_and(|seen| stamp.bytes < seen.stamp.bytes);
    let started = Instant::now();
    let mut tries = 0;
    loop {
        let found = LookedAt::of(path);
        let patience = match found {
            LookedAt::Lineage(lineage) if seen.as_ref().is_none_or(|seen| lineage.continues(&seen.lineage)) => {
                *seen = Some(Seen { stamp, lineage });
                return true;
            }
            LookedAt::Nothing if !has_shrunk => return true,
            // That it has more pages than it has room for lasts as long as it takes to copy them.
            LookedAt::Nothing => COPYING,
            // Looked at twice: a page may have been written while it was read.
            LookedAt::Lineage(_) | LookedAt::NoStore => Duration::ZERO,
        };
        if tries > 0 && started.elapsed() >= patience {
            return false;
        }
        tries += 1;
        std::thread::sleep(TICK);
    }
}

impl Lineage {
    fn continues(&self, earlier: &Self) -> bool {
        self.store_id == earlier.store_id && self.flushes >= earlier.flushes && self.sessions >= earlier.sessions
    }
}

impl LookedAt {
    fn of(path: &Path) -> Self {
        let look = || {
            let connection = open_read_only(path, Mode::Immutable)?;
            if connection.pragma_query_value(None, "application_id", |row| row.get::<_, i64>(0))? != APPLICATION_ID {
                return Ok(None);
            }
            let query = "SELECT store_id, flushes, ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'sessions'), 0) \
                 FROM store";
            let lineage = |row: &rusqlite::Row<'_>| {
                Ok(Lineage { store_id: row.get(0)?, flushes: row.get(1)?, sessions: row.get(2)? })
            };
            connection.query_row(query, [], lineage).map(Some)
        };
        match look() {
            Ok(Some(lineage)) => Self::Lineage(lineage),
            Ok(None) => Self::NoStore,
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::NotADatabase) => Self::NoStore,
            Err(_) => Self::Nothing,
        }
    }
}
