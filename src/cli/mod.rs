//! The `sessions` command, as a function that a host's own command can call too.
//!
//! Data goes to the standard output and everything else to the standard error. The exit code is 0 when all was done, 1
//! when something failed, with one line that starts with `sessions:` and the kind of the failure, and 2 for a command
//! line that makes no sense. When the reader of the output goes away, the command ends quietly.

mod backup;
mod copy;
mod demo;
mod demo_sessions;
mod export;
mod failure;
mod follow;
mod import;
mod index;
mod list;
mod messages;
mod period;
mod place;
mod progress;
mod prose;
mod prune;
mod record;
mod remove;
mod salvage;
mod screen;
mod search;
mod show;
mod sql;
mod stat;
mod stats;
mod summary;
mod table;
mod time;
mod unmade;
mod verify;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;
use place::Place;
use screen::Screen;

const EXAMPLES: &str = "\
Examples:
  sessions demo                                   make a store of examples and show it
  sessions list                                   the sessions of ./sessions.db, most recent first
  sessions --store work.db show fix-login-loop    read one
  sessions search 'connection refused'            the events that say so
  sessions --store work.db export --all -o logs/  every session as a file of JSONL
  sessions import logs/*.jsonl                    and back
  sessions copy --to other.db                     every session into another store
  sessions verify                                 whether everything is what was stored
  sessions backup sessions.bak.db                 the whole store, while it is in use
  sessions sql 'select type, count(*) from session_events group by type'";

/// Look at, move and query stored sessions of AI agents.
#[derive(Parser)]
#[command(name = "sessions", version, max_term_width = 100, after_help = EXAMPLES, subcommand_required = true)]
struct Cli {
    /// The store: an SQLite file or a folder of log files; sqlite:PATH, jsonl:PATH (zstd) or jsonl+raw:PATH say which a new
    /// one is, sqlite+rollback:PATH one without a WAL, for a network disk that one machine alone uses (slower)
    /// [default: $SESSIONS_STORE, else ./sessions.db]
    #[arg(long, global = true, value_name = "STORE")]
    store: Option<OsString>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    List(list::List),
    Stat(stat::Stat),
    Show(show::Show),
    Messages(messages::Messages),
    Search(search::Search),
    Stats(stats::Stats),
    Export(export::Export),
    Import(import::Import),
    Copy(copy::Copy),
    Verify(verify::Verify),
    Salvage(salvage::Salvage),
    Backup(backup::Backup),
    Remove(remove::Remove),
    Prune(prune::Prune),
    Sql(sql::Sql),
}

/// Runs the command with the arguments, the environment and the standard streams of this process.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::answer_of_the_parser(&error),
    };
    // A warning of the library is for the person in front of the command, who has no other log.
    if log::set_logger(&StandardError).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
    let mut screen = Screen::new();
    let command = cli.command.name();
    let result = cli.run(&mut screen);
    // What was found before a failure comes before the line that tells of it.
    let flushed = screen.flush().map_err(Failure::Output);
    match result.and(flushed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(command),
    }
}

impl Command {
    /// Its name, as it is given.
    fn name(&self) -> &'static str {
        match self {
            Self::Demo(_) => "demo",
            Self::List(_) => "list",
            Self::Stat(_) => "stat",
            Self::Show(_) => "show",
            Self::Messages(_) => "messages",
            Self::Search(_) => "search",
            Self::Stats(_) => "stats",
            Self::Export(_) => "export",
            Self::Import(_) => "import",
            Self::Copy(_) => "copy",
            Self::Verify(_) => "verify",
            Self::Salvage(_) => "salvage",
            Self::Backup(_) => "backup",
            Self::Remove(_) => "remove",
            Self::Prune(_) => "prune",
            Self::Sql(_) => "sql",
        }
    }
}

impl Cli {
    fn run(self, screen: &mut Screen) -> Result<(), Failure> {
        let place = Place::new(self.store)?;
        match self.command {
            Command::Demo(demo) => demo.run(place, screen),
            Command::List(list) => list.run(&place, screen),
            Command::Stat(stat) => stat.run(&place, screen),
            Command::Show(show) => show.run(&place, screen),
            Command::Messages(messages) => messages.run(&place, screen),
            Command::Search(search) => search.run(&place, screen),
            Command::Stats(stats) => stats.run(&place, screen),
            Command::Export(export) => export.run(&place, screen),
            Command::Import(import) => import.run(&place, screen),
            Command::Copy(copy) => copy.run(&place, screen),
            Command::Verify(verify) => verify.run(&place, screen),
            Command::Salvage(salvage) => salvage.run(&place),
            Command::Backup(backup) => backup.run(&place),
            Command::Remove(remove) => remove.run(&place),
            Command::Prune(prune) => prune.run(&place, screen),
            Command::Sql(sql) => sql.run(&place, screen),
        }
    }
}

struct StandardError;

impl log::Log for StandardError {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            screen::note(&format!("sessions: warning: {}", record.args()));
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_example_of_the_help_and_of_the_readme_is_understood() {
        let help = |command: &clap::Command| command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let all = Cli::command();
        let helps: String = std::iter::once(&all).chain(all.get_subcommands()).map(help).collect::<Vec<_>>().join("\n");
        let is_example = |line: &&str| line.starts_with("  sessions ") || line.contains("$(sessions ");
        let blocks = include_str!("../../README.md").split("```").skip(1).step_by(2);
        let of_readme = blocks.filter_map(|block| block.strip_prefix("sh\n")).flat_map(str::lines);
        let mut number = 0;
        for line in helps.lines().filter(is_example).chain(of_readme) {
            for command in commands(line) {
                number += 1;
                let parsed = Cli::try_parse_from(&command);
                assert!(parsed.is_ok(), "{line}: {command:?}: {}", parsed.err().unwrap());
            }
        }
        assert!(number > 60, "{number} examples");
        assert_eq!(commands("sessions list --json --json  # twice"), [["sessions", "list", "--json", "--json"]]);
        assert!(Cli::try_parse_from(["sessions", "list", "--json", "--json"]).is_err());
    }

    /// The calls of the command in a line for a shell, each with its arguments.
    fn commands(line: &str) -> Vec<Vec<String>> {
        let mut commands = vec![Vec::new()];
        let mut word = None::<String>;
        let mut rest = line.trim_start().chars();
        let mut is_redirected = false;
        loop {
            let next = rest.next();
            let text = rest.as_str();
            match next {
                Some(quote @ ('\'' | '"')) => {
                    let quoted = text.split(quote).next().unwrap();
                    word.get_or_insert_default().push_str(quoted);
                    rest = text[quoted.len() + 1..].chars();
                }
                Some('$') if text.starts_with('{') => rest = text[text.find('}').unwrap() + 1..].chars(),
                Some('$') if text.starts_with('(') && !text.starts_with("(sessions ") => {
                    rest = text[text.find(')').unwrap() + 1..].chars();
                }
                Some('#') if word.is_none() => rest = "".chars(),
                None | Some(' ' | '|' | '&' | ';' | '(' | ')' | '<' | '>') => {
                    if let Some(word) = word.take()
                        && !std::mem::take(&mut is_redirected)
                    {
                        commands.last_mut().unwrap().push(word);
                    }
                    match next {
                        None => break,
                        // What a command is for stands behind a gap.
                        Some(' ') if text.starts_with(' ') => rest = "".chars(),
                        Some(' ') => {}
                        Some('<' | '>') => is_redirected = true,
                        Some(_) => commands.push(Vec::new()),
                    }
                }
                Some(c) => word.get_or_insert_default().push(c),
            }
        }
        commands.retain(|words| words.first().is_some_and(|word| word == "sessions"));
        commands
    }
}
