//! Cases of what an event holds: every byte of its line comes back, from every handle, now and after reopening.

use super::fixture::{Fixture, reopened};
use super::sample::{at_time, event, parsed, typed, with_data};
use super::steps::{append, create, open, read};
use crate::log::{Json, Seq, SessionEvent, SurfaceOp};
use crate::seam::{OpenOptions, SessionPersistence};

#[track_caller]
fn assert_stored(store: &dyn SessionPersistence, log: &[SessionEvent]) {
    for way in super::steps::WAYS {
        // Only one session of the case has a writer at this time.
        let Ok(handle) = store.open(&super::sample::id("s"), way) else {
            panic!("the log has to be opened as {way:?}");
        };
        assert_log(&read(&*handle, ..), log);
        for (index, event) in log.iter().enumerate() {
            let seq = index as u64;
            assert_log(&read(&*handle, seq..seq + 1), std::slice::from_ref(event));
        }
    }
}

#[track_caller]
fn assert_log(found: &[SessionEvent], expected: &[SessionEvent]) {
    let lines = |log: &[SessionEvent]| log.iter().map(SessionEvent::to_line).collect::<Vec<_>>();
    assert_eq!(lines(found), lines(expected));
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.data(), expected.data());
        assert_eq!(found.source_event_seqs(), expected.source_event_seqs());
        assert_eq!(found.surface_op(), expected.surface_op());
        assert_eq!(
            (found.event_type(), found.seq(), found.time(), found.is_ignorable()),
            (expected.event_type(), expected.seq(), expected.time(), expected.is_ignorable())
        );
    }
    assert_eq!(found, expected);
}

/// Checks that a log comes back as it was given, from the handle that stored it and from every other.
#[track_caller]
fn come_back(fixture: &dyn Fixture, log: &[SessionEvent]) {
    let store = fixture.store();
    let writer = create(&*store, "s");
    let early = open(&*store, "s", OpenOptions::read());
    let (first, rest) = log.split_at(1);
    append(&*writer, first);
    append(&*writer, rest);
    for handle in [&writer, &early] {
        assert_log(&read(&**handle, ..), log);
    }
    drop((writer, early));
    assert_stored(&*store, log);
    reopened(fixture, store, |store| assert_stored(store, log));
}

#[track_caller]
fn lines_come_back(fixture: &dyn Fixture, lines: &[&str]) {
    let log: Vec<_> = lines.iter().map(|line| parsed(line)).collect();
    for (event, line) in log.iter().zip(lines) {
        assert_eq!(event.to_line(), *line, "the lines of this case are in exported form");
    }
    come_back(fixture, &log);
}

/// Checks that these texts come back as the data of an event each.
#[track_caller]
fn data_come_back(fixture: &dyn Fixture, texts: &[&str]) {
    let log: Vec<_> =
        texts.iter().enumerate().map(|(seq, text)| with_data("turn/start", seq as u64, 0, text)).collect();
    for (event, text) in log.iter().zip(texts) {
        assert_eq!(event.data().as_str(), *text);
    }
    come_back(fixture, &log);
}

pub fn plain_events_come_back(fixture: &dyn Fixture) {
    come_back(fixture, &super::sample::events(0..5));
}

pub fn a_foreign_order_of_keys_comes_back(fixture: &dyn Fixture) {
    lines_come_back(
        fixture,
        &[
            r#"{"type":"user/message","data":{"b":1,"a":2},"surfaceOp":"append","seq":0,"time":-5}"#,
            r#"{"time":1,"seq":1,"data":{"z":{"y":1,"x":2},"2":0,"1":0},"type":"turn/start"}"#,
            r#"{"type":"turn/start","seq":2,"time":1,"data":[]}"#,
            r#"{"data":{"data":"data","seq":9},"type":"turn/start","seq":3,"time":1}"#,
            r#"{"type":"user/message","seq":4,"time":1,"data":[],"surfaceOp":"append","sourceEventSeqs":[1,0]}"#,
            r#"{"ignorable":true,"type":"acme/pulse","seq":5,"time":1,"data":null}"#,
        ],
    );
}

pub fn an_odd_spelling_comes_back(fixture: &dyn Fixture) {
    lines_come_back(
        fixture,
        &[
            r#" { "type" : "turn/start" , "seq":0, "time":1, "data" : { "a" : 1 , "b":[ ] } } "#,
            r#"{"type":"turn\u002fstart","seq":1,"time":1,"data":{"turn":1}}"#,
            r#"{"\u0074ype":"turn\/start","seq":2,"time":1,"data":"\u0041\/"}"#,
            "{\"type\":\"turn/start\",\t\"seq\":3,\"time\":1,\"data\":\"\u{7f}\"}",
        ],
    );
}

pub fn surrogates_that_stand_alone_come_back(fixture: &dyn Fixture) {
    data_come_back(fixture, &[r#""\ud83d""#, r#"{"\udc00":"a\ud800b"}"#, r#""\ude00\ud83d""#, r#""\ud83d\ude00 😀""#]);
}

pub fn numbers_come_back_as_they_were_written(fixture: &dyn Fixture) {
    data_come_back(
        fixture,
        &[
            "[9007199254740993,18446744073709551616,-9223372036854775809]",
            "[1.0,1e21,1E+21,-0,-0.0,0.1e-7,1e400,100000000000000000000000000000000]",
            "3575.5804057067885",
            "0.30000000000000004",
        ],
    );
}

pub fn keys_that_stand_twice_come_back(fixture: &dyn Fixture) {
    data_come_back(fixture, &[r#"{"k":1,"k":2,"j":0,"k":1}"#, r#"{"":0,"":0}"#]);
}

pub fn characters_of_every_kind_come_back(fixture: &dyn Fixture) {
    data_come_back(
        fixture,
        &[
            "\"line \u{2028} paragraph \u{2029} delete \u{7f} next \u{85}\"",
            r#"{"nul":"\u0000","key\u0000":"a\u0000b"}"#,
            r#""\b\t\n\f\r\u001f\"\\\/""#,
            "\"😀 e\u{301} \u{feff} \u{fffd} \u{ffff} \u{10ffff} '; DROP TABLE sessions; --\"",
            r#""""#,
        ],
    );
}

pub fn data_of_every_kind_come_back(fixture: &dyn Fixture) {
    data_come_back(fixture, &["null", "true", "false", "0", "\"\"", "[]", "{}", "[[],{},null]", r#"{"a":null}"#]);
}

pub fn deep_nesting_comes_back(fixture: &dyn Fixture) {
    const DEPTH: usize = 5000;
    let lists = ["[".repeat(DEPTH), "]".repeat(DEPTH)].concat();
    let objects = [r#"{"a":"#.repeat(DEPTH), "0".to_owned(), "}".repeat(DEPTH)].concat();
    data_come_back(fixture, &[&lists, &objects, "[[[1]]]"]);
}

pub fn a_large_event_comes_back(fixture: &dyn Fixture) {
    let large = format!(r#"{{"text":"{}","end":1}}"#, "lorem ipsum 😀 ".repeat(100_000));
    data_come_back(fixture, &["{}", &large, "{}"]);
}

pub fn citations_come_back(fixture: &dyn Fixture) {
    let citing = |seq, cited: &[u64]| {
        typed("tool/result", seq).with_source_event_seqs(cited.iter().copied()).expect("the cited events are earlier")
    };
    let log = [
        event(0),
        citing(1, &[0]),
        citing(2, &[]),
        event(3),
        citing(4, &[3, 0, 1]),
        citing(5, &[1, 1, 1]),
        citing(6, &[0, 1, 2, 3, 4, 5]),
    ];
    assert_eq!(log[0].source_event_seqs(), None);
    assert_eq!(log[2].source_event_seqs(), Some(&[][..]));
    come_back(fixture, &log);
}

pub fn citations_that_were_read_as_ranges_come_back_as_a_plain_list(fixture: &dyn Fixture) {
    let mut log = super::sample::events(0..9);
    log.push(parsed(r#"{"type":"tool/result","seq":9,"time":1,"data":[],"sourceEventSeqs":[1,[3,5],7]}"#));
    log.push(parsed(r#"{ "sourceEventSeqs":[[0,2]], "data":{"k":[[0,2]]},"type":"turn/start","seq":10,"time":1}"#));
    assert!(log[9].to_line().contains("[1,3,4,5,7]"));
    come_back(fixture, &log);
}

pub fn surface_operations_of_every_kind_come_back(fixture: &dyn Fixture) {
    let with = |event: SessionEvent, op| event.with_surface_op(op).expect("the operations of this case are valid");
    let seq = |n: u32| Seq::from(n);
    let opaque = SurfaceOp::Opaque(Json::parse(r#"{"mark":1.0,"op":[]}"#).expect("this is JSON"));
    let log = [
        with(typed("user/message", 0), SurfaceOp::Append),
        with(typed("user/message", 1), SurfaceOp::Replace { start_seq: seq(0), end_seq: seq(0) }),
        with(typed("user/message", 2), SurfaceOp::Replace { start_seq: seq(9), end_seq: seq(4) }),
        with(typed("user/message", 3), SurfaceOp::LegacyReplace { start: seq(0), end: seq(1) }),
        with(typed("acme/pulse", 4).into_ignorable(), opaque),
        with(
            typed("tool/result", 5).with_source_event_seqs([2, 4]).expect("the cited events are earlier"),
            SurfaceOp::Append,
        ),
        parsed(
            r#"{"type":"user/message","seq":6,"time":1,"data":[],"surfaceOp":{"endSeq":4,"startSeq":1,"op":"replace"}}"#,
        ),
        parsed(r#"{"type":"user/message","seq":7,"time":1,"data":[],"surfaceOp": {"op":"replace","end":4,"start":1}}"#),
    ];
    come_back(fixture, &log);
}

pub fn times_of_every_kind_come_back(fixture: &dyn Fixture) {
    let times = [0, 5, 5, 4, -1, -5, (1 << 53) - 1, -((1 << 53) - 1), 1_700_000_000_000, 0];
    let log: Vec<_> = times.iter().enumerate().map(|(seq, time)| at_time(seq as u64, *time)).collect();
    come_back(fixture, &log);
}

pub fn marks_of_ignorable_events_come_back(fixture: &dyn Fixture) {
    let log =
        [typed("turn/start", 0).into_ignorable(), typed("turn/start", 1), typed("acme/pulse", 2).into_ignorable()];
    come_back(fixture, &log);
}

pub fn types_of_every_spelling_come_back(fixture: &dyn Fixture) {
    let names = ["", " ", "a\"b", "a\\b", "a\nb", "a\0b", "😀", "é", "e\u{301}", "TURN/START", "turn/start", "'--"];
    let log: Vec<_> = names.iter().enumerate().map(|(seq, name)| typed(name, seq as u64).into_ignorable()).collect();
    come_back(fixture, &log);
}

pub fn an_event_can_be_stored_in_two_sessions(fixture: &dyn Fixture) {
    let store = fixture.store();
    let log = [parsed(r#"{"time":1,"type":"turn/start","data":{"turn": 1},"seq":0}"#)];
    let writers = ["a", "b"].map(|name| create(&*store, name));
    for writer in &writers {
        append(&**writer, &log);
    }
    for writer in &writers {
        assert_log(&read(&**writer, ..), &log);
    }
}
