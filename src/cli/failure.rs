//! [`Failure`]: why the command did not do what it was asked for.

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory as _;

use super::screen::{note, visible};
use crate::export::{self, ImportError};
use crate::query::QueryError;
use crate::query::index::IndexError;
use crate::seam::{Error, ErrorKind, is_out_of_files};

/// Why the command did not do what it was asked for.
#[derive(Debug)]
pub(super) enum Failure {
    /// The store refused or failed.
    Store(Error),
    /// A file was not imported.
    Import(ImportError),
    /// The search index refused or failed.
    Index(IndexError),
    /// A session cannot be looked at.
    Query(QueryError),
    /// What the command itself found, with its kind.
    Told { kind: &'static str, message: String },
    /// A file of the user cannot be written or read.
    File { path: PathBuf, doing: &'static str, source: io::Error },
    /// The standard output cannot be written.
    Output(io::Error),
    /// The arguments make no sense together.
    Usage(String),
    /// Parts failed, and a line was written for each.
    Reported,
}

impl Failure {
    /// What an export to a file of the user met: the file's own failure, or the store's.
    pub(super) fn export(path: &Path, error: Error) -> Self {
        match export::write_failure(&error) {
            Some(failure) if failure.kind() != io::ErrorKind::BrokenPipe => {
                Self::File { path: path.to_owned(), doing: "writing", source: again(failure) }
            }
            _ => error.into(),
        }
    }

    pub(super) fn file(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, doing, source }
    }

    /// Tells the user of the `command` and gives the exit code.
    pub(super) fn report(self, command: &str) -> ExitCode {
        match self {
            // Whoever read the output has what they wanted.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Self::Usage(reason) => {
                let mut parser = super::Cli::command();
                parser.build();
                let parser = parser.find_subcommand_mut(command).cloned().unwrap_or(parser);
                let error = parser.clone().error(clap::error::ErrorKind::ArgumentConflict, visible(&reason));
                answer_of_the_parser(&error)
            }
            Self::Reported => ExitCode::FAILURE,
            other => {
                other.tell();
                ExitCode::FAILURE
            }
        }
    }

    /// Writes the one line of this failure, where the command goes on with the next item.
    pub(super) fn tell(&self) {
        let limit = if self.is_out_of_files() { LIMIT } else { "" };
        note(&format!("sessions: {}: {}{limit}", self.kind(), visible(&self.message())));
    }

    fn is_out_of_files(&self) -> bool {
        match self {
            Self::Store(error) => error.is_out_of_files(),
            Self::Import(ImportError::Store { source, .. } | ImportError::NotDurable { source, .. }) => {
                source.is_out_of_files()
            }
            Self::Import(ImportError::Source { source, .. }) => source.is_out_of_files(),
            Self::Index(IndexError::Store(source)) | Self::Query(QueryError::Store(source)) => source.is_out_of_files(),
            Self::Import(ImportError::Unreadable { source, .. }) | Self::File { source, .. } => is_out_of_files(source),
            _ => false,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind().name(),
            Self::Index(error) => kind_of_index(error),
            Self::Query(error) => kind_of_query(error),
            Self::Told { kind, .. } => kind,
            Self::Import(ImportError::Refused { .. } | ImportError::Header { .. }) => "InvalidLog",
            Self::Import(ImportError::Conflict { .. }) => "Conflict",
            Self::Import(ImportError::Store { source, .. } | ImportError::NotDurable { source, .. }) => {
                source.kind().name()
            }
            Self::Import(ImportError::Archive { .. }) => "InvalidArchive",
            Self::Import(ImportError::Foreign { .. }) => "UnsupportedSource",
            Self::Import(ImportError::Source { source, .. }) => source.kind().name(),
            Self::Import(ImportError::NotVerified { .. }) => "Corruption",
            Self::File { source, .. } | Self::Output(source) => kind_of(source).name(),
            Self::Import(ImportError::Unreadable { .. }) => "Io",
            Self::Usage(_) => "Usage",
            Self::Reported => "Failed",
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Store(error) => with_causes(error),
            Self::Index(IndexError::Store(error)) | Self::Query(QueryError::Store(error)) => with_causes(&**error),
            Self::Index(error) => format!("{}{ANOTHER_INDEX}", with_causes(error)),
            Self::Query(error) => with_causes(error),
            Self::Told { message, .. } => message.clone(),
            Self::Import(error) => with_causes(error),
            Self::File { path, doing, source } => {
                format!("{}: {doing} failed: {source}{}", path.display(), advice(source))
            }
            Self::Output(error) => format!("writing to the standard output failed: {error}{}", advice(error)),
            Self::Usage(reason) => reason.clone(),
            Self::Reported => "parts of it failed".to_owned(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match export::write_failure(&error) {
            Some(failure) => Self::Output(again(failure)),
            None => Self::Store(error),
        }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        Self::Import(error)
    }
}

/// What cannot be looked for is a slip of the command line.
impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::InvalidQuery { .. } | IndexError::InvalidCursor { .. } => Self::Usage(error.to_string()),
            other => Self::Index(other),
        }
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::SessionNotFound { session } => Self::Store(Error::NotFound { session }),
            other => Self::Query(other),
        }
    }
}

/// What is not a failure of the store or of a file, which are converted where they arise, is one of the output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

const LIMIT: &str = "; raise the limit of open files (`ulimit -n`), or close some, then repeat the same command";

const ANOTHER_INDEX: &str = "; another file is named with --index or $SESSIONS_INDEX";

fn kind_of_index(error: &IndexError) -> &'static str {
    match error {
        IndexError::Store(error) => error.kind().name(),
        IndexError::NotAnIndex { .. } => "NotAnIndex",
        IndexError::Busy { .. } => "IndexBusy",
        IndexError::Damaged { .. } => "IndexDamaged",
        _ => "IndexFailed",
    }
}

fn kind_of_query(error: &QueryError) -> &'static str {
    match error {
        QueryError::Store(error) => error.kind().name(),
        QueryError::InvalidSurface { .. } => "InvalidSurface",
        QueryError::KeepsChanging { .. } => "KeepsChanging",
        QueryError::TooLarge { .. } => "TooLarge",
        QueryError::NotBalanced { .. } => "NotBalanced",
        _ => "Query",
    }
}

/// The kind of a failure to write what the user asked for, in the words of the store's own.
fn kind_of(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::StorageFull,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::StorageReadOnly,
        _ => ErrorKind::Io,
    }
}

fn advice(error: &io::Error) -> &'static str {
    match kind_of(error) {
        ErrorKind::StorageFull => "; free some space, then repeat the same command",
        ErrorKind::StorageReadOnly => "; check its permissions and those of its folder, or name another place",
        _ => "",
    }
}

/// The same failure once more.
fn again(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}

fn with_causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut last = String::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        // Some libraries tell a cause in its effect as well, or wrap it in a number.
        if text.contains(&reason) || (!last.is_empty() && reason.contains(&last)) {
            break;
        }
        text += &format!(": {reason}");
        last = reason;
        cause = error.source();
    }
    text
}

/// Prints what the parser has to say, help and version included, and gives its exit code.
pub(super) fn answer_of_the_parser(error: &clap::Error) -> ExitCode {
    match error.print() {
        Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
        Err(failed) => Failure::Output(failed).report(""),
    }
}
