//! A session whose process died is the same in every store once it was resumed.

use session_persistence::session::{Clock, LifecycleOptions, SessionHub, SessionRouter};
use session_persistence::{CreateOptions, OpenOptions, SeqRange, SessionEvent, SessionPersistence, export};

use super::place::{Kind, Place};
use super::scene::{TIME, header, parsed};

/// A log that ends within a turn, with a call that was started and one that was not.
fn interrupted() -> Vec<SessionEvent> {
    let calls = ["a", "b"].map(|id| format!(r#"{{"type":"tool-call","id":"{id}","name":"t","arguments":"{{}}"}}"#));
    let source = r#"{"kind":"model","provider":"p","model":"m"}"#;
    let message = format!(r#"{{"role":"assistant","content":[{}],"source":{source},"id":"m"}}"#, calls.join(","));
    [
        r#"{"type":"turn/start","seq":0,"time":10,"data":{"turn":1}}"#.to_owned(),
        r#"{"type":"step/start","seq":1,"time":11,"data":{"turn":1,"step":1}}"#.to_owned(),
        format!(
            r#"{{"type":"assistant/message","seq":2,"time":12,"data":{{"turn":1,"step":1,"message":{message},"stream":[]}},"surfaceOp":"append"}}"#
        ),
        r#"{"type":"tool/call","seq":3,"time":13,"data":{"turn":1,"step":1,"callId":"a","name":"t","arguments":"{}"}}"#
            .to_owned(),
    ]
    .iter()
    .map(|line| parsed(line))
    .collect()
}

/// Resumes the session; how many events ended its turn.
fn resume(store: &super::place::Store) -> usize {
    let router = SessionRouter::new(&SessionHub::new(), store.clone()).unwrap();
    let mut options = LifecycleOptions::default();
    options.clock = Clock::of(|| TIME);
    let closers = router.resume(header("s").id(), options, |_| Ok(())).unwrap().closers.len();
    router.close(header("s").id()).unwrap();
    closers
}

fn exported(store: &dyn SessionPersistence) -> Vec<u8> {
    let mut text = Vec::new();
    export::jsonl(store, header("s").id(), &mut text).unwrap();
    text
}

fn revision(store: &dyn SessionPersistence) -> session_persistence::Revision {
    store.stat(header("s").id()).unwrap().unwrap().revision
}

#[test]
fn five_resumptions_after_one_death_store_the_closers_once_and_every_store_has_the_same_bytes() {
    let mut texts = Vec::new();
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let writer = place.open().create(&header("s"), CreateOptions::default()).unwrap();
        writer.append(&interrupted()).unwrap();
        writer.close().unwrap();
        drop(writer);
        assert_eq!(resume(&place.open()), 4, "{kind:?}");
        let store = place.open();
        let (text, revised) = (exported(&*store), revision(&*store));
        for _ in 0..4 {
            // As other processes would, one after the other.
            assert_eq!(resume(&place.open()), 0, "{kind:?}");
            assert_eq!(revision(&*place.open()), revised, "{kind:?}");
        }
        assert!(exported(&*place.open()) == text, "{kind:?}: a resumption that finds nothing to do changed the log");
        let log = store.open(header("s").id(), OpenOptions::read()).unwrap().read(SeqRange::ALL).unwrap();
        assert_eq!((log.len(), &log[..4]), (9, &interrupted()[..]), "{kind:?}");
        texts.push(text);
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "the stores have different bytes");
}
