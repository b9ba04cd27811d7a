//! Folders in the layout of DeepSeek Harness: imported whole, whatever is wrong in them, and left as they are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use session_persistence::export::{self, ImportError, ImportOptions};
use session_persistence::{
    CreateOptions, Encoding, Error, ListQuery, MemoryStore, OpenOptions, Page, Result, SeqRange, SessionHandle,
    SessionHeader, SessionId, SessionPersistence, Snapshot,
};

use crate::logs::{self, Files, Reports, all, content, id, stores, text};

fn import(store: &dyn SessionPersistence, path: &Path, options: ImportOptions) -> Reports {
    let mut reports = Reports::default();
    let tally = export::import_path(store, path, options, &mut reports.take());
    assert_eq!(tally.stored() + tally.failed, reports.0.len() as u64);
    reports
}

/// A root of every log, of which some are of an older format and packed.
fn root(encoding: Encoding) -> (Files, MemoryStore) {
    let (files, expected) = (Files::new(encoding), MemoryStore::new());
    for log in all() {
        logs::import(&files.store, &log);
        logs::import(&expected, &log);
    }
    let header = r#"{"type":"session","version":0,"id":"packed","createdAt":1,"cwd":"/srv/app"}"#;
    let packed =
        r#"{"type":"text-chunks","seq0":0,"time0":9,"data":{"turn":1,"step":1,"index":0,"dt":[1],"texts":["a","b"]}}"#;
    let log = format!("{header}\n{packed}\n");
    let folder = files.folder.path().join("--srv-app--/packed");
    fs::create_dir_all(&folder).unwrap();
    let (name, bytes) = match encoding {
        Encoding::Raw => ("session.jsonl", log.clone().into_bytes()),
        _ => {
            let frame = |text: String| {
                let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
                encoder.include_checksum(true).unwrap();
                std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
                encoder.finish().unwrap()
            };
            ("session.jsonl.zstd", [frame(format!("{header}\n")), frame(format!("{packed}\n"))].concat())
        }
    };
    fs::write(folder.join(name), bytes).unwrap();
    logs::import(&expected, &log);
    (files, expected)
}

type State = BTreeMap<PathBuf, (Option<Vec<u8>>, SystemTime, u32)>;

/// Everything below a folder, with content, times and modes.
fn state(folder: &Path) -> State {
    fn mode(found: &fs::Metadata) -> u32 {
        #[cfg(unix)]
        return std::os::unix::fs::PermissionsExt::mode(&found.permissions());
        #[cfg(not(unix))]
        u32::from(found.permissions().readonly())
    }
    fn add(path: &Path, state: &mut State) {
        let found = fs::metadata(path).unwrap();
        let content = found.is_file().then(|| fs::read(path).unwrap());
        state.insert(path.to_owned(), (content, found.modified().unwrap(), mode(&found)));
        if found.is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| add(&entry.unwrap().path(), state));
        }
    }
    let mut all = State::new();
    add(folder, &mut all);
    all
}

#[test]
fn a_root_is_imported_whole_and_stays_as_it_is() {
    for encoding in [Encoding::Raw, Encoding::Zstd] {
        let (files, expected) = root(encoding);
        let count = content(&expected).len();
        let before = state(files.folder.path());
        for (name, store) in stores() {
            let reports = import(&*store, files.folder.path(), ImportOptions::default());
            assert_eq!(reports.letters(), "C".repeat(count), "{encoding:?} into {name}");
            assert_eq!(content(&*store), content(&expected), "{encoding:?} into {name}");
            let again = import(&*store, files.folder.path(), ImportOptions::default());
            assert_eq!(again.letters(), "U".repeat(count), "{encoding:?} into {name}");
        }
        assert_eq!(state(files.folder.path()), before, "{encoding:?}");
    }
}

#[test]
fn the_order_of_a_report_does_not_depend_on_the_times_of_files() {
    let order = |path: &Path| -> Vec<_> {
        let reports = import(&MemoryStore::new(), path, ImportOptions::default());
        reports.0.iter().map(|outcome| outcome.as_ref().unwrap().session().clone()).collect()
    };
    let (files, _) = root(Encoding::Raw);
    let before = order(files.folder.path());
    for (path, (content, ..)) in state(files.folder.path()).into_iter().rev() {
        if content.is_some() {
            fs::File::options().append(true).open(path).unwrap().set_modified(SystemTime::now()).unwrap();
        }
    }
    assert_eq!(order(files.folder.path()), before);
}

#[test]
fn sessions_that_cannot_be_read_are_told_and_the_rest_is_imported() {
    let files = Files::new(Encoding::Raw);
    for name in ["broken", "empty-file", "fine", "other-id", "torn-header"] {
        logs::import(&files.store, &logs::plain(name, 4));
    }
    let log = |name: &str| files.folder.path().join("_no-cwd").join(name).join("session.v3.jsonl");
    let change = |name: &str, change: &dyn Fn(String) -> String| {
        fs::write(log(name), change(fs::read_to_string(log(name)).unwrap())).unwrap();
    };
    let end = logs::event("turn/end", 4, "{}");
    change("broken", &|text| text.replacen("\"seq\":1", "\"seq\":7", 1) + &end);
    change("empty-file", &|_| String::new());
    change("other-id", &|text| text.replacen("other-id", "someone-else", 1));
    change("torn-header", &|text| text[..30].to_owned());
    fs::write(files.folder.path().join("_no-cwd/stray.jsonl"), "x").unwrap();
    let before = state(files.folder.path());
    for (name, store) in stores() {
        let reports = import(&*store, files.folder.path(), ImportOptions::default());
        let mut letters: Vec<_> = reports.letters().chars().collect();
        letters.sort();
        assert_eq!(letters, ['C', 'F', 'F', 'F', 'F'], "{name}");
        for error in reports.0.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert!(matches!(error, ImportError::Source { .. }), "{name}: {error}");
            assert!(error.to_string().contains("nothing of it was stored"), "{name}: {error}");
        }
        assert_eq!(content(&*store).len(), 1, "{name}");
        assert_eq!(text(&*store, &id("fine")), logs::plain("fine", 4), "{name}");
    }
    assert_eq!(state(files.folder.path()), before);
}

#[test]
fn a_torn_tail_is_left_out_and_left_where_it_is() {
    for encoding in [Encoding::Raw, Encoding::Zstd] {
        let files = Files::new(encoding);
        logs::import(&files.store, &logs::plain("s", 4));
        let end = if encoding == Encoding::Raw { "session.v3.jsonl" } else { "session.v3.jsonl.zstd" };
        let path = files.folder.path().join("_no-cwd/s").join(end);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(if encoding == Encoding::Raw { b"{\"type\":\"tur" } else { b"\x28\xb5\x2f" });
        fs::write(&path, &bytes).unwrap();
        let store = MemoryStore::new();
        assert_eq!(import(&store, files.folder.path(), ImportOptions::default()).letters(), "C");
        assert_eq!(text(&store, &id("s")), logs::plain("s", 4));
        assert!(fs::read(&path).unwrap() == bytes);
    }
}

/// A store that takes a number of new sessions, and then fails as if the process had been killed.
struct Killed<'a> {
    inner: &'a dyn SessionPersistence,
    left: std::sync::atomic::AtomicUsize,
}

impl SessionPersistence for Killed<'_> {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        use std::sync::atomic::Ordering::Relaxed;
        if self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err() {
            let session = Some(header.id().clone());
            return Err(Error::StoreBusy { session, store: "x".to_owned(), holder: None, source: None });
        }
        self.inner.create(header, options)
    }
    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        self.inner.open(id, options)
    }
    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        self.inner.stat(id)
    }
    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        self.inner.list(query)
    }
    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }
    fn remove(&self, id: &SessionId) -> Result<bool> {
        self.inner.remove(id)
    }
}

#[test]
fn an_import_that_was_stopped_half_way_is_finished_by_the_next_and_changes_nothing_that_was_done() {
    let (files, expected) = root(Encoding::Zstd);
    let count = content(&expected).len();
    for (name, store) in stores() {
        let done = count / 2;
        let killed = Killed { inner: &*store, left: done.into() };
        import(&killed, files.folder.path(), ImportOptions::default());
        let before = store.list(&ListQuery::default()).unwrap().items;
        assert_eq!(before.len(), done, "{name}");

        let reports = import(&*store, files.folder.path(), ImportOptions::default());
        assert_eq!(reports.letters(), "U".repeat(done) + &"C".repeat(count - done), "{name}");
        assert_eq!(content(&*store), content(&expected), "{name}");
        for snapshot in before {
            assert_eq!(store.stat(&snapshot.id).unwrap().unwrap().revision, snapshot.revision, "{name}");
        }
    }
}

#[test]
fn a_root_that_went_on_extends_what_was_imported_on_request() {
    let files = Files::new(Encoding::Raw);
    logs::import(&files.store, &logs::plain("grows", 3));
    logs::import(&files.store, &logs::plain("stays", 3));
    for (name, store) in stores() {
        logs::import(&*store, &logs::plain("grows", 2));
        assert_eq!(import(&*store, files.folder.path(), ImportOptions::default()).letters(), "FC", "{name}");
        assert_eq!(import(&*store, files.folder.path(), ImportOptions::extending()).letters(), "EU", "{name}");
        assert_eq!(text(&*store, &id("grows")), logs::plain("grows", 3), "{name}");
    }
}

#[test]
fn a_root_is_imported_while_its_sessions_are_written() {
    let files = Files::new(Encoding::Zstd);
    logs::import(&files.store, &logs::plain("s", 3));
    let writer = files.store.open(&id("s"), OpenOptions::write()).unwrap();
    let store = MemoryStore::new();
    assert_eq!(import(&store, files.folder.path(), ImportOptions::default()).letters(), "C");
    let handle = store.open(&id("s"), OpenOptions::read()).unwrap();
    writer.append(&[logs_event(3)]).unwrap();
    assert_eq!(handle.read(SeqRange::from(..3)).unwrap().len(), 3);
}

#[test]
fn folders_that_are_no_roots_are_refused_and_nothing_is_made_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = |because: &str| {
        let before = state(folder.path());
        let error = import(&MemoryStore::new(), folder.path(), ImportOptions::default()).error();
        assert!(matches!(&error, ImportError::Foreign { .. }), "{because}: {error}");
        assert!(error.to_string().ends_with("nothing was stored"), "{error}");
        assert_eq!(state(folder.path()), before, "{because}");
    };
    refuse("it is empty");
    fs::write(folder.path().join("log.jsonl"), logs::plain("s", 1)).unwrap();
    refuse("it holds a log");
}

/// The roots that DeepSeek Harness itself wrote, where `SESSION_SAMPLES` names the folder of samples.
#[test]
fn the_roots_that_the_harness_itself_wrote_become_its_plain_logs() {
    let Some(samples) = std::env::var_os("SESSION_SAMPLES").map(PathBuf::from) else {
        eprintln!("SKIPPED: SESSION_SAMPLES names no folder with logs/ and dsh-root/ in it");
        return;
    };
    for kind in ["raw", "zstd"] {
        let root = samples.join("dsh-root").join(kind);
        let before = state(&root);
        for (name, store) in stores() {
            let reports = import(&*store, &root, ImportOptions::default());
            assert!(
                !reports.0.is_empty() && reports.letters().chars().all(|letter| letter == 'C'),
                "{kind} into {name}"
            );
            for (session, text) in content(&*store) {
                let log = fs::read_to_string(samples.join(format!("logs/{session}.jsonl"))).unwrap();
                assert!(text == log, "{kind} into {name}: {session:?}");
            }
        }
        assert_eq!(state(&root), before, "{kind}");
    }
}

fn logs_event(seq: u64) -> session_persistence::SessionEvent {
    session_persistence::text::parse_event(logs::event("turn/start", seq, "{}").trim_end().as_bytes()).unwrap()
}
