//! [`Wal`]: the file in which SQLite keeps the newest pages, kept short.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use super::lease::is_same;
use super::patience::Patience;
use super::side_files::beside;

/// From so many pages on they are copied into the database after a commit, as far as readers allow it.
const COPIED_FROM: i32 = 1000;

/// How many pages it grows between two tries to copy all of them.
const STEP: i32 = 250;

/// From so many pages on readers are waited for, so that it can start from its beginning again: 32 MiB of 8 KiB pages.
const RESTARTED_FROM: i32 = 4000;

/// How long they are waited for, once; a reader that takes longer is not waited for again.
const WAIT: Duration = Duration::from_millis(20);

/// What is left of the file when it starts from its beginning, in bytes.
const KEPT: i64 = 32 << 20;

/// The WAL of a connection that writes.
pub(super) struct Wal {
    /// Where the file is, and which it is, as far as that can be told; nothing where there is no WAL.
    file: Option<(PathBuf, fs::Metadata)>,
    /// How many pages it held after the last commit; nothing where there is no WAL.
    pages: Option<Arc<AtomicI32>>,
    /// From how many pages on they are copied next.
    next: i32,
    /// Whether a reader kept it from starting from its beginning.
    is_held: bool,
    /// Whether a sync of it failed: the operating system then forgets that those pages were never written, and a sync that
    /// succeeds later says nothing of them. Nor may they be copied into the database then: were the power lost, an older WAL
    /// would be applied to a newer database.
    is_suspect: bool,
}

impl Wal {
    pub(super) fn of(connection: &mut Connection, database: &Path) -> Result<Self, rusqlite::Error> {
        connection.pragma_update(None, "journal_size_limit", KEPT)?;
        let pages = Arc::new(AtomicI32::new(0));
        let counted = pages.clone();
        // In place of SQLite's own hook, which never waits for readers.
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            counted.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        let path = beside(database, "-wal");
        let file = fs::metadata(&path).map(|found| (path, found)).ok();
        Ok(Self { file, pages: Some(pages), ..Self::none() })
    }

    pub(super) fn none() -> Self {
        Self { file: None, pages: None, next: COPIED_FROM, is_held: false, is_suspect: false }
    }

    fn pages(&self) -> Option<i32> {
        self.pages.as_ref().map(|pages| pages.load(Ordering::Relaxed))
    }

    /// Keeps it short after a commit. The commit stands whatever comes of this.
    pub(super) fn tend(&mut self, connection: &Connection, patience: &Patience) {
        let Some(pages) = self.pages().filter(|_| !self.is_suspect) else { return };
        if pages < COPIED_FROM {
            self.next = COPIED_FROM;
            self.is_held = false;
            return;
        }
        if pages < self.next && pages < RESTARTED_FROM {
            return;
        }
        if let Err(e) = self.copy(connection, pages, patience) {
            self.is_suspect = true;
            log::warn!("copying the WAL into the database: {e}; it is tried again at the next commit");
        }
    }

    fn copy(&mut self, connection: &Connection, pages: i32, patience: &Patience) -> Result<(), rusqlite::Error> {
        if pages < RESTARTED_FROM {
            let is_whole = checkpoint(connection, "PASSIVE")?;
            self.next = if is_whole { COPIED_FROM } else { pages + STEP };
            return Ok(());
        }
        let left = patience.left();
        patience.allow(if self.is_held { Duration::ZERO } else { WAIT });
        let is_whole = checkpoint(connection, "TRUNCATE");
        // Changes that are made one by one share their time.
        patience.allow(left);
        let is_held = !is_whole?;
        if is_held && !self.is_held {
            log::warn!("a reader holds the WAL at {pages} pages; it grows until that has finished");
        }
        self.is_held = is_held;
        Ok(())
    }

    /// Remembers that a sync may have failed.
    pub(super) fn suspect(&mut self) {
        self.is_suspect = self.pages.is_some();
    }

    /// Whether a sync failed that was not made good for.
    pub(super) fn is_suspect(&self) -> bool {
        self.is_suspect
    }

    /// Whether it cannot be kept short before [`Wal::recover`].
    pub(super) fn is_held_up(&self) -> bool {
        self.is_suspect && self.pages().is_some_and(|pages| pages >= COPIED_FROM)
    }

    /// Makes good for a sync that failed, before anything is called durable that was committed earlier: all is written once
    /// more, where it stands already, and that is synced. Call it while nobody else can write, and so nobody can start the
    /// file from its beginning; who reads sees the same bytes all the time.
    pub(super) fn recover(&mut self) -> io::Result<()> {
        if !self.is_suspect {
            return Ok(());
        }
        let gone = || io::Error::other("its -wal is no longer where it was; open the store again");
        let (path, opened) = self.file.as_ref().ok_or_else(gone)?;
        let file = File::options().read(true).write(true).open(path)?;
        if !is_same(&file.metadata()?, opened)? {
            return Err(gone());
        }
        write_again(file)?;
        self.is_suspect = false;
        Ok(())
    }
}

/// Writes a file with what it holds. SQLite takes its locks on other files than the WAL, so that closing it drops none.
fn write_again(mut file: File) -> io::Result<()> {
    let mut block = vec![0; 1 << 20];
    loop {
        let at = file.stream_position()?;
        let length = file.read(&mut block)?;
        if length == 0 {
            return file.sync_all();
        }
        file.seek(SeekFrom::Start(at))?;
        file.write_all(&block[..length])?;
    }
}

/// Copies pages into the database; whether all were, and whether nobody was in the way.
fn checkpoint(connection: &Connection, mode: &str) -> Result<bool, rusqlite::Error> {
    let (busy, pages, copied): (i64, i64, i64) =
        connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    Ok(busy == 0 && pages == copied)
}
