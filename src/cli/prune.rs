//! `sessions prune`.

use std::io::{self, Write as _};
use std::time::Duration;

use clap::Args;

use super::failure::Failure;
use super::list::{counted, size};
use super::place::Place;
use super::remove::Room;
use super::screen::{Screen, note, visible};
use super::{stat, time};
use crate::seam::Snapshot;
use crate::upkeep::{self, Kept, PruneOptions, Pruned};

/// Remove sessions that were not written for long
#[derive(Args)]
#[command(after_help = "\
The age of a session is that of its last write, by the clock of its writer: as a file of SQLite has
noted it, and in a folder of log files the time at which the log was last modified. A backup of a
file of SQLite keeps that time; a copy, an import, and a backup of a folder are new writes, and ages
start anew. A line for each session that is removed tells its id, its last write, its events and its
size. With --dry-run the same lines are written and nothing is removed. Sessions that are being
written, and those of which no write was noted, are kept and told.

A clock that is wrong makes everything old: where this machine's is more than 90 days ahead of the
last write, or a session was written more than a day in its future, nothing is removed before the
time is given with --now.

Examples:
  sessions prune --older-than 30d --dry-run
  sessions prune --older-than 2w --keep 20
  sessions prune --older-than 52w --now 2026-01-31 --compact")]
pub(super) struct Prune {
    /// The age: 12h, 30d, 2w, "1w 12h"
    #[arg(long, value_name = "AGE", value_parser = time::age)]
    older_than: Duration,
    /// Keep so many sessions whatever their age, the most recently active first
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep: usize,
    /// Only tell what would be removed
    #[arg(long)]
    dry_run: bool,
    /// The present, as you have checked it: 2026-01-31, 2026-01-31T12:00, 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time::moment)]
    now: Option<i64>,
    #[command(flatten)]
    room: Room,
}

impl Prune {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        let opened = place.open_as_it_is()?;
        let mut options = PruneOptions::older_than(self.older_than).with_keep(self.keep);
        if let Some(now) = self.now {
            options = options.with_now(now);
        }
        let mut written = Ok(());
        let report = upkeep::prune(opened.store(), &options, self.dry_run, &mut |pruned| match pruned {
            Pruned::Removed(snapshot) => {
                let line = print(snapshot, screen);
                if written.is_ok() {
                    written = line;
                }
            }
            Pruned::Kept(snapshot, kept) => tell(snapshot, kept),
        });
        // Whatever became of the output, and however far it got.
        let flushed = if self.dry_run { Ok(()) } else { opened.store().flush() };
        let report = report?;
        flushed?;
        written?;
        screen.flush()?;
        let what = if self.dry_run { "would be removed" } else { "were removed" };
        let kept = if report.kept > 0 { format!("; {} kept as told above", report.kept) } else { String::new() };
        let what = if report.removed == 1 { what.replace("were", "was") } else { what.to_owned() };
        note(&format!("{}, {}, {what}{kept}", counted(report.removed, "session"), size(report.bytes)));
        if !self.dry_run {
            self.room.give_back(&opened)?;
        }
        if report.failed > 0 { Err(Failure::Reported) } else { Ok(()) }
    }
}

fn print(snapshot: &Snapshot, screen: &mut Screen) -> io::Result<()> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
    let id = visible(snapshot.id.as_str());
    let written = or_none(snapshot.written_at.map(time::full));
    let events = snapshot.event_count.map_or_else(|| "? events".to_owned(), |n| counted(n, "event"));
    writeln!(screen, "{id}  {written}  {events}  {}", or_none(snapshot.size_bytes.map(size)))
}

/// Why a session is kept.
fn tell(snapshot: &Snapshot, kept: Kept) {
    let why = match kept {
        Kept::AgeUnknown => "no write of it was noted: remove it by its id if it is not needed".to_owned(),
        Kept::Owned(owner) => format!("it is being written by {}", stat::holder(&owner)),
        Kept::WrittenMeanwhile => "it was written meanwhile".to_owned(),
        Kept::Failed(error) => return Failure::Store(error).tell(),
    };
    note(&format!("kept: {}: {}", visible(snapshot.id.as_str()), visible(&why)));
}
