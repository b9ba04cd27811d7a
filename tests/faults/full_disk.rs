//! A disk that is really full: nothing changes, and all goes on once there is room again.

use std::fs;

use session_persistence::{Error, ErrorKind, OpenOptions, SessionHandle, SessionPersistence, SqliteStore};

use super::ledger::{Ledger, Through, chain};
use super::sample::{self, Mode, create, events, id};
use super::small_disk::SmallDisk;

/// Bytes of the file systems that are filled.
const SIZE: &str = "size=6m";

/// A session in a store on a disk that is going to be full.
struct Session {
    ledger: Ledger,
    // In this order: a handle is closed before its store.
    handle: Box<dyn SessionHandle>,
    store: SqliteStore,
}

impl Session {
    fn on(disk: &SmallDisk, mode: Mode) -> Self {
        let mut ledger = Ledger::new(mode);
        let store = sample::open(&disk.path().join("sessions.db"), mode).unwrap();
        ledger.made();
        let handle = create(&store, "a").unwrap();
        let mut session = Self { ledger, handle, store };
        session.append(10).unwrap();
        session
    }

    fn append(&mut self, count: u64) -> Result<(), Error> {
        let length = self.ledger.length("a");
        let appended = self.handle.append(&events("a", length, count));
        if appended.is_ok() {
            self.ledger.storing("a", length + count);
            self.ledger.stored("a", length + count);
        }
        appended
    }

    /// Appends until there is no room; the last batch is refused.
    fn append_until_full(&mut self) {
        let full = (0..10_000).find_map(|_| self.append(5).err()).expect("6 MiB hold so much");
        self.check_full(&full);
    }

    /// Checks that nothing changed but what is told of the failure.
    fn check_full(&self, told: &Error) {
        assert!(told.kind() == ErrorKind::StorageFull, "{:?}: {}", told.kind(), chain(told));
        assert!(told.to_string().contains("no space left"), "{told}");
        self.ledger.check_shown(&self.store, "full");
        let stat = self.store.stat(&id("a")).unwrap().unwrap();
        assert!(stat.last_failure.is_some_and(|f| f.kind == ErrorKind::StorageFull), "the failure is shown");
    }

    /// Appends the batch that was refused and 100 more, closes, and opens again.
    fn go_on(mut self, disk: &SmallDisk) {
        self.append(5).unwrap();
        assert!(self.store.stat(&id("a")).unwrap().unwrap().last_failure.is_none());
        for _ in 0..100 {
            self.append(1).unwrap();
        }
        self.store.flush().unwrap();
        self.handle.close().unwrap();
        let Self { ledger, handle, store } = self;
        drop((handle, store));
        ledger.check(&disk.path().join("sessions.db"), Through::Death, "closed");
    }
}

#[test]
fn an_append_on_a_full_disk_changes_nothing_and_succeeds_once_there_is_room() {
    for mode in [Mode::OnFlush, Mode::EveryAppend] {
        let Some(disk) = SmallDisk::mounted(SIZE) else { return };
        let mut session = Session::on(&disk, mode);
        disk.fill();
        session.append_until_full();
        for _ in 0..3 {
            let again = session.append(5).unwrap_err();
            session.check_full(&again);
        }
        // Enough for a part of the batch.
        disk.free(8 * 1024);
        let again = session.append(5).unwrap_err();
        session.check_full(&again);
        disk.empty();
        session.go_on(&disk);
    }
}

#[test]
fn a_flush_on_a_full_disk_fails_and_succeeds_once_there_is_room() {
    let Some(disk) = SmallDisk::mounted(SIZE) else { return };
    let mut session = Session::on(&disk, Mode::OnFlush);
    disk.fill();
    session.append_until_full();
    // A flush commits one page, for which there may be room behind the last commit.
    let mut last = session.store.flush();
    for _ in 0..100 {
        if last.is_err() {
            break;
        }
        // As small as an event can be.
        while session.append(1).is_ok() {}
        last = session.store.flush();
    }
    let full = last.unwrap_err();
    assert!(full.kind() == ErrorKind::StorageFull, "{}", chain(&full));
    session.ledger.check_shown(&session.store, "full");
    disk.empty();
    session.store.flush().unwrap();
    session.go_on(&disk);
}

#[test]
fn a_disk_on_which_the_wal_does_not_fit_into_the_database_loses_nothing() {
    let Some(disk) = SmallDisk::mounted(SIZE) else { return };
    let mut session = Session::on(&disk, Mode::OnFlush);
    for _ in 0..20 {
        session.append(5).unwrap();
    }
    disk.fill();
    // Closing brings the WAL into the database, for which there is no room.
    let path = disk.path().join("sessions.db");
    let Session { ledger, handle, store } = session;
    drop((handle, store));
    assert!(fs::metadata(path.with_file_name("sessions.db-wal")).unwrap().len() > 0, "the WAL stays");
    let opened = sample::open(&path, Mode::OnFlush);
    // Room for the index of the WAL may be missing too.
    match &opened {
        Ok(store) => ledger.check_shown(store, "opened while full"),
        Err(e) => assert!(e.kind() == ErrorKind::StorageFull, "{}", chain(e)),
    }
    drop(opened);
    disk.empty();
    ledger.check(&path, Through::Death, "opened with room again");
}

#[test]
fn a_store_is_not_made_on_a_full_disk_and_leaves_nothing_there() {
    let Some(disk) = SmallDisk::mounted(SIZE) else { return };
    disk.fill();
    let path = disk.path().join("sessions.db");
    for room in [0, 20 * 1024, 60 * 1024] {
        disk.free(room);
        let full = SqliteStore::open(&path).unwrap_err();
        assert!(full.kind() == ErrorKind::StorageFull, "{room}: {}", chain(&full));
        let left: Vec<_> = fs::read_dir(disk.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(left == ["ballast"], "{left:?}");
    }
    disk.empty();
    SqliteStore::open(&path).unwrap();
}

#[test]
fn a_full_folder_of_locks_keeps_a_session_from_being_written_until_there_is_room() {
    let Some(disk) = SmallDisk::mounted("size=4m,nr_inodes=100") else { return };
    let path = disk.path().join("sessions.db");
    {
        let store = sample::open(&path, Mode::OnFlush).unwrap();
        create(&store, "a").unwrap().append(&events("a", 0, 3)).unwrap();
    }
    let store = sample::open(&path, Mode::OnFlush).unwrap();
    // The files beside the database are made by the first who reads.
    let reader = store.open(&id("a"), OpenOptions::read()).unwrap();
    // Neither a file nor a folder more.
    let used = fs::read_dir(disk.path()).unwrap().count() + 1;
    let files: Vec<_> = (used..100).map(|n| disk.path().join(format!("inode-{n}"))).collect();
    let made = files.iter().take_while(|file| fs::write(file, "").is_ok()).count();
    assert!(made > 80, "{made}");
    for (what, told) in [
        ("open", store.open(&id("a"), OpenOptions::write()).map(drop)),
        ("remove", store.remove(&id("a")).map(drop)),
        ("create", create(&store, "b").and_then(|new| new.append(&events("b", 0, 1)))),
    ] {
        let full = told.expect_err(what);
        assert!(full.kind() == ErrorKind::StorageFull, "{what}: {:?}: {}", full.kind(), chain(&full));
    }
    sample::check_log(&*reader, 3, "full");
    assert!(store.stat(&id("b")).unwrap().is_none());
    disk.remount("nr_inodes=200");
    let writer = store.open(&id("a"), OpenOptions::write()).unwrap();
    writer.append(&events("a", 3, 2)).unwrap();
    sample::check_log(&*writer, 5, "room again");
    create(&store, "b").unwrap().append(&events("b", 0, 1)).unwrap();
}
