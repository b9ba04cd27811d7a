//! [`Record`]: what `list` and `stat` tell of a session to a program.

use std::io::{self, Write as _};

use clap::ValueEnum;
use serde::Serialize;

use super::screen::Screen;
use crate::log::Origin;
use crate::query::index::SessionFacts;
use crate::seam::{Holder, SessionState, Snapshot, StateKind, WriteFailure};

/// One session as one JSON object: every key is always there, `null` where nothing is known, except those of the search index,
/// which are there where it knows the session as it is, `state`, the word that `--state` takes, which is there only where the
/// session cannot be interpreted, and `tornTail` and `lastFailure`, only where there is one.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record<'a> {
    id: &'a str,
    version: Option<u32>,
    created_at: Option<u64>,
    cwd: Option<&'a str>,
    parent_session: Option<&'a str>,
    origin: Option<&'a str>,
    delegation_depth: Option<u64>,
    agent_preset: Option<&'a str>,
    is_seeded: Option<bool>,
    event_count: Option<u64>,
    size_bytes: Option<u64>,
    last_time: Option<i64>,
    revision: &'a str,
    written_at: Option<i64>,
    owner: Option<Owner<'a>>,
    #[serde(flatten)]
    known: Option<Known<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    torn_tail: Option<Torn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failure: Option<Failed<'a>>,
}

/// What the search index knows of a session; what happened in what it inherited is counted in its parent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Known<'a> {
    title: Option<&'a str>,
    turns: u64,
    tool_calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    interrupted: bool,
    blank: bool,
}

#[derive(Serialize)]
struct Failed<'a> {
    at: i64,
    operation: &'a str,
    kind: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct Torn {
    seq: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Owner<'a> {
    process: u32,
    host: &'a str,
    since: i64,
}

impl<'a> Record<'a> {
    pub(super) fn of(snapshot: &'a Snapshot, known: Option<&'a SessionFacts>) -> Self {
        let header = snapshot.header.as_ref();
        Self {
            id: snapshot.id.as_str(),
            version: header.map(|h| h.version()),
            created_at: header.map(|h| h.created_at()),
            cwd: header.and_then(|h| h.cwd()),
            parent_session: header.and_then(|h| h.parent_session()),
            origin: header.and_then(|h| h.origin()).map(Origin::as_str),
            delegation_depth: header.map(|h| h.delegation_depth()),
            agent_preset: header.and_then(|h| h.agent_preset()),
            is_seeded: header.map(|h| h.is_seeded()),
            event_count: snapshot.event_count,
            size_bytes: snapshot.size_bytes,
            last_time: snapshot.last_time,
            revision: snapshot.revision.as_str(),
            written_at: snapshot.written_at,
            owner: snapshot.owner.as_ref().map(Owner::of),
            known: known.map(Known::of),
            state: State::of(snapshot.state.kind()).filter(|state| *state != State::Readable).and_then(State::word),
            torn_tail: snapshot.torn_tail.map(|t| Torn { seq: t.seq, bytes: t.bytes }),
            last_failure: snapshot.last_failure.as_ref().map(Failed::of),
        }
    }

    pub(super) fn print(&self, screen: &mut Screen) -> io::Result<()> {
        print_line(screen, self)
    }
}

impl<'a> Known<'a> {
    fn of(facts: &'a SessionFacts) -> Self {
        Self {
            title: facts.title.as_deref(),
            turns: facts.own.turns,
            tool_calls: facts.own.tool_calls,
            input_tokens: facts.own.input_tokens,
            output_tokens: facts.own.output_tokens,
            interrupted: facts.is_interrupted,
            blank: facts.is_blank,
        }
    }
}

impl<'a> Failed<'a> {
    fn of(failure: &'a WriteFailure) -> Self {
        let WriteFailure { at, operation, kind, message } = failure;
        Self { at: *at, operation, kind: kind.name(), message }
    }
}

impl<'a> Owner<'a> {
    fn of(holder: &'a Holder) -> Self {
        Self { process: holder.process, host: &holder.host, since: holder.since }
    }
}

/// Whether a session can be interpreted, in the words of the command.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum State {
    /// In the format of this build
    Readable,
    /// Needs a newer program
    NewerFormat,
    /// Is read and copied, and not extended
    OlderFormat,
    /// The header is not what was stored; damage behind it is found by `sessions verify`
    Damaged,
}

impl State {
    pub(super) fn of(kind: StateKind) -> Option<Self> {
        match kind {
            StateKind::Readable => Some(Self::Readable),
            StateKind::NewerFormat => Some(Self::NewerFormat),
            StateKind::OlderFormat => Some(Self::OlderFormat),
            StateKind::Damaged => Some(Self::Damaged),
            // Nothing of it is stored.
            StateKind::Pending => None,
        }
    }

    pub(super) fn kind(self) -> StateKind {
        match self {
            Self::Readable => StateKind::Readable,
            Self::NewerFormat => StateKind::NewerFormat,
            Self::OlderFormat => StateKind::OlderFormat,
            Self::Damaged => StateKind::Damaged,
        }
    }

    fn word(self) -> Option<String> {
        self.to_possible_value().map(|value| value.get_name().to_owned())
    }
}

/// Why a session cannot be interpreted, as far as its snapshot tells.
pub(super) fn unreadable(snapshot: &Snapshot) -> Option<String> {
    match &snapshot.state {
        SessionState::Readable | SessionState::Pending => None,
        state => Some(state.to_string()),
    }
}

/// One JSON object as one line.
pub(super) fn print_line(screen: &mut Screen, value: &impl Serialize) -> io::Result<()> {
    let line = harmless(&serde_json::to_string(value)?);
    writeln!(screen, "{line}")
}

/// JSON text with the characters escaped that a terminal obeys and JSON lets stand: the same JSON.
pub(super) fn harmless(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => text.push(c),
        }
    }
    text
}
