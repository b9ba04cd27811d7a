//! Times for a person: where the user is, and how long ago.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};

/// The present, in milliseconds since 1970.
pub(super) fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

fn zoned(ms: i64) -> Option<ZonedDateTime> {
    Timestamp::from_millisecond(ms).ok().map(|t| t.to_zoned_datetime(TimeZone::system()))
}

fn format(ms: i64, pattern: &str) -> String {
    // Times are what producers gave, and may be of a year that no calendar has.
    zoned(ms).map_or_else(|| format!("{ms} ms"), |t| t.strftime(pattern).to_string())
}

/// Day, time and zone.
pub(super) fn full(ms: i64) -> String {
    format(ms, "%Y-%m-%d %H:%M:%S %Z")
}

/// The day.
pub(super) fn day(ms: i64) -> String {
    format(ms, "%A, %-d %B %Y")
}

/// The time of day.
pub(super) fn of_day(ms: i64) -> String {
    format(ms, "%H:%M:%S")
}

/// How long ago, as long as that says more than the day does.
pub(super) fn ago(ms: i64, now: i64) -> String {
    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    match now.saturating_sub(ms) {
        // A clock that is a little ahead is no news.
        past @ -5_000..MINUTE => {
            if past < 10_000 {
                "just now".to_owned()
            } else {
                format!("{} s ago", past / 1000)
            }
        }
        past @ MINUTE..HOUR => format!("{} min ago", past / MINUTE),
        past @ HOUR..DAY => format!("{} h ago", past / HOUR),
        past if (DAY..2 * DAY).contains(&past) => "yesterday".to_owned(),
        past if (DAY..30 * DAY).contains(&past) => format!("{} days ago", past / DAY),
        _ => format(ms, "%Y-%m-%d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_told_in_the_unit_that_fits() {
        let now = 1_700_000_000_000;
        for (before, text) in [
            (-4_000, "just now"),
            (9_999, "just now"),
            (10_000, "10 s ago"),
            (3 * 60_000 + 59_000, "3 min ago"),
            (2 * 3_600_000, "2 h ago"),
            (30 * 3_600_000, "yesterday"),
            (5 * 86_400_000, "5 days ago"),
        ] {
            assert_eq!(ago(now - before, now), text);
        }
        assert!(ago(now + 86_400_000, now).starts_with("2023-11-1"));
        assert!(ago(0, now).starts_with("19"));
        assert_eq!(ago(i64::MIN, now), format!("{} ms", i64::MIN));
        assert_eq!(full((1 << 53) - 1), "9007199254740991 ms");
    }
}
