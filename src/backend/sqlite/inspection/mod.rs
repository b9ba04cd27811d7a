//! Inspection: what a store keeps beside its logs, held against them.
//!
//! Each look is a read transaction of its own that ends with a page, so that no inspection holds the WAL for long; what
//! is found is told between two of them. Only SQLite's check of its own pages is one statement, and lasts as long as
//! reading the file does; in rollback mode a writer waits for it as for any other reader.

mod counts;
mod orphans;
mod structure;

use super::Database;
use crate::seam::{Fault, Result};

impl Database {
    pub(super) fn inspect_all(&self, found: &mut dyn FnMut(Fault)) -> Result<()> {
        self.check_schema(found)?;
        self.check_pages(found)?;
        self.check_references(found)?;
        self.find_orphaned_events(found)?;
        self.find_orphaned_types(found)?;
        self.check_counts(found)?;
        self.check_wal(found)
    }
}
