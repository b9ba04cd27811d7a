//! The end of a file that a crash left: never read, told, cut off by the first append.

use std::fs;
use std::io::Write as _;

use session_persistence::{Encoding, OpenOptions, SeqRange, SessionEvent, SessionPersistence, TornTail};

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
