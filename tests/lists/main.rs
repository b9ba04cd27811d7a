//! What a list costs, counted in bytes that are read, which no busy machine changes.

mod place;
mod reading;
