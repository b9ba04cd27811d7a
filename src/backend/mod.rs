//! The backends. Each stores what the others store; what a handle may do when is decided once, in `runtime`.

mod memory;
mod runtime;
#[cfg(any())]
pub mod sqlite;

pub use memory::MemoryStore;
