//! Whole logs, and what is left of them on the surface.

use std::iter::repeat_n;

use super::*;

#[test]
fn a_range_is_one_of_places_and_its_start_may_be_the_later_event() {
    let mut log = Log::new(3).append(["user/message"; 5]);
    log.push(&user_over(1, 1, "1")).unwrap();
    assert_eq!(log.nodes(), [0, 5, 2, 3, 4]);
    let replacement = log.push(&user_over(5, 3, "2,3,5")).unwrap().unwrap();
    assert_eq!(log.nodes(), [0, 6, 4]);
    assert_eq!(
        replacement,
        Replacement { seq: Seq::from(6), start: Seq::from(5), end: Seq::from(3), shadowed: seqs(&[5, 2, 3]) }
    );
    log.push(&user_over(0, 4, "0,4,6")).unwrap();
    assert_eq!(log.nodes(), [7]);
    assert_eq!((log.surface.replace_generation(), log.surface.event_count()), (3, 8));
}

#[test]
fn a_thousand_events_are_compacted_and_stay_in_the_log() {
    let mut log = Log::new(3).append(repeat_n("user/message", 1_000));
    let before: Vec<String> = log.events.iter().map(SessionEvent::to_line).collect();
    let sources: Vec<String> = (10..=900).map(|seq: u64| seq.to_string()).collect();
    let replacement = log.push(&user_over(10, 900, &sources.join(","))).unwrap().unwrap();

    assert_eq!(log.nodes(), (0..10).chain([1_000]).chain(901..1_000).collect::<Vec<_>>());
    assert_eq!(replacement.shadowed, seqs(&(10..=900).collect::<Vec<_>>()));
    assert!(log.events.iter().map(SessionEvent::to_line).take(1_000).eq(before));
    for (seq, visible) in
        [(9, true), (10, false), (500, false), (900, false), (901, true), (1_000, true), (1_001, false)]
    {
        assert_eq!(log.surface.contains(Seq::from(seq)), visible, "seq {seq}");
    }

    let (folded, replacements) = Surface::fold(3, &log.events).unwrap();
    assert!(folded.nodes().eq(log.surface.nodes()));
    assert_eq!(replacements, [replacement]);
    assert_eq!(log.events.iter().filter(|event| folded.is_appended(event)).count(), 1_000);
}

#[test]
fn a_fold_stops_at_the_first_event_that_breaks_a_rule() {
    let mut log = Log::new(3).append(["user/message", "turn/start"]);
    log.events.push(log.event(r#""type":"user/message","data":{}"#));
    log.events.push(log.event(r#""type":"tool/result","data":{}"#));
    assert_eq!(Surface::fold(3, &log.events).unwrap_err().seq(), Some(Seq::from(2)));
    assert!(matches!(Surface::fold(3, &log.events[1..]), Err(FoldError::NotContiguous { expected: 0, .. })));
    assert!(Surface::fold(3, &[]).unwrap().0.is_empty());
}

#[test]
fn a_plan_changes_nothing_until_it_is_applied_and_fits_one_moment() {
    let mut log = Log::new(3).append(["user/message"; 2]);
    let event = log.event(&user_over(0, 1, "0,1"));
    let plan = log.surface.plan(&event, |_| None).unwrap();
    assert_eq!((plan.seq(), plan.is_visible(), plan.replacement().unwrap().shadowed.len()), (Seq::from(2), true, 2));
    assert_eq!(log.nodes(), [0, 1]);
    assert!(log.surface.apply(plan.clone()).unwrap().is_some());
    assert_eq!(log.nodes(), [2]);
    assert_eq!(log.surface.apply(plan), Err(FoldError::NotContiguous { expected: 3, found: Seq::from(2) }));
    assert_eq!(log.nodes(), [2]);

    let turn = Log::new(3).event(r#""type":"turn/start","data":{}"#);
    let plan = Surface::default().plan(&turn, |_| None).unwrap();
    assert!(!plan.is_visible() && plan.replacement().is_none());
}

#[test]
fn a_clone_goes_its_own_way() {
    let mut log = Log::new(3).append(["user/message"; 2]);
    let mut fork = Log { surface: log.surface.clone(), events: log.events.clone() };
    log.push(&user_over(0, 1, "0,1")).unwrap();
    fork = fork.append(["user/message"]);
    assert_eq!((log.nodes(), fork.nodes()), (vec![2], vec![0, 1, 2]));
}
