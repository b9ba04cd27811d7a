//! [`Place`]: a root in a folder of its own.

use std::path::{Path, PathBuf};

use session_persistence::{
    CreateOptions, Encoding, Json, JsonlOptions, JsonlStore, ListQuery, OpenOptions, SeqRange, SessionEvent,
    SessionHandle, SessionHeader, SessionId, SessionPersistence, Snapshot,
};
use tempfile::TempDir;

pub(crate) const ENCODINGS: [Encoding; 2] = [Encoding::Raw, Encoding::Zstd];

/// A root in a folder of its own.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) encoding: Encoding,
}

impl Place {
    pub(crate) fn new(encoding: Encoding) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), encoding }
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn open(&self) -> JsonlStore {
        self.open_with(JsonlOptions::default().memo_bytes)
    }

    /// A store that holds no events in memory.
    pub(crate) fn open_forgetful(&self) -> JsonlStore {
        self.open_with(0)
    }

    fn open_with(&self, memo_bytes: usize) -> JsonlStore {
        let mut options = JsonlOptions::default();
        options.encoding = self.encoding;
        options.memo_bytes = memo_bytes;
        JsonlStore::open_with(self.root(), options).unwrap()
    }

    /// The folder of a session whose header names the folder `/w`.
    pub(crate) fn session(&self, name: &str) -> PathBuf {
        self.root().join("--w--").join(id(name).escaped())
    }

    /// The log of a session of format 3 whose header names the folder `/w`.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        let suffix = if self.encoding == Encoding::Zstd { ".zstd" } else { "" };
        self.session(name).join(format!("session.v3.jsonl{suffix}"))
    }

    /// Every file and folder of the root with its size.
    pub(crate) fn files(&self) -> Vec<(PathBuf, u64)> {
        fn collect(folder: &Path, into: &mut Vec<(PathBuf, u64)>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                into.push((path.clone(), if path.is_dir() { 0 } else { path.metadata().unwrap().len() }));
                if path.is_dir() {
                    collect(&path, into);
                }
            }
        }
        let mut files = Vec::new();
        collect(self.root(), &mut files);
        files.sort();
        files
    }
}

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(crate) fn header(name: &str) -> SessionHeader {
    SessionHeader::new(id(name), 1_700_000_000_000).unwrap().with_cwd("/w")
}

pub(crate) fn typed(event_type: &str, seq: u64, data: &str) -> SessionEvent {
    SessionEvent::new(event_type, seq, 1_700_000_000_000 + seq as i64, Json::parse(data).unwrap()).unwrap()
}

/// An event that finishes no turn, with a character of several bytes.
pub(crate) fn event(seq: u64) -> SessionEvent {
    typed("todo/write", seq, &format!(r#"{{"todos":[{{"content":"é{seq}","status":"open"}}]}}"#))
}

pub(crate) fn turn_end(seq: u64) -> SessionEvent {
    typed("turn/end", seq, r#"{"turn":1,"reason":{"kind":"completed"}}"#)
}

pub(crate) fn events(range: std::ops::Range<u64>) -> Vec<SessionEvent> {
    range.map(event).collect()
}

/// Stores a session, each batch with an append of its own.
pub(crate) fn store(store: &JsonlStore, name: &str, batches: &[&[SessionEvent]]) {
    let writer = store.create(&header(name), CreateOptions::default()).unwrap();
    for batch in batches {
        writer.append(batch).unwrap();
    }
    writer.flush().unwrap();
    writer.close().unwrap();
}

pub(crate) fn writer(store: &JsonlStore, name: &str) -> Box<dyn SessionHandle> {
    store.open(&id(name), OpenOptions::write()).unwrap_or_else(|e| panic!("opening {name:?} for writing: {e}"))
}

pub(crate) fn read(store: &JsonlStore, name: &str) -> Vec<SessionEvent> {
    let reader = store.open(&id(name), OpenOptions::read()).unwrap_or_else(|e| panic!("opening {name:?}: {e}"));
    reader.read(SeqRange::ALL).unwrap_or_else(|e| panic!("reading {name:?}: {e}"))
}

pub(crate) fn stat(store: &JsonlStore, name: &str) -> Snapshot {
    store.stat(&id(name)).unwrap().unwrap_or_else(|| panic!("{name:?} is stored"))
}

pub(crate) fn list(store: &JsonlStore) -> Vec<Snapshot> {
    store.list(&ListQuery::default()).unwrap().items
}

pub(crate) fn ids(listed: &[Snapshot]) -> Vec<&str> {
    let mut ids: Vec<_> = listed.iter().map(|snapshot| snapshot.id.as_str()).collect();
    ids.sort_unstable();
    ids
}
