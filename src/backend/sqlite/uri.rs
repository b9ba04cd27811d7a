//! Databases that are only looked at.

use std::fmt::Write as _;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// How a database is looked at.
#[derive(Clone, Copy)]
pub(crate) enum Mode {
    /// As it lies there: no lock is taken, no file is made beside it, and a WAL beside it is not seen.
    Immutable,
    /// With what its WAL holds.
    WithWal,
    /// As it lies there, unless it is in WAL mode, in which SQLite opens nothing without locks.
    WithoutLocks,
}

/// Opens the database at an absolute path, never to write it.
pub(crate) fn open_read_only(path: &Path, mode: Mode) -> rusqlite::Result<Connection> {
    let mut uri = "file://".to_owned();
    if cfg!(windows) {
        uri.push('/');
    }
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'\\' if cfg!(windows) => uri.push('/'),
            b'/' | b'.' | b'-' | b'_' => uri.push((*byte).into()),
            b if b.is_ascii_alphanumeric() => uri.push((*b).into()),
            b => write!(uri, "%{b:02X}").expect("a String takes any text"),
        }
    }
    uri.push_str(match mode {
        Mode::Immutable => "?immutable=1",
        Mode::WithWal => "?mode=ro",
        Mode::WithoutLocks => "?mode=ro&nolock=1",
    });
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri, flags)
}
