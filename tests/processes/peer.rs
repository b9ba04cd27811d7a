//! [`Peer`]: another process, as the one that tells it what to do sees it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::place::Place;
use super::role;

/// How long an answer may take before the other process counts as hung.
const PATIENCE: Duration = Duration::from_secs(300);

/// Another process, killed when it is dropped.
pub(crate) struct Peer {
    process: Child,
    input: Option<ChildStdin>,
    answers: Receiver<Answer>,
}

/// What another process says to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Done(String),
    Refused(Refusal),
}

/// An error in another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The kind, as in `AlreadyOwned`.
    pub(crate) kind: String,
    /// The process that is named as the holder.
    pub(crate) holder: Option<u32>,
    pub(crate) text: String,
}

impl Answer {
    /// What was done; panics where it was refused.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        match self {
            Self::Done(what) => what,
            Self::Refused(refusal) => panic!("refused: {refusal:?}"),
        }
    }

    /// Why it was refused; panics where it was done.
    #[track_caller]
    pub(crate) fn refused(self) -> Refusal {
        match self {
            Self::Done(what) => panic!("done, where a refusal is due: {what:?}"),
            Self::Refused(refusal) => refusal,
        }
    }

    fn of(line: &str) -> Option<Self> {
        if let Some(what) = line.strip_prefix("done: ") {
            return Some(Self::Done(what.to_owned()));
        }
        let (kind, rest) = line.strip_prefix("refused: ")?.split_once(' ')?;
        let (holder, text) = rest.split_once(' ')?;
        Some(Self::Refused(Refusal { kind: kind.to_owned(), holder: holder.parse().ok(), text: text.to_owned() }))
    }
}

impl Peer {
    pub(crate) fn start() -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", role::NAME, "--nocapture"])
            .env(role::MARK, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (answered, answers) = channel();
        std::thread::spawn(move || {
            let answers = output.lines().map_while(Result::ok).filter_map(|line| Answer::of(&line));
            // Nobody listens any more once the peer is dropped.
            answers.map(|answer| answered.send(answer)).take_while(Result::is_ok).for_each(drop);
        });
        Self { process, input, answers }
    }

    /// A process that works at `place`.
    pub(crate) fn at(place: &Place) -> Self {
        let mut peer = Self::start();
        peer.go_to(place);
        peer
    }

    /// Lets go of everything and works at `place` from now on.
    pub(crate) fn go_to(&mut self, place: &Place) {
        self.tell(&format!("at {:?} {:?} {}", place.kind, place.durability, place.path().display())).done();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Says a command and waits for the answer.
    #[track_caller]
    pub(crate) fn tell(&mut self, command: &str) -> Answer {
        self.send(command);
        self.answer()
    }

    /// Says a command. Said to several it is a barrier: they all start now.
    #[track_caller]
    pub(crate) fn send(&mut self, command: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{command}").and_then(|()| input.flush()).unwrap_or_else(|e| panic!("{command:?}: {e}"));
    }

    /// The answer to the oldest command that has none yet.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> Answer {
        match self.answers.recv_timeout(PATIENCE) {
            Ok(answer) => answer,
            Err(e) => panic!("process {} does not answer: {e}; its end: {:?}", self.pid(), self.process.try_wait()),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Stops it, and returns when it stands still.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let state = format!("/proc/{}/stat", self.pid());
        // Elsewhere than on Linux there is no such file, and the signal is trusted.
        while std::fs::read_to_string(&state).is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" T")) {
            std::thread::yield_now();
        }
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it and returns when it is gone.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits for an end that was asked for otherwise.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }

    /// Lets it come to its end by itself: what it holds it drops.
    pub(crate) fn end(mut self) {
        drop(self.input.take());
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already, and is waited for so that no zombie stays.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
