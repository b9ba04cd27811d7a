//! [`Fault`]: an operation of SQLite on a file that goes wrong.

use std::collections::BTreeMap;
use std::ops::Sub;

use rusqlite::ffi;
use session_persistence::ErrorKind;

/// What SQLite does with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Open,
    Read,
    Write,
    Truncate,
    Sync,
    Delete,
    /// Asking for its size.
    Size,
    /// Asking whether it exists.
    Access,
    Lock,
    /// Mapping a part of the `-shm` file.
    Map,
}

impl Kind {
    /// Whether it changes what is stored, or whether that is durable.
    pub(crate) fn is_change(self) -> bool {
        matches!(self, Self::Write | Self::Truncate | Self::Sync | Self::Delete)
    }

    /// What SQLite is told where nothing works any more.
    pub(crate) fn failure(self) -> i32 {
        match self {
            Self::Open => ffi::SQLITE_CANTOPEN,
            Self::Read => ffi::SQLITE_IOERR_READ,
            Self::Write => ffi::SQLITE_IOERR_WRITE,
            Self::Truncate => ffi::SQLITE_IOERR_TRUNCATE,
            Self::Sync => ffi::SQLITE_IOERR_FSYNC,
            Self::Delete => ffi::SQLITE_IOERR_DELETE,
            Self::Size => ffi::SQLITE_IOERR_FSTAT,
            Self::Access => ffi::SQLITE_IOERR_ACCESS,
            Self::Lock => ffi::SQLITE_IOERR_LOCK,
            Self::Map => ffi::SQLITE_IOERR_SHMMAP,
        }
    }
}

/// Which of the files that make a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Database,
    Wal,
    Journal,
}

impl Part {
    pub(crate) fn of(name: &str) -> Self {
        if name.ends_with("-wal") {
            Self::Wal
        } else if name.ends_with("-journal") {
            Self::Journal
        } else {
            Self::Database
        }
    }
}

/// How an operation goes wrong. Each carries what SQLite is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing happens.
    Fail(i32),
    /// Half of the bytes of a write reach the file.
    Half(i32),
    /// A sync fails, and what waited for it counts as written: nobody tries again.
    Forget(i32),
    /// A deletion happens, and the folder cannot be synced then.
    Late(i32),
}

impl Effect {
    /// What SQLite is told.
    pub(crate) fn code(self) -> i32 {
        let (Self::Fail(code) | Self::Half(code) | Self::Forget(code) | Self::Late(code)) = self;
        code
    }

    /// The kind of error that a caller of the store is to be told.
    pub(crate) fn told_as(self) -> ErrorKind {
        match self.code() {
            ffi::SQLITE_FULL | ffi::SQLITE_IOERR_SHMSIZE => ErrorKind::StorageFull,
            ffi::SQLITE_CANTOPEN | ffi::SQLITE_PERM | ffi::SQLITE_READONLY => ErrorKind::StorageReadOnly,
            _ => ErrorKind::Io,
        }
    }
}

/// Operations that go wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    kind: Kind,
    part: Option<Part>,
    effect: Effect,
    /// How many operations that it could meet go well before.
    spared: u64,
    lasts: bool,
}

impl Fault {
    /// The next operation of a kind, on any file.
    pub(crate) fn new(kind: Kind, effect: Effect) -> Self {
        Self { kind, part: None, effect, spared: 0, lasts: false }
    }

    /// Only on one of the files.
    pub(crate) fn on(self, part: Part) -> Self {
        Self { part: Some(part), ..self }
    }

    /// Not before `spared` others went well.
    pub(crate) fn after(self, spared: u64) -> Self {
        Self { spared, ..self }
    }

    /// From then on every time.
    pub(crate) fn lasting(self) -> Self {
        Self { lasts: true, ..self }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn lasts(&self) -> bool {
        self.lasts
    }

    pub(crate) fn effect(&self) -> Effect {
        self.effect
    }

    /// Whether an operation meets it, which is then over unless it lasts.
    pub(crate) fn meets(&mut self, kind: Kind, part: Part) -> Option<Effect> {
        if self.kind != kind || self.part.is_some_and(|p| p != part) || self.spared == u64::MAX {
            return None;
        }
        if self.spared > 0 {
            self.spared -= 1;
            return None;
        }
        if !self.lasts {
            self.spared = u64::MAX;
        }
        Some(self.effect)
    }
}

/// How often what was done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    operations: BTreeMap<(Kind, Part), u64>,
    bytes: BTreeMap<Part, u64>,
}

impl Counts {
    pub(crate) fn add(&mut self, kind: Kind, part: Part) {
        *self.operations.entry((kind, part)).or_default() += 1;
    }

    pub(crate) fn add_bytes(&mut self, part: Part, bytes: usize) {
        *self.bytes.entry(part).or_default() += bytes as u64;
    }

    pub(crate) fn of(&self, kind: Kind, part: Part) -> u64 {
        self.operations.get(&(kind, part)).copied().unwrap_or(0)
    }

    /// On all files together.
    pub(crate) fn all(&self, kind: Kind) -> u64 {
        self.operations.iter().filter(|((k, _), _)| *k == kind).map(|(_, n)| n).sum()
    }

    /// How many bytes were written to a file.
    pub(crate) fn bytes(&self, part: Part) -> u64 {
        self.bytes.get(&part).copied().unwrap_or(0)
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(mut self, earlier: Self) -> Self {
        for (key, n) in earlier.operations {
            *self.operations.entry(key).or_default() -= n;
        }
        for (part, n) in earlier.bytes {
            *self.bytes.entry(part).or_default() -= n;
        }
        self
    }
}
