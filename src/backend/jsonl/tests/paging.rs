//! Reading a log in pages, held against its size: by what is read, unpacked and parsed, and not by time.

use std::fs;
use std::io::{Seek, SeekFrom, Write};

use super::super::cursor::Cursors;
use super::super::layout::Generation;
use super::super::scan::scan;
use super::super::work::{PARSED, UNPACKED};
use super::*;

const PAGE: u64 = 100;
const EVENTS: u64 = 8000;

/// Events whose data does not compress well, so that a frame of them is much larger than what is read of it at once.
pub(super) fn large_events(range: std::ops::Range<u64>) -> Vec<SessionEvent> {
    let event = |seq: u64| {
        let mut state = seq + 1;
        let mut digits = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{state:016x}")
        };
        let text: String = (0..50).map(|_| digits()).collect();
        SessionEvent::new("todo/write", seq, seq as i64, Json::parse(&format!("{{\"todos\":[\"{text}\"]}}")).unwrap())
    };
    range.map(|seq| event(seq).unwrap()).collect()
}

/// What reading cost, in parts of what there is: bytes of the file, bytes of text, rows.
fn cost(place: &Place, text: u64) -> [f64; 3] {
    let size = fs::metadata(log_of(place)).unwrap().len();
    let (read, unpacked, parsed) = (place.read(), UNPACKED.take(), PARSED.take());
    [read as f64 / size as f64, unpacked as f64 / text as f64, parsed as f64 / EVENTS as f64]
}

fn forget_costs(place: &Place) {
    place.reset();
    UNPACKED.take();
    PARSED.take();
}

fn text_of(events: &[SessionEvent]) -> u64 {
    events.iter().map(|event| event.to_line().len() as u64 + 1).sum()
}

fn page(handle: &dyn SessionHandle, from: u64) -> Vec<SessionEvent> {
    handle.read(SeqRange::from(from..from + PAGE)).unwrap()
}

#[test]
fn a_log_of_one_large_batch_is_read_in_pages_at_the_cost_of_reading_it_once() {
    let all = large_events(0..EVENTS);
    let text = text_of(&all);
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let store = place.open(0);
        let writer = create(&store, "s");
        writer.append(&all[..1]).unwrap();
        writer.append(&all[1..]).unwrap();
        let read_all = |handle: &dyn SessionHandle| {
            for from in (0..EVENTS).step_by(PAGE as usize) {
                assert!(page(handle, from) == all[from as usize..(from + PAGE).min(EVENTS) as usize]);
            }
        };
        let unpacks = f64::from(encoding == Encoding::Zstd);
        forget_costs(&place);
        read_all(&*writer);
        let [read, unpacked, parsed] = cost(&place, text);
        assert!(read < 1.1 && unpacked < 1.01 * unpacks + 0.001 && parsed < 1.01, "{read} {unpacked} {parsed}");

        let store = place.open(0);
        forget_costs(&place);
        read_all(&*store.open(&id("s"), OpenOptions::read()).unwrap());
        let [read, unpacked, parsed] = cost(&place, text);
        assert!(read < 2.2 && unpacked < 2.01 * unpacks + 0.001 && parsed < 2.01, "{read} {unpacked} {parsed}");
        // What is left of it is the memory of no decoder: the end of the log was reached.
        let left = store.runtime.storage().cursors.bytes_held();
        assert!(left < 64 << 10, "{left}");
    }
}

#[test]
fn several_readers_of_one_log_each_go_on_where_they_were() {
    let all = large_events(0..EVENTS);
    let text = text_of(&all);
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let writer = create(&place.open(0), "s");
        writer.append(&all).unwrap();
        drop(writer);
        let store = place.open(0);
        let readers: Vec<_> = (0..3).map(|_| store.open(&id("s"), OpenOptions::read()).unwrap()).collect();
        forget_costs(&place);
        for from in (0..EVENTS).step_by(PAGE as usize) {
            for (reader, behind) in readers.iter().zip([0, 500, 1000]) {
                if let Some(from) = from.checked_sub(behind) {
                    assert!(page(&**reader, from) == all[from as usize..(from + PAGE) as usize]);
                }
            }
        }
        let [read, unpacked, parsed] = cost(&place, text);
        // Those that start later unpack what is before them once more at the most.
        assert!(read < 4.5 && unpacked < 4.5 && parsed < 4.5, "{read} {unpacked} {parsed}");
    }
}

#[test]
fn a_reader_between_appends_reads_only_what_is_new() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let store = place.open(0);
        let writer = create(&store, "s");
        writer.append(&large_events(0..PAGE)).unwrap();
        forget_costs(&place);
        for from in (0..3000).step_by(PAGE as usize) {
            assert!(page(&*writer, from) == large_events(from..from + PAGE));
            // A write that fails and stays: whoever reads next must not take it for a part of the log.
            place.watch.partial.store(2000, Ordering::Relaxed);
            place.watch.fail(Call::Write, 0, 1, io::ErrorKind::StorageFull);
            place.watch.fail(Call::SetLen, 0, 1, io::ErrorKind::Other);
            writer.append(&events(from + PAGE..from + 2 * PAGE)).unwrap_err();
            place.watch.heal();
            assert!(page(&*writer, from + PAGE).is_empty());
            assert!(page(&*writer, from + 1) == large_events(from + 1..from + PAGE));
            writer.append(&large_events(from + PAGE..from + 2 * PAGE)).unwrap();
        }
        let size = fs::metadata(log_of(&place)).unwrap().len();
        let read = place.read();
        // The second look at each page starts from a mark, which is never far.
        assert!(read < 6 * size, "{read} of {size}");
        assert!(read_all_by(&place.open(0), 7) == large_events(0..3000 + PAGE));
    }
}

fn read_all_by(store: &JsonlStore, page: u64) -> Vec<SessionEvent> {
    let handle = store.open(&id("s"), OpenOptions::uninterpreted()).unwrap();
    let mut all = Vec::new();
    loop {
        let from = all.len() as u64;
        let page = handle.read(SeqRange::from(from..from + page)).unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

#[test]
fn a_cursor_serves_nothing_of_what_the_file_was_before() {
    for encoding in ENCODINGS {
        let [old, new] = [Place::new(encoding), Place::new(encoding)];
        let changed: Vec<_> = large_events(1000..1800)
            .iter()
            .zip(0..)
            .map(|(event, seq)| SessionEvent::new("todo/write", seq, 7, event.data().clone()).unwrap())
            .collect();
        create(&old.open(0), "s").append(&large_events(0..800)).unwrap();
        create(&new.open(0), "s").append(&changed).unwrap();
        let (first, second) = (fs::read(log_of(&old)).unwrap(), fs::read(log_of(&new)).unwrap());

        let store = old.open(0);
        let reader = store.open(&id("s"), OpenOptions::read()).unwrap();
        assert!(page(&*reader, 0) == large_events(0..PAGE));
        // The same file with other content, as a program that does not only append leaves it.
        fs::write(log_of(&old), &second).unwrap();
        assert!(page(&*reader, PAGE) == changed[100..200]);
        // Cut in the middle of its only batch.
        fs::write(log_of(&old), &second[..second.len() / 2]).unwrap();
        assert_eq!(reader.read(SeqRange::from(200..300)).unwrap_err().kind(), ErrorKind::Corruption, "it saw more");
        let reader = store.open(&id("s"), OpenOptions::read()).unwrap();
        let cut = reader.read(SeqRange::from(200..300)).unwrap();
        assert!(if encoding == Encoding::Zstd { cut.is_empty() } else { cut == changed[200..300] });
        // Another file in its place.
        let path = old.folder.path().join("other");
        fs::write(&path, &first).unwrap();
        fs::rename(&path, log_of(&old)).unwrap();
        assert_eq!(reader.read(SeqRange::from(300..400)).unwrap_err().kind(), ErrorKind::NotFound);
        let reader = store.open(&id("s"), OpenOptions::read()).unwrap();
        assert!(page(&*reader, 300) == large_events(300..400));
    }
}

#[test]
fn a_frame_that_is_broken_at_its_end_serves_none_of_its_rows() {
    for memo in [0, 64 << 20] {
        let place = Place::new(Encoding::Zstd);
        let writer = create(&place.open(0), "s");
        writer.append(&large_events(0..10)).unwrap();
        writer.append(&large_events(10..3000)).unwrap();
        writer.append(&large_events(3000..3010)).unwrap();
        drop(writer);
        let mut bytes = fs::read(log_of(&place)).unwrap();
        let last = bytes.windows(4).rposition(|four| four == super::super::frames::MAGIC).unwrap();
        bytes[last - 1] ^= 1;
        fs::write(log_of(&place), bytes).unwrap();
        let store = place.open(memo);
        let reader = store.open(&id("s"), OpenOptions::read()).unwrap();
        assert!(reader.read(SeqRange::from(0..10)).unwrap() == large_events(0..10));
        for from in [0, 9, 10, 50, 2999] {
            match reader.read(SeqRange::from(from..from + PAGE)) {
                Err(Error::Corruption { seq, .. }) => assert_eq!(seq.map(|seq| seq.get()), Some(10)),
                other => panic!("{from}: {other:?}"),
            }
        }
    }
}

#[test]
fn what_decays_behind_a_pass_over_the_file_is_told_where_its_frame_ends() {
    let place = Place::new(Encoding::Zstd);
    create(&place.open(0), "s").append(&large_events(0..1000)).unwrap();
    let mut file = fs::File::options().read(true).write(true).open(log_of(&place)).unwrap();
    let size = file.metadata().unwrap().len();
    let generation = Generation { version: 3, encoding: Encoding::Zstd };
    let log = scan(&file, size, &id("s"), generation, 0).unwrap().unwrap();
    file.seek(SeekFrom::Start(size - 1)).unwrap();
    file.write_all(b"!").unwrap();
    let cursors = Cursors::default();
    for from in (0..900).step_by(100) {
        assert!(log.slice(&file, from..from + 100, &cursors).unwrap().unwrap().len() == 100);
    }
    let damage = log.slice(&file, 900..1000, &cursors).unwrap().unwrap_err();
    assert!(damage.reason.contains("does not unpack any more"), "{}", damage.reason);
}

#[test]
fn a_page_may_end_inside_a_row_that_packs_several_events() {
    let header = r#"{"type":"session","version":0,"id":"s","createdAt":5,"cwd":"/w","delegationDepth":0}"#;
    let mut log = format!("{header}\n");
    for run in 0..40 {
        let (seq0, texts) = (run * 5, r#""a","b","c","d","e""#);
        log += &format!(
            r#"{{"type":"text-chunks","seq0":{seq0},"time0":1,"data":{{"turn":1,"step":1,"index":2,"dt":[1,1,1,1],"texts":[{texts}]}}}}"#
        );
        log.push('\n');
    }
    let place = Place::new(Encoding::Raw);
    let folder = place.folder.path().join("--w--/s");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("session.jsonl"), log).unwrap();
    let all = read_all_by(&place.open(64 << 20), 200);
    assert_eq!(all.len(), 200);
    for page in [1, 2, 3, 5, 7, 199] {
        forget_costs(&place);
        assert!(read_all_by(&place.open(0), page) == all, "{page}");
        let parsed = PARSED.take();
        // A row is parsed once for each page that has a part of it.
        assert!(parsed <= 40 + 40 * (5 / page + 2), "{page}: {parsed}");
    }
}

#[test]
fn the_cursors_of_a_store_stay_below_their_limit_together() {
    let place = Place::new(Encoding::Zstd);
    let store = place.open(0);
    let name = |n: usize| format!("s{n}");
    let all = large_events(0..300);
    let writers: Vec<_> = (0..70).map(|n| create(&store, &name(n))).collect();
    for from in [0, 100, 200] {
        for writer in &writers {
            if from == 0 {
                writer.append(&all).unwrap();
            }
            assert!(page(&**writer, from) == all[from as usize..(from + PAGE) as usize]);
            assert!(store.runtime.storage().cursors.bytes_held() <= 32 << 20);
        }
    }
}
