//! Appending to a live session.

use serde_json::json;
use session_persistence::session::{AppendOptions, LiveError, Seed};
use session_persistence::{Seq, SurfaceOp};

use super::scene::{TIME, Witness, fresh, plain, say, session, user};

#[test]
fn the_record_that_is_returned_told_and_kept_is_one_and_the_same() {
    let session = fresh();
    let witness = Witness::new();
    let _observation = session.observe(witness.clone()).unwrap();
    let returned = session.append("todo/write", &json!({ "b": 1, "a": 1.5 }), AppendOptions::default()).unwrap();
    let kept = session.event_at(0).unwrap();
    let told = witness.events.lock().unwrap()[0].clone();
    // The very text, not another one like it.
    assert!(std::ptr::eq(returned.data().as_str(), kept.data().as_str()));
    assert!(std::ptr::eq(returned.data().as_str(), told.data().as_str()));
    assert_eq!(returned.data().as_str(), r#"{"a":1.5,"b":1}"#);
}

#[test]
fn times_come_from_the_clock_and_seqs_from_the_log() {
    let session = fresh();
    let events = [plain(&session), plain(&session)];
    assert_eq!(events.map(|e| (e.seq().get(), e.time())), [(0, TIME + 1), (1, TIME + 2)]);
}

#[test]
fn a_snapshot_never_grows() {
    let session = fresh();
    plain(&session);
    let (snapshot, messages) = (session.snapshot(0..u64::MAX), session.derive_messages());
    say(&session, "later");
    assert_eq!((snapshot.len(), messages.len()), (1, 0));
    assert_eq!((session.snapshot(1..9).len(), session.snapshot(5..9).len()), (1, 0));
    assert_eq!(session.derive_messages().len(), 1);
}

/// What comes first is told, whatever else is wrong.
#[test]
fn data_outranks_the_rules_of_the_type_these_the_surface_and_that_a_veto() {
    let session = fresh();
    let veto = Witness::judging(|_, _| Err("never".to_owned()));
    let _observation = session.observe(veto).unwrap();
    let reason = |event_type: &str, data: &dyn erased::Data, options: AppendOptions| {
        data.append(&session, event_type, options).unwrap_err().to_string()
    };
    let on_surface = AppendOptions::surface;
    let told = reason("request/header", &f64::NAN, on_surface());
    assert!(told.contains("data"), "{told}");
    let old = json!({ "header": { "system": "x" }, "reason": "initial" });
    let told = reason("request/header", &old, on_surface());
    assert!(told.contains("system"), "the rule of the type before the surface: {told}");
    let sound = json!({ "header": { "config": {} }, "reason": "initial" });
    let told = reason("request/header", &sound, on_surface());
    assert!(told.contains("surfaceOp"), "the surface before the veto: {told}");
    let told = reason("request/header", &sound, AppendOptions::default());
    assert!(told.contains("vetoed by the witness: never"), "{told}");
    assert_eq!(session.seq(), 0);
}

mod erased {
    use super::*;
    use session_persistence::SessionEvent;
    use session_persistence::session::Session;

    pub(super) trait Data {
        fn append(
            &self,
            session: &Session,
            event_type: &str,
            options: AppendOptions,
        ) -> Result<SessionEvent, LiveError>;
    }

    impl<T: serde::Serialize> Data for T {
        fn append(
            &self,
            session: &Session,
            event_type: &str,
            options: AppendOptions,
        ) -> Result<SessionEvent, LiveError> {
            session.append(event_type, self, options)
        }
    }
}

#[test]
fn a_message_needs_a_surface_operation_and_others_must_not_have_one() {
    let session = fresh();
    for (event_type, options) in [("user/message", AppendOptions::default()), ("todo/write", AppendOptions::surface())]
    {
        let refused = session.append(event_type, &user("m"), options).unwrap_err();
        assert!(matches!(refused, LiveError::Refused { .. }), "{refused}");
    }
    assert_eq!(session.seq(), 0);
    say(&session, "m");
    assert_eq!(session.derive_messages().len(), 1);
}

#[test]
fn a_replacement_must_cite_what_it_covers() {
    let session = fresh();
    say(&session, "a");
    say(&session, "b");
    let range =
        |start, end| SurfaceOp::Replace { start_seq: Seq::new(start).unwrap(), end_seq: Seq::new(end).unwrap() };
    let short = AppendOptions::replacing(range(0, 1)).citing([0]);
    session.append("user/message", &user("c"), short).unwrap_err();
    let whole = AppendOptions::replacing(range(0, 1)).citing([0, 1]);
    session.append("user/message", &user("c"), whole).unwrap();
    let messages: Vec<_> = session.derive_messages().iter().map(|m| m.seq().get()).collect();
    assert_eq!(messages, [2]);
    assert_eq!(session.with_log(|log| log.surface().replace_generation()), 1);
}

#[test]
fn a_result_with_an_error_must_say_so_in_its_block() {
    let session = fresh();
    let result = |is_error: bool| {
        let block = json!({ "type": "tool-result", "toolCallId": "c", "content": [], "isError": is_error });
        let message =
            json!({ "source": { "kind": "tool", "callId": "c" }, "content": [block], "role": "user", "id": "r" });
        json!({ "turn": 1, "step": 1, "message": message, "error": { "name": "E", "code": "C" } })
    };
    session.append("tool/result", &result(false), AppendOptions::surface()).unwrap_err();
    session.append("tool/result", &result(true), AppendOptions::surface()).unwrap();
}

#[test]
fn the_request_in_force_is_that_of_the_last_header() {
    let session = session(Seed::None).unwrap();
    assert!(session.with_log(|log| log.requests().header().is_none()));
    for model in ["m1", "m2"] {
        let data = json!({ "header": { "config": { "provider": "p", "model": model } }, "reason": "initial" });
        session.append("request/header", &data, AppendOptions::default()).unwrap();
    }
    let header = session.with_log(|log| log.requests().header().unwrap().as_json().as_str().to_owned());
    assert!(header.contains("m2"), "{header}");
}
