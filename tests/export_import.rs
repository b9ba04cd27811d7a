//! Logs as text: what is imported comes back to the byte, what is refused is refused whole with its line and reason.

use std::io::{self, Write};

use session_persistence::export::{self, Conflict, ImportError, ImportOptions, Imported};
use session_persistence::{
    CreateOptions, Error, ErrorKind, Json, ListQuery, MemoryStore, OpenOptions, SeqRange, SessionEvent, SessionHeader,
    SessionId, SessionPersistence,
};

const HEADER: &str = r#"{"type":"session","version":3,"id":"s","createdAt":0,"isSeeded":false,"delegationDepth":0}"#;

type Stores = Vec<(&'static str, Box<dyn SessionPersistence>)>;

fn stores() -> Stores {
    vec![
        ("memory", Box::new(MemoryStore::new())),
        #[cfg(feature = "sqlite")]
        ("sqlite", Box::new(session_persistence::SqliteStore::in_memory().expect("a store"))),
    ]
}

fn id() -> SessionId {
    SessionId::new("s").expect("an id")
}

fn event(seq: u64, data: &str) -> String {
    format!(r#"{{"type":"turn/start","seq":{seq},"time":7,"data":{data}}}"#)
}

/// A log with `count` events.
fn log(count: u64) -> String {
    let events = (0..count).map(|seq| event(seq, r#"{"turn":1}"#) + "\n");
    format!("{HEADER}\n{}", events.collect::<String>())
}

fn import(
    store: &dyn SessionPersistence,
    log: impl AsRef<[u8]>,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    export::import_reader(store, "x.jsonl", log.as_ref(), options)
}

fn imported(store: &dyn SessionPersistence, log: impl AsRef<[u8]>) -> Imported {
    import(store, log, ImportOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn exported(store: &dyn SessionPersistence) -> String {
    let mut text = Vec::new();
    let report = export::jsonl(store, &id(), &mut text).expect("an export");
    assert_eq!(report.bytes, text.len() as u64);
    let text = String::from_utf8(text).expect("text");
    assert_eq!(report.events, text.lines().count() as u64 - 1);
    text
}

/// Checks that a log is refused at a line, for a reason, and that nothing of it is stored.
fn refused(log: impl AsRef<[u8]>, at: u64, because: &str) {
    for (name, store) in stores() {
        let error = import(&*store, log.as_ref(), ImportOptions::extending()).expect_err(because);
        let text = error.to_string();
        let ImportError::Refused { file, line, reason } = error else { panic!("{name}: {text}") };
        assert_eq!((file.as_str(), line), ("x.jsonl", at), "{name}: {reason}");
        assert!(reason.contains(because), "{name}: {reason}");
        assert!(text.contains("x.jsonl") && text.ends_with("nothing was stored"), "{text}");
        assert!(store.list(&ListQuery::default()).expect("a list").items.is_empty(), "{name}");
    }
}

#[test]
fn text_comes_back_to_the_byte_from_every_store() {
    let data = [
        "9007199254740993",
        "18446744073709551615",
        "1e400",
        "1.0",
        "-0.0",
        "1E2",
        "0.1",
        "5e-324",
        "123456789012345678901234567890",
        r#""a\u0000b""#,
        r#""\ud83d""#,
        r#""\udc00x \udc00\ud83d \ud83d\ude00""#,
        "\"\u{2028}\u{2029}\u{85}\u{fffe}\u{e9}e\u{301}😀\"",
        r#"{"":1,"__proto__":{"b":1,"a":2}}"#,
        r#"{"10":1,"9":2,"b":3,"1":4}"#,
        r#"{"k":1,"k":2}"#,
        r#""\/ \u0041""#,
        r#"{ "spaced" : [ 1 , 2 ] }"#,
        "null",
    ];
    let mut log = format!("{HEADER}\n");
    for (seq, data) in data.iter().enumerate() {
        log += &event(seq as u64, data);
        log.push('\n');
    }
    let next = data.len();
    log += &format!("{{\"data\":1,\"time\":-5,\"type\":\"a/b\",\"seq\":{next}}}\n");
    log += &format!(" {{\"type\" : \"\\u0078\", \"seq\":{},\"time\":0,\"data\":[] }}\n", next + 1);
    log += &format!(
        "{{\"type\":\"acme/pulse\",\"seq\":{},\"time\":0,\"data\":[],\"ignorable\":true,\"surfaceOp\":7}}\n",
        next + 2
    );
    for (name, store) in stores() {
        assert_eq!(imported(&*store, &log), Imported::Created { session: id(), events: next as u64 + 3 }, "{name}");
        assert_eq!(exported(&*store), log, "{name}");
    }
}

#[test]
fn a_header_in_another_spelling_comes_back_as_it_was() {
    let header = r#"{"createdAt":5, "type":"session","id":"s","version":3,"isSeeded":false,"delegationDepth":0,"cwd":"\u002fw"}"#;
    for (name, store) in stores() {
        imported(&*store, format!("{header}\n"));
        assert_eq!(exported(&*store), format!("{header}\n"), "{name}");
    }
}

#[test]
fn ranges_of_sources_are_written_as_the_plain_list() {
    let mut log = log(5);
    log += r#"{"type":"user/message","seq":5,"time":0,"data":{},"sourceEventSeqs":[0,[2,4]]}"#;
    log.push('\n');
    for (name, store) in stores() {
        imported(&*store, &log);
        assert_eq!(exported(&*store), log.replace("[0,[2,4]]", "[0,2,3,4]"), "{name}");
        assert!(matches!(imported(&*store, &log), Imported::Unchanged { .. }), "{name}");
    }
}

#[test]
fn carriage_returns_before_a_line_feed_are_dropped() {
    for (name, store) in stores() {
        imported(&*store, log(3).replace('\n', "\r\n"));
        assert_eq!(exported(&*store), log(3), "{name}");
        assert!(matches!(imported(&*store, log(3).replace('\n', "\r\r\n")), Imported::Unchanged { .. }), "{name}");
    }
}

#[test]
fn a_log_without_events_is_a_session() {
    for (name, store) in stores() {
        assert_eq!(imported(&*store, log(0)), Imported::Created { session: id(), events: 0 }, "{name}");
        assert_eq!(store.stat(&id()).unwrap().unwrap().event_count, Some(0), "{name}");
        assert_eq!(exported(&*store), log(0), "{name}");
        assert!(matches!(imported(&*store, log(0)), Imported::Unchanged { events: 0, .. }), "{name}");
    }
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    refused([log(2).as_bytes(), b"{\"type\":\"x\xff\"}\n"].concat(), 4, "invalid UTF-8 at byte 10");
    refused(log(1) + "{\"type\":\"x\",\"seq\":1,\"time\":0,\"data\":\"a\0b\"}\n", 3, "NUL byte stands at byte 38");
    refused(format!("\u{feff}{}", log(1)), 1, "byte-order mark (EF BB BF)");
    refused(format!("{}\u{feff}{}\n", log(1), event(1, "1")), 3, "byte-order mark (EF BB BF)");
    refused(b"\xff\xfe{\0\n\0", 1, "byte-order mark of UTF-16");
    refused(b"SQLite format 3\0\x10\0", 1, "SQLite database");
    refused(b"\x28\xb5\x2f\xfd\x04", 1, "zstd");
}

#[test]
fn a_file_that_does_not_start_with_one_header_is_refused() {
    refused("", 1, "the file is empty");
    refused("\n", 1, "the line is empty");
    refused(format!("{}\n{HEADER}\n", event(0, "1")), 1, "the file starts with an event");
    refused("hello\n", 1, "not a JSON object");
    refused("[]\n", 1, "not a JSON object");
    refused("{\"type\":\"user\"}\n", 1, "not a session header");
    refused(HEADER.replace("\"s\"", "\"\"") + "\n", 1, "it is empty");
    refused(HEADER.replace(",\"isSeeded\":false", "") + "\n", 1, "isSeeded");
    refused(format!("{}{HEADER}\n", log(2)), 4, "a second session header");
    refused(format!("{HEADER}\n{HEADER}\n"), 2, "a second session header");
}

#[test]
fn lines_that_are_no_events_are_refused() {
    refused(log(1) + "\n" + &event(1, "1") + "\n", 3, "the line is empty");
    refused(log(1) + " \t\r\n", 3, "the line is empty");
    refused(log(1) + "{\"type\":\n", 3, "not a JSON object");
    let broken = |from: &str, to: &str| log(1) + &event(1, "1").replace(from, to) + "\n";
    refused(broken("\"seq\":1", "\"seq\":\"1\""), 3, "seq must be a whole number");
    refused(broken("\"time\":7", "\"time\":1.5"), 3, "time must be a whole number");
    refused(broken("\"time\":7", "\"time\":\"7\""), 3, "time must be a whole number");
    refused(broken("\"data\":1", "\"data\":1,\"ignorable\":false"), 3, "ignorable may only be true");
    refused(broken("\"data\":1", "\"data\":1,\"ignorable\":\"true\""), 3, "ignorable may only be true");
    refused(broken("\"data\":1", "\"data\":1,\"x-vendor\":{\"a\":1}"), 3, "unknown envelope key \"x-vendor\"");
    refused(broken(",\"data\":1", ""), 3, "\"data\" is missing");
    refused(broken("\"data\":1", "\"data\":1,\"data\":1"), 3, "stands twice");
    refused(broken("\"data\":1", "\"data\":1,\"sourceEventSeqs\":[1]"), 3, "not earlier");
    let packed = r#"{"type":"text-chunks","seq0":1,"time0":7,"data":{"dt":[1],"texts":["a","b"]}}"#;
    refused(log(1) + packed + "\n", 3, "packs several events");
}

#[test]
fn a_log_with_a_gap_or_a_repeat_is_refused() {
    refused(log(2) + &event(3, "1") + "\n", 4, "seq 3 stands where 2 comes next");
    refused(log(2) + &event(1, "1") + "\n", 4, "seq 1 stands where 2 comes next");
    refused(format!("{HEADER}\n{}\n", event(1, "1")), 2, "seq 1 stands where 0 comes next");
}

#[test]
fn a_last_line_without_its_line_feed_is_refused() {
    refused(log(2).trim_end(), 3, "end it with a line feed");
    refused(HEADER, 1, "end it with a line feed");
    let log = log(2);
    refused(&log[..log.len() - 9], 3, "the last line was cut");
    refused(&HEADER[..40], 1, "the last line was cut");
}

#[test]
fn a_log_that_breaks_late_stores_nothing_and_leaves_what_was_stored() {
    let broken = log(900) + "{}\n";
    refused(&broken, 902, "is missing");
    for (name, store) in stores() {
        imported(&*store, log(10));
        let before = store.stat(&id()).unwrap();
        let error = import(&*store, &broken, ImportOptions::extending()).unwrap_err();
        assert!(matches!(error, ImportError::Refused { line: 902, .. }), "{name}: {error}");
        assert_eq!(store.stat(&id()).unwrap(), before, "{name}");
    }
}

#[test]
fn importing_twice_changes_nothing() {
    for (name, store) in stores() {
        imported(&*store, log(5000));
        let before = store.stat(&id()).unwrap();
        for options in [ImportOptions::default(), ImportOptions::extending()] {
            let again = import(&*store, log(5000), options).unwrap();
            assert_eq!(again, Imported::Unchanged { session: id(), events: 5000 }, "{name}");
        }
        assert_eq!(store.stat(&id()).unwrap(), before, "{name}");
    }
}

#[test]
fn a_longer_log_is_refused_until_it_may_extend() {
    for (name, store) in stores() {
        imported(&*store, log(3));
        let before = store.stat(&id()).unwrap();
        let error = import(&*store, log(5), ImportOptions::default()).unwrap_err();
        let expected = Conflict::FileGoesOn { stored: 3, file: 5 };
        assert!(matches!(&error, ImportError::Conflict { conflict, .. } if *conflict == expected), "{name}: {error}");
        assert!(error.to_string().contains("--extend"), "{error}");
        assert_eq!(store.stat(&id()).unwrap(), before, "{name}");

        let extended = import(&*store, log(5), ImportOptions::extending()).unwrap();
        assert_eq!(extended, Imported::Extended { session: id(), events: 5, added: 2 }, "{name}");
        assert_eq!(exported(&*store), log(5), "{name}");
        assert_ne!(store.stat(&id()).unwrap().unwrap().revision, before.unwrap().revision, "{name}");
    }
}

#[test]
fn a_log_that_differs_from_the_stored_one_is_refused_with_the_first_seq_that_does() {
    let other = log(5).replace(&event(3, r#"{"turn":1}"#), &event(3, r#"{"turn":1.0}"#));
    let elsewhere = log(5).replace("\"createdAt\":0", "\"createdAt\":1");
    let three = session_persistence::Seq::from(3);
    for (name, store) in stores() {
        imported(&*store, log(5));
        let before = store.stat(&id()).unwrap();
        for (log, expected) in [
            (other.clone(), Conflict::Event { seq: three }),
            (other.clone() + &event(5, "1") + "\n", Conflict::Event { seq: three }),
            (log(3), Conflict::StoreGoesOn { file: 3, stored: 5 }),
            (log(0), Conflict::StoreGoesOn { file: 0, stored: 5 }),
            (elsewhere.clone(), Conflict::Header),
        ] {
            let error = import(&*store, log, ImportOptions::extending()).unwrap_err();
            let ImportError::Conflict { conflict, session, .. } = &error else { panic!("{name}: {error}") };
            assert_eq!((conflict, session), (&expected, &id()), "{name}");
            assert_eq!(store.stat(&id()).unwrap(), before, "{name}");
        }
    }
}

#[test]
fn a_log_that_cannot_be_interpreted_is_imported_and_exported_but_not_extended() {
    let old = log(3).replace(",\"isSeeded\":false", "").replace("\"version\":3", "\"version\":0");
    let unknown = log(2) + &event(2, "{}").replace("turn/start", "acme/pulse") + "\n";
    let newer = log(3).replace("\"version\":3", "\"version\":4,\"x\":[1]");
    for log in [old, unknown, newer] {
        for (name, store) in stores() {
            imported(&*store, &log);
            assert_eq!(exported(&*store), log, "{name}");
            assert!(matches!(imported(&*store, &log), Imported::Unchanged { .. }), "{name}");
            let longer = log.clone() + &event(3, "1") + "\n";
            let error = import(&*store, longer, ImportOptions::extending()).unwrap_err();
            let ImportError::Store { source, .. } = &error else { panic!("{name}: {error}") };
            assert_eq!(source.kind(), ErrorKind::FormatUnsupported, "{name}");
            assert_eq!(exported(&*store), log, "{name}");
        }
    }
}

#[test]
fn a_fork_keeps_its_inherited_count() {
    let seeded = HEADER.replace("\"isSeeded\":false", "\"parentSession\":\"p\",\"isSeeded\":true");
    let mark = |seq, data| event(seq, data).replace("turn/start", "session/end-seed");
    let inherited = r#"{"inherited":true}"#;
    let lines = [seeded, mark(0, inherited), event(1, "{}"), mark(2, inherited), mark(3, "{}"), event(4, "{}")];
    let old = HEADER.replace("\"version\":3", "\"version\":1").replace("\"isSeeded\":false", "\"seedLength\":1");
    let old = format!("{old}\n{}\n{}\n", event(0, "{}"), event(1, "{}"));
    for (log, count) in [(lines.join("\n") + "\n", 2), (old, 1)] {
        for (name, store) in stores() {
            imported(&*store, &log);
            let handle = store.open(&id(), OpenOptions::uninterpreted()).unwrap();
            assert_eq!(handle.inherited_event_count(), count, "{name}");
            assert_eq!(exported(&*store), log, "{name}");
        }
    }
}

#[test]
fn the_file_of_an_import_is_not_touched_and_a_missing_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    std::fs::write(&path, log(3)).unwrap();
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    let store = MemoryStore::new();
    export::import_file(&store, &path, ImportOptions::default()).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), log(3));
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), before);
    for absent in [folder.path().join("absent.jsonl"), folder.path().to_owned()] {
        let error = export::import_file(&store, &absent, ImportOptions::default()).unwrap_err();
        assert!(matches!(error, ImportError::Unreadable { .. }), "{error}");
        assert!(error.to_string().contains(&absent.display().to_string()), "{error}");
    }
}

#[test]
fn a_session_that_is_being_written_is_not_extended() {
    for (name, store) in stores() {
        imported(&*store, log(2));
        let writer = store.open(&id(), OpenOptions::write()).unwrap();
        let error = import(&*store, log(4), ImportOptions::extending()).unwrap_err();
        let ImportError::Store { source, .. } = &error else { panic!("{name}: {error}") };
        assert_eq!(source.kind(), ErrorKind::AlreadyOwned, "{name}");
        assert!(matches!(imported(&*store, log(2)), Imported::Unchanged { .. }), "{name}");
        writer.close().unwrap();
        import(&*store, log(4), ImportOptions::extending()).unwrap();
    }
}

#[test]
fn an_export_ends_where_the_log_ended_when_it_started() {
    /// Appends an event to the exported session whenever something is written.
    struct Growing<'a> {
        writer: Box<dyn session_persistence::SessionHandle>,
        text: &'a mut Vec<u8>,
        next: u64,
    }
    impl Write for Growing<'_> {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let event = SessionEvent::new("turn/start", self.next, 0, Json::parse("{}").unwrap()).unwrap();
            self.writer.append(&[event]).unwrap();
            self.next += 1;
            self.text.write(text)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for (name, store) in stores() {
        imported(&*store, log(20_000));
        let mut text = Vec::new();
        let writer = store.open(&id(), OpenOptions::write()).unwrap();
        let mut out = Growing { writer, text: &mut text, next: 20_000 };
        let report = export::jsonl(&*store, &id(), &mut out).unwrap();
        assert!(out.next > 20_010, "{name}: the log did not grow");
        assert_eq!(report.events, 20_000, "{name}");
        assert!(text == log(20_000).as_bytes(), "{name}");
    }
}

#[test]
fn a_failure_of_the_writer_is_told_from_one_of_the_store() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for (name, store) in stores() {
        imported(&*store, log(2));
        let error = export::jsonl(&*store, &id(), &mut Closed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{name}");
        assert_eq!(export::write_failure(&error).unwrap().kind(), io::ErrorKind::BrokenPipe, "{name}");
        let absent = SessionId::new("absent").unwrap();
        let error = export::jsonl(&*store, &absent, &mut Closed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{name}");
        assert!(export::write_failure(&error).is_none(), "{name}");
        let other = Error::Io { session: None, operation: "x".into(), source: Box::new(io::Error::other("x")) };
        assert!(export::write_failure(&other).is_none());
    }
}

#[test]
fn an_event_of_fifty_megabytes_goes_through() {
    let text = format!("\"{}\"", "line of output ".repeat((50 << 20) / 15));
    let log = format!("{HEADER}\n{}\n{}\n{}\n", event(0, "1"), event(1, &text), event(2, "3"));
    for (name, store) in stores() {
        imported(&*store, &log);
        assert!(exported(&*store) == log, "{name}");
        assert!(matches!(imported(&*store, &log), Imported::Unchanged { events: 3, .. }), "{name}");
    }
}

#[test]
fn a_host_s_session_is_exported_and_known_again() {
    for (name, store) in stores() {
        let header = SessionHeader::new(id(), 5).unwrap().with_cwd("/srv/a \"b\"");
        let handle = store.create(&header, CreateOptions::default()).unwrap();
        let events: Vec<_> = (0..3).map(|seq| SessionEvent::of("todo/write", seq, 9, &["\u{1}é"]).unwrap()).collect();
        handle.append(&events).unwrap();
        let text = exported(&*store);
        assert_eq!(handle.read(SeqRange::ALL).unwrap(), events, "{name}");
        drop(handle);
        assert!(matches!(imported(&*store, &text), Imported::Unchanged { events: 3, .. }), "{name}");
    }
}
