//! The messages against what a plain list of them would be, and what keeping them costs.

use proptest::prelude::*;

use super::*;
use crate::log::model_message::tests::PROJECTIONS;
use crate::log::{Json, SurfaceOp};

/// How many events `work` looked into.
fn projections(work: impl FnOnce()) -> u64 {
    let before = PROJECTIONS.get();
    work();
    PROJECTIONS.get() - before
}

const TYPES: [&str; 5] = ["user/message", "system/message", "assistant/message", "tool/result", "turn/start"];

/// An event whose message tells which it is; an empty one has no content.
fn event(event_type: &str, seq: usize, is_empty: bool) -> SessionEvent {
    let block = match (is_empty, event_type) {
        (true, _) => String::new(),
        (false, "tool/result") => format!(r#"{{"type":"tool-result","toolCallId":"c","content":[{seq}]}}"#),
        (false, _) => format!(r#"{{"type":"text","text":"{seq}"}}"#),
    };
    let message = format!(r#"{{"id":"m","content":[{block}]}}"#);
    let data = if event_type == "user/message" { message } else { format!(r#"{{"message":{message}}}"#) };
    SessionEvent::new(event_type, seq as u64, 0, Json::parse(&data).unwrap()).unwrap()
}

fn appended(event_type: &str, seq: usize) -> SessionEvent {
    event(event_type, seq, false).with_surface_op(SurfaceOp::Append).unwrap()
}

fn over(event: SessionEvent, start: Seq, end: Seq, sources: &[Seq]) -> SessionEvent {
    let event = event.with_surface_op(SurfaceOp::Replace { start_seq: start, end_seq: end }).unwrap();
    event.with_source_event_seqs(sources.iter().map(|seq| seq.get())).unwrap()
}

fn push(messages: &mut Messages, log: &mut Vec<SessionEvent>, event: SessionEvent) {
    messages.push(&event, |seq| event_at(log, seq)).unwrap();
    log.push(event);
}

fn hundred() -> (Messages, Vec<SessionEvent>) {
    let (mut messages, mut log) = (Messages::default(), Vec::new());
    for seq in 0..100 {
        push(&mut messages, &mut log, appended("user/message", seq));
    }
    (messages, log)
}

fn seqs(list: &MessageList) -> Vec<u64> {
    list.iter().map(|message| message.seq().get()).collect()
}

#[test]
fn an_append_looks_into_one_event_and_a_replacement_into_the_one_that_replaces() {
    let (mut messages, mut log) = hundred();
    for event_type in ["user/message", "assistant/message", "system/message", "tool/result"] {
        let event = appended(event_type, log.len());
        let looked = projections(|| {
            push(&mut messages, &mut log, event);
            assert_eq!(messages.current().last().unwrap().seq().get(), log.len() as u64 - 1);
        });
        assert_eq!(looked, 1, "{event_type}");
    }
    assert_eq!(projections(|| push(&mut messages, &mut log, event("turn/start", 104, false))), 0);
    let shadowed: Vec<Seq> = (10..=90).map(Seq::from).collect();
    let replacement = over(event("user/message", 105, false), shadowed[0], shadowed[80], &shadowed);
    let looked = projections(|| {
        push(&mut messages, &mut log, replacement);
        assert_eq!(seqs(&messages.current()), (0..10).chain([105]).chain(91..104).collect::<Vec<_>>());
        assert_eq!(messages.current().len(), 24);
    });
    assert_eq!(looked, 1);
}

#[test]
fn a_whole_log_is_folded_by_looking_into_what_is_visible_at_its_end() {
    let (mut messages, mut log) = hundred();
    let shadowed: Vec<Seq> = (0..98).map(Seq::from).collect();
    push(&mut messages, &mut log, over(event("user/message", 100, false), shadowed[0], shadowed[97], &shadowed));
    let looked = projections(|| {
        let mut folded = Messages::fold(3, &log).unwrap();
        assert_eq!(folded.current(), messages.current());
        // It goes on like one that saw every event.
        let next = appended("user/message", 101);
        push(&mut folded, &mut log.clone(), next.clone());
        push(&mut messages, &mut log, next);
        assert_eq!(folded.current(), messages.current());
    });
    assert_eq!(looked, 3 + 2);
}

#[test]
fn a_list_that_was_given_never_changes() {
    let (mut messages, mut log) = hundred();
    let before = messages.current();
    let text = before[99].as_json().clone();
    push(&mut messages, &mut log, appended("user/message", 100));
    let all: Vec<Seq> = (0..=100).map(Seq::from).collect();
    push(&mut messages, &mut log, over(event("user/message", 101, false), all[0], all[100], &all));
    assert_eq!((before.len(), &before[99].as_json()), (100, &&text));
    assert_eq!(seqs(&messages.current()), [101]);
}

#[test]
fn an_append_copies_the_list_only_while_somebody_holds_it() {
    let (mut messages, mut log) = hundred();
    let mut appending = |messages: &mut Messages| {
        let seq = log.len();
        push(messages, &mut log, appended("user/message", seq));
        messages.list.0.as_ptr()
    };
    let held = messages.current();
    let copied = appending(&mut messages);
    assert_ne!(copied, held.as_ptr());
    // A vector that grew once has room for as many again.
    assert_eq!(appending(&mut messages), copied);
    drop(held);
    assert_eq!(messages.current().as_ptr(), copied);
    assert_eq!(appending(&mut messages), copied);
}

#[test]
fn the_list_is_made_anew_once_after_any_number_of_replacements() {
    let (mut messages, mut log) = hundred();
    let held = messages.current();
    for seq in 0..3 {
        let node = [Seq::from(seq)];
        let event = event("user/message", log.len(), false);
        push(&mut messages, &mut log, over(event, node[0], node[0], &node));
        push(&mut messages, &mut log, appended("user/message", 101 + 2 * seq as usize));
        assert_eq!(messages.list.0.as_ptr(), held.as_ptr(), "nobody has asked for another list yet");
    }
    let (one, other) = (messages.current(), messages.current());
    assert_eq!(seqs(&one), [100, 102, 104].into_iter().chain(3..100).chain([101, 103, 105]).collect::<Vec<_>>());
    assert_eq!(one.as_ptr(), other.as_ptr());
    assert_eq!(messages.by_node.len(), one.len(), "what is gone from the list is kept nowhere else");
}

#[test]
fn only_a_visible_event_is_looked_into() {
    let mut messages = Messages::new(0).unwrap();
    let event = SessionEvent::new("system/message", 0, 0, Json::parse("{}").unwrap()).unwrap();
    messages.push(&event, |_| None).unwrap();
    assert!(messages.current().is_empty());
}

#[test]
fn an_empty_place_is_held_without_a_message() {
    let (mut messages, mut log) = (Messages::default(), Vec::new());
    let system = event("system/message", 0, true).with_surface_op(SurfaceOp::Append).unwrap();
    push(&mut messages, &mut log, system);
    push(&mut messages, &mut log, appended("user/message", 1));
    assert_eq!((messages.surface().len(), seqs(&messages.current())), (2, vec![1]));
    let head = [Seq::from(0)];
    push(&mut messages, &mut log, over(event("system/message", 2, false), head[0], head[0], &head));
    assert_eq!(seqs(&messages.current()), [2, 1]);
}

#[test]
fn an_event_without_a_message_is_refused_and_changes_nothing() {
    let (mut messages, log) = hundred();
    let event = SessionEvent::new("tool/result", 100, 0, Json::parse("{}").unwrap()).unwrap();
    let event = event.with_surface_op(SurfaceOp::Append).unwrap();
    let error = messages.push(&event, |seq| event_at(&log, seq)).unwrap_err();
    assert_eq!(error.to_string(), "seq 100: data.message of tool/result must be a message object, found nothing");
    assert_eq!((messages.surface().event_count(), messages.current().len()), (100, 100));
    assert!(Messages::fold(3, &[log, vec![event]].concat()).is_err());
}

/// One event of a random log: its type, whether it is empty, and where it stands.
#[derive(Debug, Clone)]
struct Step {
    event_type: &'static str,
    is_empty: bool,
    /// Two numbers that choose places on the surface, whether they may be in the wrong order, and a number that
    /// chooses a source to be left out.
    range: Option<(prop::sample::Index, prop::sample::Index, bool, Option<prop::sample::Index>)>,
    asks: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let range = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        prop::bool::weighted(0.1),
        prop::option::weighted(0.1, any::<prop::sample::Index>()),
    );
    let weighted =
        prop_oneof![3 => Just(0usize), 1 => Just(1usize), 2 => Just(2usize), 2 => Just(3usize), 1 => Just(4usize)];
    (weighted, prop::bool::weighted(0.2), prop::option::weighted(0.4, range), any::<bool>())
        .prop_map(|(event_type, is_empty, range, asks)| Step { event_type: TYPES[event_type], is_empty, range, asks })
}

/// The rules over a plain list of the surface, for the events that the test makes.
fn naive(nodes: &mut Vec<(u64, &'static str)>, event: &SessionEvent, event_type: &'static str) -> bool {
    let seq = event.seq().get();
    match event.surface_op() {
        None => true,
        Some(SurfaceOp::Append) => {
            nodes.push((seq, event_type));
            true
        }
        Some(SurfaceOp::Replace { start_seq, end_seq }) => {
            let place = |node: &Seq| nodes.iter().position(|(seq, _)| *seq == node.get()).unwrap();
            let (i, j) = (place(start_seq), place(end_seq));
            let sources = event.source_event_seqs().unwrap();
            let fits = event_type != "assistant/message"
                && !sources.is_empty()
                && i <= j
                && nodes[i..=j].iter().all(|(seq, _)| sources.iter().any(|source| source.get() == *seq))
                && (event_type != "tool/result" || (i == j && nodes[i].1 == "tool/result"))
                && (i > 0 || nodes[0].1 != "system/message" || (j == 0 && event_type == "system/message"));
            if fits {
                nodes.splice(i..=j, [(seq, event_type)]);
            }
            fits
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_logs_fold_as_a_plain_list_does(steps in prop::collection::vec(step(), 1..80)) {
        let (mut messages, mut log, mut nodes) = (Messages::default(), Vec::new(), Vec::new());
        let (mut generation, mut held) = (0, Vec::new());
        for step in steps {
            // A result that is rewritten changes only what its block says.
            let is_empty = step.is_empty && step.event_type != "tool/result";
            let mut made = event(step.event_type, log.len(), is_empty);
            if step.event_type != "turn/start" {
                made = match step.range.filter(|_| !nodes.is_empty()) {
                    None => made.with_surface_op(SurfaceOp::Append).unwrap(),
                    Some((a, b, reversed, left_out)) => {
                        let (a, b) = (a.index(nodes.len()), b.index(nodes.len()));
                        // A result finds another one often enough only if it is led there.
                        let led = nodes.iter().position(|(_, t)| *t == "tool/result" && step.event_type == *t);
                        let (low, high) = led.map_or((a.min(b), a.max(b)), |place| (place, place));
                        let mut sources: Vec<Seq> =
                            nodes[low..=high].iter().rev().map(|(seq, _)| Seq::new(*seq).unwrap()).collect();
                        if let Some(left_out) = left_out {
                            sources.remove(left_out.index(sources.len()));
                        }
                        let [low, high] = [low, high].map(|place| Seq::new(nodes[place].0).unwrap());
                        let (start, end) = if reversed { (high, low) } else { (low, high) };
                        over(made, start, end, &sources)
                    }
                };
            }
            let fits = naive(&mut nodes, &made, step.event_type);
            let pushed = messages.push(&made, |seq| event_at(&log, seq));
            prop_assert_eq!(pushed.is_ok(), fits, "{:?}: {:?}", made, pushed);
            if fits {
                generation += u64::from(pushed.unwrap().is_some());
                log.push(made);
            }

            let surface = messages.surface();
            prop_assert!(surface.nodes().map(u64::from).eq(nodes.iter().map(|(seq, _)| *seq)));
            prop_assert_eq!(surface.len(), nodes.len());
            prop_assert_eq!(surface.first().map(u64::from), nodes.first().map(|(seq, _)| *seq));
            prop_assert_eq!(surface.last().map(u64::from), nodes.last().map(|(seq, _)| *seq));
            prop_assert_eq!(surface.replace_generation(), generation);
            prop_assert_eq!(surface.event_count(), log.len() as u64);
            if step.asks {
                let scratch: Vec<ModelMessage> =
                    nodes.iter().filter_map(|(seq, _)| ModelMessage::project(&log[*seq as usize]).unwrap()).collect();
                prop_assert_eq!(&*messages.current(), &scratch[..]);
                held.push((messages.current(), scratch));
            }
        }
        for (list, scratch) in held {
            prop_assert_eq!(&*list, &scratch[..]);
        }
        prop_assert_eq!(messages.current(), Messages::fold(3, &log).unwrap().current());
    }
}
