//! `sessions import`.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::Failure;
use super::list::counted;
use super::place::Place;
use super::screen::{AnsiColor, DIM, Screen, color, note, visible};
use super::unmade::Unmade;
use crate::export::{self, ImportError, ImportOptions, Importable, Imported};
use crate::seam::SessionPersistence;

/// Import log files, ZIP exports, DSH folders and databases, each session whole or not at all
#[derive(Args)]
#[command(after_help = "\
A session that is stored already is never replaced: the same log changes nothing, a longer one is
added with --extend, any other is refused. What is imported is told by its content, and only read.
An import that was stopped is finished by the same command. The store is made where there is none.

Examples:
  sessions import logs/*.jsonl
  sessions import --extend today.jsonl
  sessions import archive.zip ~/.dsh/sessions ~/.dsh/sessions.db
  sessions --store a.db export x | sessions --store b.db import -")]
pub(super) struct Import {
    /// Log files, ZIP exports of ours, DSH folders and databases; - is a log on the standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Let a log that goes on where the stored one ends add to it
    #[arg(long)]
    extend: bool,
}

impl Import {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        if let Some(part) = self.paths.iter().find(|path| *path != Path::new("-") && place.owns(path)) {
            return Err(Failure::Usage(format!(
                "{} is a part of the store itself: it is no source for it",
                name(part)
            )));
        }
        let options = options(self.extend);
        let mut store: Option<Box<dyn SessionPersistence + '_>> = None;
        let mut outcomes = Outcomes::new(screen, "log");
        for path in &self.paths {
            let name = name(path);
            let found = if path == Path::new("-") { Ok(None) } else { Importable::find(path).map(Some) };
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    outcomes.tell(&name, Err(error));
                    continue;
                }
            };
            let store = match &mut store {
                Some(store) => &**store,
                none => &**none.insert(Unmade::open(place)?),
            };
            match found {
                Some(found) => {
                    found.import(store, options, &mut |outcome| outcomes.tell(&name, outcome));
                }
                None => outcomes.tell(&name, export::import_reader(store, &name, io::stdin().lock(), options)),
            }
        }
        let was_looked_at = store.is_some();
        drop(store);
        // Of a source without sessions as well.
        if was_looked_at && !outcomes.has_failed() && !place.is_there() {
            place.open_or_create()?;
        }
        outcomes.finish()
    }
}

pub(super) fn options(extend: bool) -> ImportOptions {
    if extend { ImportOptions::extending() } else { ImportOptions::default() }
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { "the standard input".to_owned() } else { path.display().to_string() }
}

/// Tells of sessions as they come into a store, and counts them.
pub(super) struct Outcomes<'a> {
    screen: &'a mut Screen,
    /// What is counted.
    noun: &'static str,
    stored: usize,
    failed: usize,
    /// The first failure of the output, of which nobody could be told meanwhile.
    unwritten: Option<io::Error>,
}

impl<'a> Outcomes<'a> {
    pub(super) fn new(screen: &'a mut Screen, noun: &'static str) -> Self {
        Self { screen, noun, stored: 0, failed: 0, unwritten: None }
    }

    pub(super) fn tell(&mut self, from: &str, outcome: Result<Imported, ImportError>) {
        let written = match outcome {
            Ok(imported) => {
                self.stored += 1;
                self.line(from, &imported)
            }
            Err(error) => {
                self.failed += 1;
                let flushed = self.screen.flush();
                Failure::from(error).tell();
                flushed
            }
        };
        if let Err(error) = written {
            self.unwritten.get_or_insert(error);
        }
    }

    fn has_failed(&self) -> bool {
        self.failed > 0
    }

    pub(super) fn finish(self) -> Result<(), Failure> {
        if self.stored + self.failed > 1 {
            let are = if self.stored == 1 { "is" } else { "are" };
            note(&format!("{} {are} stored, {} failed", counted(self.stored as u64, self.noun), self.failed));
        }
        match self.unwritten {
            Some(error) => Err(error.into()),
            None if self.failed > 0 => Err(Failure::Reported),
            None => Ok(()),
        }
    }

    fn line(&mut self, from: &str, imported: &Imported) -> io::Result<()> {
        let (what, style, count) = match imported {
            Imported::Created { events, .. } => ("imported", color(AnsiColor::Green), counted(*events, "event")),
            Imported::Unchanged { events, .. } => ("unchanged", DIM, counted(*events, "event")),
            Imported::Extended { events, added, .. } => {
                ("extended", color(AnsiColor::Green), format!("{} added, {events} now", counted(*added, "event")))
            }
        };
        let what = self.screen.paint(style, &format!("{what:9}"));
        let session = visible(imported.session().as_str());
        writeln!(self.screen, "{what}  {session}  {count}  from {}", visible(from))
    }
}
