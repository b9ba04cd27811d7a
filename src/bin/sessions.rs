//! The `sessions` command.

fn main() -> std::process::ExitCode {
    session_persistence::cli::run()
}
