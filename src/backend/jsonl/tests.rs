//! The store over file systems that count, fail, or do not tell upper from lower case.

mod faults;
#[cfg(unix)]
mod kills;
mod machine;
mod owners;
mod paging;
mod permissions;
mod power_loss;
mod recall;
mod removals;
mod scans;
#[cfg(unix)]
mod shadow;
mod syncs;
mod watch;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::watch::{Call, Watch, WatchedDisk};
use super::{Encoding, JsonlOptions, JsonlStore};
use crate::log::{Json, SessionEvent, SessionHeader, SessionId};
use crate::seam::{
    CreateOptions, Error, ErrorKind, ListOrder, ListQuery, OpenOptions, SeqRange, SessionHandle, SessionPersistence,
};

const ENCODINGS: [Encoding; 2] = [Encoding::Raw, Encoding::Zstd];

/// A store in a folder of its own, and what stands between it and the disk.
struct Place {
    folder: tempfile::TempDir,
    watch: Arc<Watch>,
    encoding: Encoding,
}

impl Place {
    fn new(encoding: Encoding) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), watch: Arc::default(), encoding }
    }

    fn open(&self, memo_bytes: usize) -> JsonlStore {
        self.open_with(|options| options.with_memo_bytes(memo_bytes))
    }

    fn open_with(&self, options: impl FnOnce(JsonlOptions) -> JsonlOptions) -> JsonlStore {
        let disk = Arc::new(WatchedDisk(self.watch.clone()));
        let options = options(JsonlOptions::default().with_encoding(self.encoding));
        JsonlStore::over(disk, self.folder.path().to_owned(), options).unwrap()
    }

    fn read(&self) -> u64 {
        self.watch.bytes_read.swap(0, Ordering::Relaxed)
    }

    fn reset(&self) {
        self.read();
        self.opened();
    }

    fn opened(&self) -> usize {
        self.watch.opened.swap(0, Ordering::Relaxed)
    }
}

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn header(name: &str) -> SessionHeader {
    SessionHeader::new(id(name), 5).unwrap().with_cwd("/w")
}

fn events(range: std::ops::Range<u64>) -> Vec<SessionEvent> {
    let data = |seq| Json::parse(&format!(r#"{{"todos":[{seq}]}}"#)).unwrap();
    range.map(|seq| SessionEvent::new("todo/write", seq, seq as i64, data(seq)).unwrap()).collect()
}

fn create(store: &JsonlStore, name: &str) -> Box<dyn SessionHandle> {
    store.create(&header(name), CreateOptions::default()).unwrap()
}

fn read(store: &JsonlStore, name: &str) -> Vec<SessionEvent> {
    store.open(&id(name), OpenOptions::read()).unwrap().read(SeqRange::ALL).unwrap()
}

#[test]
fn a_thousand_sessions_are_listed_by_their_ends() {
    const SESSIONS: usize = 1000;
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let store = place.open(0);
        for n in 0..SESSIONS {
            let writer = create(&store, &format!("s{n:04}"));
            // A few long ones: what stands between their ends is not read.
            let length = if n % 100 == 0 { 3000 } else { 3 };
            writer.append(&events(0..length)).unwrap();
            writer.append(&events(length..length + 1)).unwrap();
        }
        let store = place.open(64 << 20);
        place.reset();
        let first = store.list(&ListQuery::default().with_limit(50)).unwrap();
        assert_eq!(first.items.len(), 50);
        assert_eq!(
            place.opened(),
            51,
            "only the files on the page are opened, and one to know whether another follows"
        );
        assert!(place.read() <= 51 * 2048);
        let listed = store.list(&ListQuery::default()).unwrap().items;
        assert_eq!(listed.len(), SESSIONS);
        for snapshot in &listed {
            let long = snapshot.id.as_str().ends_with("00");
            assert_eq!(snapshot.event_count, Some(if long { 3001 } else { 4 }), "{snapshot:?}");
            assert_eq!(snapshot.last_time, Some(if long { 3000 } else { 3 }));
        }
        let bytes = place.read();
        assert!(bytes < 2_000_000, "{bytes} bytes for {SESSIONS} sessions");
        place.opened();
        let created = store.list(&ListQuery::default().with_order(ListOrder::Created)).unwrap().items;
        assert_eq!((created.len(), place.read(), place.opened()), (SESSIONS, 0, 0), "nothing has changed since");
        place.open(0).open(&id("s0007"), OpenOptions::write()).unwrap().append(&events(4..5)).unwrap();
        place.reset();
        assert_eq!(store.list(&ListQuery::default()).unwrap().items[0].id, id("s0007"));
        assert_eq!(place.opened(), 1, "only what has changed is looked at again");
    }
}

#[test]
fn looking_and_then_opening_reads_a_log_once_and_an_append_reads_nothing() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let writer = create(&place.open(0), "s");
        for batch in 0..50 {
            writer.append(&events(batch * 40..(batch + 1) * 40)).unwrap();
        }
        drop(writer);
        let path = place.folder.path().join("--w--/s");
        let size = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).max().unwrap();
        let store = place.open(64 << 20);
        place.read();
        assert_eq!(read(&store, "s"), events(0..2000));
        let once = place.read();
        assert!(once >= size && once < 2 * size + 4096, "{once} of {size}");
        let writer = store.open(&id("s"), OpenOptions::write()).unwrap();
        for seq in 2000..2100 {
            writer.append(&events(seq..seq + 1)).unwrap();
            assert_eq!(writer.read(SeqRange::from(seq..)).unwrap(), events(seq..seq + 1));
        }
        assert_eq!(place.read(), 0);
        writer.flush().unwrap();
        drop(writer);
        assert!(place.read() <= 64 << 10, "when the writer leaves the last stretch is looked at");
        assert_eq!(read(&store, "s"), events(0..2100));
        assert_eq!(place.read(), 0);
        // Without memory for events a slice is read from near its place, and an append still reads nothing.
        let store = place.open(0);
        let writer = store.open(&id("s"), OpenOptions::write()).unwrap();
        place.read();
        writer.append(&events(2100..2101)).unwrap();
        assert_eq!(place.read(), 0);
        assert_eq!(writer.read(SeqRange::from(2090..)).unwrap(), events(2090..2101));
    }
}

#[test]
fn a_failed_append_leaves_nothing_and_the_same_batch_goes_through_afterwards() {
    use io::ErrorKind::{PermissionDenied, StorageFull};
    for encoding in ENCODINGS {
        for partial in [0, 1, 40, 150, 1000] {
            for (call, kind, expected) in [
                (Call::Write, StorageFull, ErrorKind::StorageFull),
                (Call::Write, PermissionDenied, ErrorKind::StorageReadOnly),
                (Call::Write, io::ErrorKind::Other, ErrorKind::Io),
            ] {
                let place = Place::new(encoding);
                place.watch.partial.store(partial, Ordering::Relaxed);
                let store = place.open(64 << 20);
                let writer = create(&store, "s");
                writer.append(&events(0..1)).unwrap();
                let before = std::fs::read(log_of(&place)).unwrap();
                place.watch.fail(call, 0, 3, kind);
                for _ in 0..3 {
                    assert_eq!(writer.append(&events(1..4)).unwrap_err().kind(), expected);
                    assert!(std::fs::read(log_of(&place)).unwrap() == before);
                    assert_eq!(writer.read(SeqRange::ALL).unwrap(), events(0..1));
                }
                assert!(place.watch.heal());
                writer.append(&events(1..4)).unwrap();
                assert_eq!(read(&place.open(0), "s"), events(0..4));
            }
        }
    }
}

fn log_of(place: &Place) -> PathBuf {
    let suffix = if place.encoding == Encoding::Zstd { ".zstd" } else { "" };
    place.folder.path().join(format!("--w--/s/session.v3.jsonl{suffix}"))
}

#[test]
fn what_cannot_be_cut_off_at_once_is_never_read_and_cut_off_later() {
    for encoding in ENCODINGS {
        // Once the first row of the batch arrives whole, and would count where nobody cuts it off.
        for partial in [10, 60, 130] {
            let place = Place::new(encoding);
            place.watch.partial.store(partial, Ordering::Relaxed);
            let store = place.open(64 << 20);
            let writer = create(&store, "s");
            writer.append(&events(0..1)).unwrap();
            let before = std::fs::metadata(log_of(&place)).unwrap().len();
            append_and_leave(&place, &*writer);
            assert!(std::fs::metadata(log_of(&place)).unwrap().len() > before);
            assert_eq!(writer.read(SeqRange::ALL).unwrap(), events(0..1));
            assert_eq!(store.stat(&id("s")).unwrap().unwrap().event_count, Some(1));
            writer.append(&events(1..4)).unwrap();
            assert_eq!(writer.read(SeqRange::ALL).unwrap(), events(0..4));
            assert_eq!(read(&place.open(0), "s"), events(0..4));
            // The same, and the writer closes instead of going on.
            append_and_leave(&place, &*writer);
            drop(writer);
            assert_eq!(read(&place.open(0), "s"), events(0..4));
            assert_eq!(read(&store, "s"), events(0..4));
        }
    }
}

/// An append whose write fails and whose leftovers cannot be cut off.
fn append_and_leave(place: &Place, writer: &dyn SessionHandle) {
    let next = writer.read(SeqRange::ALL).unwrap().len() as u64;
    place.watch.fail(Call::Write, 0, 1, io::ErrorKind::StorageFull);
    place.watch.fail(Call::SetLen, 0, 1, io::ErrorKind::Other);
    assert_eq!(writer.append(&events(next..next + 3)).unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(place.watch.heal());
}

#[test]
fn a_creation_that_fails_anywhere_stores_nothing_and_can_be_repeated() {
    for encoding in ENCODINGS {
        let calls = [
            Call::Stat,
            Call::ReadDir,
            Call::Open,
            Call::OpenForWriting,
            Call::Create,
            Call::MakeDir,
            Call::Link,
            Call::Unlink,
            Call::Read,
            Call::Write,
            Call::SetLen,
            Call::Sync,
            Call::SetModified,
            Call::Lock,
        ];
        for call in calls {
            for after in 0..20 {
                let place = Place::new(encoding);
                let store = place.open(64 << 20);
                let writer = create(&store, "s");
                place.watch.fail(call, after, 1, io::ErrorKind::Other);
                let first = writer.append(&events(0..3));
                let happened = place.watch.heal();
                if let Err(e) = first {
                    assert_eq!((e.kind(), e.is_retryable()), (ErrorKind::Io, true), "{call:?} {after}: {e}");
                    let other = place.open(0);
                    assert_eq!(other.stat(&id("s")).unwrap(), None, "{call:?} {after}");
                    assert_eq!(other.list(&ListQuery::default()).unwrap().items, []);
                    writer.append(&events(0..3)).unwrap();
                }
                writer.append(&events(3..4)).unwrap();
                writer.flush().unwrap();
                assert_eq!(read(&place.open(0), "s"), events(0..4), "{call:?} {after}");
                let names = std::fs::read_dir(log_of(&place).parent().unwrap()).unwrap();
                let names = names.filter(|name| name.as_ref().unwrap().file_name() != "session.lock");
                // Only a draft that could not be removed stays.
                assert!(names.count() == 1 || call == Call::Unlink, "{call:?} {after}");
                if !happened {
                    break;
                }
            }
        }
    }
}

#[test]
fn an_append_behind_a_torn_tail_that_fails_anywhere_loses_nothing_and_doubles_nothing() {
    for encoding in ENCODINGS {
        for call in
            [Call::Stat, Call::OpenForWriting, Call::Read, Call::Write, Call::SetLen, Call::Sync, Call::SetModified]
        {
            for after in 0..12 {
                let place = Place::new(encoding);
                let writer = create(&place.open(0), "s");
                writer.append(&events(0..2)).unwrap();
                writer.append(&events(2..3)).unwrap();
                drop(writer);
                let length = std::fs::metadata(log_of(&place)).unwrap().len();
                std::fs::File::options().write(true).open(log_of(&place)).unwrap().set_len(length - 7).unwrap();
                let store = place.open(64 << 20);
                let writer = store.open(&id("s"), OpenOptions::write()).unwrap();
                place.watch.partial.store(9, Ordering::Relaxed);
                place.watch.fail(call, after, 1, io::ErrorKind::Other);
                let first = writer.append(&events(2..4));
                let happened = place.watch.heal();
                if first.is_err() {
                    assert_eq!(writer.read(SeqRange::ALL).unwrap(), events(0..2), "{call:?} {after}");
                    assert_eq!(read(&place.open(0), "s"), events(0..2), "{call:?} {after}");
                    writer.append(&events(2..4)).unwrap();
                }
                assert_eq!(writer.read(SeqRange::ALL).unwrap(), events(0..4), "{call:?} {after}");
                assert_eq!(read(&place.open(0), "s"), events(0..4), "{call:?} {after}");
                if !happened {
                    break;
                }
            }
        }
    }
}

#[test]
fn the_torn_tail_is_cut_off_durably_before_the_first_new_byte() {
    let place = Place::new(Encoding::Raw);
    let writer = create(&place.open(0), "s");
    writer.append(&events(0..2)).unwrap();
    drop(writer);
    let mut bytes = std::fs::read(log_of(&place)).unwrap();
    let length = bytes.len() as u64;
    bytes.extend(b"{\"half");
    std::fs::write(log_of(&place), bytes).unwrap();
    let writer = place.open(0).open(&id("s"), OpenOptions::write()).unwrap();
    place.watch.syncs.lock().unwrap().clear();
    place.watch.fail(Call::Write, 0, 1, io::ErrorKind::StorageFull);
    writer.append(&events(2..3)).unwrap_err();
    assert_eq!(*place.watch.syncs.lock().unwrap(), [log_of(&place)]);
    assert_eq!(std::fs::metadata(log_of(&place)).unwrap().len(), length);
}

#[test]
fn a_flush_syncs_what_was_written_since_and_what_failed_to_sync_again() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let store = place.open(0);
        let writers: Vec<_> = ["s", "t"].iter().map(|name| create(&store, name)).collect();
        writers[0].append(&events(0..1)).unwrap();
        store.flush().unwrap();
        let syncs = || {
            let syncs = std::mem::take(&mut *place.watch.syncs.lock().unwrap());
            // Its creator knows a log by the name that it had as a draft.
            let named = |path: PathBuf| match path.extension() {
                Some(suffix) if suffix == "tmp" => path.with_extension("").with_extension(""),
                _ => path,
            };
            let mut syncs: Vec<_> = syncs.into_iter().map(named).collect();
            syncs.sort();
            syncs
        };
        let synced = syncs();
        let log = log_of(&place);
        let root = place.folder.path();
        for path in [root, &root.join("--w--"), &root.join("--w--/s"), &root.join("--w--/t"), &log] {
            assert_eq!(synced.iter().filter(|synced| *synced == path).count(), 1, "{}", path.display());
        }
        store.flush().unwrap();
        assert_eq!(syncs(), Vec::<PathBuf>::new(), "nothing was written since");
        writers[0].append(&events(1..2)).unwrap();
        writers[0].append(&events(2..3)).unwrap();
        assert_eq!(syncs(), Vec::<PathBuf>::new(), "an append does not wait for the disk");
        place.watch.fail(Call::Sync, 0, 1, io::ErrorKind::Other);
        assert_eq!(writers[1].flush().unwrap_err().kind(), ErrorKind::Io);
        assert!(place.watch.heal());
        writers[1].flush().unwrap();
        assert_eq!(syncs(), std::slice::from_ref(&log));
        // What another process wrote and did not flush is flushed by the next writer.
        drop(writers);
        let store = place.open(0);
        store.open(&id("s"), OpenOptions::write()).unwrap().flush().unwrap();
        assert!(syncs().contains(&log));
    }
}

#[test]
fn a_session_that_cannot_be_read_stays_in_the_list() {
    let place = Place::new(Encoding::Raw);
    for name in ["s", "t"] {
        create(&place.open(0), name).append(&events(0..1)).unwrap();
    }
    let store = place.open(0);
    place.watch.fail(Call::Read, 0, 1, io::ErrorKind::Other);
    let listed = store.list(&ListQuery::default()).unwrap().items;
    assert_eq!(listed.iter().map(|snapshot| snapshot.header.is_some()).collect::<Vec<_>>(), [false, true]);
    assert!(place.watch.heal());
    let listed = store.list(&ListQuery::default()).unwrap().items;
    assert!(listed.iter().all(|snapshot| snapshot.header.is_some()), "a failure is not remembered");
    place.watch.fail(Call::ReadDir, 0, 1, io::ErrorKind::Other);
    assert_eq!(store.list(&ListQuery::default()).unwrap_err().kind(), ErrorKind::Io, "never an empty list instead");
}

#[test]
fn two_ids_that_meet_on_one_path_are_told_apart_by_the_header_inside() {
    for encoding in ENCODINGS {
        let place = Place { watch: Arc::new(Watch::folding_case()), ..Place::new(encoding) };
        let store = place.open(64 << 20);
        create(&store, "Session").append(&events(0..2)).unwrap();
        for store in [store, place.open(0)] {
            assert_eq!(store.stat(&id("session")).unwrap(), None);
            for way in [OpenOptions::read(), OpenOptions::write(), OpenOptions::uninterpreted()] {
                assert_eq!(store.open(&id("session"), way).err().unwrap().kind(), ErrorKind::NotFound);
            }
            assert!(!store.remove(&id("session")).unwrap());
            match store.create(&header("session"), CreateOptions::default()) {
                Err(Error::InvalidArgument { session: Some(session), reason }) => {
                    assert!(session == id("session") && reason.contains("lower case"), "{reason}");
                }
                Err(other) => panic!("{other}"),
                Ok(_) => panic!("the second session would mix with the first"),
            }
            assert_eq!(read(&store, "Session"), events(0..2));
            assert_eq!(store.list(&ListQuery::default()).unwrap().items.len(), 1);
        }
        // Created at the same time, the one that stores first wins.
        let store = place.open(0);
        let (upper, lower) = (create(&store, "T"), create(&store, "t"));
        lower.append(&events(0..1)).unwrap();
        assert!(upper.append(&events(0..2)).is_err());
        assert_eq!(read(&place.open(0), "t"), events(0..1));
        assert_eq!(place.open(0).stat(&id("T")).unwrap(), None);
    }
}

#[test]
fn the_order_of_activity_goes_on_behind_a_clock_that_was_wrong() {
    let place = Place::new(Encoding::Raw);
    let store = place.open(0);
    for name in ["s", "t"] {
        create(&store, name).append(&events(0..1)).unwrap();
    }
    let ahead = std::time::SystemTime::now() + std::time::Duration::from_secs(5 * 3600);
    std::fs::File::options().write(true).open(log_of(&place)).unwrap().set_modified(ahead).unwrap();
    let store = place.open(0);
    let first = |store: &JsonlStore| store.list(&ListQuery::default()).unwrap().items[0].id.clone();
    assert_eq!(first(&store), id("s"));
    store.open(&id("t"), OpenOptions::write()).unwrap().append(&events(1..2)).unwrap();
    assert_eq!(first(&store), id("t"));
    assert_eq!(first(&place.open(0)), id("t"));
}
