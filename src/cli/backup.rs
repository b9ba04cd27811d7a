//! `sessions backup`.

use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use super::list::size;
use super::place::Place;
use super::progress::Bar;
use super::screen::{note, visible};

/// Write the whole store, as it is at one moment, into a new file while it is in use
#[derive(Args)]
#[command(after_help = "\
The backup is a store like any other: name it with --store to look at it. It has its name only when
it is whole and was checked; nothing is ever replaced. Of a folder of log files it is a new folder,
each session as it was when its turn came.

Examples:
  sessions backup sessions-$(date +%F).db
  sessions --store sessions-2026-01-31.db list")]
pub(super) struct Backup {
    /// The new file; of a folder of log files, the new folder
    #[arg(value_name = "FILE")]
    to: PathBuf,
}

impl Backup {
    pub(super) fn run(self, place: &Place) -> Result<(), Failure> {
        let opened = place.open_as_it_is()?;
        let bar = Bar::new();
        bar.doing("copying and checking");
        let report = opened.backup(&self.to);
        drop(bar);
        let report = report?;
        let to = visible(&self.to.display().to_string());
        note(&format!("{} sessions, {} events, {}: in {to}", report.sessions, report.events, size(report.bytes)));
        Ok(())
    }
}
