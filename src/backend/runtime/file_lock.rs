//! [`LockFile`]: the file that a session's writer locks alone, as all backends with files do it. The lock is the
//! kernel's and dies with its process; those who only look whether there is a writer share it for a moment.

use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Seek, SeekFrom};
use std::time::{Duration, Instant};

use super::record::{MAX_RECORD, may_be_of_holder, read_record};
use crate::seam::Holder;

/// How long to wait for those who only look. They hold the lock for no longer than two calls take, unless they are
/// stopped in between.
pub(crate) const LOOKERS_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a holder is looked for that has locked the file and not said yet who it is.
const LOOKS: u64 = 50;

/// One opening of a file that is locked.
pub(crate) trait LockFile {
    /// Locks the file for this opening of it alone, or says that another one holds it.
    fn try_lock(&self) -> Result<(), TryLockError>;

    /// Locks the file together with others that do the same, or says that another one holds it alone.
    fn try_lock_shared(&self) -> Result<(), TryLockError>;

    /// Gives the lock up, for all copies of this opening.
    fn unlock(&self) -> io::Result<()>;

    /// The first [`MAX_RECORD`] bytes of the file.
    fn record(&self) -> io::Result<Vec<u8>>;
}

impl LockFile for File {
    fn try_lock(&self) -> Result<(), TryLockError> {
        self.try_lock()
    }

    fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.try_lock_shared()
    }

    fn unlock(&self) -> io::Result<()> {
        self.unlock()
    }

    fn record(&self) -> io::Result<Vec<u8>> {
        let mut file = self;
        file.seek(SeekFrom::Start(0))?;
        let mut record = Vec::with_capacity(MAX_RECORD);
        file.take(MAX_RECORD as u64).read_to_end(&mut record)?;
        Ok(record)
    }
}

/// What came of locking a file alone.
#[derive(Debug)]
pub(crate) enum Alone {
    Locked,
    /// Another one has locked it alone.
    Held(Holder),
    /// Others look at it all the time.
    Busy,
}

/// Locks a file for this opening of it alone, and waits for those who only look for as long as `patience`. They are told
/// from a holder by joining them.
pub(crate) fn lock_alone<F: LockFile + ?Sized>(file: &F, patience: Duration) -> io::Result<Alone> {
    let mut jitter = RandomState::new().build_hasher().finish();
    let started = Instant::now();
    let mut looks = 0;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Alone::Locked),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(e),
        }
        match file.try_lock_shared() {
            Ok(()) => file.unlock()?,
            Err(TryLockError::WouldBlock) => {
                let holder = holder_of(&file.record().unwrap_or_else(|e| {
                    log::debug!("the holder of a lock could not be read: {e}");
                    Vec::new()
                }));
                looks += 1;
                if holder != Holder::unknown() || looks == LOOKS {
                    return Ok(Alone::Held(holder));
                }
            }
            Err(TryLockError::Error(e)) => return Err(e),
        }
        if started.elapsed() > patience {
            return Ok(Alone::Busy);
        }
        // Not in step with another writer that does the same.
        jitter = jitter.rotate_left(7);
        std::thread::sleep(Duration::from_micros(20 + jitter % 300));
    }
}

/// The record in a file that another one has locked alone; nothing where nobody has, whatever a writer that was killed
/// left in it. The file is only looked at.
pub(crate) fn record_of_locked<F: LockFile + ?Sized>(file: &F) -> io::Result<Option<Vec<u8>>> {
    match file.try_lock_shared() {
        // Given up at once: a writer may be about to come.
        Ok(()) => file.unlock().map(|()| None),
        Err(TryLockError::WouldBlock) => file.record().map(Some),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

/// The holder of a lock by the record in its file. One that left none is told as unknown: that of a writer that was
/// killed says nothing of who has it now.
pub(crate) fn holder_of(record: &[u8]) -> Holder {
    let holder = read_record(record);
    if may_be_of_holder(&holder) { holder } else { Holder::unknown() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::record::write_record;
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    fn opened(path: &Path) -> File {
        File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
    }

    #[test]
    fn those_who_look_are_waited_for_and_told_from_a_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (one, two) = (opened(&path), opened(&path));
        let left = Holder::this_process();
        std::fs::write(&path, write_record(&left)).unwrap();
        one.lock_shared().unwrap();
        assert!(matches!(lock_alone(&two, SHORT).unwrap(), Alone::Busy), "whatever a writer left there");
        assert_eq!(record_of_locked(&two).unwrap(), None);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(SHORT);
                one.unlock().unwrap();
            });
            assert!(matches!(lock_alone(&two, Duration::from_secs(60)).unwrap(), Alone::Locked));
        });
        let held = lock_alone(&one, SHORT).unwrap();
        assert!(matches!(&held, Alone::Held(holder) if *holder == left), "{held:?}");
        assert_eq!(holder_of(&record_of_locked(&one).unwrap().unwrap()), left);
    }

    #[test]
    fn the_record_of_a_dead_process_is_not_told_for_that_of_a_holder() {
        if !Path::new("/proc/self").exists() {
            eprintln!("skipped: this system does not tell which processes there are");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (one, two) = (opened(&path), opened(&path));
        std::fs::write(&path, write_record(&Holder { process: u32::MAX, ..Holder::this_process() })).unwrap();
        assert!(matches!(lock_alone(&one, SHORT).unwrap(), Alone::Locked));
        let held = lock_alone(&two, Duration::from_secs(60)).unwrap();
        assert!(matches!(&held, Alone::Held(holder) if *holder == Holder::unknown()), "{held:?}");
        assert_eq!(holder_of(&record_of_locked(&two).unwrap().unwrap()), Holder::unknown());
        assert_eq!(holder_of(b""), Holder::unknown());
    }
}
