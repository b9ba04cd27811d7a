//! [`Messages`]: what the model sees, kept up to date.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use super::surface::event_at;
use super::{FoldError, ModelMessage, Replacement, Seq, SessionEvent, Surface, SurfacePlan, Vocabulary};

/// The messages that the model sees now, and the [`Surface`] that they stand on, without deriving them anew for each
/// request.
///
/// Each event is looked into once, when it comes. [`Messages::current`] gives a list that never changes afterwards.
///
/// ```
/// use session_persistence::{Json, Messages, SessionEvent, SurfaceOp};
///
/// let data = Json::parse(r#"{"role":"user","content":[{"type":"text","text":"Hi"}]}"#)?;
/// let log = vec![SessionEvent::new("user/message", 0, 1, data)?.with_surface_op(SurfaceOp::Append)?];
///
/// let mut messages = Messages::new(3)?;
/// let before = messages.current();
/// messages.push(&log[0], |seq| log.get(seq.get() as usize).cloned())?;
/// assert_eq!(messages.current()[0].as_json(), log[0].data());
/// assert!(before.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Messages {
    surface: Surface,
    /// Of each visible event that has a message.
    by_node: HashMap<Seq, ModelMessage>,
    list: MessageList,
    /// Whether a replacement came in since the list was made. Then it is made again when it is asked for and not
    /// before: a host that shrinks many results at once asks once.
    is_stale: bool,
}

impl Messages {
    /// The messages of an empty log of format `version`.
    ///
    /// # Errors
    ///
    /// As [`Surface::new`].
    pub fn new(version: u32) -> Result<Self, FoldError> {
        Ok(Self { surface: Surface::new(version)?, ..Self::default() })
    }

    /// The same for a host with event types of its own.
    ///
    /// # Errors
    ///
    /// As [`Surface::of`].
    pub fn of(vocabulary: Arc<Vocabulary>) -> Result<Self, FoldError> {
        Ok(Self { surface: Surface::of(vocabulary)?, ..Self::default() })
    }

    /// The messages of a whole log, given from its first event on. Only events that are visible at its end are looked
    /// into.
    ///
    /// # Errors
    ///
    /// As [`Surface::fold`], and [`FoldError::UnexpectedData`] for a visible event without a message.
    pub fn fold(version: u32, events: &[SessionEvent]) -> Result<Self, FoldError> {
        let (surface, _) = Surface::fold(version, events)?;
        let visible = surface.nodes().filter_map(|seq| event_at(events, seq));
        let messages =
            visible.filter_map(|event| ModelMessage::project(&event).transpose()).collect::<Result<Vec<_>, _>>()?;
        let by_node = messages.iter().map(|message| (message.seq(), message.clone())).collect();
        Ok(Self { surface, by_node, list: MessageList(messages.into()), is_stale: false })
    }

    /// What the next event of the log would change. Changes nothing itself.
    ///
    /// # Errors
    ///
    /// As [`Surface::plan`], and [`FoldError::UnexpectedData`] for a visible event without a message.
    pub fn plan(
        &self,
        event: &SessionEvent,
        earlier: impl FnOnce(Seq) -> Option<SessionEvent>,
    ) -> Result<MessagePlan, FoldError> {
        let surface = self.surface.plan(event, earlier)?;
        let message = if surface.is_visible() { ModelMessage::project(event)? } else { None };
        Ok(MessagePlan { surface, message })
    }

    /// Carries out a plan, and gives the replacement where it is one.
    ///
    /// # Errors
    ///
    /// As [`Surface::apply`].
    pub fn apply(&mut self, plan: MessagePlan) -> Result<Option<Replacement>, FoldError> {
        let replacement = self.surface.apply(plan.surface)?;
        for node in replacement.iter().flat_map(|replacement| &replacement.shadowed) {
            self.by_node.remove(node);
        }
        self.is_stale |= replacement.is_some();
        if let Some(message) = plan.message {
            if !self.is_stale {
                self.list.push(message.clone());
            }
            self.by_node.insert(message.seq(), message);
        }
        Ok(replacement)
    }

    /// [`Messages::plan`] and [`Messages::apply`] in one.
    ///
    /// # Errors
    ///
    /// As [`Messages::plan`]; nothing is changed then.
    pub fn push(
        &mut self,
        event: &SessionEvent,
        earlier: impl FnOnce(Seq) -> Option<SessionEvent>,
    ) -> Result<Option<Replacement>, FoldError> {
        let plan = self.plan(event, earlier)?;
        self.apply(plan)
    }

    /// The messages as they are now. What comes later does not change the list that was given.
    ///
    /// Costs nothing after appends; after replacements, once, a pointer for each message. An append copies as many
    /// pointers when the last list is still held somewhere.
    pub fn current(&mut self) -> MessageList {
        if std::mem::take(&mut self.is_stale) {
            let visible = self.surface.nodes().filter_map(|node| self.by_node.get(&node));
            self.list = MessageList(visible.cloned().collect::<Vec<_>>().into());
        }
        self.list.clone()
    }

    /// The surface that they stand on.
    pub fn surface(&self) -> &Surface {
        &self.surface
    }
}

/// What the next event of a log changes on its surface and in its messages, checked and not yet carried out.
#[derive(Debug, Clone)]
#[must_use = "a plan changes nothing until it is applied"]
pub struct MessagePlan {
    surface: SurfacePlan,
    message: Option<ModelMessage>,
}

impl MessagePlan {
    /// What it changes on the surface.
    pub fn surface(&self) -> &SurfacePlan {
        &self.surface
    }

    /// The message that it brings; nothing for an event that is not visible or holds an empty place.
    pub fn message(&self) -> Option<&ModelMessage> {
        self.message.as_ref()
    }
}

/// The messages that a model sees, as they were at one time: immutable and shared, a clone costs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageList(Arc<Vec<ModelMessage>>);

impl MessageList {
    fn push(&mut self, message: ModelMessage) {
        Arc::make_mut(&mut self.0).push(message);
    }
}

impl Deref for MessageList {
    type Target = [ModelMessage];

    fn deref(&self) -> &[ModelMessage] {
        &self.0
    }
}

impl<'a> IntoIterator for &'a MessageList {
    type Item = &'a ModelMessage;
    type IntoIter = std::slice::Iter<'a, ModelMessage>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
