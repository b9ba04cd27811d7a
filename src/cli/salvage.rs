//! `sessions salvage`.

use clap::Args;

use super::failure::Failure;
use super::list::counted;
use super::place::Place;
use super::screen::{note, visible};
use crate::log::SessionId;
use crate::seam::FaultKind;
use crate::upkeep;

/// Copy the valid start of a damaged log into a new session
#[derive(Args)]
#[command(after_help = "\
The damaged session stays as it is; remove it once the new one is what you need. Behind the damage
there may be events that can still be read: look at them first with `sessions show ID --from SEQ`.
Events and header are kept byte by byte, but for the id.

Examples:
  sessions verify
  sessions salvage fix-login-loop --to fix-login-loop-saved")]
pub(super) struct Salvage {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionId,
    /// The id of the new session
    #[arg(long, value_name = "NEW-ID")]
    to: SessionId,
}

impl Salvage {
    pub(super) fn run(self, place: &Place) -> Result<(), Failure> {
        let store = place.open()?;
        let salvaged = upkeep::salvage(&*store, &self.session, &self.to)?;
        let how = match salvaged.stopped {
            None => "which is all of them: the log is sound".to_owned(),
            Some(stop) => {
                let seq = stop.seq.map(|seq| format!(" at seq {seq}")).unwrap_or_default();
                let byte = stop.offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default();
                let advice = match stop.kind {
                    FaultKind::Damage => {
                        "what stands behind it is to be had from a backup, and some of it may still be read: \
                                          look with `sessions show ID --from SEQ` before the damaged session is removed"
                            .to_owned()
                    }
                    _ => stop.advice,
                };
                format!("up to the {}{seq}{byte}: {}; {advice}", stop.kind, stop.reason)
            }
        };
        let were = if salvaged.events == 1 { "was" } else { "were" };
        let events = counted(salvaged.events, "event");
        let text = format!("{events} {were} saved as session {:?}, {how}", salvaged.session);
        note(&visible(&text));
        Ok(())
    }
}
