//! The stores that are measured.

use std::path::Path;

use session_persistence::{
    CreateOptions, Durability, Encoding, JsonlOptions, JsonlStore, SessionEvent, SessionHandle, SessionPersistence,
    SqliteOptions, SqliteStore,
};

use crate::sample;

pub(crate) const KINDS: [&str; 3] = ["sqlite", "raw", "zstd"];

/// The first argument of a process that works for another one.
const CHILD: &str = "--child";

pub(crate) fn open(kind: &str, path: &Path, durability: Durability) -> Box<dyn SessionPersistence> {
    match kind {
        "sqlite" => {
            let options = SqliteOptions::default().with_durability(durability);
            Box::new(SqliteStore::open_with(path, options).expect("a store"))
        }
        _ => {
            let encoding = if kind == "raw" { Encoding::Raw } else { Encoding::Zstd };
            let options = JsonlOptions::default().with_encoding(encoding).with_durability(durability);
            Box::new(JsonlStore::open_with(path, options).expect("a store"))
        }
    }
}

pub(crate) fn create(store: &dyn SessionPersistence, name: &str) -> Box<dyn SessionHandle> {
    store.create(&sample::header(name), CreateOptions::default()).expect("a session")
}

/// Makes session `s`.
pub(crate) fn fill(store: &dyn SessionPersistence, events: &[SessionEvent]) {
    let handle = create(store, "s");
    events.chunks(1000).for_each(|batch| handle.append(batch).expect("appended"));
    handle.flush().expect("flushed");
    handle.close().expect("closed");
}

/// A process that works for this one on a store.
pub(crate) fn child(kind: &str, path: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
    command.args([CHILD, kind]).arg(path);
    command
}

pub(crate) fn asked_of_child() -> Option<(String, std::path::PathBuf)> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next()? == CHILD).then_some(())?;
    Some((arguments.next()?, arguments.next()?.into()))
}
