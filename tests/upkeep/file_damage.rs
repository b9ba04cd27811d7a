//! Damage of plain files, and what lies beside them.

use std::fs;

use session_persistence::FaultKind::{Count, Damage, Leftover, Orphan};
use session_persistence::export::{self, Conflict, ImportError, ImportOptions};
use session_persistence::upkeep::{self, Progress};
use session_persistence::{Encoding, Error, ErrorKind, Fault, FaultKind, ListQuery, SessionPersistence as _};

use crate::logs::{self, Reports, id};
use crate::place::{Database, ENCODINGS, Root, places, verify, verify_some};

/// A root with a log of ten finished turns in each encoding, stored in three batches, and a second one.
fn roots() -> [Root; 2] {
    ENCODINGS.map(|encoding| {
        let root = Root::of(encoding, &[turns("a", 2), logs::plain("b", 2)]);
        let store = root.open();
        for count in [10, 20] {
            export::import_reader(&store, "log", turns("a", count).as_bytes(), ImportOptions::extending()).unwrap();
        }
        root
    })
}

/// A log of finished turns.
fn turns(name: &str, count: u64) -> String {
    let event = |seq| match seq % 2 {
        0 => logs::event("turn/start", seq, r#"{"turn":1}"#),
        _ => logs::event("turn/end", seq, r#"{"turn":1,"reason":{"kind":"completed"}}"#),
    };
    logs::header(name) + &(0..count).map(event).collect::<String>()
}

fn one(faults: &[Fault]) -> (FaultKind, Option<&str>, Option<u64>) {
    assert_eq!(faults.len(), 1, "{faults:#?}");
    places(faults)[0]
}

#[test]
fn a_flipped_byte_is_damage_with_its_place() {
    for root in roots() {
        let at = match root.encoding {
            Encoding::Raw => logs::header("a").len() + 3 * logs::event("turn/start", 0, r#"{"turn":1}"#).len(),
            _ => fs::read(root.log("a")).unwrap().len() / 2,
        };
        root.change("a", |bytes| bytes[at] ^= 0x80);
        let (report, faults) = verify(&root.open());
        let (kind, session, seq) = one(&faults);
        assert_eq!((kind, session), (Damage, Some("a")));
        assert!(seq.is_some() && faults[0].offset.is_some_and(|offset| offset <= at as u64), "{faults:?}");
        assert_eq!(report.sessions, 2);
    }
}

/// Where the last frame of a log starts.
fn last_frame(bytes: &[u8]) -> usize {
    bytes.windows(4).rposition(|four| four == [0x28, 0xb5, 0x2f, 0xfd]).unwrap()
}

#[test]
fn a_flipped_byte_of_the_last_batch_is_damage_wherever_it_stands_and_never_a_shorter_log() {
    let root = Root::of(Encoding::Zstd, &[turns("a", 10), logs::plain("b", 2)]);
    import_reader(&root, &turns("a", 14));
    let sound = fs::read(root.log("a")).unwrap();
    let mut harmless = 0;
    for at in last_frame(&sound)..sound.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = sound.clone();
            bytes[at] ^= flip;
            // Zeros at the end are what a write leaves that was never finished.
            if bytes[at] == 0 {
                continue;
            }
            fs::write(root.log("a"), &bytes).unwrap();
            let what = format!("byte {at} of {}, {flip:#x}", sound.len());
            let store = root.open();
            let told = store.stat(&id("a")).unwrap().unwrap();
            // How much a decoder has to remember may be more than it was: all that was stored is there, and proves itself.
            if told.event_count == Some(14) {
                assert_eq!(logs::text(&store, &id("a")), turns("a", 14), "{what}");
                harmless += 1;
                continue;
            }
            assert_eq!((told.event_count, told.torn_tail), (None, None), "{what}");
            let listed = store.list(&ListQuery::default()).unwrap().items;
            assert!(listed.contains(&told), "{what}");
            let mut text = Vec::new();
            let exported = export::jsonl(&store, &id("a"), &mut text).unwrap_err();
            let Error::Corruption { seq: Some(_), offset: Some(_), .. } = exported else {
                panic!("{what}: {exported:?}")
            };
            let (report, faults) = verify(&root.open());
            let (kind, session, seq) = one(&faults);
            assert_eq!((kind, session, report.is_sound()), (Damage, Some("a"), false), "{what}: {faults:?}");
            assert!(faults[0].offset.is_some() && seq.is_some_and(|seq| seq >= 10), "{what}: {faults:?}");
            if at % 8 > 0 || flip != 0x80 {
                continue;
            }
            let mut reports = Reports::default();
            export::copy(
                &store,
                "root",
                &Database::of(&[]).open(),
                None,
                ImportOptions::default(),
                &mut reports.take(),
            )
            .unwrap();
            assert_ne!(reports.letters(), "CC", "{what}");
            let to = root.folder().join("backup");
            assert_eq!(store.backup(&to).unwrap_err().kind(), ErrorKind::Corruption, "{what}");
            let salvaged = upkeep::salvage(&store, &id("a"), &id("new")).unwrap();
            assert!(salvaged.events >= 10 && salvaged.stopped.is_some_and(|stopped| stopped.kind == Damage), "{what}");
            assert!(store.remove(&id("new")).unwrap());
        }
    }
    assert!(harmless <= 3, "{harmless}");
}

#[test]
fn a_last_batch_that_was_cut_short_is_a_torn_tail_and_no_damage() {
    let root = Root::of(Encoding::Zstd, &[turns("a", 10)]);
    import_reader(&root, &turns("a", 14));
    let sound = fs::read(root.log("a")).unwrap();
    let start = last_frame(&sound);
    for cut in start + 1..sound.len() {
        fs::write(root.log("a"), &sound[..cut]).unwrap();
        assert_eq!(root.open().stat(&id("a")).unwrap().unwrap().event_count, Some(10), "cut at {cut}");
        assert_eq!(one(&verify(&root.open()).1), (Leftover, Some("a"), Some(10)), "cut at {cut}");
    }
}

fn import_reader(root: &Root, log: &str) {
    export::import_reader(&root.open(), "log", log.as_bytes(), ImportOptions::extending()).unwrap();
}

#[test]
fn damage_that_comes_behind_what_was_read_already_is_told() {
    let root = Root::of(Encoding::Raw, &[turns("a", 20_000)]);
    let at = logs::header("a").len() + 3;
    let mut faults = Vec::new();
    let mut is_done = false;
    let report = upkeep::verify(&root.open(), None, &mut |progress| match progress {
        Progress::Fault(fault) => faults.push(fault.clone()),
        Progress::Reading { .. } if !is_done => {
            root.change("a", |bytes| bytes[at] ^= 0x80);
            is_done = true;
        }
        _ => {}
    })
    .unwrap();
    assert!(is_done && !report.is_sound(), "{report:?}");
    assert_eq!(one(&faults), (Damage, Some("a"), Some(0)));
}

#[test]
fn a_session_that_is_being_made_is_no_fault_however_long_that_takes() {
    let root = Root::of(Encoding::Raw, &[logs::plain("b", 2)]);
    let folder = root.session("new");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("session.v3.jsonl.0123456789ab.tmp"), "x").unwrap();
    fs::write(folder.join("session.lock"), "{\"process\":1,\"host\":\"h\",\"since\":0}\n").unwrap();
    let lock = fs::File::open(folder.join("session.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(verify(&root.open()).1, []);
    lock.unlock().unwrap();
    assert_eq!(verify(&root.open()).1.len(), 2);
}

#[test]
fn a_flipped_byte_of_a_header_is_damage_of_its_session() {
    for root in roots() {
        root.change("a", |bytes| bytes[20] ^= 0x80);
        let (report, faults) = verify(&root.open());
        assert_eq!(one(&faults), (Damage, Some("a"), None));
        assert_eq!((report.sessions, report.events), (2, 2));
        assert_eq!(one(&verify_some(&root.open(), Some(&[id("a")])).1), (Damage, Some("a"), None));
    }
}

#[test]
fn a_torn_tail_is_a_leftover_and_is_told_with_its_length() {
    for root in roots() {
        for tail in [&b"{\"type\":\"x"[..], &[0; 4096]] {
            let sound = fs::read(root.log("a")).unwrap();
            let tail = match root.encoding {
                Encoding::Raw => tail.to_vec(),
                _ if tail[0] == 0 => tail.to_vec(),
                // The start of a frame.
                _ => sound[..12].to_vec(),
            };
            root.change("a", |bytes| bytes.extend(&tail));
            let (report, faults) = verify(&root.open());
            assert_eq!(one(&faults), (Leftover, Some("a"), Some(20)));
            assert!(faults[0].reason.contains(&tail.len().to_string()) && report.is_sound(), "{faults:?}");
            fs::write(root.log("a"), sound).unwrap();
        }
        assert_eq!(verify(&root.open()).1, []);
    }
}

#[test]
fn whole_rows_that_count_as_torn_are_damage_before_an_append_cuts_them_off() {
    let root = Root::of(Encoding::Raw, &[logs::interrupted("a")]);
    root.change("a", |bytes| {
        let at = bytes.windows(10).position(|window| window == b"step/start").unwrap();
        bytes[at + 15] ^= 0x80;
    });
    let (_, faults) = verify(&root.open());
    assert_eq!(places(&faults), [(Leftover, Some("a"), Some(1)), (Damage, Some("a"), Some(1))], "{faults:#?}");
    assert!(faults[1].offset.is_some() && faults[1].advice.contains("append"), "{faults:#?}");
}

#[test]
fn whole_batches_behind_zeros_are_damage_before_an_append_cuts_them_off() {
    let root = Root::of(Encoding::Zstd, &[logs::plain("a", 2)]);
    for count in [4, 6, 8] {
        import_reader(&root, &logs::plain("a", count));
    }
    let sound = fs::read(root.log("a")).unwrap();
    let starts: Vec<_> = (0..sound.len()).filter(|at| sound[*at..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd])).collect();
    let [.., hit, next, _] = starts[..] else { panic!("{starts:?}") };
    for zeros in [hit..next, hit..hit + 24, hit + 10..next - 10] {
        root.change("a", |bytes| {
            bytes.clone_from(&sound);
            bytes[zeros.clone()].fill(0);
        });
        let store = root.open();
        let (report, faults) = verify(&store);
        assert!(!report.is_sound(), "{zeros:?}: {faults:#?}");
        let damage = faults.iter().find(|fault| fault.kind == Damage && fault.offset == Some(hit as u64));
        let damage = damage.unwrap_or_else(|| panic!("{zeros:?}: {faults:#?}"));
        assert_eq!(damage.seq, Some(2), "{zeros:?}");
        if store.stat(&id("a")).unwrap().unwrap().torn_tail.is_some() {
            assert!(damage.advice.contains("append") && damage.advice.contains("restore"), "{faults:#?}");
        }
        assert!(!faults.iter().any(|fault| fault.advice.starts_with("nothing needs")), "{faults:#?}");
    }
}

#[test]
fn a_count_at_the_end_that_the_log_does_not_bear_out_is_told() {
    let root = Root::of(Encoding::Raw, &[logs::plain("a", 6)]);
    // The two rows that are looked at to count stand together, and others before them are gone; no turn ends behind.
    let text = fs::read_to_string(root.log("a")).unwrap();
    let lines: Vec<_> = text.lines().collect();
    fs::write(root.log("a"), [&lines[..2], &lines[4..]].concat().join("\n") + "\n").unwrap();
    let (report, faults) = verify(&root.open());
    assert!(!report.is_sound());
    assert!(faults.iter().any(|fault| fault.kind == Count && fault.reason.contains("6 events")), "{faults:#?}");
}

#[test]
fn stray_drafts_and_older_generations_are_leftovers() {
    for root in roots() {
        let draft = format!("{}.0123456789ab.tmp", root.log("a").file_name().unwrap().to_str().unwrap());
        fs::write(root.session("a").join(&draft), "x").unwrap();
        fs::write(root.session("a").join("notes.txt"), "of somebody").unwrap();
        fs::write(root.session("b").join("session.v1.jsonl"), "x").unwrap();
        let (report, mut faults) = verify(&root.open());
        faults.sort_by(|one, two| one.session.cmp(&two.session));
        assert_eq!(places(&faults), [(Leftover, Some("a"), None), (Leftover, Some("b"), None)], "{faults:#?}");
        assert!(faults[0].reason.contains(&draft) && faults[1].reason.contains("session.v1.jsonl"), "{faults:#?}");
        assert!(report.is_sound());
    }
}

#[test]
fn a_folder_whose_log_is_gone_is_an_orphan() {
    for root in roots() {
        fs::remove_file(root.log("a")).unwrap();
        let (report, faults) = verify(&root.open());
        assert_eq!(one(&faults), (Orphan, Some("a"), None));
        assert!(faults[0].reason.contains("was stored") && !report.is_sound(), "{faults:?}");
        fs::remove_file(root.session("a").join("session.lock")).unwrap();
        assert_eq!(one(&verify(&root.open()).1), (Leftover, Some("a"), None), "an empty folder");
        fs::write(root.session("a").join("image.png"), "x").unwrap();
        assert_eq!(one(&verify(&root.open()).1), (Orphan, Some("a"), None), "files without a session");
        // The name of no session.
        fs::create_dir(root.path().join("_no-cwd/no session")).unwrap();
        assert_eq!(verify(&root.open()).1.len(), 1);
    }
}

#[test]
fn a_creation_that_was_stopped_is_a_leftover() {
    for root in roots() {
        let name = root.log("a").file_name().unwrap().to_str().unwrap().to_owned();
        let folder = root.session("new");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("session.lock"), "").unwrap();
        fs::write(folder.join(format!("{name}.0123456789ab.tmp")), "x").unwrap();
        let (report, faults) = verify(&root.open());
        assert_eq!(one(&faults), (Leftover, Some("new"), None));
        assert!(report.is_sound());
        // Before it had a draft, or behind it, before its writer had signed, or behind that.
        fs::remove_file(folder.join(format!("{name}.0123456789ab.tmp"))).unwrap();
        let (report, faults) = verify(&root.open());
        assert_eq!(one(&faults), (Leftover, Some("new"), None));
        assert!(report.is_sound() && faults[0].reason.contains("never made"), "{faults:?}");
        fs::write(folder.join("session.lock"), "{\"process\":1,\"host\":\"h\",\"since\":0}\n").unwrap();
        let (report, faults) = verify(&root.open());
        assert_eq!(one(&faults), (Leftover, Some("new"), None));
        assert!(report.is_sound() && faults[0].reason.contains("died"), "{faults:?}");
    }
}

#[test]
fn a_log_that_no_rule_tells_is_damage() {
    let root = Root::of(Encoding::Raw, &[turns("a", 2), logs::plain("b", 2)]);
    fs::write(root.session("a").join("session.v3.jsonl.zstd"), "x").unwrap();
    let second = root.path().join("--w--").join("b");
    fs::create_dir_all(&second).unwrap();
    fs::copy(root.log("b"), second.join("session.v3.jsonl")).unwrap();
    let (_, mut faults) = verify(&root.open());
    faults.sort_by(|one, two| one.session.cmp(&two.session));
    assert_eq!(places(&faults), [(Damage, Some("a"), None), (Damage, Some("b"), None)], "{faults:#?}");
}

#[test]
fn a_log_that_was_cut_where_a_batch_ends_is_told_where_a_copy_remembers_more() {
    for root in roots() {
        let copy = Database::of(&[]);
        let (source, target) = (root.open(), copy.open());
        let mut reports = Reports::default();
        export::copy(&source, "root", &target, None, ImportOptions::default(), &mut reports.take()).unwrap();
        assert_eq!(reports.letters(), "CC");
        let cut = match root.encoding {
            Encoding::Raw => turns("a", 10).len(),
            _ => {
                let bytes = fs::read(root.log("a")).unwrap();
                bytes.windows(4).rposition(|four| four == [0x28, 0xb5, 0x2f, 0xfd]).unwrap()
            }
        };
        root.change("a", |bytes| bytes.truncate(cut));
        let store = root.open();
        assert_eq!(verify(&store).1, [], "nothing on the disk can tell");
        let mut reports = Reports::default();
        export::copy(&store, "root", &target, None, ImportOptions::default(), &mut reports.take()).unwrap();
        match reports.error() {
            ImportError::Conflict { session, conflict: Conflict::StoreGoesOn { file: 10, stored: 20 }, .. } => {
                assert_eq!(session, id("a"));
            }
            other => panic!("{other}"),
        }
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_read_is_one_fault_and_the_others_are_checked() {
    for root in roots() {
        fs::remove_file(root.log("a")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.log("a")).unwrap();
        fs::create_dir(root.session("c")).unwrap();
        fs::create_dir(root.session("c").join(root.log("a").file_name().unwrap())).unwrap();
        let (report, faults) = verify(&root.open());
        assert!(faults.iter().any(|fault| fault.kind == Damage && fault.session == Some(id("c"))), "{faults:#?}");
        assert_eq!(report.events, 2, "{faults:#?}");
    }
}
