//! [`Log`]: the events of a live session with what follows from them.

use std::ops::Range;

use super::{AppendOptions, LiveError, shape};
use crate::log::{
    FoldError, Json, MessageList, MessagePlan, Messages, Requests, SessionEvent, SessionHeader, SessionId, Surface,
};

/// The events of a live session with what follows from them. Each event costs the same, however many there are.
pub struct Log {
    events: Vec<SessionEvent>,
    messages: Messages,
    requests: Requests,
}

/// An event that can be appended to the log that it was prepared for.
pub(super) struct Prepared {
    event: SessionEvent,
    plan: MessagePlan,
    requests: Requests,
}

impl Prepared {
    pub(super) fn event(&self) -> &SessionEvent {
        &self.event
    }
}

impl Log {
    /// An empty log of the format of a header.
    pub(super) fn new(header: &SessionHeader) -> Result<Self, FoldError> {
        Ok(Self { events: Vec::new(), messages: Messages::new(header.version())?, requests: Requests::default() })
    }

    /// Its length.
    pub fn len(&self) -> u64 {
        self.events.len() as u64
    }

    /// Whether it has no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The event at a seq.
    pub fn get(&self, seq: u64) -> Option<&SessionEvent> {
        self.events.get(usize::try_from(seq).ok()?)
    }

    /// A part of it; what lies beyond its end is left out.
    pub fn slice(&self, range: Range<u64>) -> Vec<SessionEvent> {
        let end = range.end.min(self.len()) as usize;
        let start = (range.start.min(self.len()) as usize).min(end);
        self.events[start..end].to_vec()
    }

    /// Which events are visible to the model now.
    pub fn surface(&self) -> &Surface {
        self.messages.surface()
    }

    /// The request header and the request context in force.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// What the model would see now.
    pub(super) fn messages(&mut self) -> MessageList {
        self.messages.current()
    }

    /// Makes the next event and checks it; the log stays as it is.
    pub(super) fn prepare(
        &self,
        session: &SessionId,
        event_type: &str,
        time: i64,
        data: Json,
        options: AppendOptions,
    ) -> Result<Prepared, LiveError> {
        let event =
            make(event_type, self.len(), time, data, options).map_err(|e| LiveError::record(session, event_type, e))?;
        self.admit(event, shape::check_appended).map_err(|reason| LiveError::Refused {
            session: session.clone(),
            event_type: event_type.to_owned(),
            reason,
            source: None,
        })
    }

    /// Checks an event by the rule of its type, and then whether it fits the log; the log stays as it is.
    pub(super) fn admit(
        &self,
        event: SessionEvent,
        rule: impl FnOnce(&SessionEvent) -> Result<(), String>,
    ) -> Result<Prepared, String> {
        rule(&event)?;
        let plan = self.messages.plan(&event, |seq| self.get(seq.get()).cloned()).map_err(|e| e.to_string())?;
        let mut requests = self.requests.clone();
        requests.push(&event).map_err(|e| e.to_string())?;
        Ok(Prepared { event, plan, requests })
    }

    /// Appends an event that was prepared for it as it is.
    pub(super) fn push(&mut self, prepared: Prepared) -> SessionEvent {
        let Prepared { event, plan, requests } = prepared;
        self.messages.apply(plan).expect("prepared in the turn in which it is appended");
        self.requests = requests;
        self.events.push(event.clone());
        event
    }
}

fn make(
    event_type: &str,
    seq: u64,
    time: i64,
    data: Json,
    options: AppendOptions,
) -> Result<SessionEvent, crate::log::InvalidRecord> {
    let AppendOptions { surface_op, source_event_seqs, ignorable } = options;
    let mut event = SessionEvent::new(event_type, seq, time, data)?;
    if ignorable {
        event = event.into_ignorable();
    }
    if let Some(seqs) = source_event_seqs {
        event = event.with_source_event_seqs(seqs)?;
    }
    match surface_op {
        Some(op) => event.with_surface_op(op),
        None => Ok(event),
    }
}

#[cfg(test)]
mod tests {
    use crate::log::{PROJECTIONS, SessionHeader, SessionId};
    use crate::session::{AppendOptions, Clock, Seed, Session};

    #[test]
    fn the_messages_after_one_append_cost_a_look_into_one_event() {
        let header = SessionHeader::new(SessionId::new("s").unwrap(), 0).unwrap();
        let session = Session::new(header, Seed::None, Clock::system()).unwrap();
        let say = || {
            let message = serde_json::json!({ "content": [], "source": { "kind": "user" }, "role": "user", "id": "m" });
            session.append("user/message", &message, AppendOptions::surface()).unwrap();
        };
        (0..1_000).for_each(|_| say());
        assert_eq!(session.derive_messages().len(), 1_000);
        let before = PROJECTIONS.get();
        say();
        assert_eq!(session.derive_messages().len(), 1_001);
        assert_eq!(PROJECTIONS.get() - before, 1);
        session.append("todo/write", &1, AppendOptions::default()).unwrap();
        assert_eq!((session.derive_messages().len(), PROJECTIONS.get() - before), (1_001, 1));
    }
}
