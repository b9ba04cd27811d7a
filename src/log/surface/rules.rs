//! The rules that an event must keep to change a surface, in their order.

use std::collections::HashSet;

use super::steps::step;
use super::{Change, Kind, Replacement, Surface};
use crate::log::json_tree::{KeyOrder, Tree};
use crate::log::text::{excerpt, push_surface_op};
use crate::log::{FoldError, Seq, SessionEvent, SurfaceOp};

/// The first format with system messages, and with answers that hold their chunks instead of citing them.
const FIRST_WITH_SYSTEM_MESSAGES: u32 = 3;

/// The last format that looks for the range before it looks at the sources, and where an answer may cite no chunk.
const LAST_WITH_CHUNKS: u32 = 1;

/// What an event changes, as far as it keeps the rules.
pub(super) fn change(
    surface: &Surface,
    event: &SessionEvent,
    earlier: impl FnOnce(Seq) -> Option<SessionEvent>,
) -> Result<Change, FoldError> {
    let Some(kind) = surface.kind(event) else {
        return log_only(surface, event).map(|()| Change::None);
    };
    let rules = Rules { surface, event, kind };
    let Some((start, end)) = rules.operation()? else {
        rules.sources()?;
        return Ok(Change::Append(kind));
    };
    let shadowed = if surface.version <= LAST_WITH_CHUNKS {
        let shadowed = rules.range(start, end)?;
        rules.sources()?;
        shadowed
    } else {
        rules.is_earlier(start, end)?;
        rules.sources()?;
        rules.range(start, end)?
    };
    rules.covers(&shadowed)?;
    rules.rewrites_a_result(&shadowed, earlier)?;
    rules.spares_the_system_prompt(&shadowed)?;
    Ok(Change::Replace(kind, Replacement { seq: event.seq(), start, end, shadowed }))
}

/// An event that no model sees changes no surface, unless nobody here knows what it is and its producer says that this
/// does no harm.
fn log_only(surface: &Surface, event: &SessionEvent) -> Result<(), FoldError> {
    let key = match (event.surface_op(), event.source_event_seqs()) {
        (Some(_), _) => "surfaceOp",
        (None, Some(_)) => "sourceEventSeqs",
        (None, None) => return Ok(()),
    };
    if event.is_ignorable() && !surface.knows(event.event_type()) {
        return Ok(());
    }
    Err(FoldError::NotEligible { seq: event.seq(), event_type: excerpt(event.event_type()).into(), key })
}

struct Rules<'a> {
    surface: &'a Surface,
    event: &'a SessionEvent,
    kind: Kind,
}

impl Rules<'_> {
    fn seq(&self) -> Seq {
        self.event.seq()
    }

    /// The range of a replacement; nothing for an append.
    fn operation(&self) -> Result<Option<(Seq, Seq)>, FoldError> {
        let event_type = self.kind.event_type();
        let Some(op) = self.event.surface_op() else {
            return Err(FoldError::OperationMissing { seq: self.seq(), event_type });
        };
        let is_legacy = self.surface.version < FIRST_WITH_SYSTEM_MESSAGES;
        match op {
            SurfaceOp::Append => return Ok(None),
            SurfaceOp::Replace { start_seq, end_seq } if !is_legacy => return Ok(Some((*start_seq, *end_seq))),
            SurfaceOp::LegacyReplace { start, end } if is_legacy => return Ok(Some((*start, *end))),
            _ => {}
        }
        let expected = match op {
            SurfaceOp::Opaque(json) if !json.as_str().starts_with('{') => "\"append\" or the object of a replacement",
            _ if is_legacy => r#"{"op":"replace","start":SEQ,"end":SEQ}"#,
            _ => r#"{"op":"replace","startSeq":SEQ,"endSeq":SEQ}"#,
        };
        let mut found = String::new();
        push_surface_op(&mut found, op);
        Err(FoldError::OperationInvalid { seq: self.seq(), event_type, expected, found: excerpt(&found).into() })
    }

    fn is_earlier(&self, start: Seq, end: Seq) -> Result<(), FoldError> {
        let seq = self.seq();
        if self.surface.version >= FIRST_WITH_SYSTEM_MESSAGES && (start >= seq || end >= seq) {
            return Err(FoldError::RangeNotEarlier { seq, start, end });
        }
        Ok(())
    }

    /// That the list holds seqs and nothing else is the event's own promise.
    fn sources(&self) -> Result<(), FoldError> {
        let seq = self.seq();
        let Some(sources) = self.event.source_event_seqs() else { return Ok(()) };
        let answers = self.kind == Kind::Assistant;
        if answers && self.surface.version >= FIRST_WITH_SYSTEM_MESSAGES {
            return Err(FoldError::AssistantSources { seq });
        }
        if sources.is_empty() {
            let may_be_empty = answers && self.surface.version <= LAST_WITH_CHUNKS;
            return if may_be_empty { Ok(()) } else { Err(FoldError::SourcesEmpty { seq }) };
        }
        let grows = sources.windows(2).all(|pair| {
            step();
            pair[0] < pair[1]
        });
        if !grows {
            let mut met = HashSet::with_capacity(sources.len());
            let repeated = sources.iter().find(|source| {
                step();
                !met.insert(**source)
            });
            if let Some(source) = repeated {
                return Err(FoldError::SourceRepeated { seq, cited: *source });
            }
        }
        match sources.iter().find(|source| **source >= seq) {
            Some(source) => Err(FoldError::SourceNotEarlier { seq, cited: *source }),
            None => Ok(()),
        }
    }

    fn range(&self, start: Seq, end: Seq) -> Result<Vec<Seq>, FoldError> {
        let seq = self.seq();
        for (node, which) in [(start, "start"), (end, "end")] {
            if !self.surface.contains(node) {
                return Err(FoldError::NotOnSurface { seq, which, node });
            }
        }
        let reversed = |distance| FoldError::RangeReversed { seq, start, end, distance };
        self.surface.chain.span(start, end).map_err(reversed)
    }

    fn covers(&self, shadowed: &[Seq]) -> Result<(), FoldError> {
        let mut missing: HashSet<Seq> = shadowed.iter().copied().collect();
        for source in self.event.source_event_seqs().unwrap_or_default() {
            step();
            missing.remove(source);
        }
        if missing.is_empty() {
            return Ok(());
        }
        let missing = shadowed.iter().copied().filter(|node| missing.contains(node)).collect();
        Err(FoldError::NotCovered { seq: self.seq(), missing })
    }

    fn rewrites_a_result(
        &self,
        shadowed: &[Seq],
        earlier: impl FnOnce(Seq) -> Option<SessionEvent>,
    ) -> Result<(), FoldError> {
        if self.kind != Kind::ToolResult {
            return Ok(());
        }
        let seq = self.seq();
        let [node] = *shadowed else {
            return Err(FoldError::ResultOverSeveral { seq, found: shadowed.len() });
        };
        if let Some(found) = self.surface.chain.kind(node).filter(|kind| *kind != Kind::ToolResult) {
            return Err(FoldError::ResultOverAnother { seq, node, found: found.event_type() });
        }
        let is_it = |event: &SessionEvent| event.seq() == node && event.event_type() == self.kind.event_type();
        let Some(before) = earlier(node).filter(is_it) else {
            return Err(FoldError::EventNotGiven { seq, node });
        };
        match changes_beside_content(before.data().as_str(), self.event.data().as_str()) {
            None => Ok(()),
            Some(path) => Err(FoldError::ResultChanged { seq, node, path: excerpt(&path).into() }),
        }
    }

    fn spares_the_system_prompt(&self, shadowed: &[Seq]) -> Result<(), FoldError> {
        let Some(head) = self.surface.first().filter(|head| shadowed.first() == Some(head)) else { return Ok(()) };
        let holds_the_prompt = self.surface.chain.kind(head) == Some(Kind::System);
        if holds_the_prompt && (self.kind != Kind::System || shadowed.len() > 1) {
            let found = self.kind.event_type();
            return Err(FoldError::SystemPromptReplaced { seq: self.seq(), head, found, nodes: shadowed.len() });
        }
        Ok(())
    }
}

/// Where two results of a tool differ in more than what their one block says.
fn changes_beside_content(before: &str, after: &str) -> Option<String> {
    let [before, after] = [before, after].map(|data| {
        let mut tree = Tree::of(data);
        let content = tree.root().and_then(|data| tree.member(data, "message"));
        let content = content.and_then(|message| tree.member(message, "content"));
        if let Some(block) = content.and_then(|content| tree.only_item(content)) {
            tree.remove(block, "content");
        }
        tree
    });
    Tree::difference(&before, &after, KeyOrder::Free)
}
