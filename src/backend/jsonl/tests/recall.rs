//! What a writer leaves of a log: it spares the next store a pass over it, and never tells of anything that is not there.

use std::fs;
use std::path::PathBuf;

use super::super::disk::{Disk, RealDisk};
use super::super::recall::{RECALL, Recollection, Stamp};
use super::super::work::PARSED;
use super::*;

const COUNT: u64 = 400;

fn recall_of(place: &Place) -> PathBuf {
    log_of(place).with_file_name(RECALL)
}

/// A log in several batches whose writer has left.
fn left(encoding: Encoding, flushes: bool) -> Place {
    let place = Place::new(encoding);
    let writer = create(&place.open(0), "s");
    for batch in 0..COUNT / 40 {
        writer.append(&events(batch * 40..(batch + 1) * 40)).unwrap();
        if flushes {
            writer.flush().unwrap();
        }
    }
    writer.close().unwrap();
    place
}

/// How many rows a new store parses to read the last event.
fn parsed_for_the_last(place: &Place, count: u64) -> u64 {
    let store = place.open(0);
    PARSED.take();
    let reader = store.open(&id("s"), OpenOptions::read()).unwrap();
    assert_eq!(reader.read(SeqRange::from(count - 1..)).unwrap(), events(count - 1..count));
    PARSED.take()
}

#[test]
fn a_log_that_its_writer_left_is_not_passed_over_to_read_its_end_or_to_append() {
    for encoding in ENCODINGS {
        for flushes in [true, false] {
            let place = left(encoding, flushes);
            assert!(place.folder.path().join(recall_of(&place)).exists());
            // From the last mark on at most, which here is the first event.
            assert!(parsed_for_the_last(&place, COUNT) <= COUNT, "{encoding:?}");
            let store = place.open(0);
            PARSED.take();
            let writer = store.open(&id("s"), OpenOptions::write()).unwrap();
            writer.append(&events(COUNT..COUNT + 1)).unwrap();
            assert_eq!(PARSED.take(), 0, "{encoding:?}: nothing is looked at to append");
            writer.close().unwrap();
            drop(store);
            let store = place.open(0);
            let writer = store.open(&id("s"), OpenOptions::write()).unwrap();
            assert_eq!(PARSED.take(), 0, "{encoding:?}: what was appended is noted too");
            assert_eq!(writer.read(SeqRange::ALL).unwrap(), events(0..COUNT + 1));
            assert_eq!(read(&place.open(64 << 20), "s"), events(0..COUNT + 1));
            let told = store.stat(&id("s")).unwrap().unwrap();
            assert_eq!((told.event_count, told.last_time), (Some(COUNT + 1), Some(COUNT as i64)));
        }
    }
}

#[test]
fn of_a_log_that_fits_into_memory_all_is_held_once_most_of_it_is_read() {
    for encoding in ENCODINGS {
        let place = left(encoding, true);
        let store = place.open(64 << 20);
        let reader = store.open(&id("s"), OpenOptions::read()).unwrap();
        PARSED.take();
        assert_eq!(reader.read(SeqRange::ALL).unwrap(), events(0..COUNT));
        assert_eq!(PARSED.take(), COUNT, "{encoding:?}");
        assert_eq!(reader.read(SeqRange::ALL).unwrap(), events(0..COUNT));
        assert_eq!(PARSED.take(), 0, "{encoding:?}");
    }
}

/// What another program does to a log, and how many events there are then; nothing where it is damaged.
type Change = (&'static str, fn(&Place), Option<u64>);

const CHANGES: [Change; 5] = [
    (
        "its last batch was cut off",
        |place| {
            let len = fs::metadata(log_of(place)).unwrap().len();
            fs::File::options().write(true).open(log_of(place)).unwrap().set_len(len - 5).unwrap();
        },
        None,
    ),
    (
        "it was touched",
        |place| fs::File::open(log_of(place)).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap(),
        Some(COUNT),
    ),
    (
        "another file with the same bytes was put in its place",
        |place| {
            let (log, copy) = (log_of(place), log_of(place).with_extension("copy"));
            fs::copy(&log, &copy).unwrap();
            fs::rename(&copy, &log).unwrap();
        },
        Some(COUNT),
    ),
    (
        "a byte in the middle was replaced",
        |place| {
            let mut bytes = fs::read(log_of(place)).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] = if bytes[middle] == b'~' { b'!' } else { b'~' };
            use std::io::Write as _;
            fs::File::options().write(true).open(log_of(place)).unwrap().write_all(&bytes).unwrap();
        },
        None,
    ),
    ("what was noted is gone", |place| fs::remove_file(recall_of(place)).unwrap(), Some(COUNT)),
];

#[test]
fn what_was_noted_of_a_file_that_changed_since_counts_nothing() {
    for encoding in ENCODINGS {
        for (what, change, count) in CHANGES {
            let place = left(encoding, true);
            let noted = fs::read(recall_of(&place)).unwrap();
            change(&place);
            let store = place.open(0);
            PARSED.take();
            let opened = store.open(&id("s"), OpenOptions::read());
            assert!(PARSED.take() > 0, "{encoding:?}, {what}: it is passed over");
            let found = opened.and_then(|reader| reader.read(SeqRange::ALL));
            // The same that is told where nothing was ever noted.
            drop(fs::remove_file(recall_of(&place)));
            let fresh = place.open(0).open(&id("s"), OpenOptions::read()).and_then(|reader| reader.read(SeqRange::ALL));
            let told = |read: &crate::seam::Result<Vec<SessionEvent>>| match read {
                Ok(read) => format!("{read:?}"),
                Err(e) => format!("{e}"),
            };
            assert_eq!(told(&found), told(&fresh), "{encoding:?}, {what}");
            if let Some(count) = count {
                assert_eq!(found.unwrap(), events(0..count), "{encoding:?}, {what}");
            }
            assert!(!noted.is_empty());
        }
    }
}

#[test]
fn what_was_noted_counts_only_whole() {
    for encoding in ENCODINGS {
        let place = left(encoding, true);
        let noted = fs::read(recall_of(&place)).unwrap();
        let mut broken =
            vec![Vec::new(), b"\n".to_vec(), [&noted[..], b"\n"].concat(), [&noted[..], &noted[..]].concat()];
        let mut random = fastrand::Rng::with_seed(0x4eca);
        for _ in 0..40 {
            broken.push(noted[..random.usize(..noted.len())].to_vec());
            let mut flipped = noted.clone();
            flipped[random.usize(..noted.len())] ^= 1 << random.u8(..8);
            broken.push(flipped);
        }
        for broken in broken {
            fs::write(recall_of(&place), &broken).unwrap();
            assert!(parsed_for_the_last(&place, COUNT) > COUNT, "{encoding:?}: {}", String::from_utf8_lossy(&broken));
        }
        fs::write(recall_of(&place), &noted).unwrap();
        assert!(parsed_for_the_last(&place, COUNT) <= COUNT, "{encoding:?}: it is whole again");
    }
}

/// A disk that decays changes no time of any file.
#[test]
fn a_log_that_decayed_under_what_was_noted_of_it_is_told_as_one_that_is_passed_over() {
    for encoding in ENCODINGS {
        for at in [300, 1000, 1300, 5000, 9000] {
            let place = left(encoding, true);
            let mut told: Recollection = {
                let text = fs::read_to_string(recall_of(&place)).unwrap();
                serde_json::from_str(text.lines().next().unwrap()).unwrap()
            };
            let mut bytes = fs::read(log_of(&place)).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= 0x40;
            fs::write(log_of(&place), &bytes).unwrap();
            let read = || place.open(0).open(&id("s"), OpenOptions::read())?.read(SeqRange::ALL);
            let passed_over = read().map_err(|e| e.to_string());
            told.file = Stamp::of(&RealDisk.stat(&log_of(&place)).unwrap()).unwrap();
            told.write(&RealDisk, log_of(&place).parent().unwrap()).unwrap();
            assert!(read().map_err(|e| e.to_string()) == passed_over, "{encoding:?}, byte {at}: {passed_over:?}");
        }
    }
}

#[test]
fn a_page_that_ends_inside_a_batch_that_decayed_behind_it_gives_none_of_it() {
    let place = Place::new(Encoding::Zstd);
    let writer = create(&place.open(0), "s");
    let text = |seq: u64| {
        let mut random = fastrand::Rng::with_seed(seq);
        (0..900).map(|_| random.alphanumeric()).collect::<String>()
    };
    let event = |seq: u64| {
        let data = Json::parse(&format!(r#"{{"text":"{}"}}"#, text(seq))).unwrap();
        SessionEvent::new("todo/write", seq, 0, data).unwrap()
    };
    writer.append(&(0..1).map(event).collect::<Vec<_>>()).unwrap();
    writer.append(&(1..900).map(event).collect::<Vec<_>>()).unwrap();
    writer.flush().unwrap();
    writer.close().unwrap();
    let text = fs::read_to_string(recall_of(&place)).unwrap();
    let mut told: Recollection = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let page = || place.open(0).open(&id("s"), OpenOptions::read())?.read(SeqRange::from(5..10));
    assert_eq!(page().unwrap(), (5..10).map(event).collect::<Vec<_>>());
    let mut bytes = fs::read(log_of(&place)).unwrap();
    let behind = bytes.len() - 1000;
    bytes[behind] ^= 0x40;
    fs::write(log_of(&place), &bytes).unwrap();
    told.file = Stamp::of(&RealDisk.stat(&log_of(&place)).unwrap()).unwrap();
    told.write(&RealDisk, log_of(&place).parent().unwrap()).unwrap();
    let refused = page().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
}

#[test]
fn the_end_of_a_log_has_to_be_there_whatever_is_known_to_survive() {
    for (encoding, flushes) in ENCODINGS.into_iter().flat_map(|encoding| [(encoding, false), (encoding, true)]) {
        let place = left(encoding, flushes);
        let text = fs::read_to_string(recall_of(&place)).unwrap();
        let mut told: Recollection = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let mut bytes = fs::read(log_of(&place)).unwrap();
        assert_eq!(told.durable == bytes.len() as u64, flushes, "{told:?}");
        // A loss of power may leave a file of this size whose end was never written.
        let lost = bytes.len() - 200;
        bytes[lost..].fill(0);
        fs::write(log_of(&place), &bytes).unwrap();
        told.file = Stamp::of(&RealDisk.stat(&log_of(&place)).unwrap()).unwrap();
        told.write(&RealDisk, log_of(&place).parent().unwrap()).unwrap();
        let store = place.open(0);
        let log = read(&store, "s");
        assert!(log.len() < COUNT as usize, "{encoding:?}: what was lost is not there");
        assert_eq!(log, events(0..log.len() as u64));
    }
}

#[test]
fn a_writer_that_leaves_anything_in_doubt_notes_nothing() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let store = place.open(0);
        let writer = create(&store, "s");
        writer.append(&events(0..1)).unwrap();
        writer.append(&events(1..COUNT)).unwrap();
        place.watch.fail(Call::Sync, 0, 1, io::ErrorKind::Other);
        writer.flush().unwrap_err();
        assert!(place.watch.heal());
        writer.close().unwrap();
        assert!(!recall_of(&place).exists(), "{encoding:?}: a sync has failed");
        // Nor one that cannot write it, to whom that is no failure.
        let writer = store.open(&id("s"), OpenOptions::write()).unwrap();
        writer.flush().unwrap();
        fs::create_dir(recall_of(&place)).unwrap();
        writer.close().unwrap();
        assert_eq!(read(&place.open(0), "s"), events(0..COUNT), "{encoding:?}");
        assert!(recall_of(&place).is_dir());
    }
}
