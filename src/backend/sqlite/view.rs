//! [`View`]: one state of a database, for several statements that read.

use std::ops::Deref;

use rusqlite::Connection;

/// One state of a database, until it is dropped. Its statements are prepared once a connection: those of a transaction of
/// rusqlite are prepared anew each time, which takes as long as reading an event.
pub(super) struct View<'c>(&'c Connection);

impl<'c> View<'c> {
    pub(super) fn of(connection: &'c Connection) -> Result<Self, rusqlite::Error> {
        connection.prepare_cached("BEGIN")?.execute([])?;
        Ok(Self(connection))
    }
}

impl Deref for View<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        // A failure may have ended it already.
        if self.0.is_autocommit() {
            return;
        }
        if let Err(e) = self.0.prepare_cached("ROLLBACK").and_then(|mut end| end.execute([])) {
            log::warn!("ending a transaction that only reads: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_ends_when_it_is_dropped_whatever_happened_in_it() {
        let connection = Connection::open_in_memory().unwrap();
        for _ in 0..2 {
            let view = View::of(&connection).unwrap();
            assert!(!view.is_autocommit());
            drop(view);
            assert!(connection.is_autocommit());
            let view = View::of(&connection).unwrap();
            connection.execute_batch("ROLLBACK").unwrap();
            drop(view);
            assert!(connection.is_autocommit());
        }
    }
}
