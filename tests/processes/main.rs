//! Several processes at one store: opened at once, raced for, stopped, killed, forked, and looked at from outside.
//!
//! The other processes are this very program, told by lines what to do. A short form runs by default; with
//! `SESSIONS_FULL` in the environment each suite runs as often as its promise deserves.

#![cfg(all(unix, any(feature = "sqlite", feature = "jsonl")))]

mod contention;
mod end;
mod ending;
mod fence;
mod first_open;
mod fork;
mod interleaving;
mod log;
mod modes;
mod owner;
mod peer;
mod place;
mod race;
mod role;
mod rounds;
mod spawned;
mod visit;
#[cfg(feature = "sqlite")]
mod wal;
