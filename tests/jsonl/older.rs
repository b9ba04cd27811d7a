//! Logs of older formats: packed rows read as the events that they stand for, and nothing is migrated.

use std::fs;

use session_persistence::{
    Encoding, ErrorKind, JsonlOptions, JsonlStore, OpenOptions, SeqRange, SessionEvent, SessionPersistence, TornTail,
    Vocabulary, text,
};

use super::place::{ENCODINGS, Place, id, list, stat};

const HEADER: &str = r#"{"type":"session","version":0,"id":"s","createdAt":5,"cwd":"/w","delegationDepth":0}"#;

/// The plain events of a log, and its rows with runs of 1, 2, 3 and 500 pieces packed.
fn packed_log() -> (Vec<String>, Vec<String>) {
    let mut plain = vec![r#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#.to_owned()];
    let mut rows = plain.clone();
    for (kind, run) in [("text", 1), ("reasoning", 2), ("tool-call", 3), ("text", 500), ("tool-call", 1)] {
        let (seq0, time0) = (plain.len() as u64, 100 * plain.len() as i64);
        let call = kind == "tool-call";
        let pieces: Vec<_> = (0..run).map(|at| format!(r#""\ud83d{at} é""#)).collect();
        let distances: Vec<_> = (1..run).map(|at| if at % 2 == 0 { -3 } else { 7 }).collect();
        let mut time = time0;
        for (at, piece) in pieces.iter().enumerate() {
            if at > 0 {
                time += distances[at - 1];
            }
            let chunk = if call {
                format!(r#"{{"type":"tool-call-delta","index":2,"id":"c","name":"n","argumentsDelta":{piece}}}"#)
            } else {
                format!(r#"{{"type":"{kind}-delta","index":2,"text":{piece}}}"#)
            };
            plain.push(format!(
                r#"{{"type":"assistant/chunk","seq":{},"time":{time},"data":{{"turn":1,"step":1,"chunk":{chunk}}}}}"#,
                seq0 + at as u64
            ));
        }
        let distances = distances.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        let pieces = pieces.join(",");
        let rest =
            if call { format!(r#""id":"c","name":"n","args":[{pieces}]"#) } else { format!(r#""texts":[{pieces}]"#) };
        rows.push(format!(
            r#"{{"type":"{kind}-chunks","seq0":{seq0},"time0":{time0},"data":{{"turn":1,"step":1,"index":2,"dt":[{distances}],{rest}}}}}"#
        ));
    }
    (plain, rows)
}

/// Puts rows into a root as another program stores them, `rows` of them in each frame.
fn write_log(place: &Place, header: &str, rows: &[String], name: &str) {
    let text = |rows: &[String]| rows.iter().map(|row| row.clone() + "\n").collect::<String>();
    let header = text(&[header.to_owned()]);
    fs::create_dir_all(place.session("s")).unwrap();
    let (name, bytes) = match place.encoding {
        Encoding::Raw => (name.to_owned(), (header + &text(rows)).into_bytes()),
        _ => {
            let frame = |text: String| {
                let mut encoder = zstd::Encoder::new(Vec::new(), 0).unwrap();
                encoder.include_checksum(true).unwrap();
                std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
                encoder.finish().unwrap()
            };
            let frames = std::iter::once(header).chain(rows.chunks(2).map(text));
            (format!("{name}.zstd"), frames.flat_map(frame).collect())
        }
    };
    fs::write(place.session("s").join(name), bytes).unwrap();
}

#[test]
fn packed_rows_read_as_the_plain_log_from_every_place() {
    let (plain, rows) = packed_log();
    let plain: Vec<_> = plain.iter().map(|line| text::parse_event(line.as_bytes()).unwrap()).collect();
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        write_log(&place, HEADER, &rows, "session.jsonl");
        let before = place.files();
        let told = stat(&place.open(), "s");
        let last = plain.last().unwrap();
        assert_eq!((told.event_count, told.last_time), (Some(plain.len() as u64), Some(last.time())));
        for store in [place.open(), place.open_forgetful()] {
            let reader = store.open(&id("s"), OpenOptions::uninterpreted()).unwrap();
            assert_eq!(reader.header().to_line(), HEADER);
            let whole = reader.read(SeqRange::ALL).unwrap();
            let lines = |events: &[SessionEvent]| events.iter().map(SessionEvent::to_line).collect::<Vec<_>>();
            assert_eq!(lines(&whole), lines(&plain));
            for from in 0..=plain.len() + 1 {
                let behind = plain.get(from..).unwrap_or_default();
                let read = reader.read(SeqRange::new(from as u64, Some(4))).unwrap();
                assert_eq!(read, behind[..behind.len().min(4)], "from {from}");
            }
            for from in [0, 1, 3, 6, 7, 250, 506, 507] {
                assert_eq!(reader.read(SeqRange::from(from as u64..)).unwrap(), plain[from..]);
            }
        }
        assert_eq!(place.files(), before);
    }
}

#[test]
fn an_older_log_is_refused_for_interpretation_and_goes_on_for_a_host_that_knows_it() {
    let (plain, rows) = packed_log();
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        write_log(&place, HEADER, &rows, "session.jsonl");
        let before = place.files();
        let store = place.open();
        for way in [OpenOptions::read(), OpenOptions::write()] {
            assert_eq!(store.open(&id("s"), way).err().unwrap().kind(), ErrorKind::FormatUnsupported);
        }
        assert_eq!(place.files(), before, "a refused writer leaves no lock file");
        let mut options = JsonlOptions::default();
        options.vocabulary = Vocabulary::new(0, ["turn/start", "turn/end", "assistant/chunk", "assistant/message"]);
        let store = JsonlStore::open_with(place.root(), options).unwrap();
        let writer = store.open(&id("s"), OpenOptions::write()).unwrap();
        let seq = plain.len() as u64;
        let cited = SessionEvent::of("assistant/message", seq, 9, &()).unwrap().with_source_event_seqs(1..9).unwrap();
        writer.append(std::slice::from_ref(&cited)).unwrap();
        let reader = place.open().open(&id("s"), OpenOptions::uninterpreted()).unwrap();
        assert_eq!(reader.read(SeqRange::from(seq..)).unwrap(), [cited]);
        if encoding == Encoding::Raw {
            let text = fs::read_to_string(place.session("s").join("session.jsonl")).unwrap();
            assert!(text.ends_with("\"sourceEventSeqs\":[1,2,3,4,5,6,7,8]}\n"), "old readers know no ranges");
        }
    }
}

#[test]
fn a_packed_row_is_none_in_a_newer_format_and_torn_at_the_end_of_an_older_one() {
    let (plain, mut rows) = packed_log();
    rows.push(
        r#"{"type":"text-chunks","seq0":508,"time0":1,"data":{"turn":1,"step":1,"index":2,"dt":[1],"texts":["a"]}}"#
            .to_owned(),
    );
    let place = Place::new(Encoding::Raw);
    write_log(&place, HEADER, &rows, "session.jsonl");
    let store = place.open();
    let reader = store.open(&id("s"), OpenOptions::uninterpreted()).unwrap();
    assert_eq!(reader.read(SeqRange::ALL).unwrap().len(), plain.len());
    let torn = rows.last().unwrap().len() as u64 + 1;
    assert_eq!(stat(&store, "s").torn_tail, Some(TornTail::new(plain.len() as u64, torn)));

    let newer = r#"{"type":"session","version":2,"id":"s","createdAt":5,"cwd":"/w","isSeeded":false}"#;
    let place = Place::new(Encoding::Raw);
    rows.push(r#"{"type":"turn/end","seq":9,"time":1,"data":{}}"#.to_owned());
    write_log(&place, newer, &rows, "session.v2.jsonl");
    let reader = place.open().open(&id("s"), OpenOptions::uninterpreted()).unwrap();
    assert_eq!(reader.read(SeqRange::from(..1)).unwrap().len(), 1);
    assert_eq!(reader.read(SeqRange::from(..2)).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(list(&place.open()).len(), 1);
}
