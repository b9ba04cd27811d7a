//! How stores of SQLite are opened: new and old ones, in every mode, where they cannot be written, and beside files that
//! belong to others; and who is told as the writer of a session.

mod beside;
mod busy;
mod first_open;
mod overwritten;
mod owner;
mod place;
#[cfg(unix)]
mod read_only;
mod rollback;
mod versions;
