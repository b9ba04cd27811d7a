//! The logs that the tests move, and the stores they move through.

use session_persistence::export::{self, ImportError, ImportOptions, Imported};
use session_persistence::{
    CreateOptions, Encoding, JsonlOptions, JsonlStore, ListQuery, MemoryStore, OpenOptions, Page, Result,
    SessionHandle, SessionHeader, SessionId, SessionPersistence, Snapshot, SqliteStore,
};

pub(crate) struct Header<'a> {
    pub(crate) id: &'a str,
    pub(crate) created_at: u64,
    pub(crate) parent: Option<&'a str>,
    pub(crate) is_seeded: bool,
}

impl Header<'_> {
    pub(crate) fn line(&self) -> String {
        let text = |text: &str| serde_json::to_string(text).expect("text");
        let parent = self.parent.map_or_else(String::new, |p| format!(",\"parentSession\":{}", text(p)));
        format!(
            "{{\"type\":\"session\",\"version\":3,\"id\":{},\"createdAt\":{}{parent},\"isSeeded\":{},\"delegationDepth\":0}}\n",
            text(self.id),
            self.created_at,
            self.is_seeded
        )
    }
}

/// A header of format 3 without a parent.
pub(crate) fn header(id: &str) -> String {
    Header { id, created_at: 5, parent: None, is_seeded: false }.line()
}

/// A header of format 3 with a parent.
pub(crate) fn child(id: &str, parent: &str, created_at: u64) -> String {
    Header { id, created_at, parent: Some(parent), is_seeded: false }.line()
}

pub(crate) fn event(event_type: &str, seq: u64, rest: &str) -> String {
    format!("{{\"type\":\"{event_type}\",\"seq\":{seq},\"time\":{},\"data\":{rest}}}\n", 1000 + seq)
}

/// A log of `count` plain events.
pub(crate) fn plain(id: &str, count: u64) -> String {
    header(id) + &(0..count).map(|seq| event("turn/start", seq, r#"{"turn":1}"#)).collect::<String>()
}

/// A log that its parent was forked into, and that goes on by itself.
pub(crate) fn forked(id: &str, parent: &str) -> String {
    let header = Header { id, created_at: 9, parent: Some(parent), is_seeded: true };
    header.line()
        + &event("turn/start", 0, r#"{"turn":1}"#)
        + &event("session/end-seed", 1, "{}")
        + &event("turn/end", 2, r#"{"turn":1,"reason":{"kind":"completed"}}"#)
        + &event("session/end-seed", 3, r#"{"inherited":true}"#)
        + &event("turn/start", 4, r#"{"turn":2}"#)
}

/// A log whose last turn was never finished.
pub(crate) fn interrupted(id: &str) -> String {
    header(id)
        + &event("turn/start", 0, r#"{"turn":1}"#)
        + &event("step/start", 1, r#"{"turn":1,"step":1}"#)
        + &event("tool/call", 2, r#"{"turn":1,"step":1,"callId":"c","name":"bash","arguments":"{\"x\":"}"#)
}

/// A log of everything that is spelled in an unusual way.
pub(crate) fn unusual(id: &str) -> String {
    header(id)
        + &event("acme/pulse", 0, r#"{"n":1.0},"ignorable":true"#)
        + "{\"data\":{\"b\":1,\"a\":2,\"10\":3,\"2\":4},\"time\":-5,\"surfaceOp\":\"append\",\"seq\":1,\"type\":\"user/message\"}\n"
        + " {\"type\" : \"acme/spaced\",\"seq\":2, \"time\":0,\"data\": [ 1e400 , -0.0 ] ,\"ignorable\":true}\n"
        + &event("turn/start", 3, r#"{"lone":"\ud83d","low":"\udc00x","nul":"\u0000","slash":"\/","é":"😀"}"#)
        + &event("tool/result", 4, r#"{"k":1,"k":2},"sourceEventSeqs":[1,3],"surfaceOp":"append""#)
        + &event("user/message", 5, r#"null,"surfaceOp":{"op":"replace","startSeq":1,"endSeq":4},"sourceEventSeqs":[]"#)
        + "{\"type\":\"acme/opaque\",\"seq\":6,\"time\":9,\"data\":[],\"ignorable\":true,\"surfaceOp\":[7]}\n"
}

/// Ids of every kind, among them such that differ in case only.
pub(crate) const IDS: [&str; 18] = [
    "../../x", "a/b", "a\\b", "A", "a", "..", ".", "😀", "é", "e\u{301}", "con", "a.", "a%2Fb", "--", "a\nb", " ",
    "~002E", "C:x",
];

/// An id whose escaped form is as long as one may be.
pub(crate) fn longest_id() -> String {
    "/".repeat(48)
}

/// A log of each kind and an id of each kind, but for a huge one.
pub(crate) fn all() -> Vec<String> {
    let mut logs = vec![forked("forked", "../../x"), interrupted("interrupted"), unusual("unusual"), header("empty")];
    logs.extend(IDS.iter().map(|id| plain(id, 3)));
    logs.push(plain(&longest_id(), 2));
    logs.push(plain("long", 9000));
    logs
}

pub(crate) type Stores = Vec<(&'static str, Box<dyn SessionPersistence>)>;

/// A store of each kind.
pub(crate) fn stores() -> Stores {
    vec![
        ("memory", Box::new(MemoryStore::new())),
        ("sqlite", Box::new(SqliteStore::in_memory().expect("a store"))),
        ("raw files", Box::new(Files::new(Encoding::Raw))),
        ("zstd files", Box::new(Files::new(Encoding::Zstd))),
    ]
}

/// A store of files in a folder of its own, which is gone with it.
pub(crate) struct Files {
    pub(crate) store: JsonlStore,
    pub(crate) folder: tempfile::TempDir,
}

impl Files {
    pub(crate) fn new(encoding: Encoding) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = JsonlOptions::default();
        options.encoding = encoding;
        Self { store: JsonlStore::open_with(folder.path(), options).expect("a store"), folder }
    }
}

impl SessionPersistence for Files {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        self.store.create(header, options)
    }
    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        self.store.open(id, options)
    }
    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        self.store.stat(id)
    }
    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        self.store.list(query)
    }
    fn flush(&self) -> Result<()> {
        self.store.flush()
    }
    fn remove(&self, id: &SessionId) -> Result<bool> {
        self.store.remove(id)
    }
}

pub(crate) fn id(id: &str) -> SessionId {
    SessionId::new(id).expect("an id")
}

/// The id of a log.
pub(crate) fn id_of(log: &str) -> SessionId {
    let header = log.lines().next().expect("a header");
    session_persistence::SessionHeader::parse(header.as_bytes()).expect(header).id().clone()
}

#[track_caller]
pub(crate) fn import(store: &dyn SessionPersistence, log: &str) -> Imported {
    export::import_reader(store, "log", log.as_bytes(), ImportOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
pub(crate) fn text(store: &dyn SessionPersistence, id: &SessionId) -> String {
    let mut text = Vec::new();
    export::jsonl(store, id, &mut text).unwrap_or_else(|e| panic!("{e}"));
    String::from_utf8(text).expect("text")
}

#[cfg(feature = "zip")]
#[track_caller]
pub(crate) fn zip(store: &dyn SessionPersistence, id: &SessionId, include_descendants: bool) -> Vec<u8> {
    let mut archive = Vec::new();
    let report = export::zip(store, id, include_descendants, &mut archive).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(report.bytes, archive.len() as u64);
    archive
}

/// Every session of a store with its text, in the order of the ids.
pub(crate) fn content(store: &dyn SessionPersistence) -> Vec<(SessionId, String)> {
    let mut sessions: Vec<_> =
        store.list(&ListQuery::default()).expect("a list").items.into_iter().map(|s| s.id).collect();
    sessions.sort();
    sessions.into_iter().map(|id| (id.clone(), text(store, &id))).collect()
}

/// What a call reported of its sessions, in order: the id and what was done, or the error.
#[derive(Default)]
pub(crate) struct Reports(pub(crate) Vec<Result<Imported, ImportError>>);

impl Reports {
    pub(crate) fn take(&mut self) -> impl FnMut(Result<Imported, ImportError>) {
        |outcome| self.0.push(outcome)
    }

    /// One letter a report: Created, Unchanged, Extended or Failed.
    pub(crate) fn letters(&self) -> String {
        let letter = |outcome: &Result<Imported, ImportError>| match outcome {
            Ok(Imported::Created { .. }) => 'C',
            Ok(Imported::Unchanged { .. }) => 'U',
            Ok(Imported::Extended { .. }) => 'E',
            Ok(_) => '?',
            Err(_) => 'F',
        };
        self.0.iter().map(letter).collect()
    }

    /// The one error that was reported.
    #[track_caller]
    pub(crate) fn error(self) -> ImportError {
        let mut errors: Vec<_> = self.0.into_iter().filter_map(Result::err).collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        errors.remove(0)
    }
}
