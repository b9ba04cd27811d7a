//! `sessions remove`.

use clap::Args;

use super::failure::Failure;
use super::list::size;
use super::place::{Opened, Place};
use super::screen::{note, visible};
use crate::log::SessionId;
use crate::seam::Error;

/// Remove sessions with all that belongs to them
#[derive(Args)]
#[command(after_help = "\
A session that is being written is not removed. Where one cannot be removed the others are. Room
in a file of SQLite is used again by what is written later; --compact gives it back to the disk.
What the search index holds of a session goes with the next `sessions search` or `sessions
stats`, or with the index itself, which can be deleted.

Examples:
  sessions export fix-login-loop > fix-login-loop.jsonl && sessions remove fix-login-loop
  sessions remove a b c --compact")]
pub(super) struct Remove {
    /// The sessions
    #[arg(value_name = "ID", required = true)]
    sessions: Vec<SessionId>,
    #[command(flatten)]
    room: Room,
}

/// Whether the room of removed sessions is given back.
#[derive(Args)]
pub(super) struct Room {
    /// Give the room back to the disk, which writes the whole file anew
    #[arg(long)]
    compact: bool,
}

impl Remove {
    pub(super) fn run(self, place: &Place) -> Result<(), Failure> {
        let opened = place.open_as_it_is()?;
        let store = opened.store();
        let (mut removed_any, mut failed) = (false, false);
        for session in &self.sessions {
            let removed = store.remove(session).and_then(|was_there| {
                if was_there { Ok(()) } else { Err(Error::NotFound { session: session.clone() }) }
            });
            match removed {
                Ok(()) => {
                    removed_any = true;
                    note(&format!("removed: {}", visible(session.as_str())));
                }
                Err(error) => {
                    failed = true;
                    Failure::Store(error).tell();
                }
            }
        }
        if removed_any {
            store.flush()?;
            self.room.give_back(&opened)?;
        }
        if failed { Err(Failure::Reported) } else { Ok(()) }
    }
}

impl Room {
    /// Gives the room back, where that was asked for.
    pub(super) fn give_back(&self, opened: &Opened) -> Result<(), Failure> {
        if !self.compact {
            return Ok(());
        }
        match opened.compact()? {
            Some(report) => note(&format!("the file had {}, and has {}", size(report.before), size(report.after))),
            None => note("the room of log files is given back when they are removed"),
        }
        Ok(())
    }
}
