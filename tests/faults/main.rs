//! What a store in SQLite keeps when the disk, the power or the process fails below it.
//!
//! Every suite runs in a short form, and in full where the environment variable `SESSIONS_FULL` is set.

#![cfg(unix)]

mod checkpoint;
mod disk;
mod failed_sync;
mod fault;
mod full_disk;
mod history;
mod kill;
mod ledger;
mod matrix;
mod opening;
mod outage;
mod power_loss;
mod sample;
mod scene;
mod shadow;
mod small_disk;
mod syncs;
mod vfs;
mod wal_index;

/// Whether the suites are to run in full.
fn is_full() -> bool {
    std::env::var_os("SESSIONS_FULL").is_some()
}
