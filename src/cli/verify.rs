//! `sessions verify`.

use std::io::{self, Write as _};

use clap::Args;
use serde::Serialize;

use super::failure::Failure;
use super::index::IndexPlace;
use super::list::counted;
use super::place::Place;
use super::progress::Bar;
use super::record::print_line;
use super::screen::{AnsiColor, Screen, color, note, visible};
use crate::log::SessionId;
use crate::seam::{Fault, FaultKind};
use crate::upkeep::{self, Progress, Report};

/// Check that everything is what was stored: checksums, order, counters, indexes
#[derive(Args)]
#[command(after_help = "\
A line for each fault tells its kind, the session, the event, what is wrong and what to do. The kinds:
  damage     bytes of a log are not what was stored
  count      a counter or a note of a log differs from it; the log itself is sound
  orphan     rows or files that belong to no session
  structure  the file itself: its pages, indexes, triggers
  index      the search index is not what the logs make of it; the store is not affected, and the
             next search makes a removed index anew
  leftover   no event is wrong, but something lies there that need not: what a write left that was
             stopped, or what a log that was cut short ends in
Exit code 1 when there is a fault, other than leftovers. With IDs only their logs are read, and what
the store keeps beside all logs is not looked at, nor the search index. Nothing is changed.

Examples:
  sessions verify
  sessions verify fix-login-loop
  sessions verify --json | jq -r 'select(.kind == \"damage\") | .session'")]
pub(super) struct Verify {
    /// The sessions [default: all, and the store itself]
    #[arg(value_name = "ID")]
    sessions: Vec<SessionId>,
    /// One JSON object a fault
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    index: IndexPlace,
}

impl Verify {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        let store = place.open()?;
        let sessions = (!self.sessions.is_empty()).then_some(&*self.sessions);
        let bar = Bar::new();
        let mut written = Ok(());
        let mut tell = |fault: &Fault| {
            if written.is_ok() {
                written = bar.aside(|| if self.json { Record::print(fault, screen) } else { print(fault, screen) });
            }
        };
        let mut report = upkeep::verify(&*store, sessions, &mut |progress| match progress {
            Progress::Reading { session, read, of } => bar.reading(session, read, of),
            Progress::Storage => bar.doing("the logs are read; checking what the store keeps beside them"),
            Progress::Fault(fault) => tell(fault),
        })?;
        let mut indexed = Ok(());
        if sessions.is_none() {
            bar.doing("checking the search index");
            indexed = self.index.check(place, &*store, |fault| {
                report.faults += 1;
                tell(fault);
            });
        }
        drop(bar);
        written?;
        note(&summary(report));
        match indexed {
            // No fault of the store, and none of the index that is known.
            Err(Failure::Index(error)) => {
                note(&format!("sessions: note: not checked: {}", visible(&error.to_string())))
            }
            done => done?,
        }
        if report.is_sound() { Ok(()) } else { Err(Failure::Reported) }
    }
}

fn print(fault: &Fault, screen: &mut Screen) -> io::Result<()> {
    let style = color(match fault.kind {
        kind if kind.is_harmless() => AnsiColor::Yellow,
        _ => AnsiColor::Red,
    });
    let mut place = Vec::new();
    place.extend(fault.session.as_ref().map(|session| format!("session {}", visible(&format!("{session:?}")))));
    place.extend(fault.seq.map(|seq| format!("seq {seq}")));
    place.extend(fault.offset.map(|offset| format!("byte {offset}")));
    let whole = if fault.kind == FaultKind::Index { "the search index" } else { "the store" };
    let place = if place.is_empty() { whole.to_owned() } else { place.join(" ") };
    let kind = screen.paint(style, &format!("{:9}", fault.kind));
    writeln!(screen, "{kind}  {place}: {}; {}", visible(&fault.reason), visible(&fault.advice))?;
    screen.flush()
}

/// One fault as one JSON object: every key is always there, `null` where it has no place.
#[derive(Serialize)]
struct Record<'a> {
    kind: &'a str,
    harmless: bool,
    session: Option<&'a str>,
    seq: Option<u64>,
    offset: Option<u64>,
    reason: &'a str,
    advice: &'a str,
}

impl Record<'_> {
    fn print(fault: &Fault, screen: &mut Screen) -> io::Result<()> {
        let Fault { session, kind, seq, offset, reason, advice } = fault;
        let record = Record {
            kind: FaultKind::name(*kind),
            harmless: kind.is_harmless(),
            session: session.as_ref().map(SessionId::as_str),
            seq: *seq,
            offset: *offset,
            reason,
            advice,
        };
        print_line(screen, &record)?;
        screen.flush()
    }
}

fn summary(report: Report) -> String {
    let Report { sessions, events, faults, leftovers } = report;
    let found = if faults == 0 { "no fault".to_owned() } else { counted(faults, "fault") };
    let left = if leftovers > 0 { format!(", {}", counted(leftovers, "leftover")) } else { String::new() };
    let were = if sessions == 1 { "was" } else { "were" };
    format!("{} with {} {were} checked: {found}{left}", counted(sessions, "session"), counted(events, "event"))
}
