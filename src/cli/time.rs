//! Times for a person: where the user is, and how long ago; and times as a person gives them.

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp, ZonedDateTime};

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

/// The day, and in which zone.
pub(super) fn day(ms: i64) -> String {
    format(ms, "%A, %-d %B %Y, %Z")
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

/// An age as a person gives it.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|_| "an age is written as 12h, 30d or 2w".to_owned())?;
    // A month has no length of its own.
    let age = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let age = age.map_err(|_| "an age is given in weeks, days and shorter units".to_owned())?;
    Duration::try_from(age).map_err(|_| "an age is not negative".to_owned())
}

/// Milliseconds since 1970 of a time, which is the user's own where no zone is given.
pub(super) fn moment(text: &str) -> Result<i64, String> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment.as_millisecond());
    }
    let local: DateTime = text.parse().map_err(|_| "a time is written as 2026-01-31T12:00:00Z")?;
    let zoned = local.to_zoned_datetime(TimeZone::system()).map_err(|e| e.to_string())?;
    Ok(zoned.timestamp().as_millisecond())
}

/// A time, or so many milliseconds before the present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    At(i64),
    Ago(i64),
}

impl When {
    /// Milliseconds since 1970, at a present.
    pub(super) fn at(self, now: i64) -> i64 {
        match self {
            Self::At(ms) => ms,
            Self::Ago(ms) => now.saturating_sub(ms),
        }
    }
}

/// The first moment of what a person means: a time, the start of a day, or so long ago.
pub(super) fn since(text: &str) -> Result<When, String> {
    moment(text).map(When::At).or_else(|_| past(text))
}

/// The last moment of what a person means: a time, the end of a day, or so long ago.
pub(super) fn until(text: &str) -> Result<When, String> {
    // Of more than a day its parser would drop the rest.
    match text.parse::<Date>() {
        Ok(day) if !text.contains([':', 'T', 't', ' ']) => {
            let next = day.tomorrow().and_then(|next| next.to_zoned_datetime(TimeZone::system()));
            next.map(|next| When::At(next.timestamp().as_millisecond() - 1)).map_err(|e| e.to_string())
        }
        _ => since(text),
    }
}

fn past(text: &str) -> Result<When, String> {
    let refused = || "a time is written as 2026-01-31, 2026-01-31T12:00:00Z, or 7d or 12h for so long ago".to_owned();
    let age = age(text).map_err(|_| refused())?;
    i64::try_from(age.as_millis()).map(When::Ago).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_given_in_units_of_a_fixed_length() {
        for (text, hours) in [("12h", 12), ("30d", 720), ("2w", 336), ("1w 12h", 180), ("0s", 0), ("90 days", 2160)] {
            assert_eq!(age(text), Ok(Duration::from_secs(hours * 3600)), "{text}");
        }
        for refused in ["", "30", "1mo", "1y", "-1d", "1d ago", "x"] {
            age(refused).expect_err(refused);
        }
    }

    #[test]
    fn a_time_is_given_with_its_zone_or_as_one_of_here() {
        assert_eq!(moment("2023-11-14T22:13:20Z"), Ok(1_700_000_000_000));
        assert_eq!(moment("2023-11-15T00:13:20+02:00"), Ok(1_700_000_000_000));
        let day = moment("2023-11-14").unwrap();
        assert_eq!(moment("2023-11-14T06:00"), Ok(day + 6 * 3_600_000));
        for refused in ["", "yesterday", "2023-13-01", "30d"] {
            moment(refused).expect_err(refused);
        }
    }

    #[test]
    fn a_day_is_meant_as_a_whole_and_a_span_reaches_back() {
        let day = moment("2023-11-14").unwrap();
        assert_eq!(since("2023-11-14"), Ok(When::At(day)));
        assert_eq!(until("2023-11-14"), moment("2023-11-15").map(|next| When::At(next - 1)));
        assert_eq!(until("2023-11-14T22:13:20Z"), Ok(When::At(1_700_000_000_000)));
        assert_eq!(until("2023-11-14 06:00"), Ok(When::At(day + 6 * 3_600_000)));
        for parse in [since, until] {
            assert_eq!(parse("7d"), Ok(When::Ago(7 * 86_400_000)));
            for refused in ["", "7", "-7d", "1mo", "soon", "2023-11-31"] {
                parse(refused).expect_err(refused);
            }
        }
        assert_eq!((When::Ago(3).at(10), When::Ago(i64::MAX).at(i64::MIN)), (7, i64::MIN));
    }

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
