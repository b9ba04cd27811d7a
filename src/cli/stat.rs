//! `sessions stat`.

use std::io::Write as _;

use clap::Args;

use super::failure::Failure;
use super::index::IndexPlace;
use super::list::{counted, descent, size};
use super::place::Place;
use super::record::{Record, unreadable};
use super::screen::{DIM, Screen, visible};
use super::time;
use crate::log::SessionId;
use crate::query::index::{Counts, SessionFacts};
use crate::seam::{Error, Holder, Snapshot, WriteFailure};

/// Tell what is known of one session without reading its events
#[derive(Args)]
#[command(after_help = "\
`sessions list --help` has a table of the fields of --json. Title, turns, calls of tools and tokens
are told where the search index knows the session as it is; `sessions stats > /dev/null` brings the
index up to date.

Examples:
  sessions stat fix-login-loop
  sessions stat fix-login-loop --json | jq .eventCount")]
pub(super) struct Stat {
    /// The session
    #[arg(value_name = "ID")]
    session: SessionId,
    /// One JSON object, with the fields of `list --json`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    index: IndexPlace,
}

impl Stat {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        let store = place.open()?;
        let snapshot = store.stat(&self.session)?;
        let snapshot = snapshot.ok_or(Error::NotFound { session: self.session })?;
        let known = self.index.known(place, std::slice::from_ref(&snapshot))?;
        let known = known.get(&snapshot.id);
        if self.json {
            return Ok(Record::of(&snapshot, known).print(screen)?);
        }
        let rows = rows(&snapshot, known);
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in rows {
            let name = screen.paint(DIM, &format!("{name:width$}"));
            writeln!(screen, "{name}  {}", visible(&value))?;
        }
        Ok(())
    }
}

/// Who writes a session, for a person.
pub(super) fn holder(holder: &Holder) -> String {
    match (holder.process, &*holder.host) {
        (0, _) => "another program".to_owned(),
        (process, "") => format!("process {process}"),
        (process, host) => format!("process {process} on {host}"),
    }
}

fn rows(snapshot: &Snapshot, known: Option<&SessionFacts>) -> Vec<(&'static str, String)> {
    let now = time::now();
    let when = |ms: i64| format!("{} ({})", time::full(ms), time::ago(ms, now));
    let mut rows = vec![("session", snapshot.id.to_string())];
    let mut row = |name, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    row("title", known.and_then(|facts| facts.title.clone()));
    row("state", unreadable(snapshot));
    if let Some(header) = &snapshot.header {
        row("format", Some(header.version().to_string()));
        row("created", Some(when(header.created_at() as i64)));
        row("last event", snapshot.last_time.map(when));
        row("folder", header.cwd().map(str::to_owned));
        row("comes from", descent(header));
        row("delegations", Some(header.delegation_depth()).filter(|n| *n > 0).map(|n| n.to_string()));
        row("agent preset", header.agent_preset().map(str::to_owned));
    }
    row("events", snapshot.event_count.map(|n| n.to_string()));
    let turns = |facts: &SessionFacts| match (facts.is_interrupted, &snapshot.owner) {
        (false, _) => facts.own.turns.to_string(),
        (true, None) => format!("{}, the last one interrupted", facts.own.turns),
        (true, Some(_)) => format!("{}, the last one not ended yet", facts.own.turns),
    };
    row("turns", known.map(turns));
    row("tool calls", known.map(|facts| facts.own.tool_calls.to_string()));
    let tokens = |own: &Counts| format!("{} in, {} out", own.input_tokens, own.output_tokens);
    row("tokens", known.map(|facts| tokens(&facts.own)));
    row("size", snapshot.size_bytes.map(|n| format!("{} ({n} bytes)", size(n))));
    let torn = snapshot.torn_tail.map(|t| {
        format!(
            "{} from seq {} on; the next append cuts them off: see `sessions verify`",
            counted(t.bytes, "byte"),
            t.seq
        )
    });
    row("torn tail", torn);
    row("revision", Some(snapshot.revision.to_string()));
    row("last write", snapshot.written_at.map(when));
    row("in use by", snapshot.owner.as_ref().map(holder));
    let failed = |f: &WriteFailure| format!("{} {}: {}: {}", f.operation, when(f.at), f.kind, f.message);
    row("last failure", snapshot.last_failure.as_ref().map(failed));
    rows
}
