//! Forking: which part of a log a child may inherit, and the header of the child.

use super::{Clock, LiveError, Session};
use crate::log::{OpenTurn, Seq, SessionEvent, SessionHeader, SessionId};

/// The header of a child of a session, and the events that it inherits: those up to and with the one at `boundary`.
pub(super) fn child_of(
    session: &Session,
    boundary: Option<u64>,
    child: SessionId,
    clock: &Clock,
) -> Result<(SessionHeader, Vec<SessionEvent>), LiveError> {
    let length = session.seq();
    let end = match boundary {
        None => length,
        Some(boundary) if boundary < length => boundary + 1,
        Some(boundary) => {
            return Err(LiveError::Boundary {
                session: session.id().clone(),
                boundary,
                reason: format!("its log has {length} events"),
            });
        }
    };
    let prefix = session.snapshot(0..end);
    let mut turn = OpenTurn::new();
    prefix.iter().for_each(|event| turn.observe(event));
    if let (Some(turn), Some(last)) = (turn.turn(), prefix.last()) {
        return Err(LiveError::OpenTurn { session: session.id().clone(), boundary: last.seq(), turn });
    }
    let parent = session.header();
    let created_at = clock.now().clamp(0, Seq::MAX.get() as i64) as u64;
    let mut header = SessionHeader::new(child, created_at)
        .map_err(|e| LiveError::record(session.id(), "session", e))?
        .with_parent_session(parent.id().as_str())
        .with_seed();
    if let Some(cwd) = parent.cwd() {
        header = header.with_cwd(cwd);
    }
    Ok((header, prefix))
}
