//! [`Example`]: lifelike sessions, the same ones on every run apart from the clock.

use serde::Serialize;

use crate::log::payload::{
    Content, EndSeed, Message, Source, Step, StepMessage, Title, ToolCall, ToolError, TurnEnd, TurnEndReason,
    TurnStart, Usage,
};
use crate::log::{InvalidRecord, Origin, SessionEvent, SessionHeader, SessionId, SurfaceOp};

pub(super) const LOGIN: &str = "fix-login-loop";
pub(super) const REPORT: &str = "weekly-report";

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// One example.
pub(super) struct Example {
    pub(super) header: SessionHeader,
    pub(super) inherited: Option<u64>,
    pub(super) events: Vec<SessionEvent>,
}

/// All examples as of `now`, the most recently active last.
pub(super) fn all(now: i64) -> Result<Vec<Example>, InvalidRecord> {
    let login = login(now - 26 * HOUR)?;
    let limit = limit_attempts(&login, now - 5 * HOUR)?;
    let review = review(now - 4 * HOUR)?;
    Ok(vec![login, translate(now - 9 * HOUR)?, limit, review, deploy(now - 38 * MINUTE)?, report(now - 3 * MINUTE)?])
}

/// Two turns with tools: a fault is found, mended and tested.
fn login(start: i64) -> Result<Example, InvalidRecord> {
    let mut s = Script::new(header(LOGIN, start)?.with_cwd("/srv/tidepool"), start);
    s.turn_start()?;
    s.step_start()?;
    s.system("You work in the repository of Tidepool, a booking site for tide tables and harbour tours. Run the tests before you say that something works.")?;
    s.user("Since yesterday people are sent back to the login page right after logging in. Not everybody, I can't reproduce it here. Can you find out why?")?;
    s.title("Login sends people back to the login page")?;
    s.assistant(
        "Sent back right after a login that worked: the session cookie is either not stored or not accepted. I'll look at where it is set.",
        &[("grep", r#"{"pattern":"set_cookie","path":"src"}"#)],
        (1480, 61),
    )?;
    s.call_and_result(
        "src/auth/cookie.rs:31:    response.set_cookie(session_cookie(&session));\nsrc/auth/cookie.rs:58:fn session_cookie(session: &Session) -> Cookie {",
    )?;
    s.step_end()?;
    s.step_start()?;
    s.assistant("", &[("read_file", r#"{"path":"src/auth/cookie.rs","from":52,"lines":22}"#)], (1655, 38))?;
    s.call_and_result(
        "fn session_cookie(session: &Session) -> Cookie {\n    Cookie::build(\"sid\", session.token())\n        .domain(\"www.tidepool.example\")\n        .secure(true)\n        .same_site(SameSite::Strict)\n        .max_age(session.lifetime())\n}",
    )?;
    s.step_end()?;
    s.step_start()?;
    s.assistant(
        "Two things stand out:\n1. The domain is www.tidepool.example. Whoever types the address without www never gets the cookie back.\n2. SameSite=Strict drops it for everybody who comes from a link in the confirmation mail.\nThe second line is from yesterday, which fits. Shall I change it to Lax, and leave the domain out?",
        &[],
        (1981, 94),
    )?;
    s.step_end()?;
    s.turn_end(TurnEndReason::Completed)?;

    s.pause(11 * MINUTE);
    s.turn_start()?;
    s.step_start()?;
    s.user("Yes, both. And a test, so that it stays that way.")?;
    s.assistant(
        "I'll change the cookie and add a test for each of the two cases.",
        &[
            ("edit_file", r#"{"path":"src/auth/cookie.rs","replace":".domain(\"www.tidepool.example\")\n","with":""}"#),
            ("edit_file", r#"{"path":"src/auth/cookie.rs","replace":"SameSite::Strict","with":"SameSite::Lax"}"#),
        ],
        (2230, 143),
    )?;
    s.call_and_result("1 replacement in src/auth/cookie.rs")?;
    s.call_and_result("1 replacement in src/auth/cookie.rs")?;
    s.step_end()?;
    s.step_start()?;
    s.assistant("", &[("run", r#"{"command":"cargo test auth"}"#)], (2467, 29))?;
    s.call_and_result("running 14 tests\n..............\ntest result: ok. 14 passed; 0 failed; finished in 0.41s")?;
    s.step_end()?;
    s.step_start()?;
    s.assistant(
        "Done. The cookie belongs to the host that sets it and survives a link from a mail; two new tests hold it there. All 14 tests of the login pass.",
        &[],
        (2590, 58),
    )?;
    s.step_end()?;
    s.turn_end(TurnEndReason::Completed)?;
    Ok(s.end())
}

/// A fork: it starts with the first turn of another session and goes elsewhere.
fn limit_attempts(parent: &Example, start: i64) -> Result<Example, InvalidRecord> {
    let first_turn = parent.events.iter().position(|e| e.event_type() == "turn/end").map_or(0, |last| last + 1);
    let header = header("limit-login-attempts", start)?
        .with_cwd("/srv/tidepool")
        .with_parent_session(parent.header.id().as_str())
        .with_seed();
    let mut s = Script::new(header, start);
    s.events = parent.events[..first_turn].to_vec();
    s.inherited = Some(first_turn as u64);
    s.turn = 1;
    s.push("session/end-seed", &EndSeed { inherited: true })?;
    s.title("Limit the number of login attempts")?;
    s.turn_start()?;
    s.step_start()?;
    s.user(
        "Leave the cookie for now. While you are in there: how many attempts does a login have before we slow it down?",
    )?;
    s.assistant("", &[("grep", r#"{"pattern":"attempt","path":"src/auth"}"#)], (2105, 33))?;
    s.call_and_result("(no matches)")?;
    s.step_end()?;
    s.step_start()?;
    s.assistant(
        "As many as they like: nothing in src/auth counts attempts. I would allow five in ten minutes for each account and address, and answer the sixth with a wait that doubles.",
        &[],
        (2210, 66),
    )?;
    s.step_end()?;
    s.turn_end(TurnEndReason::Completed)?;
    Ok(s.end())
}

/// What a subagent did for another session.
fn review(start: i64) -> Result<Example, InvalidRecord> {
    let header = header("review-login-change", start)?
        .with_cwd("/srv/tidepool")
        .with_parent_session(LOGIN)
        .with_origin(Origin::Subagent)
        .with_delegation_depth(1)
        .with_agent_preset("reviewer");
    let mut s = Script::new(header, start);
    s.turn_start()?;
    s.step_start()?;
    s.user("Review the change to src/auth/cookie.rs. Look for what it makes possible that was not possible before.")?;
    s.assistant("", &[("run", r#"{"command":"git diff HEAD~1 -- src/auth"}"#)], (890, 27))?;
    s.call_and_result(
        "-        .domain(\"www.tidepool.example\")\n-        .same_site(SameSite::Strict)\n+        .same_site(SameSite::Lax)",
    )?;
    s.step_end()?;
    s.step_start()?;
    s.assistant(
        "Lax sends the cookie with links from elsewhere, but not with forms that post. No route that changes something answers to GET, so nothing is opened up. I found no reason against it.",
        &[],
        (1033, 71),
    )?;
    s.step_end()?;
    s.turn_end(TurnEndReason::Completed)?;
    Ok(s.end())
}

/// A short talk without tools, in several scripts.
fn translate(start: i64) -> Result<Example, InvalidRecord> {
    let mut s = Script::new(header("translate-welcome", start)?.with_cwd("/home/mika/notes"), start);
    s.turn_start()?;
    s.step_start()?;
    s.user("Say “The harbour wakes before the town does.” in Japanese, Greek and Finnish, please 🙂")?;
    s.title("A sentence in three languages")?;
    s.assistant(
        "日本語: 港は町より先に目を覚ます。\nΕλληνικά: Το λιμάνι ξυπνά πριν από την πόλη.\nSuomi: Satama herää ennen kaupunkia.",
        &[],
        (212, 74),
    )?;
    s.step_end()?;
    s.turn_end(TurnEndReason::Completed)?;
    Ok(s.end())
}

/// A tool that fails, and an event of another program that readers may pass over.
fn deploy(start: i64) -> Result<Example, InvalidRecord> {
    #[derive(Serialize)]
    struct Gauge {
        region: &'static str,
        healthy: u32,
        of: u32,
    }
    let mut s = Script::new(header("deploy-check", start)?.with_cwd("/srv/tidepool/ops"), start);
    s.turn_start()?;
    s.step_start()?;
    s.user("Is the new release up everywhere?")?;
    s.title("Is the release up everywhere?")?;
    s.assistant("", &[("run", r#"{"command":"fleet status --release latest"}"#)], (640, 25))?;
    s.failed_call("fleet: no answer from eu-north within 10 s", "CommandFailed", "EXIT_1")?;
    s.step_end()?;
    let gauge = s.event("acme/fleet-gauge", &Gauge { region: "eu-north", healthy: 11, of: 12 })?.into_ignorable();
    s.events.push(gauge);
    s.step_start()?;
    s.assistant("", &[("run", r#"{"command":"fleet status --release latest --wait 60"}"#)], (802, 31))?;
    s.call_and_result("eu-north  12/12\neu-south  12/12\nus-east    8/8")?;
    s.step_end()?;
    s.step_start()?;
    s.assistant(
        "Yes, on all 32 machines. eu-north took a while: one of its twelve was still restarting when I first asked.",
        &[],
        (911, 42),
    )?;
    s.step_end()?;
    s.turn_end(TurnEndReason::Completed)?;
    Ok(s.end())
}

/// Interrupted: the process ended while a tool was running.
fn report(start: i64) -> Result<Example, InvalidRecord> {
    let mut s = Script::new(header(REPORT, start)?.with_cwd("/home/mika/reports"), start);
    s.turn_start()?;
    s.step_start()?;
    s.user("Make the report of last week's bookings: totals by harbour, and what changed against the week before.")?;
    s.title("Report of last week's bookings")?;
    s.assistant(
        "I'll take both weeks from the database in one query.",
        &[(
            "query",
            r#"{"sql":"select harbour, week, sum(seats) from bookings where week in (25, 26) group by 1, 2"}"#,
        )],
        (1120, 57),
    )?;
    s.call()?;
    Ok(s.end())
}

fn header(id: &str, created: i64) -> Result<SessionHeader, InvalidRecord> {
    let id = SessionId::new(id).map_err(|e| InvalidRecord::new(e.to_string()))?;
    SessionHeader::new(id, created.unsigned_abs())
}

/// Writes a session as a host would, with a clock of its own.
struct Script {
    header: SessionHeader,
    inherited: Option<u64>,
    events: Vec<SessionEvent>,
    clock: i64,
    turn: u64,
    step: u64,
    /// Calls that were asked for and not made yet: id, name, arguments.
    asked: Vec<(String, String, String)>,
    calls: u64,
}

impl Script {
    fn new(header: SessionHeader, start: i64) -> Self {
        Self {
            header,
            inherited: None,
            events: Vec::new(),
            clock: start,
            turn: 0,
            step: 0,
            asked: Vec::new(),
            calls: 0,
        }
    }

    fn end(self) -> Example {
        Example { header: self.header, inherited: self.inherited, events: self.events }
    }

    fn pause(&mut self, ms: i64) {
        self.clock += ms;
    }

    fn event<T: Serialize>(&mut self, event_type: &str, data: &T) -> Result<SessionEvent, InvalidRecord> {
        let seq = self.events.len() as u64;
        // Steps that look like work and not like a metronome, and are the same on every run.
        self.clock += 40 + (seq as i64 * 7919) % 1900;
        SessionEvent::of(event_type, seq, self.clock, data)
    }

    fn push<T: Serialize>(&mut self, event_type: &str, data: &T) -> Result<(), InvalidRecord> {
        let event = self.event(event_type, data)?;
        self.events.push(event);
        Ok(())
    }

    fn show<T: Serialize>(&mut self, event_type: &str, data: &T) -> Result<(), InvalidRecord> {
        let event = self.event(event_type, data)?.with_surface_op(SurfaceOp::Append)?;
        self.events.push(event);
        Ok(())
    }

    fn turn_start(&mut self) -> Result<(), InvalidRecord> {
        self.turn += 1;
        self.step = 0;
        self.push("turn/start", &TurnStart { turn: self.turn })
    }

    fn turn_end(&mut self, reason: TurnEndReason) -> Result<(), InvalidRecord> {
        self.push("turn/end", &TurnEnd { turn: self.turn, reason })
    }

    fn step_start(&mut self) -> Result<(), InvalidRecord> {
        self.step += 1;
        self.push("step/start", &Step { turn: self.turn, step: self.step })
    }

    fn step_end(&mut self) -> Result<(), InvalidRecord> {
        self.push("step/end", &Step { turn: self.turn, step: self.step })
    }

    fn message(&self, role: &str, content: Vec<Content>, source: Source) -> Message {
        Message { id: format!("{}-{}", self.header.id(), self.events.len()), role: role.to_owned(), content, source }
    }

    fn in_step(&self, message: Message) -> StepMessage {
        StepMessage { turn: self.turn, step: self.step, message, usage: None, error: None }
    }

    fn user(&mut self, text: &str) -> Result<(), InvalidRecord> {
        let message = self.message("user", vec![said(text)], from("user"));
        self.show("user/message", &message)
    }

    fn system(&mut self, text: &str) -> Result<(), InvalidRecord> {
        #[derive(Serialize)]
        struct Prompt {
            turn: u64,
            step: u64,
            message: Of,
        }
        #[derive(Serialize)]
        struct Of {
            role: &'static str,
            content: Vec<Content>,
            source: Plugin,
            id: String,
        }
        #[derive(Serialize)]
        struct Plugin {
            kind: &'static str,
            plugin: &'static str,
        }
        let source = Plugin { kind: "plugin", plugin: "prompt" };
        let id = format!("{}-{}", self.header.id(), self.events.len());
        let message = Of { role: "system", content: vec![said(text)], source, id };
        self.show("system/message", &Prompt { turn: self.turn, step: self.step, message })
    }

    fn title(&mut self, title: &str) -> Result<(), InvalidRecord> {
        let title = Title { title: title.to_owned(), message_seqs: Vec::new(), source: from("user") };
        self.push("session/title", &title)
    }

    fn assistant(&mut self, text: &str, calls: &[(&str, &str)], tokens: (u64, u64)) -> Result<(), InvalidRecord> {
        #[derive(Serialize)]
        struct Answer {
            turn: u64,
            step: u64,
            message: Message,
            usage: Usage,
            stream: Vec<()>,
        }
        let mut content = Vec::new();
        if !text.is_empty() {
            content.push(said(text));
        }
        for (name, arguments) in calls {
            self.calls += 1;
            let call = (format!("call-{}-{}", self.turn, self.calls), (*name).to_owned(), (*arguments).to_owned());
            content.push(Content::ToolCall { id: call.0.clone(), name: call.1.clone(), arguments: call.2.clone() });
            self.asked.push(call);
        }
        let model = Source { provider: Some("example".into()), model: Some("tern-2".into()), ..from("model") };
        let message = self.message("assistant", content, model);
        let usage = Usage { input_tokens: tokens.0, output_tokens: tokens.1, ..Usage::default() };
        self.show("assistant/message", &Answer { turn: self.turn, step: self.step, message, usage, stream: Vec::new() })
    }

    /// Makes the next call that was asked for; gives its id.
    fn call(&mut self) -> Result<String, InvalidRecord> {
        let none = || InvalidRecord::new("no call was asked for");
        let (call_id, name, arguments) = (!self.asked.is_empty()).then(|| self.asked.remove(0)).ok_or_else(none)?;
        let call = ToolCall { turn: self.turn, step: self.step, call_id: call_id.clone(), name, arguments };
        self.push("tool/call", &call)?;
        Ok(call_id)
    }

    fn call_and_result(&mut self, text: &str) -> Result<(), InvalidRecord> {
        let call = self.call()?;
        self.result(call, text, None)
    }

    fn failed_call(&mut self, text: &str, name: &str, code: &str) -> Result<(), InvalidRecord> {
        let call = self.call()?;
        self.result(call, text, Some(ToolError { name: name.to_owned(), code: code.to_owned() }))
    }

    fn result(&mut self, call: String, text: &str, error: Option<ToolError>) -> Result<(), InvalidRecord> {
        let is_error = error.is_some();
        let block = Content::ToolResult { tool_call_id: call.clone(), content: vec![said(text)], is_error };
        let message = self.message("user", vec![block], Source { call_id: Some(call), ..from("tool") });
        self.show("tool/result", &StepMessage { error, ..self.in_step(message) })
    }
}

fn said(text: &str) -> Content {
    Content::Text { text: text.to_owned() }
}

fn from(kind: &str) -> Source {
    Source { kind: kind.to_owned(), ..Source::default() }
}
