//! `sessions demo`.

use std::collections::HashSet;

use clap::Args;

use super::demo_sessions::{self, Example};
use super::failure::Failure;
use super::list;
use super::place::Place;
use super::screen::{Screen, note, visible};
use super::time;
use crate::seam::{CreateOptions, Error, ListQuery, SessionPersistence};

const FILE: &str = "sessions-demo.db";

/// Make a store of example sessions and show it
#[derive(Args)]
#[command(after_help = "\
The examples go into ./sessions-demo.db, or where --store says; $SESSIONS_STORE is not looked at.
A store that holds anything else is refused. Running it again shows what the first run made.")]
pub(super) struct Demo {}

impl Demo {
    pub(super) fn run(self, place: Place, screen: &mut Screen) -> Result<(), Failure> {
        let place = place.given_or(FILE);
        let name = visible(&place.name().to_string_lossy());
        let store = place.open_or_create()?;
        let examples = demo_sessions::all(time::now()).map_err(Error::from)?;
        refuse_other_sessions(&*store, &examples, &name)?;
        let mut made = 0;
        for example in &examples {
            made += usize::from(make(&*store, example)?);
        }
        store.flush()?;

        list::print_all(&*store, screen)?;
        std::io::Write::flush(screen)?;
        suggest(&name, made);
        Ok(())
    }
}

/// A store of the user's own never gets examples between its sessions.
fn refuse_other_sessions(store: &dyn SessionPersistence, examples: &[Example], name: &str) -> Result<(), Failure> {
    let ours: HashSet<_> = examples.iter().map(|e| e.header.id()).collect();
    match store.list(&ListQuery::default())?.items.into_iter().find(|s| !ours.contains(&s.id)) {
        None => Ok(()),
        Some(other) => Err(Failure::Store(Error::InvalidArgument {
            session: Some(other.id),
            reason: format!("it is no example, and {name} holds it; name another file with --store for the examples"),
        })),
    }
}

/// Stores an example that is not there yet.
fn make(store: &dyn SessionPersistence, example: &Example) -> Result<bool, Failure> {
    if store.stat(example.header.id())?.is_some() {
        return Ok(false);
    }
    let options = match example.inherited {
        Some(count) => CreateOptions::inheriting(count),
        None => CreateOptions::default(),
    };
    let handle = store.create(&example.header, options)?;
    handle.append(&example.events)?;
    handle.close()?;
    Ok(true)
}

fn suggest(name: &str, made: usize) {
    let what = if made > 0 { "These examples were put into" } else { "These examples were there already, in" };
    let safe = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-:+,@".contains(&b));
    let store = if safe { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) };
    // `cargo run`, and with it `cargo sessions`, tells the program so.
    let sessions = if std::env::var_os("CARGO_PKG_NAME").is_some() { "cargo sessions" } else { "sessions" };
    note(&format!(
        "
{what} {name}. Next, you may like to try:

  {sessions} --store {store} show {login}
  {sessions} --store {store} show {login} --type tool/call
  {sessions} --store {store} stat {report}
  {sessions} --store {store} export {login} | head -3
  {sessions} --store {store} sql 'select name, count(*) from session_tool_calls group by name'",
        login = demo_sessions::LOGIN,
        report = demo_sessions::REPORT,
    ));
}
