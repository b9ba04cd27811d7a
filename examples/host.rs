//! A small host with a scripted model: it runs turns with tools on a store, is killed in the middle of one, resumes, and
//! prints what the model sees.
//!
//! `cargo run --example host` does that once in a temporary store; `-- --kills 50` kills fifty such hosts over each kind of
//! store, each at another moment, and checks that every one of them can be resumed to a log that keeps the rules.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use session_persistence::session::{
    AppendOptions, InvariantObserver, LifecycleOptions, RouterOptions, Seed, Session, SessionHub, SessionRouter,
};
use session_persistence::{
    Encoding, JsonlOptions, JsonlStore, SessionHeader, SessionId, SessionPersistence, SqliteStore,
};

type Done<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The stores that a host is killed over: one file of SQLite, plain files, and compressed ones.
const STORES: [&str; 3] = ["sessions.db", "sessions", "sessions.zstd"];

fn main() -> Done {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run", store] => run(Path::new(store)),
        ["--kills", count] => kill_many(count.parse()?, this_program),
        [] => {
            let folder = tempfile::tempdir()?;
            let store = folder.path().join(STORES[0]);
            kill_and_resume(&store, this_program, &[(20, Duration::ZERO)], true)
        }
        _ => Err("usage: host [--kills COUNT]".into()),
    }
}

/// What runs a host in another process.
fn this_program(store: &Path) -> Done<Command> {
    let mut program = Command::new(std::env::current_exe()?);
    program.arg("run").arg(store);
    Ok(program)
}

/// Kills so many hosts over each kind of store, each at a random moment, and the next one soon after it has begun to resume.
fn kill_many(count: u64, program: fn(&Path) -> Done<Command>) -> Done {
    for (kind, name) in STORES.iter().enumerate() {
        for round in 0..count {
            let seed = round * STORES.len() as u64 + kind as u64;
            let mut chance = fastrand::Rng::with_seed(seed);
            let first = (chance.u64(0..40), Duration::from_micros(chance.u64(0..4_000)));
            let moments = [first, (chance.u64(0..2), Duration::from_micros(chance.u64(0..20_000)))];
            let folder = tempfile::tempdir()?;
            let store = folder.path().join(name);
            kill_and_resume(&store, program, &moments, false)
                .map_err(|e| format!("{name}, killed by the seed {seed}, {moments:?}: {e}"))?;
        }
        println!("{count} hosts over {name} were killed, and every session was resumed to a log that keeps the rules");
    }
    Ok(())
}

/// Runs a host in another process, kills it, as often as there are moments, and goes on with what is left.
fn kill_and_resume(path: &Path, host: fn(&Path) -> Done<Command>, moments: &[(u64, Duration)], tells: bool) -> Done {
    let mut flushed = 0;
    for moment in moments {
        flushed = flushed.max(kill_at(host(path)?.stdout(Stdio::piped()).spawn()?, *moment)?);
    }
    let store = open(path)?;
    let id = SessionId::new("example")?;
    if store.stat(&id)?.is_none() {
        // Killed before its first events were stored.
        return if flushed == 0 { Ok(()) } else { Err("what was flushed is gone".into()) };
    }
    let hub = SessionHub::new();
    let router = SessionRouter::new(&hub, store.clone())?;
    let resumed = router.resume(&id, LifecycleOptions::default(), |_| Ok(()))?;
    let session = &resumed.session;
    if session.seq() < flushed {
        return Err(format!("{flushed} events were flushed, and {} are stored", session.seq()).into());
    }
    // It looks at the whole log when it comes, and refuses one that breaks a rule.
    let rules = session.observe(Arc::new(InvariantObserver::new()))?;
    if tells {
        println!(
            "killed; {} events are stored, {} of them end the interrupted turn",
            session.seq(),
            resumed.closers.len()
        );
        println!("what the model sees now:");
        for message in &session.derive_messages() {
            println!("  {}", message.as_json().as_str());
        }
    }
    // It goes on as if nothing had happened: the rules veto an event that does not fit.
    Host { hub: &hub, session, tells: false }.turn(next_turn(session))?;
    drop(rules);
    router.close(&id)?;
    let again = router.resume(&id, LifecycleOptions::default(), |_| Ok(()))?;
    if !again.closers.is_empty() {
        return Err(format!("the turn had ended, and was ended again by {:?}", again.closers).into());
    }
    Ok(())
}

/// Kills a process a moment after it has told of so many events; how many events it had flushed.
fn kill_at(mut host: Child, (events, moment): (u64, Duration)) -> Done<u64> {
    let output = host.stdout.take().ok_or("the host has no output")?;
    let (mut told, mut flushed) = (0, 0);
    let mut lines = BufReader::new(output).lines();
    while told < events {
        let line = lines.next().ok_or("the host has ended by itself")??;
        told += u64::from(line.starts_with("appended "));
        if let Some(count) = line.strip_prefix("flushed ") {
            flushed = count.parse()?;
        }
    }
    std::thread::sleep(moment);
    host.kill()?;
    host.wait()?;
    Ok(flushed)
}

fn open(path: &Path) -> Done<Arc<dyn SessionPersistence>> {
    let mut options = JsonlOptions::default();
    options.encoding = match path.extension().and_then(|extension| extension.to_str()) {
        Some("db") => return Ok(Arc::new(SqliteStore::open(path)?)),
        Some("zstd") => Encoding::Zstd,
        _ => Encoding::Raw,
    };
    Ok(Arc::new(JsonlStore::open_with(path, options)?))
}

/// The host: it acquires a session, runs turns without end, and would close it. What is stored when is not its business, but
/// where it must know.
fn run(store: &Path) -> Done {
    let hub = SessionHub::new();
    // A short window, so that what is stored ends anywhere within a turn.
    let options = RouterOptions::default().with_window(Duration::from_millis(8));
    let router = SessionRouter::new_with(&hub, open(store)?, options)?;
    let id = SessionId::new("example")?;
    let session = if router.store().stat(&id)?.is_some() {
        router.resume(&id, LifecycleOptions::default(), |_| Ok(()))?.session
    } else {
        let created_at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        let header = SessionHeader::new(id, created_at)?.with_cwd("/srv/app");
        router.create(header, Seed::None, LifecycleOptions::default(), |_| Ok(()))?
    };
    let _rules = session.observe(Arc::new(InvariantObserver::new()))?;
    let host = Host { hub: &hub, session: &session, tells: true };
    for number in next_turn(&session).. {
        host.turn(number)?;
        host.flush()?;
    }
    Ok(())
}

/// What runs turns on a session.
struct Host<'s> {
    hub: &'s SessionHub,
    session: &'s Session,
    /// Whether it says what it does, to whoever kills it.
    tells: bool,
}

impl Host<'_> {
    /// One turn: a question, an answer with two tool calls, their results, and a last answer.
    fn turn(&self, turn: u64) -> Done {
        let step = |step: u64| json!({ "turn": turn, "step": step });
        self.append("turn/start", json!({ "turn": turn }))?;
        let question = json!({ "content": [text("What is in the folder?")], "source": { "kind": "user" },
            "role": "user", "id": format!("user-{turn}") });
        self.show("user/message", question)?;
        self.append("step/start", step(1))?;
        let calls = ["list", "read"].map(|name| (format!("{name}-{turn}"), name));
        let asked =
            calls.iter().map(|(id, name)| json!({ "type": "tool-call", "id": id, "name": name, "arguments": "{}" }));
        self.answer(turn, 1, asked.collect())?;
        for (id, name) in &calls {
            let call = json!({ "turn": turn, "step": 1, "callId": id, "name": name, "arguments": "{}" });
            self.append("tool/call", call)?;
            // Before the tool does anything: whoever resumes the session has to know that it may have.
            self.flush()?;
            let block = json!({ "type": "tool-result", "toolCallId": id, "content": [text("README.md")] });
            let message = json!({ "source": { "kind": "tool", "callId": id }, "content": [block], "role": "user",
                "id": format!("result-{id}") });
            self.show("tool/result", json!({ "turn": turn, "step": 1, "message": message }))?;
        }
        self.append("step/end", step(1))?;
        self.append("step/start", step(2))?;
        self.answer(turn, 2, vec![text("A README.")])?;
        self.append("step/end", step(2))?;
        self.append("turn/end", json!({ "turn": turn, "reason": { "kind": "completed" } }))
    }

    /// What the scripted model says.
    fn answer(&self, turn: u64, step: u64, content: Vec<Value>) -> Done {
        let source = json!({ "kind": "model", "provider": "script", "model": "script-1" });
        let message =
            json!({ "role": "assistant", "content": content, "source": source, "id": format!("a-{turn}-{step}") });
        self.show("assistant/message", json!({ "turn": turn, "step": step, "message": message, "stream": [] }))
    }

    fn append(&self, event_type: &str, data: Value) -> Done {
        self.session.append(event_type, &data, AppendOptions::default())?;
        self.tell(&format!("appended {event_type}"))
    }

    /// Appends an event that the model sees.
    fn show(&self, event_type: &str, data: Value) -> Done {
        self.session.append(event_type, &data, AppendOptions::surface())?;
        self.tell(&format!("appended {event_type}"))
    }

    fn flush(&self) -> Done {
        self.hub.flush(self.session.id())?;
        self.tell(&format!("flushed {}", self.session.seq()))
    }

    /// Says what happened, and takes a moment, as a model and its tools do.
    fn tell(&self, what: &str) -> Done {
        if self.tells {
            let mut output = std::io::stdout().lock();
            writeln!(output, "{what}")?;
            output.flush()?;
            std::thread::sleep(Duration::from_millis(3));
        }
        Ok(())
    }
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// The number of the turn that comes next.
fn next_turn(session: &Session) -> u64 {
    let turns = session.snapshot(0..u64::MAX);
    1 + turns.iter().filter(|event| event.event_type() == "turn/start").count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the environment of a host that is to be killed: its store.
    const STORE: &str = "SESSIONS_TEST_HOST";

    /// The host that is killed; nothing where this process is not one.
    #[test]
    fn a_host() {
        if let Some(store) = std::env::var_os(STORE) {
            run(Path::new(&store)).unwrap();
        }
    }

    fn this_test(store: &Path) -> Done<Command> {
        let mut program = Command::new(std::env::current_exe()?);
        program.args(["--exact", "tests::a_host", "--nocapture"]).env(STORE, store);
        Ok(program)
    }

    #[test]
    fn hosts_that_are_killed_at_random_moments_resume_to_logs_that_keep_the_rules() {
        if std::env::var_os(STORE).is_none() {
            let kills = if std::env::var_os("SESSIONS_FULL").is_some() { 50 } else { 5 };
            kill_many(kills, this_test).unwrap();
        }
    }
}
