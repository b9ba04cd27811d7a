//! SQLite.

use session_persistence::{CreateOptions, SeqRange, SessionHeader, SessionId, SessionPersistence, SqliteStore};

use super::counting::{Work, count_statements, counted};
use super::{create, event, events, id, reader, text_bytes};

/// The page size, with what the WAL notes of a page.
const PAGE: u64 = 8192 + 24;

struct Scene {
    _folder: tempfile::TempDir,
    store: SqliteStore,
}

impl Scene {
    fn of(count: u64) -> Self {
        count_statements();
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
        create(&store, count).close().unwrap();
        Self { _folder: folder, store }
    }

    /// What `work` takes when it is done a second time, once statements are prepared and pages read.
    fn again<T>(mut work: impl FnMut() -> T) -> Work {
        drop(work());
        counted(work)
    }
}

#[test]
fn an_append_of_one_event_is_seven_statements_and_a_few_pages() {
    let scene = Scene::of(100);
    let handle = scene.store.open(&id(), session_persistence::OpenOptions::write()).unwrap();
    let mut next = 100;
    // All types noted, all statements prepared.
    handle.append(&events(next, 8)).unwrap();
    next += 8;
    for _ in 0..20 {
        let one = [event(next)];
        next += 1;
        let work = counted(|| handle.append(&one).unwrap());
        // BEGIN, the session, the end of its log, the latest activity, the event, the session anew, COMMIT.
        assert!(work.statements == 7 && work.rows <= 3, "{work:?}");
        assert!(work.allocations <= 60 && work.allocated < 16 << 10, "{work:?}");
        if let Some(system) = work.system {
            // The event and the session; now and then another page of events, and the header of the WAL.
            assert!(system.written <= 4 * PAGE, "{work:?}");
            assert!(system.read <= 4 * PAGE, "{work:?}");
        }
    }
}

#[test]
fn an_append_that_passes_another_session_is_a_statement_more_and_the_pages_of_the_orders() {
    let scene = Scene::of(100);
    let other = SessionId::new("other").unwrap();
    let header = SessionHeader::new(other.clone(), 1).unwrap();
    let other = scene.store.create(&header, CreateOptions::default()).unwrap();
    let handle = scene.store.open(&id(), session_persistence::OpenOptions::write()).unwrap();
    for next in 0..20 {
        other.append(&[event(next)]).unwrap();
        let one = [event(100 + next)];
        let work = counted(|| handle.append(&one).unwrap());
        // Once all types are noted and all statements prepared.
        if next < 8 {
            continue;
        }
        assert!(work.statements == 8 && work.rows <= 3, "{work:?}");
        if let Some(system) = work.system {
            // Both orders as well, any of which may need another page.
            assert!(system.written <= 10 * PAGE, "{work:?}");
        }
    }
}

#[test]
fn a_batch_costs_a_statement_an_event_more_and_about_its_own_bytes() {
    let scene = Scene::of(100);
    let handle = scene.store.open(&id(), session_persistence::OpenOptions::write()).unwrap();
    handle.append(&events(100, 50)).unwrap();
    let batch = events(150, 50);
    let work = counted(|| handle.append(&batch).unwrap());
    assert!(work.statements == 7 + 49, "{work:?}");
    assert!(work.allocations <= 60 + 50, "{work:?}");
    if let Some(system) = work.system {
        let text = text_bytes(&batch);
        assert!(system.written <= text * 5 / 4 + 8 * PAGE, "{work:?}, {text} bytes of text");
    }
}

#[test]
fn a_full_read_is_one_pass_over_its_rows_and_at_most_two_allocations_an_event() {
    let scene = Scene::of(2000);
    let handle = reader(&scene.store);
    let text = text_bytes(&events(0, 2000));
    let work = Scene::again(|| handle.read(SeqRange::ALL).unwrap());
    // The session and its events; the types were looked at before.
    assert!(work.statements == 1 && work.rows == 1 + 2000, "{work:?}");
    // Its data, and for one of four how it changes the surface.
    assert!(work.allocations <= 2000 * 5 / 4 + 100, "{work:?}");
    assert!(work.allocated <= text * 5 / 4, "{work:?}, {text} bytes of text");
}

#[test]
fn a_slice_reads_its_own_rows_only_wherever_it_stands() {
    let scene = Scene::of(2000);
    let handle = reader(&scene.store);
    for (range, count) in [(1900..2000, 100), (0..100, 100), (700..800, 100), (1999..2000, 1), (700..701, 1)] {
        let work = Scene::again(|| handle.read(range.clone().into()).unwrap());
        assert!(work.statements == 1 && work.rows == 1 + count, "{range:?}: {work:?}");
        assert!(work.allocations <= 20 + 2 * count, "{range:?}: {work:?}");
    }
}

#[test]
fn stat_is_one_row_whatever_the_length_of_the_log() {
    let told: Vec<Work> = [10, 2000]
        .map(|count| {
            let scene = Scene::of(count);
            Scene::again(|| scene.store.stat(&id()).unwrap().unwrap())
        })
        .into();
    for work in &told {
        assert!(work.statements == 1 && work.rows == 1 && work.allocations <= 30, "{work:?}");
    }
    assert!(told[0].allocations == told[1].allocations, "{told:?}");
}

#[test]
fn opening_a_long_session_and_appending_to_it_costs_what_it_does_for_a_short_one() {
    let [short, long] = [100, 10_000].map(|count| {
        let scene = Scene::of(count);
        let path = scene._folder.path().join("s.db");
        drop(scene.store);
        let one = [event(count)];
        counted(|| {
            let store = SqliteStore::open(&path).unwrap();
            let handle = store.open(&id(), session_persistence::OpenOptions::write()).unwrap();
            handle.append(&one).unwrap();
            (handle, store)
        })
    });
    assert!(short.statements == long.statements && short.rows == long.rows, "{short:?}\n{long:?}");
    assert!(long.allocations <= short.allocations + 20, "{short:?}\n{long:?}");
    if let (Some(short), Some(long)) = (short.system, long.system) {
        // Another level of the tree.
        assert!(long.read <= short.read + 4 * PAGE && long.read < 512 << 10, "{short:?}\n{long:?}");
        assert!(long.written <= short.written + 2 * PAGE, "{short:?}\n{long:?}");
    }
}
