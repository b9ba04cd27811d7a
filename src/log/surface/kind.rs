//! [`Kind`]: the event types that a surface is made of.

/// The type of an event that may stand on a surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    System,
    User,
    Assistant,
    ToolResult,
}

impl Kind {
    /// The kind of an event type; nothing for a type whose events stay in the log and are never shown to a model.
    pub(crate) fn of(event_type: &str, version: u32) -> Option<Self> {
        match event_type {
            "system/message" if version >= 3 => Some(Self::System),
            "user/message" => Some(Self::User),
            "assistant/message" => Some(Self::Assistant),
            "tool/result" => Some(Self::ToolResult),
            _ => None,
        }
    }

    pub(crate) fn event_type(self) -> &'static str {
        match self {
            Self::System => "system/message",
            Self::User => "user/message",
            Self::Assistant => "assistant/message",
            Self::ToolResult => "tool/result",
        }
    }
}
