//! [`Scene`]: an open store in the middle of its work, a call that is made on it, and what must hold then.

use std::fs;
use std::sync::{Arc, OnceLock};

use session_persistence::{
    Access, OpenOptions, Result, SessionEvent, SessionHandle, SessionPersistence, SqliteStore, WriteFailure,
};

use super::disk::{Disk, scratch};
use super::fault::{Effect, Fault, Kind};
use super::is_full;
use super::ledger::{Ledger, Through, chain};
use super::outage::Files;
use super::sample::{self, Mode, create, events, id};

/// A call on a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// The first write of the store.
    OpenForWriting,
    OpenForReading,
    Append,
    /// An append of a batch that is given event by event.
    AppendFrom,
    Flush,
    FlushOfTheStore,
    /// A creation and its first append.
    Create,
    /// A creation and a flush.
    CreateEmpty,
    Remove,
    Compact,
    Backup,
}

/// An open store with the sessions `a`, which is being written, and `b`.
pub(crate) struct Scene {
    pub(crate) disk: Arc<Disk>,
    pub(crate) ledger: Ledger,
    // In this order: handles are closed before their store.
    a: Option<Box<dyn SessionHandle>>,
    new: Option<Box<dyn SessionHandle>>,
    store: SqliteStore,
}

const A: u64 = 5;
const B: u64 = 3;

/// How many events a batch has that is appended under a fault: pages and pages.
const BATCH: u64 = 4;

/// A closed store with `a` and `b`.
fn closed(mode: Mode) -> &'static Files {
    static FILES: [OnceLock<Files>; 3] = [const { OnceLock::new() }; 3];
    FILES[mode as usize].get_or_init(|| {
        let folder = scratch();
        let store = sample::open(&folder.path().join("sessions.db"), mode).unwrap();
        create(&store, "a").unwrap().append(&events("a", 0, A)).unwrap();
        create(&store, "b").unwrap().append(&events("b", 0, B)).unwrap();
        drop(store);
        Files::of(folder.path())
    })
}

impl Scene {
    /// A store as a call finds it.
    pub(crate) fn before(call: Call, mode: Mode) -> Self {
        let disk = Disk::holding(closed(mode));
        let mut ledger = Ledger::new(mode);
        ledger.made();
        for (session, length) in [("a", A), ("b", B)] {
            ledger.storing(session, length);
            ledger.stored(session, length);
        }
        ledger.flushed();
        let store = sample::open(&disk.store(), mode).unwrap();
        let mut scene = Self { disk, ledger, a: None, new: None, store };
        if matches!(call, Call::OpenForWriting | Call::OpenForReading) {
            return scene;
        }
        scene.a = Some(scene.store.open(&id("a"), OpenOptions::write()).unwrap());
        scene.append(1).unwrap();
        scene
    }

    /// Makes a call, and again where it failed.
    pub(crate) fn call(&mut self, call: Call) -> Result<()> {
        match call {
            Call::OpenForWriting => self.open_a(Access::Write),
            Call::OpenForReading => self.open_a(Access::Read),
            Call::Append => self.append(BATCH),
            Call::AppendFrom => self.append_by(BATCH, |a, batch| a.append_from(&mut batch.iter().cloned().map(Ok))),
            Call::Flush => {
                self.a().flush()?;
                self.ledger.flushed();
                Ok(())
            }
            Call::FlushOfTheStore => {
                self.store.flush()?;
                self.ledger.flushed();
                Ok(())
            }
            Call::Create => {
                self.create_new()?;
                self.ledger.storing("new", BATCH);
                let appended = self.new.as_ref().unwrap().append(&events("new", 0, BATCH));
                self.settle("new", BATCH, appended)
            }
            Call::CreateEmpty => {
                self.create_new()?;
                // Stored by a flush that cannot sync then.
                self.ledger.storing("new", 0);
                self.new.as_ref().unwrap().flush()?;
                self.ledger.stored("new", 0);
                self.ledger.flushed();
                Ok(())
            }
            Call::Compact => self.store.compact().map(drop),
            Call::Backup => self.backup(),
            Call::Remove => {
                self.ledger.removing("b");
                let removed = self.store.remove(&id("b"));
                match &removed {
                    Ok(there) => {
                        assert!(there, "b was there");
                        self.ledger.removed("b");
                    }
                    Err(_) => self.ledger.kept("b"),
                }
                removed.map(drop)
            }
        }
    }

    /// Makes a backup, which is there whole or not at all.
    fn backup(&self) -> Result<()> {
        let to = self.disk.folder().join("backup.db");
        let made = self.store.backup(&to);
        assert!(made.is_ok() == to.exists(), "{made:?}");
        let drafts = Files::names(self.disk.folder()).filter(|name| name.starts_with(".sessions-")).count();
        assert!(drafts == 0, "{made:?} leaves a draft");
        made?;
        let copy = scratch();
        fs::rename(&to, copy.path().join("sessions.db")).unwrap();
        self.ledger.check(&copy.path().join("sessions.db"), Through::Death, "a backup");
        Ok(())
    }

    fn a(&self) -> &dyn SessionHandle {
        self.a.as_deref().unwrap()
    }

    fn open_a(&mut self, access: Access) -> Result<()> {
        let options = if access == Access::Write { OpenOptions::write() } else { OpenOptions::read() };
        self.a = Some(self.store.open(&id("a"), options)?);
        Ok(())
    }

    fn create_new(&mut self) -> Result<()> {
        if self.new.is_none() {
            self.new = Some(create(&self.store, "new")?);
        }
        Ok(())
    }

    /// Appends a batch to `a`.
    pub(crate) fn append(&mut self, count: u64) -> Result<()> {
        self.append_by(count, |a, batch| a.append(batch))
    }

    fn append_by(
        &mut self,
        count: u64,
        append: impl FnOnce(&dyn SessionHandle, &[SessionEvent]) -> Result<()>,
    ) -> Result<()> {
        let length = self.ledger.length("a");
        self.ledger.storing("a", length + count);
        let appended = append(self.a(), &events("a", length, count));
        self.settle("a", length + count, appended)
    }

    fn settle(&mut self, session: &str, length: u64, done: Result<()>) -> Result<()> {
        match &done {
            Ok(()) => self.ledger.stored(session, length),
            Err(_) => self.ledger.refused(session, length),
        }
        done
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.call(Call::FlushOfTheStore)
    }

    pub(crate) fn check_shown(&self, what: &str) {
        self.ledger.check_shown(&self.store, what);
    }

    /// The last failed write of `a` that a host is shown.
    fn failure_shown(&self) -> Option<WriteFailure> {
        self.store.stat(&id("a")).unwrap().unwrap().last_failure
    }

    /// Checks what is found when the process dies now, and when the power goes now.
    pub(crate) fn check_left(&self, what: &str) {
        let outage = self.disk.outage();
        self.check_files(&outage.everything(), Through::Death, &format!("{what}, death at once"));
        self.check_files(&outage.least(), Through::Outage, &format!("{what}, outage at once"));
    }

    /// The same where the power went within a durable append of one event to `a`: with it the process is gone, so that nobody
    /// was told of a failure. What was synced holds nothing of it, and what was only written may hold all of it.
    pub(crate) fn check_cut_off(&mut self, what: &str) {
        let outage = self.disk.outage();
        self.check_files(&outage.least(), Through::Outage, &format!("{what}, outage at once"));
        self.ledger.storing("a", self.ledger.length("a") + 1);
        self.check_files(&outage.everything(), Through::Death, &format!("{what}, death at once"));
    }

    /// Checks what is found when the power goes now and of what was not synced all but the last few changes reached the disk.
    pub(crate) fn check_partly_left(&self, what: &str) {
        let outage = self.disk.outage();
        let count = outage.unsynced.len();
        for length in (1..=count).rev().take(6) {
            let files = outage.surviving(|n| n < length, None);
            self.check_files(&files, Through::Outage, &format!("{what}, outage at once, {length} of {count} are left"));
        }
    }

    fn check_files(&self, files: &Files, through: Through, what: &str) {
        let folder = scratch();
        files.write_to(folder.path());
        self.ledger.check(&folder.path().join("sessions.db"), through, what);
    }

    /// Closes all that is open.
    pub(crate) fn close(self) -> (Arc<Disk>, Ledger) {
        let Self { disk, ledger, a, new, store, .. } = self;
        drop((a, new, store));
        (disk, ledger)
    }

    /// Goes on as if nothing had happened, closes, and opens again.
    pub(crate) fn go_on(mut self, what: &str) {
        drop(self.a.take());
        self.open_a(Access::Write).unwrap_or_else(|e| panic!("{what}: opening again: {}", chain(&e)));
        for _ in 0..if is_full() { 100 } else { 3 } {
            self.append(1).unwrap_or_else(|e| panic!("{what}: a later append: {}", chain(&e)));
        }
        self.flush().unwrap_or_else(|e| panic!("{what}: a later flush: {}", chain(&e)));
        self.check_left(&format!("{what}, then flushed"));
        let (disk, ledger) = self.close();
        ledger.check(&disk.store(), Through::Death, &format!("{what}, then closed"));
    }
}

/// Makes a call under a fault, and checks all that must hold then. Tells whether the call met the fault.
pub(crate) fn play(call: Call, fault: Fault, mode: Mode, what: &str) -> bool {
    let mut scene = Scene::before(call, mode);
    if let Effect::Late(_) = fault.effect() {
        // Deleting its journal makes a commit. Where the folder cannot be synced then, it is there for now.
        scene.ledger.durable_when_flushed();
    }
    scene.disk.inject(fault);
    let done = scene.call(call);
    if scene.disk.fired() == 0 {
        return false;
    }
    if let Err(e) = &done {
        assert!(e.kind() == fault.effect().told_as(), "{what}: told {:?}: {}", e.kind(), chain(e));
    }
    // In rollback mode a reader has to undo first what a commit that failed left.
    if mode != Mode::Rollback && matches!(fault.kind(), Kind::Write | Kind::Sync | Kind::Truncate | Kind::Delete) {
        scene.check_shown(&format!("{what}, under the fault"));
    }
    scene.check_left(what);
    if !fault.lasts() {
        scene.check_partly_left(what);
    }
    scene.disk.mend();
    scene.check_shown(&format!("{what}, mended"));
    if let Err(e) = done {
        if matches!(call, Call::Append | Call::AppendFrom | Call::Flush) {
            assert!(scene.failure_shown().map(|f| f.kind) == Some(e.kind()), "{what}: the failure is not shown");
        }
        scene.call(call).unwrap_or_else(|e| panic!("{what}: the same call again: {}", chain(&e)));
        scene.check_shown(&format!("{what}, again"));
        assert!(scene.failure_shown().is_none(), "{what}: a failure is shown that is over");
    }
    scene.go_on(what);
    true
}
