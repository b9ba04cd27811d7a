//! `sessions copy`.

use std::ffi::OsString;

use clap::Args;

use super::failure::Failure;
use super::import::{Outcomes, options};
use super::place::Place;
use super::screen::Screen;
use super::unmade::Unmade;
use crate::export;
use crate::log::SessionId;

/// Copy sessions into another store and compare them there
#[derive(Args)]
#[command(after_help = "\
Any session can be copied, whether this build can interpret it or not. A session that the other
store has already is never replaced: the same log changes nothing, a longer one is added with
--extend, any other is refused. The other store is made where there is none.

Examples:
  sessions copy --to backup.db
  sessions --store work.db copy --to other.db fix-login-loop")]
pub(super) struct Copy {
    /// The store to copy into, named as for --store
    #[arg(long, value_name = "STORE")]
    to: OsString,
    /// The sessions [default: all]
    #[arg(value_name = "ID")]
    sessions: Vec<SessionId>,
    /// Let a log that goes on where the stored one ends add to it
    #[arg(long)]
    extend: bool,
}

impl Copy {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        let target = Place::new(Some(self.to))?;
        if place.overlaps(&target) {
            return Err(Failure::Usage(format!(
                "{} is the store itself, or a part of it: name another place to copy to",
                target.name().display()
            )));
        }
        let source = place.open()?;
        let store = Unmade::open(&target)?;
        let sessions = (!self.sessions.is_empty()).then_some(&*self.sessions);
        let from = place.name().display().to_string();
        let mut outcomes = Outcomes::new(screen, "session");
        let tell = &mut |outcome| outcomes.tell(&from, outcome);
        let tally = export::copy(&*source, &from, &*store, sessions, options(self.extend), tell)?;
        drop(store);
        // Of a store without sessions as well.
        if tally.failed == 0 && !target.is_there() {
            target.open_or_create()?;
        }
        outcomes.finish()
    }
}
