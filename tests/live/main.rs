//! Live sessions in memory: what an append checks and in which order, what a session may start with, who is told of what.

mod append;
mod interleaving;
mod invariants;
mod observers;
mod place;
mod resumption;
mod scene;
mod seeds;
mod values;
