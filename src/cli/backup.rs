//! `sessions backup`.

use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use super::list::{counted, size};
use super::place::{Place, says_kind};
use super::progress::Bar;
use super::screen::{note, visible};
use crate::seam::Error;

/// Write the whole store, as it is at one moment, into a new file while it is in use
#[derive(Args)]
#[command(after_help = "\
The backup is a store like any other: name it with --store to look at it. It has its name only when
it is whole; nothing is ever replaced. Of a file of SQLite the pages and the counts are checked, and
not each event: `sessions verify` first tells whether there is damage, which a backup would keep. Of
a folder of log files it is a new folder, each session as it was when its turn came, compared event
by event; ages for prune start anew in it, in that of a file of SQLite they do not.

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
        if says_kind(self.to.as_os_str()) {
            return Err(Failure::Usage(format!(
                "a backup is of the kind of its store: give a path alone, or copy into a store of another kind with \
                 `sessions copy --to {}`",
                self.to.display()
            )));
        }
        let above = self.to.parent().filter(|above| !above.as_os_str().is_empty());
        if let Some(above) = above.filter(|above| matches!(above.try_exists(), Ok(false))) {
            return Err(Failure::Store(Error::InvalidArgument {
                session: None,
                reason: format!(
                    "{} cannot be the backup: there is no folder {}; make it first",
                    self.to.display(),
                    above.display()
                ),
            }));
        }
        let opened = place.open_as_it_is()?;
        let bar = Bar::new();
        bar.doing("copying and checking");
        let report = opened.backup(&self.to);
        drop(bar);
        let report = report?;
        let to = visible(&self.to.display().to_string());
        let (sessions, events) = (counted(report.sessions, "session"), counted(report.events, "event"));
        note(&format!("{sessions}, {events}, {}: in {to}", size(report.bytes)));
        Ok(())
    }
}
