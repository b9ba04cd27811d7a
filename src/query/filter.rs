//! [`EventFilter`]: which events of a log are wanted.

use std::collections::HashSet;
use std::fmt::Display;
use std::ops::RangeInclusive;

use super::{LiteralText, QueryError, SurfaceState};
use crate::log::{SessionEvent, searchable_text};

/// Which events of a log are wanted: all, but for what its parts say. An event must be let through by every part that
/// was given, and is let through by a part where one of its values fits. A part without values lets nothing through. A
/// part that is given again stands for what it was before.
///
/// ```
/// use session_persistence::{Json, SessionEvent, query::EventFilter};
///
/// let filter = EventFilter::new().of_types(["tool/call", "tool/result"]).in_seqs([0..=9, 20..=29])?;
/// let call = |seq| SessionEvent::new("tool/call", seq, 0, Json::parse("{}").unwrap()).unwrap();
/// assert!(filter.matches(&call(25), None));
/// assert!(!filter.matches(&call(15), None));
/// # Ok::<(), session_persistence::query::QueryError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    seqs: Option<Vec<RangeInclusive<u64>>>,
    times: Option<Vec<RangeInclusive<i64>>>,
    types: Option<HashSet<String>>,
    states: Option<Vec<SurfaceState>>,
    texts: Option<Vec<LiteralText>>,
}

impl EventFilter {
    /// Lets everything through.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only events whose seq is in one of the ranges, both ends included.
    ///
    /// # Errors
    ///
    /// `InvalidFilter` for a range whose end is before its start.
    pub fn in_seqs(mut self, ranges: impl IntoIterator<Item = RangeInclusive<u64>>) -> Result<Self, QueryError> {
        self.seqs = Some(checked("seqs", ranges)?);
        Ok(self)
    }

    /// Only events whose time is in one of the ranges, in milliseconds since 1970, both ends included.
    ///
    /// # Errors
    ///
    /// `InvalidFilter` for a range whose end is before its start.
    pub fn in_times(mut self, ranges: impl IntoIterator<Item = RangeInclusive<i64>>) -> Result<Self, QueryError> {
        self.times = Some(checked("times", ranges)?);
        Ok(self)
    }

    /// Only events of one of the types.
    #[must_use]
    pub fn of_types<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Self {
        self.types = Some(types.into_iter().map(Into::into).collect());
        self
    }

    /// Only events of which one of these became on the surface.
    #[must_use]
    pub fn in_states(mut self, states: impl IntoIterator<Item = SurfaceState>) -> Self {
        self.states = Some(states.into_iter().collect());
        self
    }

    /// Only events whose [searchable text](searchable_text) has one of the texts.
    #[must_use]
    pub fn with_texts(mut self, texts: impl IntoIterator<Item = LiteralText>) -> Self {
        self.texts = Some(texts.into_iter().collect());
        self
    }

    /// Whether it asks what became of an event on the surface.
    pub fn asks_for_surface(&self) -> bool {
        self.states.is_some()
    }

    /// Whether it lets an event through. What became of that on the surface is asked for only where
    /// [`EventFilter::asks_for_surface`]; without it such a filter lets nothing through.
    pub fn matches(&self, event: &SessionEvent, state: Option<SurfaceState>) -> bool {
        let seq = event.seq().get();
        self.seqs.as_ref().is_none_or(|ranges| ranges.iter().any(|range| range.contains(&seq)))
            && self.times.as_ref().is_none_or(|ranges| ranges.iter().any(|range| range.contains(&event.time())))
            && self.types.as_ref().is_none_or(|types| types.contains(event.event_type()))
            && self.states.as_ref().is_none_or(|states| state.is_some_and(|state| states.contains(&state)))
            // At last, it costs the most.
            && self.texts.as_ref().is_none_or(|texts| {
                !texts.is_empty() && LiteralText::any_in(texts, &searchable_text(event))
            })
    }

    /// The seqs below `count` that may be let through.
    pub(super) fn seqs_within(&self, count: u64) -> std::ops::Range<u64> {
        let Some(ranges) = &self.seqs else { return 0..count };
        let start = ranges.iter().map(|range| *range.start()).min().unwrap_or(0);
        let end = ranges.iter().map(|range| range.end().saturating_add(1)).max().unwrap_or(0);
        start.min(count)..end.min(count)
    }
}

fn checked<T: Display + PartialOrd>(
    what: &str,
    ranges: impl IntoIterator<Item = RangeInclusive<T>>,
) -> Result<Vec<RangeInclusive<T>>, QueryError> {
    let ranges: Vec<_> = ranges.into_iter().collect();
    match ranges.iter().find(|range| range.start() > range.end()) {
        None => Ok(ranges),
        Some(range) => Err(QueryError::InvalidFilter {
            reason: format!(
                "the range of {what} from {} to {} ends before it starts; give the smaller one first",
                range.start(),
                range.end()
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Json;

    fn event(event_type: &str, seq: u64, time: i64, data: &str) -> SessionEvent {
        SessionEvent::new(event_type, seq, time, Json::parse(data).unwrap()).unwrap()
    }

    fn says(text: &str) -> SessionEvent {
        event("user/message", 5, -7, &format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#))
    }

    #[test]
    fn parts_are_joined_by_and_and_their_values_by_or() {
        let filter = EventFilter::new().of_types(["a", "b"]).in_times([0..=1, 5..=5]).unwrap();
        for (event_type, time, passes) in
            [("a", 0, true), ("b", 1, true), ("a", 5, true), ("a", 2, false), ("c", 0, false), ("c", 2, false)]
        {
            assert_eq!(filter.matches(&event(event_type, 0, time, "1"), None), passes, "{event_type} {time}");
        }
    }

    #[test]
    fn a_part_without_values_lets_nothing_through() {
        let any = says("a");
        assert!(EventFilter::new().matches(&any, None));
        assert!(!EventFilter::new().in_seqs([]).unwrap().matches(&any, None));
        assert_eq!(EventFilter::new().in_seqs([]).unwrap().seqs_within(9), 0..0);
        assert!(!EventFilter::new().in_times([]).unwrap().matches(&any, None));
        assert!(!EventFilter::new().of_types::<String>([]).matches(&any, None));
        assert!(!EventFilter::new().in_states([]).matches(&any, Some(SurfaceState::Current)));
        assert!(!EventFilter::new().with_texts([]).matches(&any, None));
    }

    #[test]
    fn both_ends_of_a_range_are_in_it_and_a_reversed_one_is_refused() {
        let filter = EventFilter::new().in_seqs([2..=3, u64::MAX..=u64::MAX]).unwrap();
        let passing: Vec<_> = (0..6).filter(|seq| filter.matches(&event("a", *seq, 0, "1"), None)).collect();
        assert_eq!((passing, filter.seqs_within(6)), (vec![2, 3], 2..6));
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        let error = EventFilter::new().in_times([0..=1, 3..=2]).unwrap_err();
        assert!(error.to_string().contains("times from 3 to 2"), "{error}");
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        EventFilter::new().in_seqs([3..=2]).unwrap_err();
    }

    #[test]
    fn the_state_on_the_surface_must_be_one_of_those_that_are_asked_for() {
        let filter = EventFilter::new().in_states([SurfaceState::Current, SurfaceState::Shadowed]);
        assert!(filter.asks_for_surface() && !EventFilter::new().asks_for_surface());
        for (state, passes) in [
            (Some(SurfaceState::Current), true),
            (Some(SurfaceState::Shadowed), true),
            (Some(SurfaceState::LogOnly), false),
            (None, false),
        ] {
            assert_eq!(filter.matches(&says("a"), state), passes, "{state:?}");
        }
    }

    #[test]
    fn one_of_the_texts_must_stand_in_what_the_event_says() {
        let texts = ["two  words", "other"].map(|text| LiteralText::new(text).unwrap());
        let filter = EventFilter::new().with_texts(texts);
        assert!(filter.matches(&says("these TWO\\n words"), None));
        assert!(filter.matches(&says("another"), None));
        assert!(!filter.matches(&says("two more words"), None));
        assert!(!filter.matches(&event("todo/write", 0, 0, r#"{"id":"other"}"#), None), "not in its searchable text");
    }
}
