//! What is stored, a bounded part at a time: the sessions of a store, those that descend from one, and the events of a
//! log.

mod descent;
mod listed;
mod log_pages;
mod pages;

pub(crate) use descent::{Descent, descend};
pub use listed::Listed;
pub(crate) use log_pages::LogPages;
pub(crate) use pages::Pages;
