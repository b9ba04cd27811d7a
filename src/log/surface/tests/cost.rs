//! What a change costs, counted in the nodes and sources that it touches.

use std::iter::repeat_n;

use super::steps::counted;
use super::*;

/// The steps for a node that is replaced: looking for it from both ends, covering it, taking it out, and one for its
/// source in each of two checks.
const A_NODE: u64 = 6;

/// The steps of a change besides.
const A_CHANGE: u64 = 12;

fn long_log() -> Log {
    Log::new(3).append(repeat_n("user/message", 5_000))
}

fn steps(log: &mut Log, rest: &str) -> u64 {
    let event = log.event(rest);
    let (pushed, steps) = counted(|| log.surface.push(&event, |seq| event_at(&log.events, seq)));
    pushed.unwrap();
    log.events.push(event);
    steps
}

#[test]
fn an_append_costs_the_same_on_a_surface_of_any_length() {
    let append = r#""type":"user/message","data":{},"surfaceOp":"append""#;
    let short = steps(&mut Log::new(3).append(["user/message"]), append);
    let mut log = long_log();
    assert_eq!((steps(&mut log, append), short), (short, 1));
    assert_eq!(steps(&mut log, r#""type":"turn/start","data":{}"#), 0);
}

#[test]
fn a_replacement_costs_what_it_replaces_wherever_it_stands() {
    let mut log = long_log();
    for (start, count) in [(0, 1), (3_000, 1), (4_999, 1), (2_000, 100), (4_400, 500), (2, 1_000)] {
        let end = start + count - 1;
        let sources: Vec<String> = (start..=end).map(|seq| seq.to_string()).collect();
        let steps = steps(&mut log, &user_over(start, end, &sources.join(",")));
        assert!(steps <= A_NODE * count + A_CHANGE, "{steps} steps for {count} nodes from {start}");
    }
}

#[test]
fn sources_that_are_not_replaced_cost_a_few_steps_each() {
    let mut log = long_log();
    let sources: Vec<String> = (0..2_000).rev().map(|seq: u64| seq.to_string()).collect();
    let steps = steps(&mut log, &user_over(7, 7, &sources.join(",")));
    assert!(steps <= 3 * 2_000 + A_NODE + A_CHANGE, "{steps} steps");
}

#[test]
fn a_reversed_range_costs_the_distance_of_its_ends() {
    let log = long_log();
    for (start, end) in [(11, 10), (3_010, 3_000), (4_999, 4_990), (9, 0)] {
        let event = log.event(&user_over(start, end, "0"));
        let (refused, steps) = counted(|| log.surface.plan(&event, |_| None));
        assert!(matches!(refused, Err(FoldError::RangeReversed { distance, .. }) if distance as u64 == start - end));
        assert!(steps <= 2 * (start - end) + A_CHANGE, "{steps} steps for {start} to {end}");
    }
}
