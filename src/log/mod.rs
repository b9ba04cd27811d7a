//! What a session log is: pure values, without I/O and without a clock.

mod envelope;
mod event;
mod header;
mod id;
mod json;
mod lossless;
mod map_key;
mod number;
pub(crate) mod packed;
mod path;
pub mod payload;
mod seq;
#[cfg(feature = "sqlite")]
pub(crate) mod stored;
pub mod text;
mod vocabulary;

pub use event::{InvalidRecord, SessionEvent, SurfaceOp};
pub use header::{Origin, SessionHeader};
pub use id::{InvalidSessionId, SessionId};
pub use json::{InvalidJson, Json, NotLossless};
pub use seq::Seq;
pub use vocabulary::Vocabulary;
