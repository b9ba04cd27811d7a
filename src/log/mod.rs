//! What a session log is: pure values, without I/O and without a clock.

pub(crate) mod digest;
mod envelope;
mod event;
pub(crate) mod fields;
mod fold_error;
mod header;
mod id;
mod invariants;
mod json;
mod json_tokens;
mod json_tree;
mod lifecycle;
mod lossless;
mod map_key;
mod messages;
mod model_message;
mod model_request;
mod number;
pub(crate) mod packed;
mod path;
pub mod payload;
mod repair;
mod request;
mod searchable;
mod seq;
#[cfg(feature = "sqlite")]
pub(crate) mod stored;
mod surface;
pub mod text;
mod usual;
mod violation;
mod vocabulary;

pub use digest::LogDigest;
pub use event::{InvalidRecord, SessionEvent, SurfaceOp};
pub use fold_error::FoldError;
pub use header::{Origin, SessionHeader};
pub use id::{InvalidSessionId, SessionId};
pub use invariants::Invariants;
pub use json::{InvalidJson, Json, NotLossless};
pub use lifecycle::LifecycleState;
pub use messages::{MessageList, MessagePlan, Messages};
pub use model_message::ModelMessage;
#[cfg(test)]
pub(crate) use model_message::tests::PROJECTIONS;
pub use model_request::{ModelRequest, RequestBasis, check_model_request};
pub use repair::{MessageIdTemplate, OpenTurn, RepairTexts, interrupted_turn_closers};
pub use request::{RequestContext, RequestHeader, Requests};
pub(crate) use searchable::is_white_space;
pub use searchable::searchable_text;
pub use seq::Seq;
pub use surface::{Replacement, Surface, SurfacePlan};
pub use violation::{Rule, Violation};
pub use vocabulary::Vocabulary;
