//! [`Folder`]: a folder of its own to run the command in.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use tempfile::TempDir;

/// A store of each kind, as its place is named where it is made.
pub(crate) const STORES: [&str; 3] = ["sqlite:sessions.db", "jsonl+raw:root", "jsonl:root"];

/// The search index beside a store of [`STORES`].
pub(crate) fn index_of(store: &str) -> &'static str {
    if store.ends_with("root") { "root/.sessions.index" } else { "sessions.db.index" }
}

/// A folder of its own, in which the command runs with nothing from outside.
pub(crate) struct Folder(TempDir);

/// What a run of the command gave.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file");
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).expect("a file")).expect("text")
    }

    /// A folder with a store of one session of `count` events.
    pub(crate) fn with_session(id: &str, count: u64) -> Self {
        let folder = Self::new();
        folder.write("log.jsonl", log(id, count));
        folder.run(&["import", "log.jsonl"]).done();
        std::fs::remove_file(folder.path("log.jsonl")).expect("removed");
        folder
    }

    pub(crate) fn command(&self) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_sessions"));
        command
            .current_dir(self.0.path())
            .env_remove("SESSIONS_STORE")
            .env_remove("SESSIONS_INDEX")
            .env_remove("CARGO_PKG_NAME")
            .env("TZ", "UTC")
            .env("HOME", "/nonexistent");
        command
    }

    /// The command in a process of its own, whose output is read while it runs.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.process(env!("CARGO_BIN_EXE_sessions"));
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the command")
    }

    /// What a person sees of a run: the output, and what is written beside it, as they come.
    pub(crate) fn seen(&self, arguments: &[&str]) -> String {
        let (mut seen, out) = std::io::pipe().expect("a pipe");
        let mut command = self.process(env!("CARGO_BIN_EXE_sessions"));
        command.args(arguments).stderr(out.try_clone().expect("its other end")).stdout(out);
        let mut child = command.spawn().expect("the command");
        // Its ends of the pipe would keep it open.
        drop(command);
        let mut text = String::new();
        seen.read_to_string(&mut text).expect("text");
        child.wait().expect("its end");
        text
    }

    /// A program in a process of its own, with the command among those that a shell finds.
    pub(crate) fn process(&self, program: &str) -> std::process::Command {
        let own = Path::new(env!("CARGO_BIN_EXE_sessions")).parent().expect("its folder");
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(own.to_owned()).chain(std::env::split_paths(&paths));
        let mut command = std::process::Command::new(program);
        command
            .current_dir(self.0.path())
            .env_remove("SESSIONS_STORE")
            .env_remove("SESSIONS_INDEX")
            .env("TZ", "UTC")
            .env("PATH", std::env::join_paths(paths).expect("paths"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.command().args(arguments))
    }

    /// What all pages of an answer hold together, in their order and without the lines of cursors.
    pub(crate) fn pages(&self, arguments: &[&str]) -> Vec<serde_json::Map<String, serde_json::Value>> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let more = cursor.as_deref().map(|cursor| ["--cursor", cursor]);
            let page = objects(&self.run(&[arguments, more.as_ref().map_or(&[], |more| &more[..])].concat()).done());
            cursor = page.last().and_then(|last| Some(last.get("cursor")?.as_str()?.to_owned()));
            let is_cursor = |line: &serde_json::Map<_, _>| line.contains_key("cursor");
            all.extend(page.into_iter().filter(|line| !is_cursor(line)));
            if cursor.is_none() {
                return all;
            }
            // What goes by the present is another time on the next page.
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// The names and the content of all files.
    pub(crate) fn content(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn add(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    add(&path, files);
                } else {
                    let content = std::fs::read(&path).expect("a file");
                    files.insert(path, content);
                }
            }
        }
        let mut files = BTreeMap::new();
        add(self.0.path(), &mut files);
        files
    }
}

impl Run {
    pub(crate) fn of(command: &mut assert_cmd::Command) -> Self {
        let output = command.output().expect("the command");
        Self {
            code: output.status.code().expect("an exit code"),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// The standard output of a run that did what it was asked for.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, 0, "{}", self.err);
        self.out
    }

    /// Checks that it failed with one line that tells the kind and what it is about.
    #[track_caller]
    pub(crate) fn failed(self, kind: &str, about: &[&str]) {
        assert_eq!(self.code, 1, "{}", self.err);
        let lines: Vec<_> = self.err.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with(&format!("sessions: {kind}: ")), "{}", self.err);
        for text in about {
            assert!(self.err.contains(text), "{text:?} is not in {}", self.err);
        }
    }

    /// Checks that the command line was refused.
    #[track_caller]
    pub(crate) fn misused(self, about: &str) {
        assert_eq!(self.code, 2, "{}", self.err);
        assert!(self.err.contains(about), "{about:?} is not in {}", self.err);
        assert!(self.out.is_empty(), "{}", self.out);
    }
}

pub(crate) fn header(id: &str) -> String {
    format!(
        r#"{{"type":"session","version":3,"id":"{id}","createdAt":1700000000000,"isSeeded":false,"delegationDepth":0}}"#
    ) + "\n"
}

pub(crate) fn event(event_type: &str, seq: u64, data: &str) -> String {
    let time = 1_700_000_000_000 + seq * 1000;
    format!("{{\"type\":\"{event_type}\",\"seq\":{seq},\"time\":{time},\"data\":{data}}}\n")
}

/// A message of a person, as a part of what the model sees.
pub(crate) fn says(seq: u64, text: &str) -> String {
    let data = format!(
        r#"{{"id":"m{seq}","role":"user","content":[{{"type":"text","text":"{text}"}}],"source":{{"kind":"user"}}}}"#
    );
    event("user/message", seq, &data).replace("}\n", ",\"surfaceOp\":\"append\"}\n")
}

/// A log of messages of a person.
pub(crate) fn talk(id: &str, texts: &[impl AsRef<str>]) -> String {
    header(id) + &(0..).zip(texts).map(|(seq, text)| says(seq, text.as_ref())).collect::<String>()
}

/// Nothing in a text drives a terminal.
#[track_caller]
pub(crate) fn assert_harmless(text: &str) {
    let driving = text.chars().find(|c| (c.is_control() && !"\n\t".contains(*c)) || *c == '\u{202e}');
    assert_eq!(driving, None, "{text:?}");
}

/// A log of `count` events: turns that start and end.
pub(crate) fn log(id: &str, count: u64) -> String {
    let events = (0..count).map(|seq| match seq % 2 {
        0 => event("turn/start", seq, &format!(r#"{{"turn":{}}}"#, seq / 2 + 1)),
        _ => event("turn/end", seq, &format!(r#"{{"turn":{},"reason":{{"kind":"completed"}}}}"#, seq / 2 + 1)),
    });
    header(id) + &events.collect::<String>()
}

/// The lines of a text, each as a JSON object.
pub(crate) fn objects(text: &str) -> Vec<serde_json::Map<String, serde_json::Value>> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}
