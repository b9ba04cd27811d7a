//! [`SurfaceIndex`]: what became of each event on the surface of its log.

use std::collections::HashMap;

use super::SurfaceState;
use crate::log::{FoldError, Replacement, Seq, SessionEvent, Surface};

/// What became of each event of a log on its surface.
pub(super) struct SurfaceIndex {
    surface: Surface,
    /// By the event that replaces.
    replacements: HashMap<Seq, Replacement>,
    /// By the event that was replaced.
    replaced_by: HashMap<Seq, Seq>,
}

impl SurfaceIndex {
    pub(super) fn fold(version: u32, events: &[SessionEvent]) -> Result<Self, FoldError> {
        let (surface, replacements) = Surface::fold(version, events)?;
        let replaced_by = replacements.iter().flat_map(|r| r.shadowed.iter().map(|seq| (*seq, r.seq))).collect();
        Ok(Self { surface, replacements: replacements.into_iter().map(|r| (r.seq, r)).collect(), replaced_by })
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = Seq> + '_ {
        self.surface.nodes()
    }

    pub(super) fn state(&self, seq: Seq) -> SurfaceState {
        if self.surface.contains(seq) {
            SurfaceState::Current
        } else if self.replaced_by.contains_key(&seq) {
            SurfaceState::Shadowed
        } else {
            SurfaceState::LogOnly
        }
    }

    /// What an event replaced, in the order of the surface.
    pub(super) fn replaced(&self, seq: Seq) -> &[Seq] {
        self.replacements.get(&seq).map_or(&[], |replacement| &replacement.shadowed)
    }

    /// What stands for an event, what stands for that, and so on to what is on the surface now.
    pub(super) fn replacement_chain(&self, seq: Seq) -> Vec<Seq> {
        // Each is later than the one before it, so that this ends.
        std::iter::successors(self.replaced_by.get(&seq), |seq| self.replaced_by.get(seq)).copied().collect()
    }
}
