//! [`Durability`]: what an acknowledged append survives.

/// What an acknowledged append survives. What a flush acknowledged survives a loss of power either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// The death of the process, however it dies. A loss of power may take what was appended since the last flush, from its
    /// end on and never out of its middle.
    #[default]
    OnFlush,
    /// A loss of power too: every append waits for the disk. Appends that wait at the same time share one wait where the
    /// backend can.
    EveryAppend,
}
