//! The end of a file that a crash left: never read, told, cut off by the first append.

use std::fs;
use std::io::Write as _;

use session_persistence::{Encoding, Error, OpenOptions, SeqRange, SessionEvent, SessionPersistence, TornTail};

use super::place::{ENCODINGS, Place, event, events, id, read, stat, store, turn_end, typed, writer};

/// A log of three batches; where its last one starts, and its bytes.
fn stored(place: &Place) -> (usize, Vec<u8>) {
    let open = place.open();
    store(&open, "s", &[&[event(0), turn_end(1)], &events(2..4)]);
    let start = fs::read(place.log("s")).unwrap().len();
    writer(&open, "s").append(&events(4..5)).unwrap();
    (start, fs::read(place.log("s")).unwrap())
}

fn prefix() -> Vec<SessionEvent> {
    vec![event(0), turn_end(1), event(2), event(3)]
}

/// Puts `bytes` in the place of the log, and checks that a store sees `log`, changes nothing by looking, tells the torn
/// tail as `torn` bytes, and goes on behind it for good.
#[track_caller]
fn goes_on_behind(place: &Place, bytes: &[u8], log: &[SessionEvent], torn: u64) {
    fs::write(place.log("s"), bytes).unwrap();
    let store = place.open();
    let before = stat(&store, "s");
    assert_eq!(before.size_bytes, Some(bytes.len() as u64));
    let told = (torn > 0).then(|| TornTail::new(log.len() as u64, torn));
    assert_eq!((before.event_count, before.torn_tail), (Some(log.len() as u64), told));
    assert_eq!(read(&store, "s"), log);
    let handle = writer(&store, "s");
    assert_eq!(handle.read(SeqRange::ALL).unwrap(), log);
    handle.close().unwrap();
    assert_eq!(stat(&store, "s"), before);
    assert!(fs::read(place.log("s")).unwrap() == bytes, "looking changes nothing");

    let early = store.open(&id("s"), OpenOptions::read()).unwrap();
    let next = typed("user/message", log.len() as u64, r#"{"next":true}"#);
    writer(&store, "s").append(std::slice::from_ref(&next)).unwrap();
    let whole = [log, &[next]].concat();
    assert_eq!(early.read(SeqRange::ALL).unwrap(), whole);
    let after = stat(&store, "s");
    assert_ne!(after.revision, before.revision);
    assert_eq!((after.event_count, after.torn_tail), (Some(whole.len() as u64), None));
    for store in [place.open(), place.open_forgetful()] {
        assert_eq!(read(&store, "s"), whole);
        assert_eq!(stat(&store, "s").torn_tail, None);
    }
}

#[test]
fn a_log_that_is_cut_at_any_byte_of_its_last_record_goes_on_behind_the_one_before() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let (start, bytes) = stored(&place);
        for cut in start..bytes.len() {
            goes_on_behind(&place, &bytes[..cut], &prefix(), (cut - start) as u64);
        }
        goes_on_behind(&place, &bytes, &[prefix(), events(4..5)].concat(), 0);
    }
}

#[test]
fn zeros_behind_a_sound_log_are_a_torn_tail() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let (_, bytes) = stored(&place);
        let log = [prefix(), events(4..5)].concat();
        for zeros in [1, 3, 4, 5, 4096, 70_000] {
            let padded = [&bytes[..], &vec![0; zeros]].concat();
            if zeros < 60_000 {
                goes_on_behind(&place, &padded, &log, zeros as u64);
            } else {
                // Further from the end than stat looks: not told, and cut all the same.
                fs::write(place.log("s"), &padded).unwrap();
                assert_eq!(read(&place.open(), "s"), log);
                writer(&place.open(), "s").append(&events(5..6)).unwrap();
                assert_eq!(read(&place.open(), "s"), [log.clone(), events(5..6)].concat());
            }
        }
    }
}

#[test]
fn half_a_record_and_zeros_are_a_torn_tail_wherever_the_record_was_cut() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let (start, bytes) = stored(&place);
        for cut in start..bytes.len() {
            for zeros in [1, bytes.len() - cut, 4096] {
                let padded = [&bytes[..cut], &vec![0; zeros]].concat();
                let whole = padded.starts_with(&bytes);
                let log = if whole { [prefix(), events(4..5)].concat() } else { prefix() };
                let end = if whole { bytes.len() } else { start };
                goes_on_behind(&place, &padded, &log, (padded.len() - end) as u64);
            }
        }
    }
}

#[test]
fn invalid_utf8_behind_the_last_finished_turn_is_a_torn_tail_of_a_text() {
    let place = Place::new(Encoding::Raw);
    let (_, bytes) = stored(&place);
    let log = [prefix(), events(4..5)].concat();
    goes_on_behind(&place, &[&bytes[..], b"{\"type\":\"\xff\xfe"].concat(), &log, 11);
    // A whole row that is none tells no count; what stands before it is still the log.
    for garbage in [&b"{\"type\":\"\xff\"}\n"[..], b"\n", b"\0\0\0\n", b"garbage\n{\"half"] {
        fs::write(place.log("s"), [&bytes[..], garbage].concat()).unwrap();
        let store = place.open();
        assert_eq!(read(&store, "s"), log);
        assert_eq!(stat(&store, "s").torn_tail, Some(TornTail::new(5, garbage.len() as u64)));
        writer(&store, "s").append(&events(5..6)).unwrap();
        assert_eq!(read(&place.open(), "s"), [log.clone(), events(5..6)].concat());
    }
}

#[test]
fn a_hole_behind_the_last_finished_turn_ends_a_text_and_one_before_it_is_damage() {
    let place = Place::new(Encoding::Raw);
    store(&place.open(), "s", &[&events(0..2)]);
    let bytes = fs::read(place.log("s")).unwrap();
    let with = |rest: &[&str]| [&bytes[..], rest.join("").as_bytes()].concat();
    let line = |event: SessionEvent| event.to_line() + "\n";
    for rest in [
        ["garbage\n".to_owned(), line(typed("user/message", 3, "{}"))],
        [line(event(3)), line(event(4))],
        [line(event(1)), line(event(2))],
    ] {
        let rest: Vec<_> = rest.iter().map(String::as_str).collect();
        fs::write(place.log("s"), with(&rest)).unwrap();
        assert_eq!(read(&place.open(), "s"), events(0..2));
        writer(&place.open(), "s").append(&events(2..3)).unwrap();
        assert_eq!(read(&place.open(), "s"), events(0..3));
    }
    for rest in [["garbage\n".to_owned(), line(turn_end(3))], [line(turn_end(3)), String::new()]] {
        let rest: Vec<_> = rest.iter().map(String::as_str).collect();
        fs::write(place.log("s"), with(&rest)).unwrap();
        let store = place.open();
        let reader = store.open(&id("s"), OpenOptions::read()).unwrap();
        let error = reader.read(SeqRange::ALL).unwrap_err().to_string();
        assert!(error.contains("seq 2") && error.contains(&format!("byte {}", bytes.len())), "{error}");
        assert!(error.contains("line 4"), "{error}");
        store.open(&id("s"), OpenOptions::write()).expect_err("no writer goes on behind damage");
    }
}

#[test]
fn a_finished_turn_in_a_fragment_without_its_line_feed_counts_for_nothing() {
    let place = Place::new(Encoding::Raw);
    store(&place.open(), "s", &[&events(0..2)]);
    let mut file = fs::File::options().append(true).open(place.log("s")).unwrap();
    write!(file, "garbage\n{}", turn_end(3).to_line()).unwrap();
    assert_eq!(read(&place.open(), "s"), events(0..2));
}

/// Batches that no compression makes shorter than a few sectors.
fn long_batches(count: u64) -> Vec<SessionEvent> {
    let mut state = 1_u64;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (state >> 40) as u8 % 26)
    };
    let mut text = || (0..4000).map(|_| letter()).collect::<String>();
    (0..count).map(|seq| typed("todo/write", seq, &format!(r#"{{"todos":["{}"]}}"#, text()))).collect()
}

#[test]
fn sectors_that_a_loss_of_power_left_out_are_a_torn_tail_behind_the_last_finished_turn_and_damage_before_it() {
    for encoding in ENCODINGS {
        for has_turn_end in [false, true] {
            let place = Place::new(encoding);
            let long = long_batches(4);
            store(&place.open(), "s", &long.chunks(1).collect::<Vec<_>>());
            let last_record = fs::read(place.log("s")).unwrap().len();
            writer(&place.open(), "s").append(&[if has_turn_end { turn_end(4) } else { event(4) }]).unwrap();
            let bytes = fs::read(place.log("s")).unwrap();
            // Not the header, which is needed for anything.
            for sector in 1..bytes.len() / 512 {
                let gap = sector * 512..(sector + 1) * 512;
                let mut left = bytes.clone();
                left[gap.clone()].fill(0);
                fs::write(place.log("s"), &left).unwrap();
                let store = place.open();
                let read_all = store.open(&id("s"), OpenOptions::read()).unwrap().read(SeqRange::ALL);
                if has_turn_end && gap.end <= last_record {
                    let Err(Error::Corruption { seq: Some(seq), .. }) = read_all else { panic!("{read_all:?}") };
                    let early = SeqRange::from(..seq.get());
                    let reader = store.open(&id("s"), OpenOptions::read()).unwrap();
                    assert!(reader.read(early).unwrap() == long[..seq.get() as usize]);
                    continue;
                }
                let log = read_all.unwrap_or_else(|e| panic!("{encoding:?}, sector {sector}: {e}"));
                let count = log.len() as u64;
                assert!(log == long[..log.len()], "{encoding:?}, sector {sector}");
                assert_eq!(stat(&store, "s").torn_tail.map(|torn| torn.seq), Some(count));
                writer(&store, "s").append(&events(count..count + 1)).unwrap();
                assert!(read(&place.open(), "s") == [log, events(count..count + 1)].concat());
            }
        }
    }
}

#[test]
fn a_last_batch_without_some_of_its_sectors_is_a_torn_tail_before_it_is_read_and_after() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let long = long_batches(3);
        store(&place.open(), "s", &[&long[..1], &long[1..2]]);
        let start = fs::read(place.log("s")).unwrap().len();
        writer(&place.open(), "s").append(&long[2..]).unwrap();
        let bytes = fs::read(place.log("s")).unwrap();
        for sector in start / 512..bytes.len().div_ceil(512) {
            let gap = start.max(sector * 512)..bytes.len().min((sector + 1) * 512);
            let mut left = bytes.clone();
            left[gap].fill(0);
            goes_on_behind(&place, &left, &long[..2], (bytes.len() - start) as u64);
        }
    }
}
