//! Sessions and events that follow from a name and a number, so that who reads them knows what must have been written.

use std::path::Path;

use session_persistence::{
    CreateOptions, Durability, Journal, SeqRange, SessionEvent, SessionHandle, SessionHeader, SessionId,
    SessionPersistence, SqliteOptions, SqliteStore,
};

/// The event of a session at a seq: a few bytes, a page, or several.
pub(crate) fn event(session: &str, seq: u64) -> SessionEvent {
    let seed = session.bytes().fold(seq, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let mut random = fastrand::Rng::with_seed(seed);
    let length = match seq % 7 {
        3 => 9_000 + random.usize(..12_000),
        5 => 1_000 + random.usize(..2_000),
        _ => random.usize(..300),
    };
    let text: String = std::iter::repeat_with(|| random.alphanumeric()).take(length).collect();
    let types = ["turn/start", "user/message", "todo/write", "turn/end"];
    SessionEvent::of(types[(seq % 4) as usize], seq, 1_700_000_000_000 + seq as i64, &text).unwrap()
}

/// The events of a session from `from` on.
pub(crate) fn events(session: &str, from: u64, count: u64) -> Vec<SessionEvent> {
    (from..from + count).map(|seq| event(session, seq)).collect()
}

pub(crate) fn id(session: &str) -> SessionId {
    SessionId::new(session).unwrap()
}

pub(crate) fn create(store: &SqliteStore, session: &str) -> session_persistence::Result<Box<dyn SessionHandle>> {
    store.create(&SessionHeader::new(id(session), 1_700_000_000_000).unwrap(), CreateOptions::default())
}

/// What an acknowledged append survives, and by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The death of the process, through the WAL.
    OnFlush,
    /// A loss of power too, through the WAL.
    EveryAppend,
    /// A loss of power too, through a rollback journal.
    Rollback,
}

impl Mode {
    pub(crate) const ALL: [Self; 3] = [Self::OnFlush, Self::EveryAppend, Self::Rollback];

    fn options(self) -> SqliteOptions {
        let (durability, journal) = match self {
            Self::OnFlush => (Durability::OnFlush, Journal::Wal),
            Self::EveryAppend => (Durability::EveryAppend, Journal::Wal),
            Self::Rollback => (Durability::OnFlush, Journal::Rollback),
        };
        SqliteOptions::default().with_durability(durability).with_journal(journal)
    }
}

/// Opens a store, or makes it.
pub(crate) fn open(path: &Path, mode: Mode) -> session_persistence::Result<SqliteStore> {
    SqliteStore::open_with(path, mode.options())
}

/// Checks that a log holds `count` events, each as it was appended.
pub(crate) fn check_log(handle: &dyn SessionHandle, count: u64, what: &str) {
    let name = handle.id().as_str();
    let read = handle.read(SeqRange::ALL).unwrap_or_else(|e| panic!("{what}: {name}: {e}"));
    assert!(read.len() as u64 == count, "{what}: {name} has {} events and not {count}", read.len());
    for (found, seq) in read.iter().zip(0..) {
        assert!(*found == event(name, seq), "{what}: {name}: another event at {seq}");
    }
}
