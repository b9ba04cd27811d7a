//! Damage: an error that names the session and the place, never a shorter log by accident, and nobody else's trouble.

use std::fs;
use std::path::Path;

use session_persistence::{
    CreateOptions, Encoding, Error, ErrorKind, OpenOptions, SeqRange, SessionEvent, SessionPersistence, SessionState,
};

use super::place::{
    ENCODINGS, Place, event, events, header, id, ids, list, read, stat, store, turn_end, typed, writer,
};

/// Five events: a finished turn in the first of three batches.
fn log() -> Vec<SessionEvent> {
    vec![event(0), turn_end(1), event(2), event(3), event(4)]
}

fn store_log(place: &Place, name: &str) -> Vec<u8> {
    let log = log();
    store(&place.open(), name, &[&log[..2], &log[2..4], &log[4..]]);
    fs::read(place.log(name)).unwrap()
}

#[test]
fn a_flipped_byte_is_damage_with_its_place_or_a_tail_by_the_rule() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let bytes = store_log(&place, "s");
        store(&place.open(), "t", &[&events(0..2)]);
        let last_turn = header("s").to_line().len() + log()[0].to_line().len() + 2;
        let last_record = last_record(&bytes, encoding);
        for at in 0..bytes.len() {
            for mask in [0x01, 0x80] {
                let mut flipped = bytes.clone();
                flipped[at] ^= mask;
                fs::write(place.log("s"), &flipped).unwrap();
                let store = place.open();
                assert_eq!(ids(&list(&store)), ["s", "t"]);
                assert_eq!(read(&store, "t"), events(0..2));
                let opened = store.open(&id("s"), OpenOptions::uninterpreted());
                match opened.and_then(|handle| handle.read(SeqRange::ALL)) {
                    // What text says is what counts: it has no checksum.
                    Ok(found) if encoding == Encoding::Raw && found.len() == 5 => {}
                    // The finished turn proves nothing once its own line is not to be read.
                    Ok(found) if encoding == Encoding::Raw => {
                        assert!(at + 1 >= last_turn, "byte {at}: a shorter log of {}", found.len());
                        assert_eq!(found, log()[..found.len()]);
                    }
                    // A bit that no decoder looks at changes nothing.
                    Ok(found) if found == log() => {}
                    Ok(found) => {
                        assert!(at >= last_record, "byte {at}: a shorter log of {}", found.len());
                        assert_eq!(found, log()[..4]);
                    }
                    Err(Error::Corruption { session, offset, .. }) => {
                        assert_eq!(session, id("s"));
                        assert!(offset.is_some_and(|offset| offset <= at as u64), "byte {at}: {offset:?}");
                    }
                    Err(other) => panic!("byte {at}: {other}"),
                }
                assert!(fs::read(place.log("s")).unwrap() == flipped, "reading changes nothing");
            }
        }
    }
}

/// Where the last row or frame starts.
fn last_record(bytes: &[u8], encoding: Encoding) -> usize {
    match encoding {
        Encoding::Raw => bytes[..bytes.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1,
        _ => bytes.windows(4).rposition(|four| four == [0x28, 0xb5, 0x2f, 0xfd]).unwrap(),
    }
}

#[test]
fn a_finished_turn_that_is_gone_is_damage_and_not_a_shorter_log() {
    let place = Place::new(Encoding::Raw);
    let store_lines = |lines: &[String]| fs::write(place.log("s"), lines.join("\n") + "\n").unwrap();
    let log: Vec<_> = (0..1000).map(|seq| if seq % 100 == 99 { turn_end(seq) } else { event(seq) }).collect();
    store(&place.open(), "s", &[&log]);
    let lines: Vec<_> = fs::read_to_string(place.log("s")).unwrap().lines().map(str::to_owned).collect();
    let offset = |line: usize| lines[..line].iter().map(|l| l.len() as u64 + 1).sum::<u64>();
    let damaged = |lines: &[String], seq: u64, line: usize| {
        store_lines(lines);
        let store = place.open();
        let reader = store.open(&id("s"), OpenOptions::read()).unwrap();
        match reader.read(SeqRange::ALL).unwrap_err() {
            Error::Corruption { seq: Some(found), offset: Some(at), reason, .. } => {
                assert_eq!((found.get(), at), (seq, offset(line)), "{reason}");
                assert!(reason.contains(&format!("line {}", line + 1)), "{reason}");
            }
            other => panic!("{other}"),
        }
        assert_eq!(reader.read(SeqRange::from(..400)).unwrap(), log[..400], "what stands before it can be saved");
        assert_eq!(reader.read(SeqRange::from(10..20)).unwrap(), log[10..20]);
        assert_eq!(reader.read(SeqRange::from(399..401)).unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(reader.read(SeqRange::from(900..)).unwrap_err().kind(), ErrorKind::Corruption);
        let refused = store.open(&id("s"), OpenOptions::write()).expect_err("no writer goes on behind damage");
        assert_eq!(refused.kind(), ErrorKind::Corruption);
        assert_eq!(stat(&store, "s").state, SessionState::Readable, "the header is sound");
    };
    let mut overwritten = lines.clone();
    overwritten[401].replace_range(10..40, &"#".repeat(30));
    damaged(&overwritten, 400, 401);
    let mut deleted = lines.clone();
    deleted.remove(401);
    damaged(&deleted, 400, 401);
    let mut swapped = lines.clone();
    swapped.swap(401, 402);
    damaged(&swapped, 400, 401);
    let mut doubled = lines.clone();
    doubled.insert(402, lines[401].clone());
    store_lines(&doubled);
    let error = place.open().open(&id("s"), OpenOptions::read()).unwrap().read(SeqRange::ALL).unwrap_err();
    assert!(matches!(error, Error::Corruption { seq: Some(seq), .. } if seq.get() == 401), "{error}");
}

#[test]
fn a_frame_whose_length_is_wrong_does_not_swallow_those_behind_it() {
    let place = Place::new(Encoding::Zstd);
    let bytes = store_log(&place, "s");
    let starts: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd])).collect();
    assert_eq!(starts.len(), 4);
    let mut longer = bytes.clone();
    // The third byte of the first block's header: magic number, descriptor, one byte of size, then the block.
    longer[starts[1] + 8] |= 0x0f;
    fs::write(place.log("s"), longer).unwrap();
    match place.open().open(&id("s"), OpenOptions::read()).unwrap().read(SeqRange::ALL).unwrap_err() {
        Error::Corruption { seq: Some(seq), offset: Some(offset), .. } => {
            assert_eq!((seq.get(), offset), (0, starts[1] as u64));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn an_unknown_type_behind_damage_is_what_a_reader_is_told() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let log = [event(0), event(1), typed("acme/pulse", 2, "1"), turn_end(3)];
        store(&place.open(), "s", &[&log[..1], &log[1..2], &log[2..]]);
        let mut bytes = fs::read(place.log("s")).unwrap();
        let place_of_row_1 = match encoding {
            Encoding::Raw => bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(1).unwrap().0 + 5,
            _ => (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd])).nth(2).unwrap() + 14,
        };
        bytes[place_of_row_1] ^= 0x80;
        fs::write(place.log("s"), bytes).unwrap();
        let store = place.open();
        let refused = store.open(&id("s"), OpenOptions::read()).expect_err("an unknown type is refused");
        assert!(refused.to_string().contains("acme/pulse"), "{encoding:?}: {refused}");
        let raw = store.open(&id("s"), OpenOptions::uninterpreted()).unwrap();
        assert_eq!(raw.read(SeqRange::ALL).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

#[test]
fn damage_in_some_sessions_leaves_all_in_the_list_and_the_sound_ones_as_they_are() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let store_of = place.open();
        for name in ["flipped", "cut", "empty", "other", "sound", "zeros"] {
            store(&store_of, name, &[&events(0..2)]);
        }
        let change = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = fs::read(place.log(name)).unwrap();
            change(&mut bytes);
            fs::write(place.log(name), bytes).unwrap();
        };
        change("flipped", &|bytes| bytes[12] ^= 0x80);
        change("cut", &|bytes| bytes.truncate(20));
        change("empty", &Vec::clear);
        change("zeros", &|bytes| bytes.fill(0));
        fs::copy(place.log("sound"), place.log("other")).unwrap();
        fs::write(place.root().join("--w--/stray.jsonl"), "{}\n").unwrap();
        fs::write(place.root().join("stray.txt"), "x").unwrap();
        fs::create_dir(place.root().join("--w--/no session")).unwrap();
        fs::create_dir(place.root().join("--w--/nothing")).unwrap();
        for store in [store_of, place.open()] {
            let listed = list(&store);
            assert_eq!(ids(&listed), ["cut", "empty", "flipped", "other", "sound", "zeros"]);
            for snapshot in &listed {
                let name = snapshot.id.as_str();
                assert_eq!(stat(&store, name), *snapshot);
                match &snapshot.state {
                    SessionState::Readable => assert_eq!(name, "sound"),
                    SessionState::Damaged { reason } => {
                        assert!(snapshot.header.is_none() && !reason.is_empty(), "{name}: {reason}");
                        assert!(name != "other" || reason.contains("\"sound\""), "{reason}");
                        for way in [OpenOptions::read(), OpenOptions::uninterpreted(), OpenOptions::write()] {
                            let refused = store.open(&id(name), way).expect_err("it is damaged");
                            assert_eq!((refused.kind(), refused.session()), (ErrorKind::Corruption, Some(&id(name))));
                        }
                        let taken = store.create(&header(name), CreateOptions::default()).err().unwrap();
                        assert_eq!(taken.kind(), ErrorKind::AlreadyExists, "{name}");
                    }
                    other => panic!("{name}: {other}"),
                }
            }
            assert_eq!(read(&store, "sound"), events(0..2));
            assert!(!place.session("nothing").join("session.lock").exists());
        }
        let store = place.open();
        writer(&store, "sound").append(&events(2..3)).unwrap();
        assert!(store.remove(&id("cut")).unwrap(), "what is damaged can be removed");
        assert_eq!(ids(&list(&store)), ["empty", "flipped", "other", "sound", "zeros"]);
    }
}

#[test]
fn a_file_whose_name_and_header_tell_different_versions_is_damaged() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        store(&place.open(), "s", &[&events(0..1)]);
        let name = place.log("s").file_name().unwrap().to_str().unwrap().replace("v3", "v4");
        fs::rename(place.log("s"), place.log("s").with_file_name(name)).unwrap();
        let SessionState::Damaged { reason } = stat(&place.open(), "s").state else { panic!("it is damaged") };
        assert!(reason.contains("format 3") && reason.contains('4'), "{reason}");
    }
}

#[test]
fn a_session_in_two_project_folders_is_told_once_with_both_places() {
    let place = Place::new(Encoding::Raw);
    store(&place.open(), "s", &[&events(0..1)]);
    store(&place.open(), "t", &[&events(0..1)]);
    let second = place.root().join("--v--").join("s");
    fs::create_dir_all(&second).unwrap();
    fs::copy(place.log("s"), second.join("session.v3.jsonl")).unwrap();
    let store = place.open();
    let listed = list(&store);
    assert_eq!(ids(&listed), ["s", "t"]);
    let SessionState::Damaged { reason } = stat(&store, "s").state else { panic!("it is damaged") };
    assert!(reason.contains("--v--") && reason.contains("--w--"), "{reason}");
    for error in [store.open(&id("s"), OpenOptions::read()).err().unwrap(), store.remove(&id("s")).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
    let taken = store.create(&header("s"), CreateOptions::default()).err().unwrap();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    fs::remove_dir_all(&second).unwrap();
    assert_eq!(read(&store, "s"), events(0..1));
}

#[test]
fn a_folder_that_holds_other_things_is_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path| session_persistence::JsonlStore::open(path).expect_err("it is no store");
    fs::write(folder.path().join("notes.txt"), "x").unwrap();
    assert_eq!(refused(folder.path()).kind(), ErrorKind::UnsupportedStore);
    assert_eq!(refused(&folder.path().join("notes.txt")).kind(), ErrorKind::UnsupportedStore);
    let absent = folder.path().join("absent");
    let error = session_persistence::JsonlStore::open_existing(&absent).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::UnsupportedStore);
    assert!(!absent.exists());
    session_persistence::JsonlStore::open(absent.join("deeper")).unwrap();
}
