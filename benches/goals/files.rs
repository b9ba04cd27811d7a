//! Plain files: a full read, the list of all sessions, and going on with a long one.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use session_persistence::{Encoding, JsonlOptions, JsonlStore, ListQuery, OpenOptions, SeqRange, SessionPersistence};

use crate::floor::plain_read;
use crate::list::make_sessions;
use crate::pairs::{PAIRS, alternate};
use crate::processes;
use crate::read::{EVENTS, fill, timed};
use crate::sample;
use crate::table::{Goal, Table};

const SESSIONS: u64 = 10_000;

pub(crate) fn rows(table: &mut Table) {
    for (name, encoding) in [("zstd", Encoding::Zstd), ("raw", Encoding::Raw)] {
        long_session(table, name, encoding);
    }
    list(table);
}

fn options(encoding: Encoding) -> JsonlOptions {
    JsonlOptions::default().with_encoding(encoding)
}

/// The one log below a root.
pub(crate) fn logs(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(logs(&path));
        } else if path.file_name().is_some_and(|name| name.to_string_lossy().contains(".jsonl")) {
            found.push(path);
        }
    }
    found
}

fn long_session(table: &mut Table, name: &str, encoding: Encoding) {
    let folder = sample::scratch();
    let long = folder.path().join("long");
    fill(&JsonlStore::open_with(&long, options(encoding)).expect("a store"), &sample::events(EVENTS));
    let log = logs(&long).pop().expect("the log");
    let read_plainly = || {
        timed(|| {
            let file = File::open(&log).expect("the log");
            match encoding {
                Encoding::Zstd => plain_read(zstd::Decoder::new(file).expect("a decoder")),
                _ => plain_read(file),
            }
        })
    };
    let read = alternate(
        PAIRS,
        || {
            let store = JsonlStore::open_existing(&long).expect("the store");
            timed(|| {
                let handle = store.open(&sample::id("s"), OpenOptions::read()).expect("the session");
                handle.read(SeqRange::ALL).expect("read")
            })
        },
        read_plainly,
    );
    table.throughput(
        &format!("{name} files: full read of 100,000 events by a new store"),
        Goal::AtLeast(0.8),
        &format!("a bare reader of {name} JSONL that checks it"),
        &read,
    );
    let first = |root: &Path| processes::timed_first_append("files", root);
    let whole = alternate(PAIRS, || first(&long).0, read_plainly);
    table.time(
        &format!("{name} files: open and first append in a new process, 100,000 events"),
        Goal::AtMost(1.25),
        "reading the log once, checked",
        &whole,
    );
    let (size, bytes) = (fs::metadata(&log).expect("the log").len(), first(&long).1);
    let note = format!("{bytes} bytes of {size}");
    match bytes {
        0 => table.skipped(&format!("{name} files: bytes read for it"), "the system does not count them"),
        _ => table.number(
            &format!("{name} files: bytes read for it, by those of the log"),
            Goal::AtMost(1.05),
            "x",
            bytes as f64 / size as f64,
            &note,
        ),
    }
}

/// A root of so many sessions of two events each, made once.
pub(crate) fn root(count: u64) -> PathBuf {
    let path = sample::kept(&format!("{count}-sessions"));
    if path.exists() {
        return path;
    }
    let draft = sample::scratch();
    let unfinished = draft.path().join("root");
    {
        let store = JsonlStore::open_with(&unfinished, options(Encoding::Zstd)).expect("a store");
        make_sessions(&store, count);
    }
    fs::rename(unfinished, &path).expect("its name");
    path
}

fn list(table: &mut Table) {
    let root = root(SESSIONS);
    let listed = alternate(
        PAIRS,
        || {
            let store = JsonlStore::open_existing(&root).expect("the store");
            timed(|| {
                let page = store.list(&ListQuery::default()).expect("listed");
                assert!(page.items.len() as u64 == SESSIONS);
                page
            })
        },
        || {
            timed(|| {
                let found = logs(&root);
                assert!(found.len() as u64 == SESSIONS);
                let start = |path: &PathBuf| {
                    let mut bytes = vec![0; 4096];
                    let read = File::open(path).and_then(|mut file| file.read(&mut bytes)).expect("read");
                    bytes.truncate(read);
                    bytes
                };
                found.iter().map(start).collect::<Vec<_>>()
            })
        },
    );
    table.time(
        "zstd files: list of 10,000 sessions by a new store",
        Goal::AtMost(2.0),
        "finding, opening and reading 4 KB of each log",
        &listed,
    );
}
