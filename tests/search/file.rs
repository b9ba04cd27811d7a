//! The file of an index: what is made anew, what is refused, and who may read it.

use std::fs;
use std::time::Duration;

use session_persistence::MemoryStore;
use session_persistence::query::index::{IndexError, IndexOptions, SearchIndex, SearchQuery};

use crate::sample::{all_say, faults, found, fresh, store_session};

fn sample() -> MemoryStore {
    let store = MemoryStore::new();
    let texts: Vec<_> = (0..400).map(|n| format!("needle number {n}")).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    store_session(&store, "s", &all_say(0, &texts));
    store
}

#[test]
fn a_file_that_is_cut_or_overwritten_is_made_anew_or_told() {
    let store = sample();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let whole = {
        let (folder, index) = fresh();
        index.update(&store).unwrap();
        drop(index);
        fs::read(folder.path().join("s.index")).unwrap()
    };
    let rounds = if std::env::var_os("SESSIONS_FULL").is_some() { 300 } else { 15 };
    for round in 0..rounds {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.index");
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes.truncate(random.usize(..whole.len())),
            1 => {
                let start = random.usize(..whole.len());
                random.fill(&mut bytes[start..]);
            }
            _ => random.fill(&mut bytes),
        }
        fs::write(&path, bytes).unwrap();
        let index = match SearchIndex::open(&path) {
            Ok(index) => index,
            // What says that it is ours was overwritten.
            Err(IndexError::NotAnIndex { .. }) => continue,
            Err(error) => panic!("seed {seed}, round {round}: {error}"),
        };
        let met = index.search(&SearchQuery::new("needle"));
        let is_told = match &met {
            Ok(page) => page.total == 400,
            Err(IndexError::Damaged { .. } | IndexError::NotFilled { .. }) => true,
            Err(error) => panic!("seed {seed}, round {round}: {error}"),
        };
        // Of what leads to the texts SQLite does not notice each byte that is another one.
        if !is_told {
            assert!(!faults(&path, &store).is_empty(), "seed {seed}, round {round}: {met:?}");
            fs::write(&path, &whole).unwrap();
            continue;
        }
        index.update(&store).unwrap();
        assert_eq!(found(&index, "needle").len(), 400, "seed {seed}, round {round}");
    }
}

#[test]
fn a_file_that_is_removed_while_it_is_open_is_made_anew() {
    let store = sample();
    let (folder, index) = fresh();
    index.update(&store).unwrap();
    for name in ["s.index", "s.index-wal", "s.index-shm"] {
        let _removed = fs::remove_file(folder.path().join(name));
    }
    if cfg!(unix) {
        let error = index.search(&SearchQuery::new("needle")).unwrap_err();
        assert!(matches!(error, IndexError::NotFilled { .. }), "{error}");
    }
    index.update(&store).unwrap();
    assert_eq!(found(&index, "needle").len(), 400);
}

#[test]
fn a_database_of_another_kind_and_a_newer_index_are_refused_and_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.index");
    for sql in ["PRAGMA application_id = 0x53655065; CREATE TABLE a (b);", "CREATE TABLE a (b);"] {
        let _removed = fs::remove_file(&path);
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch(sql).unwrap();
        other.close().unwrap();
        let before = fs::read(&path).unwrap();
        let error = SearchIndex::open(&path).unwrap_err();
        assert!(matches!(error, IndexError::NotAnIndex { .. }), "{error}");
        assert!(fs::read(&path).unwrap() == before);
    }
    fs::remove_file(&path).unwrap();
    drop(SearchIndex::open(&path).unwrap());
    for (version, is_refused) in [(2, true), (0, false)] {
        let index = rusqlite::Connection::open(&path).unwrap();
        index.pragma_update(None, "user_version", version).unwrap();
        index.close().unwrap();
        assert_eq!(SearchIndex::open(&path).is_err(), is_refused, "{version}");
    }
}

#[test]
fn any_other_file_is_refused_with_what_lies_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.index");
    for content in [&b"dear diary"[..], &[b'x'; 9000], b"SQLite format 3\0"] {
        let files = [("s.index", content), ("s.index-wal", b"the only copy"), ("s.index-journal", b"another")];
        files.iter().for_each(|(name, content)| fs::write(folder.path().join(name), content).unwrap());
        let error = SearchIndex::open(&path).unwrap_err();
        assert!(matches!(error, IndexError::NotAnIndex { .. }), "{error}");
        files.iter().for_each(|(name, content)| assert!(fs::read(folder.path().join(name)).unwrap() == *content));
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file_and_what_lies_beside_a_database_is_refused_and_a_link_leads_to_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let refused = |name: &str| {
        let error = SearchIndex::open(path(name)).unwrap_err();
        assert!(matches!(error, IndexError::NotAnIndex { .. }), "{name}: {error}");
    };
    std::os::unix::fs::symlink("/dev/null", path("device")).unwrap();
    std::os::unix::fs::symlink("nowhere", path("dangling")).unwrap();
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("b.db-wal"), "").unwrap();
    drop(std::os::unix::net::UnixListener::bind(path("socket")).unwrap());
    for name in ["device", "dangling", "folder", "b.db-wal", "socket", "c.db-journal"] {
        refused(name);
        assert!(!path(&format!("{name}-lock")).exists(), "{name}");
    }
    for name in ["device", "dangling", "socket", "b.db-wal"] {
        fs::symlink_metadata(path(name)).unwrap();
    }
    fs::create_dir(path("other-disk")).unwrap();
    fs::write(path("other-disk/real"), "").unwrap();
    std::os::unix::fs::symlink("other-disk/real", path("link")).unwrap();
    SearchIndex::open(path("link")).unwrap().update(&sample()).unwrap();
    assert!(fs::symlink_metadata(path("link")).unwrap().is_symlink());
    assert_eq!(found(&SearchIndex::open(path("other-disk/real")).unwrap(), "needle").len(), 400);
}

#[test]
fn the_index_of_another_store_is_refused_until_it_is_started_anew() {
    let (one, other) = (sample(), MemoryStore::new());
    store_session(&other, "other", &all_say(0, &["needle"]));
    let (_folder, index) = fresh();
    index.update(&one).unwrap();
    let error = index.update(&other).unwrap_err();
    assert!(matches!(error, IndexError::OtherStore { .. }), "{error}");
    assert_eq!(found(&index, "needle").len(), 400);
    index.start_anew().unwrap();
    assert!(matches!(index.search(&SearchQuery::new("needle")), Err(IndexError::NotFilled { .. })));
    index.update(&other).unwrap();
    assert_eq!(found(&index, "needle"), [("other".to_owned(), 0)]);
}

#[test]
fn a_locked_file_is_told_and_harms_nothing() {
    let store = sample();
    let (folder, index) = fresh();
    let path = folder.path().join("s.index");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let options = IndexOptions::default().with_busy_timeout(Duration::from_millis(20));
    let hasty = SearchIndex::open_with(&path, options).unwrap();
    assert!(matches!(hasty.update(&store).unwrap_err(), IndexError::Busy { .. }));
    other.execute_batch("ROLLBACK").unwrap();
    hasty.update(&store).unwrap();
    assert_eq!(found(&index, "needle").len(), 400);
}

#[cfg(unix)]
#[test]
fn nobody_else_can_read_the_file_and_what_lies_beside_it() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, index) = fresh();
    index.update(&sample()).unwrap();
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
    assert!(files.len() >= 3);
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.file_name());
    }
}
