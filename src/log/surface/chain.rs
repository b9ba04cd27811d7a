//! [`Chain`]: the nodes of a surface in their order, each found by its seq.

use std::collections::HashMap;

use super::Kind;
use super::steps::step;
use crate::log::Seq;

/// A doubly linked list, so that a change costs what it changes and not what the list holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Chain {
    links: HashMap<Seq, Link>,
    ends: Option<(Seq, Seq)>,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    kind: Kind,
    before: Option<Seq>,
    behind: Option<Seq>,
}

/// The nodes between two ends, or how many steps behind its end the start stands.
pub(super) type Span = Result<Vec<Seq>, usize>;

impl Chain {
    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    pub(super) fn first(&self) -> Option<Seq> {
        self.ends.map(|(first, _)| first)
    }

    pub(super) fn last(&self) -> Option<Seq> {
        self.ends.map(|(_, last)| last)
    }

    pub(super) fn kind(&self, seq: Seq) -> Option<Kind> {
        self.link(seq).map(|link| link.kind)
    }

    pub(super) fn behind(&self, seq: Seq) -> Option<Seq> {
        self.link(seq)?.behind
    }

    fn link(&self, seq: Seq) -> Option<&Link> {
        step();
        self.links.get(&seq)
    }

    /// The nodes from `start` to `end`, both of which are in the chain.
    ///
    /// Goes ahead from both at once: whichever stands first meets the other after as many steps as there are nodes
    /// between them, so that a reversed range costs no walk to the end of the chain.
    pub(super) fn span(&self, start: Seq, end: Seq) -> Span {
        let mut nodes = vec![start];
        if start == end {
            return Ok(nodes);
        }
        let (mut ahead, mut from_end) = (Some(start), Some(end));
        for distance in 1.. {
            ahead = ahead.and_then(|node| self.behind(node));
            nodes.extend(ahead);
            if ahead == Some(end) {
                break;
            }
            from_end = from_end.and_then(|node| self.behind(node));
            if from_end == Some(start) {
                return Err(distance);
            }
        }
        Ok(nodes)
    }

    pub(super) fn push(&mut self, seq: Seq, kind: Kind) {
        let before = self.last();
        self.insert(seq, Link { kind, before, behind: None });
    }

    /// Puts one node in the place of `nodes`, which stand in the chain one behind the other.
    pub(super) fn replace(&mut self, nodes: &[Seq], seq: Seq, kind: Kind) {
        let before = nodes.first().and_then(|first| self.link(*first)?.before);
        let behind = nodes.last().and_then(|last| self.behind(*last));
        for node in nodes {
            step();
            self.links.remove(node);
        }
        self.insert(seq, Link { kind, before, behind });
    }

    fn insert(&mut self, seq: Seq, link: Link) {
        step();
        if let Some(before) = link.before.and_then(|node| self.links.get_mut(&node)) {
            before.behind = Some(seq);
        }
        if let Some(behind) = link.behind.and_then(|node| self.links.get_mut(&node)) {
            behind.before = Some(seq);
        }
        let first = if link.before.is_none() { Some(seq) } else { self.first() };
        let last = if link.behind.is_none() { Some(seq) } else { self.last() };
        self.ends = first.zip(last);
        self.links.insert(seq, link);
    }
}
