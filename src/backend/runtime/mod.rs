//! What all backends share: who owns which session, and the states that a handle goes through. A backend supplies the
//! [`Storage`] below and nothing else.

mod claims;
mod handle;
mod storage;
mod store;

pub(crate) use storage::{Listed, Slice, Storage, Stored};
pub(crate) use store::{Runtime, store_over_runtime};
