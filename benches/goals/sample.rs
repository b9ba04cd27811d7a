//! Lifelike events, the same at every run.

use std::path::PathBuf;

use session_persistence::{Json, SessionEvent, SessionHeader, SessionId, SurfaceOp, text};

const SEED: u64 = 0x5e55_1013;

const WORDS: [&str; 24] = [
    "the",
    "file",
    "src/log/event.rs",
    "returns",
    "\\\"quoted\\\"",
    "a",
    "list",
    "of",
    "entries",
    "and",
    "then\\n",
    "calls",
    "append()",
    "which",
    "fails",
    "with",
    "error",
    "E0502",
    "größer",
    "because",
    "`self`",
    "borrowed\\n    ",
    "at",
    "line",
];

/// The folder for what a bench writes: on the disk that the crate is built on, for /tmp may be memory.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// What takes long to make is kept from one run to the next.
pub(crate) fn kept(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kept-{}-{name}", env!("CARGO_PKG_VERSION")))
}

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::new(name).expect("an id")
}

pub(crate) fn header(name: &str) -> SessionHeader {
    let header = SessionHeader::new(id(name), 1_700_000_000_000).expect("a header");
    header.with_cwd("/home/user/projects/example").with_agent_preset("standard")
}

/// The events of a log: between 60 bytes and 50 KB, about 1 KB on average. Where the variable `SESSIONS_SAMPLES` names a
/// folder of logs, `*.jsonl`, theirs in turn.
pub(crate) fn events(count: u64) -> Vec<SessionEvent> {
    match templates() {
        found if !found.is_empty() => (0..count).map(|seq| again(&found[seq as usize % found.len()], seq)).collect(),
        _ => {
            let mut random = fastrand::Rng::with_seed(SEED);
            (0..count).map(|seq| event(&mut random, seq)).collect()
        }
    }
}

/// Events from `seq` on of 1 KB each, give or take a third: for what is timed one by one.
pub(crate) fn kilobytes(seq: u64, count: u64) -> Vec<SessionEvent> {
    let mut random = fastrand::Rng::with_seed(SEED ^ seq);
    let sized = |seq| {
        let size = random.usize(600..1200);
        assistant(&mut random, seq, size)
    };
    (seq..seq + count).map(sized).collect()
}

/// The bytes of the events' lines.
pub(crate) fn bytes(events: &[SessionEvent]) -> u64 {
    events.iter().map(|event| event.to_line().len() as u64 + 1).sum()
}

fn templates() -> Vec<SessionEvent> {
    let Some(folder) = std::env::var_os("SESSIONS_SAMPLES") else { return Vec::new() };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut logs: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    logs.sort();
    let texts: Vec<_> = logs.iter().filter_map(|path| std::fs::read(path).ok()).collect();
    let lines = texts.iter().flat_map(|log| log.split(|byte| *byte == b'\n').skip(1));
    lines.filter_map(|line| text::parse_event(line).ok()).collect()
}

fn again(template: &SessionEvent, seq: u64) -> SessionEvent {
    let time = 1_700_000_000_000 + seq as i64 * 7;
    SessionEvent::new(template.event_type(), seq, time, template.data().clone()).expect("an event")
}

fn event(random: &mut fastrand::Rng, seq: u64) -> SessionEvent {
    let turn = 1 + seq / 12;
    let place = format!(r#"{{"turn":{turn},"step":{}}}"#, 1 + seq % 12 / 5);
    match seq % 12 {
        0 => made("turn/start", seq, &format!(r#"{{"turn":{turn}}}"#)),
        2 | 7 => made("step/start", seq, &place),
        6 | 10 => made("step/end", seq, &place),
        11 => made("turn/end", seq, &format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#)),
        1 => {
            let size = random.usize(80..700);
            let content = prose(random, size);
            let data = format!(
                r#"{{"content":[{{"type":"text","text":"{content}"}}],"source":{{"kind":"user"}},"role":"user","id":"u{seq}"}}"#
            );
            shown(made("user/message", seq, &data))
        }
        3 | 8 => {
            let size = random.usize(300..2800);
            assistant(random, seq, size)
        }
        4 => {
            let arguments = prose(random, 160);
            let data = format!(
                r#"{{"turn":{turn},"step":1,"callId":"call-{seq}","name":"read_file","arguments":{{"path":"{arguments}"}}}}"#
            );
            made("tool/call", seq, &data)
        }
        _ => {
            let size = match random.u32(0..100) {
                0 => random.usize(20_000..50_000),
                1..10 => random.usize(5_000..12_000),
                _ => random.usize(400..3_500),
            };
            let result = prose(random, size);
            let data = format!(
                r#"{{"turn":{turn},"step":1,"message":{{"role":"user","id":"t{seq}","content":[{{"type":"tool-result","toolCallId":"call-{seq}","content":[{{"type":"text","text":"{result}"}}],"isError":false}}],"source":{{"kind":"tool","callId":"call-{seq}"}}}}}}"#
            );
            shown(made("tool/result", seq, &data))
        }
    }
}

fn assistant(random: &mut fastrand::Rng, seq: u64, size: usize) -> SessionEvent {
    let text = prose(random, size);
    let data = format!(
        r#"{{"turn":1,"step":1,"message":{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],"source":{{"kind":"model","provider":"example","model":"example-1"}},"id":"a{seq}"}},"usage":{{"inputTokens":{},"outputTokens":{}}}}}"#,
        random.u32(1000..90_000),
        size / 4
    );
    shown(made("assistant/message", seq, &data))
}

fn made(event_type: &str, seq: u64, data: &str) -> SessionEvent {
    let data = Json::parse(data).expect("JSON");
    SessionEvent::new(event_type, seq, 1_700_000_000_000 + seq as i64 * 7, data).expect("an event")
}

fn shown(event: SessionEvent) -> SessionEvent {
    event.with_surface_op(SurfaceOp::Append).expect("an event")
}

fn prose(random: &mut fastrand::Rng, size: usize) -> String {
    let mut text = String::with_capacity(size + 20);
    while text.len() < size {
        text.push_str(WORDS[random.usize(..WORDS.len())]);
        text.push(' ');
    }
    text
}
