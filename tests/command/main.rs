//! The `sessions` command as its users run it.

mod advice;
mod archives;
mod asking;
mod demo;
mod folder;
mod index;
mod looking;
mod moving;
mod places;
mod slips;
mod upkeep;
