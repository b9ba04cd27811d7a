//! Files, raw and compressed.

use session_persistence::{
    Encoding, Json, JsonlOptions, JsonlStore, OpenOptions, SeqRange, SessionEvent, SessionPersistence,
};

use super::counting::{Calls, counted};
use super::{create, event, events, id, reader, text_bytes};

const ENCODINGS: [Encoding; 2] = [Encoding::Raw, Encoding::Zstd];

/// What is read and written beside logs: the record of an owner, what the lock tells.
const ASIDE: u64 = 4 << 10;

/// What is read of a file at once.
const PIECE: u64 = 256 << 10;

fn store(folder: &tempfile::TempDir, encoding: Encoding) -> JsonlStore {
    JsonlStore::open_with(folder.path().join("root"), JsonlOptions::default().with_encoding(encoding)).unwrap()
}

/// What the system counts of `work`; nothing where it counts nothing.
fn system<T>(work: impl FnOnce() -> T) -> Option<Calls> {
    let system = counted(work).system;
    if system.is_none() {
        eprintln!("skipped: the system does not count what a thread reads and writes");
    }
    system
}

#[test]
fn an_append_writes_its_own_bytes_and_reads_no_log_however_long_that_is() {
    for encoding in ENCODINGS {
        for count in [10, 2000] {
            let folder = tempfile::tempdir().unwrap();
            let handle = create(&store(&folder, encoding), count);
            let mut next = count;
            for size in [1, 50] {
                let batch = events(next, size);
                next += size;
                let text = text_bytes(&batch);
                let work = counted(|| handle.append(&batch).unwrap());
                // Its text, its lines, what is remembered of it.
                assert!(work.allocations <= 60 + size, "{encoding:?}, {count}, {size}: {work:?}");
                let Some(system) = work.system else { return };
                assert!(system.read <= ASIDE, "{encoding:?}, {count}, {size}: {work:?}");
                assert!(system.written <= text + 100 && system.writes <= 2, "{encoding:?}, {count}, {size}: {work:?}");
                assert!(encoding == Encoding::Zstd || system.written >= text - 100, "{size}: {work:?}");
            }
        }
    }
}

fn size_of_log(folder: &tempfile::TempDir) -> u64 {
    fn largest(folder: &std::path::Path) -> u64 {
        let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
        let size = |entry: std::fs::DirEntry| match entry.metadata().unwrap() {
            found if found.is_dir() => largest(&entry.path()),
            found => found.len(),
        };
        entries.map(size).max().unwrap_or(0)
    }
    largest(folder.path())
}

/// What it takes a new store to open the session and to append to it.
fn first_append(folder: &tempfile::TempDir, encoding: Encoding, events: &[SessionEvent]) -> Option<Calls> {
    system(|| {
        let store = store(folder, encoding);
        let handle = store.open(&id(), OpenOptions::write()).unwrap();
        handle.append(events).unwrap();
        (handle, store)
    })
}

#[test]
fn opening_a_session_and_appending_to_it_reads_its_log_once_and_no_byte_twice() {
    for encoding in ENCODINGS {
        for count in [100, 10_000] {
            let folder = tempfile::tempdir().unwrap();
            create(&store(&folder, encoding), count).close().unwrap();
            let (size, one) = (size_of_log(&folder), [event(count)]);
            let Some(first) = first_append(&folder, encoding, &one) else { return };
            assert!(first.read >= size && first.read <= size + size / 32 + ASIDE, "{encoding:?}, {size}: {first:?}");
            assert!(first.reads <= 40 + size / (PIECE / 4), "{encoding:?}, {size}: {first:?}");
            assert!(first.written <= text_bytes(&one) + ASIDE, "{encoding:?}: {first:?}");
        }
    }
}

/// An event of about 1 KB that hardly gets smaller.
fn varied(seq: u64) -> SessionEvent {
    let mut random = fastrand::Rng::with_seed(seq);
    let text: String = (0..1000).map(|_| random.alphanumeric()).collect();
    let data = Json::parse(&format!(r#"{{"text":"{text}"}}"#)).unwrap();
    SessionEvent::new("user/message", seq, seq as i64, data).unwrap()
}

#[test]
fn a_long_log_that_its_writer_left_is_appended_to_and_its_end_read_without_the_rest() {
    for encoding in ENCODINGS {
        let count = 5000;
        let folder = tempfile::tempdir().unwrap();
        let handle = create(&store(&folder, encoding), 0);
        (0..count).for_each(|seq| handle.append(&[varied(seq)]).unwrap());
        handle.flush().unwrap();
        handle.close().unwrap();
        drop(handle);
        let (size, one) = (size_of_log(&folder), [varied(count)]);
        let Some(first) = first_append(&folder, encoding, &one) else { return };
        // The last 64 KB are held against what was noted of them.
        assert!(first.read <= (64 << 10) + 2 * ASIDE && first.reads <= 40, "{encoding:?}, {size}: {first:?}");
        // What is noted of it is a mark for each 256 KB.
        assert!(first.written <= text_bytes(&one) + 2 * ASIDE, "{encoding:?}, {size}: {first:?}");
        let last = system(|| {
            let store = store(&folder, encoding);
            let events = reader(&store).read((count - 99..).into()).unwrap();
            assert_eq!(events.len(), 100);
            (events, store)
        });
        let Some(last) = last else { return };
        assert!(last.read <= 3 * PIECE, "{encoding:?}, {size}: {last:?}");
    }
}

#[test]
fn a_log_that_is_remembered_is_read_without_its_file_and_without_a_copy() {
    for encoding in ENCODINGS {
        let folder = tempfile::tempdir().unwrap();
        create(&store(&folder, encoding), 2000).close().unwrap();
        let (size, text) = (size_of_log(&folder), text_bytes(&events(0, 2000)));
        let store = store(&folder, encoding);
        let mut handle = None;
        let cold = counted(|| {
            let handle = handle.insert(reader(&store));
            handle.read(SeqRange::ALL).unwrap()
        });
        // Its data, for one of four how it changes the surface, and some more for frames.
        assert!(cold.allocations <= 2000 * 3 / 2 + 200, "{encoding:?}: {cold:?}");
        assert!(cold.allocated <= text * 5 / 4 + (4 << 20), "{encoding:?}: {cold:?}");
        if let Some(system) = cold.system {
            assert!(system.read <= size + size / 32 + ASIDE, "{encoding:?}, {size}: {cold:?}");
        }
        let handle = handle.unwrap();
        for range in [SeqRange::ALL, (1900..2000).into(), (5..=5).into()] {
            let warm = counted(|| handle.read(range).unwrap());
            assert!(warm.allocations <= 10, "{encoding:?}: {warm:?}");
            assert!(warm.system.is_none_or(|system| system.read < 512), "{encoding:?}: {warm:?}");
        }
    }
}

#[test]
fn stat_reads_the_ends_of_a_log_and_no_more_of_a_longer_one() {
    for encoding in ENCODINGS {
        for count in [100, 5000] {
            let folder = tempfile::tempdir().unwrap();
            create(&store(&folder, encoding), count).close().unwrap();
            let store = store(&folder, encoding);
            let Some(told) = system(|| store.stat(&id()).unwrap().unwrap()) else { return };
            // A batch of 100 KB may have to be unpacked.
            assert!(told.read <= 2 * PIECE, "{encoding:?}, {count}: {told:?}");
            let Some(again) = system(|| store.stat(&id()).unwrap().unwrap()) else { return };
            assert!(again.read <= ASIDE, "{encoding:?}, {count}: {again:?}");
        }
    }
}
