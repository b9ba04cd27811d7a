//! The `sessions` command as its users run it.

mod asking;
mod demo;
mod folder;
mod looking;
mod moving;
mod places;
