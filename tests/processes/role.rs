//! [`Role`]: what another process does when it is told.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Barrier;

use session_persistence::{
    CreateOptions, Durability, Error, ErrorKind, OpenOptions, Result, SeqRange, SessionHandle, SessionPersistence,
    export,
};

use super::log::{assert_log, event, events, header, id, list, stat, written_by};
use super::place::{DURABILITIES, Kind, Store};

/// The test below.
pub(crate) const NAME: &str = "role::another_process";

/// In the environment of a process that is told what to do.
pub(crate) const MARK: &str = "SESSIONS_TEST_PEER";

/// The other process; nothing where this is not one.
#[test]
#[ignore = "run by other tests as a process of its own"]
fn another_process() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    let mut role = Role::default();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<_> = line.split(' ').collect();
        say(role.obey(&words));
    }
}

fn say(answer: Result<String>) {
    // In front of the line stands what the test runner says.
    match answer {
        Ok(what) => println!("\ndone: {what}"),
        Err(error) => println!("\n{}", refusal(&error)),
    }
}

/// A refusal in one line.
pub(crate) fn refusal(error: &Error) -> String {
    let holder = match error {
        Error::AlreadyOwned { holder, .. } => holder.process.to_string(),
        _ => "-".to_owned(),
    };
    format!("refused: {} {holder} {}", error.kind(), format!("{error:?}").replace('\n', " "))
}

/// What another process holds.
#[derive(Default)]
pub(crate) struct Role {
    place: Option<(Kind, Durability, PathBuf)>,
    store: Option<Store>,
    handles: HashMap<String, Box<dyn SessionHandle>>,
    /// One that runs on when this process ends.
    program: Option<Child>,
    #[cfg(feature = "sqlite")]
    connection: Option<rusqlite::Connection>,
}

impl Role {
    fn obey(&mut self, words: &[&str]) -> Result<String> {
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        let mut answer = String::new();
        match *words {
            ["at", kind, durability, path] => {
                self.let_go();
                let durability = DURABILITIES.into_iter().find(|d| format!("{d:?}") == durability).unwrap();
                self.place = Some((Kind::named(kind), durability, PathBuf::from(path)));
            }
            ["leave"] => self.let_go(),
            ["umask", mask] => {
                let mask = u32::from_str_radix(mask, 8).unwrap();
                rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask));
            }
            // A program that outlives this one.
            ["spawn"] => {
                let program = self.program.insert(Command::new("sleep").arg("60").spawn().unwrap());
                answer = program.id().to_string();
            }
            // Neither closes nor drops anything.
            ["exit"] => std::process::exit(0),
            ["create", name] => {
                let handle = self.store()?.create(&header(name), CreateOptions::default())?;
                self.handles.insert(name.to_owned(), handle);
            }
            ["open", name] => {
                let handle = self.store()?.open(&id(name), OpenOptions::write())?;
                self.handles.insert(name.to_owned(), handle);
            }
            ["append", name, ..] => self.handles[name].append(&events(name, number(2)..number(3)))?,
            ["each", name, ..] => {
                for seq in number(2)..number(3) {
                    self.handles[name].append(&[event(name, seq)])?;
                }
            }
            ["durably", name, ..] => {
                for seq in number(2)..number(3) {
                    self.handles[name].append(&[event(name, seq)])?;
                    self.handles[name].flush()?;
                }
            }
            ["flush", name] => self.handles[name].flush()?,
            ["close", name] => self.handles[name].close()?,
            ["drop", name] => drop(self.handles.remove(name)),
            ["first", name, _] => self.first(name, number(2))?,
            ["count"] => answer = list(&*self.store()?).len().to_string(),
            ["look", name, _] => self.look(name, number(2))?,
            ["page", name, ..] => {
                let range = SeqRange::new(number(2), Some(number(3)));
                let handle = match self.handles.get(name) {
                    Some(handle) => handle,
                    None => {
                        let handle = self.store()?.open(&id(name), OpenOptions::read())?;
                        self.handles.entry(name.to_owned()).or_insert(handle)
                    }
                };
                answer = handle.read(range)?.len().to_string();
            }
            ["threads", prefix, ..] => {
                let from = words.get(5).map_or(0, |from| from.parse().unwrap());
                self.threads(prefix, number(2)..number(3), from..from + number(4))?;
            }
            ["contend", name, _] => answer = self.contend(name, number(2))?,
            ["fork", name, what] => answer = super::fork::in_child(|| self.forked(name, what)),
            ["forks", name, _] => answer = super::fork::at_work(self, name, number(2))?,
            #[cfg(feature = "sqlite")]
            ["fill", name, ..] => answer = super::wal::fill(self, name, number(2)..number(3))?.to_string(),
            #[cfg(feature = "sqlite")]
            ["hold"] => self.connection = Some(super::wal::hold(&self.place.as_ref().unwrap().2)),
            _ => panic!("{words:?}"),
        }
        Ok(answer)
    }

    /// The store, opened by the first that asks.
    pub(crate) fn store(&mut self) -> Result<Store> {
        if self.store.is_none() {
            let (kind, durability, path) = self.place.as_ref().unwrap();
            self.store = Some(kind.open(path, *durability)?);
        }
        Ok(self.store.clone().unwrap())
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn handle(&self, name: &str) -> &dyn SessionHandle {
        &*self.handles[name]
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.place.as_ref().unwrap().2
    }

    fn let_go(&mut self) {
        self.handles.clear();
        self.store = None;
        #[cfg(feature = "sqlite")]
        drop(self.connection.take());
    }

    /// All that a first visit does: opens, creates, appends, closes, leaves.
    fn first(&mut self, name: &str, count: u64) -> Result<()> {
        let store = self.store()?;
        let handle = store.create(&header(name), CreateOptions::default())?;
        for seq in 0..count {
            handle.append(&[event(name, seq)])?;
        }
        handle.close()?;
        drop((handle, store));
        self.let_go();
        Ok(())
    }

    /// Looks at everything that can be looked at, and checks that it is all there.
    fn look(&mut self, name: &str, count: u64) -> Result<()> {
        let store = self.store()?;
        assert_log(&*store, name, count);
        assert!(list(&*store).iter().any(|snapshot| *snapshot == stat(&*store, name)));
        let mut text = Vec::new();
        assert_eq!(export::jsonl(&*store, &id(name), &mut text)?.events, count);
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count() as u64, count + 1);
        Ok(())
    }

    /// A thread a session, each of which appends its events one by one.
    fn threads(&mut self, prefix: &str, sessions: Range<u64>, seqs: Range<u64>) -> Result<()> {
        let store = self.store()?;
        let barrier = Barrier::new(usize::try_from(sessions.end - sessions.start).unwrap());
        let run = |number: u64| -> Result<()> {
            let name = format!("{prefix}{number}");
            barrier.wait();
            let handle = match store.open(&id(&name), OpenOptions::write()) {
                Err(Error::NotFound { .. }) => store.create(&header(&name), CreateOptions::default())?,
                opened => opened?,
            };
            for seq in seqs.clone() {
                handle.append(&[event(&name, seq)])?;
            }
            handle.close()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = sessions
                .map(|number| {
                    scope.spawn({
                        let run = &run;
                        move || run(number)
                    })
                })
                .collect();
            Error::collect(threads.into_iter().filter_map(|thread| thread.join().unwrap().err()).collect())
        })
    }

    /// Tries again and again to become the writer, and appends an event each time that it does. Tells their seqs.
    fn contend(&mut self, name: &str, tries: u64) -> Result<String> {
        let store = self.store()?;
        let mut stored = Vec::new();
        for _ in 0..tries {
            stored.extend(take_turn(&*store, name, "peer")?.map(|seq| seq.to_string()));
        }
        Ok(stored.join(","))
    }

    /// The store once more, as another part of the same program opens it.
    pub(crate) fn second_store(&self) -> Result<Store> {
        let (kind, durability, path) = self.place.as_ref().unwrap();
        kind.open(path, *durability)
    }

    /// What a forked child does with what it has of its parent.
    pub(crate) fn forked(&mut self, name: &str, what: &str) -> Result<String> {
        match what {
            "nothing" => {}
            "drop" => self.let_go(),
            "close" => self.handles[name].close()?,
            "append-5" => self.handles[name].append(&[event(name, 5)])?,
            "append-8" => self.handles[name].append(&[event(name, 8)])?,
            "flush" => self.handles[name].flush()?,
            "read" => drop(self.handles[name].read(SeqRange::ALL)?),
            "stat" => drop(self.store()?.stat(&id(name))?),
            "list" => drop(self.store()?.list(&session_persistence::ListQuery::default())?),
            "create" => drop(self.store()?.create(&header("of-the-child"), CreateOptions::default())?),
            "open" => drop(self.store()?.open(&id(name), OpenOptions::write())?),
            "remove" => drop(self.store()?.remove(&id(name))?),
            "flush-all" => self.store()?.flush()?,
            // What a child may do: open the store anew.
            "anew" => {
                self.handles.drain().for_each(|(_, handle)| std::mem::forget(handle));
                std::mem::forget(self.store.take());
                return self.look(name, 5).map(|()| "looked".to_owned());
            }
            _ => panic!("{what:?}"),
        }
        Ok("done".to_owned())
    }
}

/// Opens a session for writing, appends what comes next, and closes it: its seq, or nothing where another one writes.
pub(crate) fn take_turn(store: &dyn SessionPersistence, name: &str, writer: &str) -> Result<Option<u64>> {
    let handle = match store.open(&id(name), OpenOptions::write()) {
        Err(refused) if refused.kind() == ErrorKind::AlreadyOwned => return Ok(None),
        opened => opened?,
    };
    let next = handle.read(SeqRange::ALL)?.len() as u64;
    handle.append(&[written_by(name, writer, next)])?;
    handle.close()?;
    Ok(Some(next))
}
