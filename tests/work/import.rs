//! An import, which holds a part of a log at a time.

use std::io::Write;
use std::path::Path;

use session_persistence::export::{self, ImportOptions};
use session_persistence::{
    Durability, Encoding, JsonlOptions, JsonlStore, SessionHeader, SessionPersistence, SqliteStore,
};

use super::counting::counted;
use super::{event, id};

/// What is held of any log, together: what is read before anything is stored, and what is stored at once.
const HELD: u64 = 10 << 20;

fn write_log(path: &Path, count: u64) {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    writeln!(file, "{}", SessionHeader::new(id(), 1).unwrap().to_line()).unwrap();
    (0..count).for_each(|seq| writeln!(file, "{}", event(seq).to_line()).unwrap());
    file.flush().unwrap();
}

fn store(kind: &str, path: &Path) -> Box<dyn SessionPersistence> {
    let files = |encoding| {
        let options = JsonlOptions::default().with_encoding(encoding).with_durability(Durability::EveryAppend);
        Box::new(JsonlStore::open_with(path, options).unwrap())
    };
    match kind {
        "sqlite" => Box::new(SqliteStore::open(path).unwrap()),
        "raw" => files(Encoding::Raw),
        _ => files(Encoding::Zstd),
    }
}

#[test]
fn an_import_holds_a_part_of_a_log_whatever_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.jsonl");
    for kind in ["sqlite", "raw", "zstd"] {
        let mut held = Vec::new();
        for count in [7000, 21_000] {
            write_log(&log, count);
            let store = store(kind, &folder.path().join(format!("{kind}-{count}")));
            let work = counted(|| export::import_file(&*store, &log, ImportOptions::default()).unwrap());
            assert!(work.held <= HELD, "{kind}, {count}: {work:?}");
            held.push(work.held);
            assert_eq!(store.stat(&id()).unwrap().unwrap().event_count.unwrap_or(count), count, "{kind}");
        }
        assert!(held[1] <= held[0] + (1 << 20), "{kind}: {held:?} bytes for 7 and for 21 MB");
    }
}
