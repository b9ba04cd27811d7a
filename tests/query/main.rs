//! Looking at sessions: what is kept in memory and for how long, what other processes do meanwhile, and what is found.

mod cache;
#[cfg(all(unix, any(feature = "sqlite", feature = "jsonl")))]
mod freshness;
mod lineage;
mod live;
#[cfg(all(unix, any(feature = "sqlite", feature = "jsonl")))]
mod peer;
mod place;
mod reading;
mod sample;
mod sessions;
mod shared_load;
mod watched;
