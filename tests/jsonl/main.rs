//! The store of plain files: what it writes, finds again, cuts off, refuses and leaves alone.

mod churn;
mod damage;
mod layout;
mod older;
mod ownership;
mod place;
mod read_only;
mod tail;
