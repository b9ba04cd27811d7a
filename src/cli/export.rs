//! `sessions export`.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueEnum};

use super::failure::Failure;
use super::list::{counted, size};
use super::place::Place;
use super::screen::{Screen, note, visible};
use crate::export::{jsonl, zip};
use crate::log::SessionId;
use crate::private;
use crate::seam::{Error, ListQuery, SessionPersistence};

/// Write sessions as JSONL, the header and then a line for each event, or as a ZIP archive of that
#[derive(Args)]
#[command(group(ArgGroup::new("which").args(["sessions", "all"]).required(true)))]
#[command(after_help = "\
Any session can be exported, whether this build can interpret it or not. A file has its name only
when it is whole. Existing files of the same name are replaced. Equal sessions give equal files,
archives included.

Examples:
  sessions export fix-login-loop > fix-login-loop.jsonl
  sessions export a b c -o logs/
  sessions export --all -o logs/
  sessions export fix-login-loop --format zip --descendants -o fix-login-loop.zip")]
pub(super) struct Export {
    /// The sessions
    #[arg(value_name = "ID")]
    sessions: Vec<SessionId>,
    /// Every session of the store
    #[arg(long)]
    all: bool,
    /// A file, a folder that is there or ends in /, or - for the standard output [default: -]
    #[arg(short, long, value_name = "FILE|DIR|-")]
    output: Option<PathBuf>,
    /// How to write each session
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// With --format zip: also the sessions that descend from it
    #[arg(long)]
    descendants: bool,
}

/// What a session is written as.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Its text
    Jsonl,
    /// An archive of its text
    Zip,
}

/// How each session is written.
#[derive(Clone, Copy)]
struct Writing {
    format: Format,
    with_descendants: bool,
}

impl Writing {
    fn end(self) -> &'static str {
        match self.format {
            Format::Jsonl => "jsonl",
            Format::Zip => "zip",
        }
    }

    fn file_name(self, session: &SessionId) -> String {
        format!("{}.{}", file_name(session), self.end())
    }

    /// Writes a session and tells what was written.
    fn write(self, store: &dyn SessionPersistence, session: &SessionId, out: &mut dyn Write) -> Result<String, Error> {
        Ok(match self.format {
            Format::Jsonl => {
                let report = jsonl(store, session, out)?;
                format!("{}, {}", counted(report.events, "event"), size(report.bytes))
            }
            Format::Zip => {
                let report = zip(store, session, self.with_descendants, out)?;
                let (sessions, events) = (counted(report.sessions, "session"), counted(report.events, "event"));
                format!("{sessions}, {events}, {}", size(report.bytes))
            }
        })
    }
}

impl Export {
    pub(super) fn run(self, place: &Place, screen: &mut Screen) -> Result<(), Failure> {
        if self.descendants && self.format != Format::Zip {
            return Err(Failure::Usage(
                "--descendants needs --format zip: a file of JSONL holds one session".to_owned(),
            ));
        }
        let writing = Writing { format: self.format, with_descendants: self.descendants };
        let target = Target::of(self.output, self.all || self.sessions.len() > 1)?;
        if self.format == Format::Zip && matches!(target, Target::Output) && screen.is_terminal() {
            return Err(Failure::Usage("an archive is nothing for a terminal: add --output FILE".to_owned()));
        }
        if let Target::File(path) | Target::Folder(path) = &target {
            refuse_part(place, path)?;
        }
        let store = place.open()?;
        let sessions = if self.all {
            store.list(&ListQuery::default())?.items.into_iter().map(|snapshot| snapshot.id).collect()
        } else {
            self.sessions
        };
        if let Target::Folder(folder) = &target {
            for session in &sessions {
                refuse_part(place, &folder.join(writing.file_name(session)))?;
            }
        }
        match target {
            Target::Output => {
                for session in &sessions {
                    writing.write(&*store, session, screen)?;
                }
                Ok(())
            }
            Target::File(path) => {
                for session in &sessions {
                    let report = write(&*store, session, &path, writing)?;
                    tell(session, &path, &report);
                }
                Ok(())
            }
            Target::Folder(path) => write_all(&*store, &sessions, &path, writing),
        }
    }
}

/// Refuses to write over what the store is made of, or where it keeps its files when it needs them.
fn refuse_part(place: &Place, path: &Path) -> Result<(), Failure> {
    if !place.owns(path) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{} is a part of the store itself, which the export would destroy: name another place",
        path.display()
    )))
}

enum Target {
    Output,
    File(PathBuf),
    Folder(PathBuf),
}

impl Target {
    fn of(output: Option<PathBuf>, is_many: bool) -> Result<Self, Failure> {
        let usage = |reason: &str| Err(Failure::Usage(reason.to_owned()));
        match output {
            Some(path) if path != Path::new("-") => {
                let is_file = path.exists() && !path.is_dir();
                if is_many && is_file {
                    return usage(
                        "several sessions go into a folder, and the output is a file: one file holds one session",
                    );
                }
                let is_folder = path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
                Ok(if is_many || is_folder { Self::Folder(path) } else { Self::File(path) })
            }
            _ if is_many => usage("several sessions need a folder: add --output DIR"),
            _ => Ok(Self::Output),
        }
    }
}

fn write_all(
    store: &dyn SessionPersistence,
    sessions: &[SessionId],
    folder: &Path,
    writing: Writing,
) -> Result<(), Failure> {
    private::create_folder(folder).map_err(Failure::file(folder, "making the folder"))?;
    let mut failed = 0;
    let mut written: HashMap<String, SessionId> = HashMap::new();
    for session in sessions {
        let path = folder.join(writing.file_name(session));
        let result = match written.insert(session.escaped().to_ascii_lowercase(), session.clone()) {
            Some(other) if other != *session && is_same_file(&path, &folder.join(writing.file_name(&other))) => {
                Err(Error::InvalidArgument {
                    session: Some(session.clone()),
                    reason: format!(
                        "its file would replace that of session {other:?}, as the disk of {} does not tell their names \
                     apart; export it into another folder",
                        folder.display()
                    ),
                }
                .into())
            }
            _ => write(store, session, &path, writing),
        };
        match result {
            Ok(report) => tell(session, &path, &report),
            Err(failure) => {
                failed += 1;
                failure.tell();
            }
        }
    }
    if failed > 0 { Err(Failure::Reported) } else { Ok(()) }
}

/// The escaped id, without a dot in front that hides a file, or a dash that makes its name an option: both are escaped like
/// any other character. No other id has a name that starts like that.
fn file_name(session: &SessionId) -> String {
    let escaped = session.escaped();
    match escaped.strip_prefix('.') {
        Some(rest) => format!("~002E{rest}"),
        None => match escaped.strip_prefix('-') {
            Some(rest) => format!("~002D{rest}"),
            None => escaped,
        },
    }
}

/// Whether a file that was just written for another session answers to the name of this one.
fn is_same_file(path: &Path, written: &Path) -> bool {
    match (fs::canonicalize(path), fs::canonicalize(written)) {
        (Ok(one), Ok(two)) => one == two,
        _ => false,
    }
}

fn write(
    store: &dyn SessionPersistence,
    session: &SessionId,
    path: &Path,
    writing: Writing,
) -> Result<String, Failure> {
    // A device or a pipe is written as it is; a new file in its place is not what is wanted.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        let mut file = fs::OpenOptions::new().write(true).open(path).map_err(Failure::file(path, "opening"))?;
        return writing.write(store, session, &mut file).map_err(|error| Failure::export(path, error));
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".sessions-")
        .suffix(".part")
        .tempfile_in(folder)
        .map_err(Failure::file(path, "making the file"))?;
    let report = writing.write(store, session, &mut file).map_err(|error| Failure::export(path, error))?;
    file.as_file().sync_all().map_err(Failure::file(path, "writing"))?;
    file.persist(path).map_err(|failed| Failure::file(path, "naming the file")(failed.error))?;
    Ok(report)
}

fn tell(session: &SessionId, path: &Path, report: &str) {
    note(&format!("{report}: {} in {}", visible(session.as_str()), visible(&path.display().to_string())));
}
