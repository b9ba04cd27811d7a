//! Archives that an export makes, and what becomes of them when they are imported.

use std::io::{self, Cursor, Write};

use session_persistence::export::{self, ImportOptions, Tally};
use session_persistence::{MemoryStore, SessionPersistence};

use crate::logs::{self, IDS, Reports, child, content, event, id, id_of, longest_id, stores, text, zip};

fn import(store: &dyn SessionPersistence, archive: &[u8], options: ImportOptions) -> (Tally, Reports) {
    let mut reports = Reports::default();
    let tally = export::import_archive(store, "x.zip", Cursor::new(archive), options, &mut reports.take());
    (tally, reports)
}

fn names(archive: &[u8]) -> Vec<String> {
    let archive = zip::ZipArchive::new(Cursor::new(archive)).unwrap();
    archive.file_names().map(|name| name.unwrap().into_owned()).collect()
}

#[test]
fn an_archive_holds_a_session_and_its_descendants_depth_first() {
    let store = MemoryStore::new();
    for log in [
        logs::plain("root", 2),
        child("late", "root", 30),
        child("early", "root", 10),
        child("b", "root", 20),
        child("a", "root", 20),
        child("grandchild", "early", 1),
        child("stranger", "elsewhere", 1),
    ] {
        logs::import(&store, &log);
    }
    let expected: Vec<_> = ["early", "grandchild", "a", "b", "late"]
        .map(|folder| format!("subagents/{folder}/session.v3.jsonl"))
        .into_iter()
        .collect();
    assert_eq!(names(&zip(&store, &id("root"), true)), [&["session.v3.jsonl".to_owned()][..], &expected].concat());
    assert_eq!(names(&zip(&store, &id("root"), false)), ["session.v3.jsonl"]);
    let of_early = zip(&store, &id("early"), true);
    assert_eq!(names(&of_early), ["session.v3.jsonl", "subagents/grandchild/session.v3.jsonl"]);
}

#[test]
fn a_circle_of_parents_is_walked_once() {
    let store = MemoryStore::new();
    for log in [child("a", "c", 1), child("b", "a", 1), child("c", "b", 1), child("self", "self", 1)] {
        logs::import(&store, &log);
    }
    let expected = ["session.v3.jsonl", "subagents/c/session.v3.jsonl", "subagents/a/session.v3.jsonl"];
    assert_eq!(names(&zip(&store, &id("b"), true)), expected);
    assert_eq!(names(&zip(&store, &id("self"), true)), ["session.v3.jsonl"]);
}

#[test]
fn a_chain_of_ten_thousand_descendants_needs_no_deep_stack() {
    let store = MemoryStore::new();
    for depth in 0..10_000 {
        logs::import(&store, &child(&format!("s{}", depth + 1), &format!("s{depth}"), 1));
    }
    let archive = zip(&store, &id("s1"), true);
    assert_eq!(names(&archive).len(), 10_000);
}

#[test]
fn ids_of_every_kind_come_back_from_an_archive() {
    for (name, store) in stores() {
        logs::import(&*store, &logs::plain("root", 1));
        let longest = longest_id();
        for text in IDS.iter().copied().chain([longest.as_str()]) {
            logs::import(&*store, &(child(text, "root", 7) + &event("turn/start", 0, r#"{"turn":1}"#)));
        }
        let archive = zip(&*store, &id("root"), true);
        let entries = names(&archive);
        assert_eq!(entries.len(), IDS.len() + 2);
        let folded: std::collections::HashSet<_> = entries.iter().map(|entry| entry.to_lowercase()).collect();
        assert_eq!(folded.len(), entries.len(), "{name}: {entries:?}");
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-~/".contains(&b);
        assert!(entries.iter().all(|entry| entry.bytes().all(allowed)), "{entries:?}");

        for (other_name, other) in stores() {
            let (tally, _) = import(&*other, &archive, ImportOptions::default());
            assert_eq!((tally.created, tally.failed), (entries.len() as u64, 0), "{name} to {other_name}");
            assert_eq!(content(&*other), content(&*store), "{name} to {other_name}");
            assert!(zip(&*other, &id("root"), true) == archive, "{name} to {other_name}");
        }
    }
}

#[test]
fn the_name_of_an_entry_tells_the_format_of_its_log() {
    let store = MemoryStore::new();
    let old = r#"{"type":"session","version":0,"id":"old","createdAt":0,"parentSession":"root"}"#;
    let newer = r#"{"type":"session","version":12,"id":"newer","createdAt":1,"parentSession":"root","x":1}"#;
    for log in [logs::plain("root", 1), format!("{old}\n"), format!("{newer}\n")] {
        logs::import(&store, &log);
    }
    let archive = zip(&store, &id("root"), true);
    let expected = ["session.v3.jsonl", "subagents/old/session.jsonl", "subagents/newer/session.v12.jsonl"];
    assert_eq!(names(&archive), expected);
    assert_eq!(names(&zip(&store, &id("old"), true)), ["session.jsonl"]);
    let other = MemoryStore::new();
    assert_eq!(import(&other, &archive, ImportOptions::default()).1.letters(), "CCC");
    assert_eq!(text(&other, &id("newer")), format!("{newer}\n"));
}

#[test]
fn an_archive_tells_nothing_but_the_logs() {
    let (one, two) = (MemoryStore::new(), MemoryStore::new());
    logs::import(&one, &logs::plain("other", 1));
    for store in [&one, &two] {
        logs::import(store, &logs::unusual("s"));
    }
    let archive = zip(&one, &id("s"), true);
    assert!(archive == zip(&two, &id("s"), true));
    let mut zip = zip::ZipArchive::new(Cursor::new(&archive)).unwrap();
    assert!(zip.comment().is_empty());
    let mut entry = zip.by_index(0).unwrap();
    assert_eq!(entry.unix_mode(), Some(0o100_600));
    assert!(entry.extra_data().is_none_or(|extra| extra.is_empty()));
    assert_eq!(entry.last_modified().unwrap(), zip::DateTime::DEFAULT);
    assert_eq!(io::read_to_string(&mut entry).unwrap(), logs::unusual("s"));
}

#[test]
fn importing_an_archive_again_changes_nothing_and_a_longer_log_extends_on_request() {
    let source = MemoryStore::new();
    logs::import(&source, &logs::plain("root", 3));
    logs::import(&source, &child("a", "root", 1));
    let archive = zip(&source, &id("root"), true);
    for (name, store) in stores() {
        logs::import(&*store, &logs::plain("root", 2));
        let (tally, reports) = import(&*store, &archive, ImportOptions::default());
        assert_eq!(reports.letters(), "FC", "{name}");
        assert_eq!((tally.created, tally.failed, tally.stored()), (1, 1, 1), "{name}");
        let error = reports.error().to_string();
        assert!(error.contains("x.zip, entry session.v3.jsonl") && error.contains("--extend"), "{error}");
        assert_eq!(import(&*store, &archive, ImportOptions::extending()).1.letters(), "EU", "{name}");
        let before: Vec<_> = store.list(&Default::default()).unwrap().items;
        assert_eq!(import(&*store, &archive, ImportOptions::extending()).1.letters(), "UU", "{name}");
        assert_eq!(store.list(&Default::default()).unwrap().items, before, "{name}");
        assert_eq!(content(&*store), content(&source), "{name}");
    }
}

#[test]
fn a_broken_log_in_an_archive_does_not_keep_the_others_back() {
    let broken = crate::zip_bytes::Archive::of([
        crate::zip_bytes::Entry::deflated("session.v3.jsonl", logs::plain("root", 900) + "{}\n"),
        crate::zip_bytes::Entry::deflated("subagents/a/session.v3.jsonl", logs::plain("a", 1)),
    ]);
    let store = MemoryStore::new();
    let (_, reports) = import(&store, &broken.bytes(), ImportOptions::default());
    assert_eq!(reports.letters(), "FC");
    let error = reports.error().to_string();
    assert!(error.contains("entry session.v3.jsonl, line 902"), "{error}");
    assert_eq!(content(&store).len(), 1);
}

#[test]
fn an_absent_session_is_no_archive() {
    let store = MemoryStore::new();
    let mut out = Vec::new();
    let error = export::zip(&store, &id("absent"), true, &mut out).unwrap_err();
    assert_eq!(error.kind(), session_persistence::ErrorKind::NotFound);
    assert!(out.is_empty());
}

/// Takes some bytes and then no more.
struct Full(Vec<u8>, usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.1 - self.0.len());
        self.0.extend(&bytes[..taken]);
        if taken == 0 && !bytes.is_empty() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_failure_of_the_writer_is_told_and_leaves_no_archive() {
    let store = MemoryStore::new();
    logs::import(&store, &logs::plain("root", 9000));
    logs::import(&store, &child("a", "root", 1));
    let whole = zip(&store, &id("root"), true);
    for room in (0..whole.len()).step_by(97) {
        let mut out = Full(Vec::new(), room);
        let error = export::zip(&store, &id("root"), true, &mut out).unwrap_err();
        let cause = export::write_failure(&error).expect("a failure of the writer");
        assert_eq!(cause.kind(), io::ErrorKind::StorageFull, "{error}");
        assert!(import(&MemoryStore::new(), &out.0, ImportOptions::default()).1.letters() == "F");
    }
}

#[test]
fn a_session_that_cannot_be_read_leaves_no_archive() {
    let store = MemoryStore::new();
    logs::import(&store, &logs::plain("root", 10));
    logs::import(&store, &child("a", "root", 1));
    let damaged = crate::equality::Failing { inner: store, session: id("a") };
    let mut out = Vec::new();
    export::zip(&damaged, &id("root"), true, &mut out).unwrap_err();
    assert_eq!(import(&MemoryStore::new(), &out, ImportOptions::default()).1.letters(), "F");
    assert_eq!(id_of(&logs::plain("root", 1)), id("root"));
}

#[test]
fn an_archive_of_more_sessions_than_sixteen_bits_count_comes_back_whole() {
    let store = MemoryStore::new();
    logs::import(&store, &logs::plain("root", 1));
    for number in 0..66_000 {
        logs::import(&store, &child(&format!("s{number}"), "root", 1));
    }
    let archive = zip(&store, &id("root"), true);
    let other = MemoryStore::new();
    let (tally, _) = import(&other, &archive, ImportOptions::default());
    assert_eq!((tally.created, tally.failed), (66_001, 0));
    assert!(zip(&other, &id("root"), true) == archive);
}
