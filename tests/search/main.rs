//! The derived index: its file, how it keeps up with a store, what it finds, and what it counts.

mod check;
mod counting;
mod facts;
mod file;
mod finding;
mod keeping_up;
mod known;
#[cfg(feature = "sqlite")]
mod processes;
mod sample;
mod totals;
#[cfg(feature = "jsonl")]
mod unreadable;
