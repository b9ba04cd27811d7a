//! Stores that are looked after: checked, saved from damage, backed up, cleared of what is old.

mod backup;
mod compaction;
mod database_damage;
mod file_damage;
#[path = "../moving/logs.rs"]
#[allow(dead_code, reason = "the tests of moving logs use all of it")]
mod logs;
mod memory;
mod place;
mod prune;
mod removal;
mod salvage;
mod sound;
