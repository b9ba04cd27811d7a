//! Archives that are not what an export makes: refused as a whole, with nothing stored.

use std::io::Cursor;

use session_persistence::export::archive::{ArchiveProblem, FREE_BYTES};
use session_persistence::export::{self, ImportError, ImportOptions};
use session_persistence::{ListQuery, MemoryStore, SessionPersistence};

use crate::logs::{Reports, id, plain, zip};
use crate::zip_bytes::{Archive, Entry};

const ROOT: &str = "session.v3.jsonl";

fn root() -> Entry {
    Entry::stored(ROOT, plain("s", 2))
}

fn child(folder: &str, id: &str) -> Entry {
    Entry::deflated(format!("subagents/{folder}/session.v3.jsonl"), plain(id, 2))
}

fn import(archive: Vec<u8>) -> (MemoryStore, Reports) {
    let store = MemoryStore::new();
    let mut reports = Reports::default();
    let options = ImportOptions::default();
    let tally = export::import_archive(&store, "x.zip", Cursor::new(archive), options, &mut reports.take());
    assert_eq!(tally.created + tally.failed, reports.0.len() as u64);
    (store, reports)
}

/// Checks that an archive is refused once, for one reason, and that nothing of it is stored; gives the reason.
#[track_caller]
fn refused(archive: Vec<u8>) -> ArchiveProblem {
    let (store, reports) = import(archive);
    let error = reports.error();
    let text = error.to_string();
    let ImportError::Archive { file, problem, .. } = error else { panic!("{text}") };
    assert_eq!(file, "x.zip");
    assert!(text.ends_with("; nothing was stored"), "{text}");
    assert!(store.list(&ListQuery::default()).unwrap().items.is_empty(), "{text}");
    problem
}

/// The same where the reason is about an entry beside a sound one.
#[track_caller]
fn refused_beside_a_sound_entry(entry: Entry) -> ArchiveProblem {
    let first = refused(Archive::of([entry.clone(), root()]).bytes());
    assert_eq!(refused(Archive::of([root(), entry]).bytes()), first, "the order of the entries changed the reason");
    first
}

#[track_caller]
fn ambiguous(archive: &Archive) {
    let problem = refused(archive.bytes());
    assert!(matches!(problem, ArchiveProblem::Ambiguous { .. }), "{problem:?}");
}

#[track_caller]
fn damaged(archive: Vec<u8>) {
    let problem = refused(archive);
    assert!(matches!(problem, ArchiveProblem::Damaged { .. }), "{problem:?}");
}

#[test]
fn the_archive_that_the_hostile_ones_are_made_of_is_sound() {
    let (_, reports) = import(Archive::of([root(), child("a", "a"), child("A~~2", "A")]).bytes());
    assert_eq!(reports.letters(), "CCC");
}

#[test]
fn a_name_that_leads_out_of_the_archive_is_refused() {
    for name in ["../session.v3.jsonl", "subagents/../session.v3.jsonl", "subagents/a/../../../x", ".."] {
        assert_eq!(refused_beside_a_sound_entry(Entry::stored(name, plain("a", 1))), ArchiveProblem::ParentFolder);
    }
}

#[test]
fn an_absolute_path_is_refused() {
    for name in ["/session.v3.jsonl", "//host/share/session.v3.jsonl"] {
        assert_eq!(refused_beside_a_sound_entry(Entry::stored(name, plain("a", 1))), ArchiveProblem::AbsolutePath);
    }
}

#[test]
fn a_backslash_in_a_name_is_refused() {
    for name in ["subagents\\a\\session.v3.jsonl", "..\\session.v3.jsonl", "subagents/a\\b/session.v3.jsonl"] {
        assert_eq!(refused_beside_a_sound_entry(Entry::stored(name, plain("a", 1))), ArchiveProblem::Backslash);
    }
}

#[test]
fn the_letter_of_a_drive_is_refused() {
    for name in ["C:session.v3.jsonl", "c:/session.v3.jsonl"] {
        assert_eq!(refused_beside_a_sound_entry(Entry::stored(name, plain("a", 1))), ArchiveProblem::DriveLetter);
    }
}

#[test]
fn links_folders_and_devices_are_refused() {
    for attributes in [0o120_777 << 16, 0o040_755 << 16, 0o010_600 << 16, 0o020_600 << 16, 0o140_600 << 16, 0x10, 0x40]
    {
        let entry = Entry { attributes, ..child("a", "a") };
        assert_eq!(refused_beside_a_sound_entry(entry), ArchiveProblem::NotAFile, "{attributes:o}");
    }
    assert_eq!(refused_beside_a_sound_entry(Entry::stored("subagents/a/", "")), ArchiveProblem::NotAFile);
}

#[test]
fn a_name_that_stands_twice_is_refused() {
    let twice = Archive::of([root(), child("a", "a"), child("a", "a")]);
    assert_eq!(refused(twice.bytes()), ArchiveProblem::DuplicateName);
    let twice = Archive::of([root(), Entry::stored(ROOT, plain("other", 1))]);
    assert_eq!(refused(twice.bytes()), ArchiveProblem::DuplicateName);
    let in_other_letters = Archive::of([root(), child("a", "a"), child("A", "A")]);
    assert_eq!(refused(in_other_letters.bytes()), ArchiveProblem::DuplicateName);
}

#[test]
fn a_session_that_has_two_entries_is_refused() {
    let expected = ArchiveProblem::DuplicateSession { session: id("a") };
    assert_eq!(refused(Archive::of([root(), child("a", "a"), child("a~~2", "a")]).bytes()), expected);
    let expected = ArchiveProblem::DuplicateSession { session: id("s") };
    assert_eq!(refused(Archive::of([root(), child("s", "s")]).bytes()), expected);
}

#[test]
fn an_encrypted_entry_is_refused() {
    let entry = Entry { flags: 1, ..child("a", "a") };
    assert_eq!(refused_beside_a_sound_entry(entry), ArchiveProblem::Encrypted);
}

#[test]
fn another_compression_is_refused() {
    for method in [12, 93, 95, 9] {
        let entry = Entry { method, ..child("a", "a") };
        assert_eq!(refused_beside_a_sound_entry(entry), ArchiveProblem::OtherCompression, "{method}");
    }
}

#[test]
fn entries_that_no_export_makes_are_refused() {
    for name in
        ["media/x.png", "README", "session.v3.jsonl.zstd", "__MACOSX/._session.v3.jsonl", "a/session.v3.jsonl", ""]
    {
        let problem = refused_beside_a_sound_entry(Entry::stored(name, plain("a", 1)));
        assert_eq!(problem, ArchiveProblem::ForeignName, "{name}");
    }
    let latin = Entry::stored(b"subagents/\xe9/session.v3.jsonl", plain("é", 1));
    assert!(matches!(refused_beside_a_sound_entry(latin), ArchiveProblem::OtherSession { .. }));
}

#[test]
fn an_archive_without_its_root_or_with_two_is_refused() {
    assert_eq!(refused(Archive::of([child("a", "a")]).bytes()), ArchiveProblem::NotOneRoot { found: 0 });
    assert_eq!(refused(Archive::of([]).bytes()), ArchiveProblem::NotOneRoot { found: 0 });
    let two = Archive::of([root(), Entry::stored("session.v2.jsonl", plain("a", 1))]);
    assert_eq!(refused(two.bytes()), ArchiveProblem::NotOneRoot { found: 2 });
}

#[test]
fn an_entry_whose_log_is_of_another_session_is_refused() {
    let problem = refused_beside_a_sound_entry(child("b", "a"));
    assert_eq!(problem, ArchiveProblem::OtherSession { session: id("a") });
}

#[test]
fn an_entry_whose_log_has_another_version_is_refused() {
    let entry = Entry::stored("subagents/a/session.v2.jsonl", plain("a", 1));
    assert_eq!(refused_beside_a_sound_entry(entry), ArchiveProblem::OtherVersion { version: 3 });
}

#[test]
fn an_entry_without_a_header_is_refused() {
    for content in ["", "hello", "{}\n", "\u{feff}{}\n"] {
        let problem = refused_beside_a_sound_entry(Entry::stored("subagents/a/session.v3.jsonl", content));
        assert!(matches!(problem, ArchiveProblem::NoHeader { .. }), "{problem:?}");
    }
}

#[test]
fn an_entry_that_unpacks_to_far_more_than_it_takes_is_refused_whatever_it_declares() {
    let mut bomb = plain("a", 1).into_bytes();
    bomb.resize(FREE_BYTES as usize + (8 << 20), b' ');
    let entry = Entry::deflated("subagents/a/session.v3.jsonl", &bomb);
    assert!(entry.packed.len() < 1 << 20);
    assert_eq!(refused_beside_a_sound_entry(entry.clone()), ArchiveProblem::Ratio);
    let small = Entry { size: 100, ..entry };
    damaged(Archive::of([root(), small]).bytes());
}

#[test]
fn an_entry_that_declares_too_much_is_refused_before_it_is_unpacked() {
    let huge = Entry { size: u32::MAX - 1, ..child("a", "a") };
    assert_eq!(refused_beside_a_sound_entry(huge), ArchiveProblem::Ratio);
}

#[test]
fn an_entry_that_declares_another_size_or_checksum_is_refused() {
    for change in [1, -1] {
        let mut entry = child("a", "a");
        entry.size = entry.size.wrapping_add_signed(change);
        damaged(Archive::of([root(), entry]).bytes());
    }
    let entry = Entry { checksum: 7, ..child("a", "a") };
    damaged(Archive::of([root(), entry]).bytes());
}

#[test]
fn an_archive_that_was_cut_is_refused_wherever_that_was() {
    let sound = Archive::of([root(), child("a", "a")]).bytes();
    for length in 0..sound.len() {
        let (store, reports) = import(sound[..length].to_vec());
        assert_eq!(reports.letters(), "F", "{length}");
        assert!(store.list(&ListQuery::default()).unwrap().items.is_empty(), "{length}");
    }
    let made = zip(&import(sound).0, &id("s"), false);
    for length in 0..made.len() {
        damaged(made[..length].to_vec());
    }
}

#[test]
fn a_flipped_bit_never_changes_what_is_stored() {
    let sound = zip(&import(Archive::of([root()]).bytes()).0, &id("s"), false);
    for at in 0..sound.len() {
        for bit in [0, 3, 7] {
            let mut flipped = sound.clone();
            flipped[at] ^= 1 << bit;
            let (store, reports) = import(flipped);
            // A time or a version that was needed to unpack it is no part of the log.
            if reports.letters() == "C" {
                assert_eq!(crate::logs::text(&store, &id("s")), plain("s", 2), "byte {at}, bit {bit}");
            } else {
                assert!(store.list(&ListQuery::default()).unwrap().items.is_empty(), "byte {at}, bit {bit}");
            }
        }
    }
}

#[test]
fn bytes_before_the_archive_are_refused() {
    let sound = Archive::of([root()]);
    ambiguous(&Archive { before: b"#!/bin/sh\n".to_vec(), ..sound.clone() });
    let mut shifted = b"#!/bin/sh\n".to_vec();
    shifted.extend(sound.bytes());
    let problem = refused(shifted);
    assert!(matches!(problem, ArchiveProblem::Ambiguous { .. }), "{problem:?}");
}

#[test]
fn bytes_behind_the_archive_are_refused() {
    let sound = Archive::of([root()]);
    ambiguous(&Archive { after: b"more".to_vec(), ..sound.clone() });
    ambiguous(&Archive { comment: b"more".to_vec(), ..sound.clone() });
    let another = Archive::of([child("a", "a"), root()]).bytes();
    ambiguous(&Archive { after: another.clone(), ..sound.clone() });
    ambiguous(&Archive { comment: another, ..sound });
}

#[test]
fn bytes_between_the_entries_are_refused() {
    ambiguous(&Archive { between: vec![0; 64], ..Archive::of([root(), child("a", "a")]) });
    let hidden = Archive::of([child("b", "b")]).bytes();
    ambiguous(&Archive { between: hidden[..hidden.len() - 100].to_vec(), ..Archive::of([root()]) });
}

#[test]
fn two_entries_that_share_bytes_are_refused() {
    let shared = Entry { shares: Some(0), ..Entry::stored("subagents/s/session.v3.jsonl", plain("s", 2)) };
    ambiguous(&Archive::of([root(), shared.clone()]));
    let same_name = Entry { local_name: b"subagents/s/session.v3.jsonl".to_vec(), ..root() };
    ambiguous(&Archive::of([same_name, shared]));
    // The outer entry holds the inner one's record and bytes.
    let inner = Archive::of([Entry::stored("subagents/a/session.v3.jsonl", plain("a", 1))]).bytes();
    let mut outer = Archive::of([Entry::stored(ROOT, plain("s", 2) + &String::from_utf8_lossy(&inner))]);
    outer.entries.push(Entry { shares: Some(0), ..child("a", "a") });
    ambiguous(&outer);
}

#[test]
fn an_entry_that_names_itself_in_another_way_than_the_directory_does_is_refused() {
    let entry = Entry { local_name: b"subagents/b/session.v3.jsonl".to_vec(), ..child("a", "a") };
    ambiguous(&Archive::of([root(), entry]));
    let entry = Entry { local_name: b"../../../../tmp/xxxx.v3.jsonl".to_vec(), ..child("a", "a") };
    ambiguous(&Archive::of([root(), entry]));
}

#[test]
fn a_directory_that_counts_its_entries_wrong_is_refused() {
    let sound = Archive::of([root(), child("a", "a")]).bytes();
    let end = sound.len() - 22;
    for count in [0, 1, 3, 0xff] {
        let mut wrong = sound.clone();
        wrong[end + 8] = count;
        wrong[end + 10] = count;
        let (store, reports) = import(wrong);
        assert_eq!(reports.letters(), "F", "{count}");
        assert!(store.list(&ListQuery::default()).unwrap().items.is_empty());
    }
}
