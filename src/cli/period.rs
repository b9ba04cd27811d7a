//! [`Period`]: from when to when, as a person says it, and [`PageStart`].

use std::convert::Infallible;
use std::str::FromStr;

use clap::Args;

use super::failure::Failure;
use super::time::{self, When};

/// From when to when.
#[derive(Args)]
pub(super) struct Period {
    /// From this time on: 2026-01-31, 2026-01-31T12:00, 2026-01-31T12:00:00Z, or 7d or 12h for so long ago. A time is meant
    /// where you are, unless it ends in Z, for UTC, or an offset as +02:00
    #[arg(long, value_name = "TIME", value_parser = time::since)]
    since: Option<When>,
    /// Up to this time, written in the same way, and of a day all of it
    #[arg(long, value_name = "TIME", value_parser = time::until)]
    until: Option<When>,
}

/// From when to when, in milliseconds since 1970, both included.
pub(super) struct Bounds {
    pub(super) since: Option<i64>,
    pub(super) until: Option<i64>,
}

impl Period {
    /// What it means at a time.
    pub(super) fn at(&self, now: i64) -> Result<Bounds, Failure> {
        let bounds = Bounds { since: self.since.map(|when| when.at(now)), until: self.until.map(|when| when.at(now)) };
        match (bounds.since, bounds.until) {
            (Some(since), Some(until)) if since > until => Err(Failure::Usage(format!(
                "nothing is from {} on and up to {}: give the earlier time with --since",
                time::full(since),
                time::full(until)
            ))),
            _ => Ok(bounds),
        }
    }

    fn moves(&self) -> bool {
        [self.since, self.until].iter().flatten().any(|when| matches!(when, When::Ago(_)))
    }
}

/// Where a page starts: the cursor that the page before gave, and when the first page was asked for, where the period goes by
/// that. So long ago is the same time on all pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageStart {
    pub(super) cursor: String,
    asked: Option<i64>,
}

impl PageStart {
    /// When the first page was asked for.
    pub(super) fn asked(start: Option<&Self>) -> i64 {
        start.and_then(|start| start.asked).unwrap_or_else(time::now)
    }

    /// The start of the page behind one of a list of a period, as it is given to the user.
    pub(super) fn behind(cursor: &dyn std::fmt::Display, period: &Period, asked: i64) -> String {
        if period.moves() { format!("{cursor}.{asked}") } else { cursor.to_string() }
    }
}

impl FromStr for PageStart {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let parts = text.rsplit_once('.').and_then(|(cursor, asked)| Some((cursor, asked.parse().ok()?)));
        Ok(match parts {
            Some((cursor, asked)) => Self { cursor: cursor.to_owned(), asked: Some(asked) },
            None => Self { cursor: text.to_owned(), asked: None },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_long_ago_is_the_same_time_on_all_pages() {
        let period = Period { since: Some(When::Ago(1_000)), until: None };
        let start: PageStart = PageStart::behind(&"abc", &period, 5_000).parse().unwrap();
        assert_eq!((&*start.cursor, PageStart::asked(Some(&start))), ("abc", 5_000));
        assert_eq!(period.at(PageStart::asked(Some(&start))).unwrap().since, Some(4_000));
        let fixed = Period { since: Some(When::At(1_000)), until: Some(When::At(1_000)) };
        assert_eq!(PageStart::behind(&"abc", &fixed, 5_000), "abc");
        assert!(fixed.at(0).is_ok());
        Period { since: Some(When::At(2)), until: Some(When::At(1)) }.at(0).map(drop).unwrap_err();
        assert_eq!("a.b".parse(), Ok(PageStart { cursor: "a.b".to_owned(), asked: None }));
    }
}
