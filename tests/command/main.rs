//! The `sessions` command as its users run it.

mod advice;
mod archives;
mod asking;
mod demo;
mod folder;
mod follow;
mod index;
mod listing;
mod looking;
mod messages;
mod moving;
mod places;
mod search;
mod slips;
mod stats;
mod upkeep;
