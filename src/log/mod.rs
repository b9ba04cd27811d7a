//! What a session log is: pure values, without I/O and without a clock.

mod envelope;
mod event;
mod fold_error;
mod header;
mod id;
mod json;
mod json_tokens;
mod json_tree;
mod lossless;
mod map_key;
mod messages;
mod model_message;
mod number;
pub(crate) mod packed;
mod path;
pub mod payload;
mod request;
mod seq;
#[cfg(feature = "sqlite")]
pub(crate) mod stored;
mod surface;
pub mod text;
mod vocabulary;

pub use event::{InvalidRecord, SessionEvent, SurfaceOp};
pub use fold_error::FoldError;
pub use header::{Origin, SessionHeader};
pub use id::{InvalidSessionId, SessionId};
pub use json::{InvalidJson, Json, NotLossless};
pub use messages::{MessageList, MessagePlan, Messages};
pub use model_message::ModelMessage;
pub use request::{RequestContext, RequestHeader, Requests};
pub use seq::Seq;
pub use surface::{Replacement, Surface, SurfacePlan};
pub use vocabulary::Vocabulary;
