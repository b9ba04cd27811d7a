//! front door, being written

mod backend;
mod log;
mod seam;

pub use crate::backend::MemoryStore;
#[cfg(feature = "sqlite")]
pub use crate::backend::{SqliteOptions, SqliteStore};
pub use crate::log::{
    InvalidJson, InvalidRecord, InvalidSessionId, Json, NotLossless, Origin, Seq, SessionEvent, SessionHeader,
    SessionId, SurfaceOp, Vocabulary, payload, text,
};
pub use crate::seam::{
    Access, CreateOptions, Cursor, Error, ErrorKind, FormatProblem, Holder, ListOrder, ListQuery, OpenOptions, Page,
    Position, Result, Revision, SeqRange, SessionHandle, SessionPersistence, SessionState, Snapshot, Source, checks,
};
