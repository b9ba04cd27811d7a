//! Sessions and observers to try things on.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use session_persistence::session::{AppendOptions, Clock, LiveError, Seed, Session, SessionHub, SessionObserver};
use session_persistence::{Error, SessionEvent, SessionHeader, SessionId, Source, text};

pub(crate) const TIME: i64 = 1_700_000_000_000;

pub(crate) fn header(name: &str) -> SessionHeader {
    SessionHeader::new(SessionId::new(name).unwrap(), TIME as u64).unwrap()
}

/// A clock that tells a millisecond more each time.
pub(crate) fn clock() -> Clock {
    let next = Mutex::new(TIME);
    Clock::of(move || {
        let mut next = next.lock().unwrap();
        *next += 1;
        *next
    })
}

pub(crate) fn session(seed: Seed) -> Result<Session, LiveError> {
    Session::new(header("s"), seed, clock())
}

pub(crate) fn fresh() -> Session {
    session(Seed::None).unwrap()
}

pub(crate) fn parsed(line: &str) -> SessionEvent {
    text::parse_event(line.as_bytes()).unwrap()
}

pub(crate) fn plain(session: &Session) -> SessionEvent {
    session.append("todo/write", &[session.seq()], AppendOptions::default()).unwrap()
}

pub(crate) fn user(id: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": id }], "source": { "kind": "user" }, "role": "user", "id": id })
}

pub(crate) fn say(session: &Session, id: &str) -> SessionEvent {
    session.append("user/message", &user(id), AppendOptions::surface()).unwrap()
}

type React = Box<dyn Fn(&Session, &SessionEvent) -> Result<(), Source> + Send + Sync>;
type Judge = Box<dyn Fn(&Session, &SessionEvent) -> Result<(), String> + Send + Sync>;

/// An observer that keeps what it is told.
#[derive(Default)]
pub(crate) struct Witness {
    pub(crate) told: Mutex<Vec<String>>,
    pub(crate) events: Mutex<Vec<SessionEvent>>,
    pub(crate) react: Option<React>,
    pub(crate) judge: Option<Judge>,
    pub(crate) objects_to_publication: bool,
    /// Disposes what was published, at once.
    pub(crate) disposes_in: Option<SessionHub>,
    /// What it says to a flush: whether it stores, or a failure.
    pub(crate) flush: Option<Result<bool, &'static str>>,
}

impl Witness {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn reacting(
        react: impl Fn(&Session, &SessionEvent) -> Result<(), Source> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { react: Some(Box::new(react)), ..Self::default() })
    }

    pub(crate) fn judging(
        judge: impl Fn(&Session, &SessionEvent) -> Result<(), String> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { judge: Some(Box::new(judge)), ..Self::default() })
    }

    pub(crate) fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    pub(crate) fn seqs(&self) -> Vec<u64> {
        self.events.lock().unwrap().iter().map(|event| event.seq().get()).collect()
    }

    fn hear(&self, what: &str, session: &Session) {
        self.told.lock().unwrap().push(format!("{what} {}", session.id().as_str()));
    }
}

impl SessionObserver for Witness {
    fn name(&self) -> &str {
        "the witness"
    }

    fn check_publication(&self, _: &Session) -> Result<(), String> {
        if self.objects_to_publication { Err("not today".to_owned()) } else { Ok(()) }
    }

    fn check_append(&self, session: &Session, event: &SessionEvent) -> Result<(), String> {
        self.judge.as_ref().map_or(Ok(()), |judge| judge(session, event))
    }

    fn published(&self, session: &Session) -> Result<(), Source> {
        self.hear("published", session);
        if let Some(hub) = &self.disposes_in {
            hub.dispose(session.id())?;
        }
        Ok(())
    }

    fn appended(&self, session: &Session, event: &SessionEvent) -> Result<(), Source> {
        self.hear(&format!("appended {}", event.seq()), session);
        self.events.lock().unwrap().push(event.clone());
        self.react.as_ref().map_or(Ok(()), |react| react(session, event))
    }

    fn flush(&self, session: &Session) -> Result<bool, LiveError> {
        self.hear("flushed", session);
        match self.flush {
            Some(Err(reason)) => {
                Err(LiveError::Store(Error::InvalidArgument { session: None, reason: reason.to_owned() }))
            }
            Some(Ok(stores)) => Ok(stores),
            None => Ok(false),
        }
    }

    fn disposed(&self, session: &Session) -> Result<(), Source> {
        self.hear("disposed", session);
        Ok(())
    }
}
