//! Passing over a log in two threads, and reading it in two: what one thread finds, whatever became of the file.

use std::fs;

use super::super::cursor::Cursors;
use super::super::layout::Generation;
use super::super::scan::scan_in;
use super::super::stored_log::Log;
use super::paging::large_events;
use super::*;

const SEED: u64 = 0x5ca9;

/// Batches of many sizes, more text than is handed over at once.
fn stored(encoding: Encoding) -> Vec<u8> {
    let place = Place::new(encoding);
    {
        let writer = create(&place.open(0), "s");
        let text = "lorem ipsum ".repeat(100);
        let mut next = 0;
        for size in [1, 700, 2, 1, 1500, 30, 1, 1, 900, 5] {
            let event = |seq: u64| {
                let event_type = if seq % 9 == 8 { "turn/end" } else { "todo/write" };
                let data = format!("{{\"todos\":[\"{} {seq}\"]}}", &text[..(seq as usize * 7) % text.len()]);
                SessionEvent::new(event_type, seq, seq as i64, Json::parse(&data).unwrap()).unwrap()
            };
            writer.append(&(next..next + size).map(event).collect::<Vec<_>>()).unwrap();
            next += size;
        }
        writer.flush().unwrap();
    }
    fs::read(log_of(&place)).unwrap()
}

/// What a pass tells of a file, and whether the log was found.
fn told(bytes: &[u8], encoding: Encoding, is_in_two: bool, keep: usize) -> (String, Option<Log>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, bytes).unwrap();
    let file = fs::File::open(&path).unwrap();
    let generation = Generation { version: 3, encoding };
    match scan_in(is_in_two, &file, bytes.len() as u64, &id("s"), generation, keep).unwrap() {
        Ok(log) => {
            let mut types: Vec<_> = log.first_required().collect();
            types.sort_unstable();
            let numbers = (log.count, log.end, log.torn, log.last_time, log.inherited, log.bytes_held());
            (format!("{numbers:?} {:?} {types:?}", log.damage), Some(log))
        }
        Err(damage) => (format!("{damage:?}"), None),
    }
}

#[test]
fn a_pass_in_two_threads_finds_what_one_in_one_thread_finds_whatever_is_wrong_with_the_file() {
    let mut random = fastrand::Rng::with_seed(SEED);
    for encoding in [Encoding::Raw, Encoding::Zstd] {
        let whole = stored(encoding);
        let (sound, log) = told(&whole, encoding, true, 0);
        assert_eq!(log.unwrap().count, 3141, "{sound}");
        let mut damaged = 0;
        for round in 0..20 {
            let mut bytes = whole.clone();
            let at = random.usize(..bytes.len());
            let length = random.usize(1..5000).min(bytes.len() - at);
            match random.u8(..6) {
                0 => {}
                1 => bytes[at] ^= 1 << random.u8(..8),
                2 => bytes.truncate(at),
                3 => bytes[at..at + length].fill(0),
                4 => drop(bytes.drain(at..at + length)),
                _ => bytes[at..].fill(0),
            }
            let keep = if random.bool() { 64 << 20 } else { 0 };
            let (one, _) = told(&bytes, encoding, false, keep);
            let (two, _) = told(&bytes, encoding, true, keep);
            assert_eq!(one, two, "{encoding:?}, seed {SEED:#x}, round {round}");
            damaged += usize::from(one != told(&whole, encoding, false, keep).0);
        }
        assert!(damaged > 8, "{encoding:?}: {damaged} of the files were damaged");
    }
}

#[test]
fn a_long_part_of_a_log_read_in_two_halves_is_that_part_and_the_next_page_goes_on_behind_it() {
    const COUNT: u64 = 9_000;
    for encoding in [Encoding::Raw, Encoding::Zstd] {
        let place = Place::new(encoding);
        let all = large_events(0..COUNT);
        {
            let writer = create(&place.open(0), "s");
            all.chunks(1000).for_each(|batch| writer.append(batch).unwrap());
        }
        let generation = Generation { version: 3, encoding };
        let bytes = fs::read(log_of(&place)).unwrap();
        let file = fs::File::open(log_of(&place)).unwrap();
        let log = scan_in(false, &file, bytes.len() as u64, &id("s"), generation, 0).unwrap().unwrap();
        let cursors = Cursors::default();
        for (from, to) in [(0, COUNT), (1, 8_500), (8_500, 8_510), (8_510, COUNT), (500, COUNT)] {
            let read = log.slice(&file, from..to, &cursors).unwrap().unwrap();
            assert!(read == all[from as usize..to as usize], "{encoding:?}: {from} to {to}");
        }
    }
}

#[test]
fn what_was_put_between_the_halves_of_a_log_since_it_was_passed_over_is_told() {
    const COUNT: u64 = 9_000;
    let place = Place::new(Encoding::Raw);
    {
        let writer = create(&place.open(0), "s");
        large_events(0..COUNT).chunks(1000).for_each(|batch| writer.append(batch).unwrap());
    }
    let mut bytes = fs::read(log_of(&place)).unwrap();
    let generation = Generation { version: 3, encoding: Encoding::Raw };
    let file = fs::File::open(log_of(&place)).unwrap();
    let log = scan_in(false, &file, bytes.len() as u64, &id("s"), generation, 0).unwrap().unwrap();
    let middle = log.middle(&(0..COUNT)).unwrap().seq;
    // The row before it becomes shorter, and a line that is no row follows.
    let row = format!("\"seq\":{},", middle - 1);
    let start = bytes.windows(row.len()).position(|bytes| bytes == row.as_bytes()).unwrap();
    let end = start + bytes[start..].iter().position(|byte| *byte == b'\n').unwrap();
    let close = bytes[start..end].iter().rposition(|byte| *byte == b'"').unwrap() + start;
    let tail = bytes[close..end].to_vec();
    bytes[close - 2..end - 2].copy_from_slice(&tail);
    bytes[end - 2..end].copy_from_slice(b"\n?");
    fs::write(log_of(&place), &bytes).unwrap();
    let told = log.slice(&file, 0..COUNT, &Cursors::default()).unwrap().unwrap_err();
    assert!(told.seq == Some(middle), "{told:?}");
}
