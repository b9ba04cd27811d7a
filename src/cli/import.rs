//! `sessions import`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::Failure;
use super::place::Place;
use super::screen::{AnsiColor, DIM, Screen, color, note, visible};
use crate::export::{self, ImportError, ImportOptions, Imported};
use crate::seam::SessionPersistence;

/// Import log files, each whole or not at all
#[derive(Args)]
#[command(after_help = "\
A session that is stored already is never replaced: the same log changes nothing, a longer one is
added with --extend, any other is refused. The files are only read. The store is made where there
is none.

Examples:
  sessions import logs/*.jsonl
  sessions import --extend today.jsonl
  sessions --store a.db export x | sessions --store b.db import -")]
pub(super) struct Import {
    /// Log files; - is the standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Let a file that goes on where the stored log ends add to it
    #[arg(long)]
    extend: bool,
}

#[derive(Default)]
struct Counts {
    done: usize,
    failed: usize,
}

impl Import {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        let options = if self.extend { ImportOptions::extending() } else { ImportOptions::default() };
        let mut store: Option<Box<dyn SessionPersistence>> = None;
        let mut counts = Counts::default();
        for path in &self.paths {
            let imported = match open(path) {
                Ok(reader) => {
                    // Made only now: a wrong path leaves no empty store behind.
                    let store = match &mut store {
                        Some(store) => &**store,
                        none => &**none.insert(place.open_or_create()?),
                    };
                    export::import_reader(store, &name(path), reader, options)
                }
                Err(error) => Err(error),
            };
            match imported {
                Ok(imported) => {
                    counts.done += 1;
                    tell(screen, path, &imported)?;
                }
                Err(error) => {
                    counts.failed += 1;
                    screen.flush()?;
                    Failure::from(error).tell();
                }
            }
        }
        if self.paths.len() > 1 {
            note(&format!("{} of {} files are stored, {} failed", counts.done, self.paths.len(), counts.failed));
        }
        if counts.failed > 0 { Err(Failure::Reported) } else { Ok(()) }
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, ImportError> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let unreadable = |source| ImportError::Unreadable { file: name(path), source };
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(unreadable(io::ErrorKind::IsADirectory.into()));
    }
    Ok(Box::new(BufReader::with_capacity(256 << 10, file)))
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { "the standard input".to_owned() } else { path.display().to_string() }
}

fn tell(screen: &mut Screen, path: &Path, imported: &Imported) -> io::Result<()> {
    let (what, style, count) = match imported {
        Imported::Created { events, .. } => ("imported", color(AnsiColor::Green), format!("{events} events")),
        Imported::Unchanged { events, .. } => ("unchanged", DIM, format!("{events} events")),
        Imported::Extended { events, added, .. } => {
            ("extended", color(AnsiColor::Green), format!("{added} events added, {events} now"))
        }
    };
    let what = screen.paint(style, &format!("{what:9}"));
    let session = visible(imported.session().as_str());
    writeln!(screen, "{what}  {session}  {count}  from {}", visible(&name(path)))
}
