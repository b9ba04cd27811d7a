//! The data of the core event types as Rust structs, for [`SessionEvent::data_as`](super::SessionEvent::data_as).
//!
//! They read what a consumer asks for and pass over keys that they do not know. What is stored is always the event's
//! text, never a struct printed again. Each struct names the event types whose data it is.

use serde::{Deserialize, Serialize};

/// `turn/start`. Turns count from 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnStart {
    /// The turn.
    pub turn: u64,
}

/// `turn/end`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// The turn.
    pub turn: u64,
    /// How it ended.
    pub reason: TurnEndReason,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TurnEndReason {
    /// The model had finished.
    Completed,
    /// A hook stopped it.
    Blocked,
    /// The model reached its limit of tokens.
    MaxTokens,
    /// The process ended within the turn; written by the repair.
    Interrupted,
    /// Somebody or something aborted it.
    Aborted {
        /// Who or what.
        reason: AbortReason,
    },
    /// It failed.
    Error {
        /// The failure.
        error: Failure,
    },
}

/// Who or what aborted a turn: `user`, `parent`, `disposed`, `legacy`, or a hook's own kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbortReason {
    /// The kind.
    pub kind: String,
}

/// A failure of a model, a tool or a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What happened, for a person.
    pub message: String,
    /// What happened, for a program.
    pub code: String,
}

/// `step/start` and `step/end`. Steps count from 1 within their turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The turn.
    pub turn: u64,
    /// The step.
    pub step: u64,
}

/// A message: the data of `user/message`, and a part of that of the other message types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its id; absent in logs from before messages had one.
    #[serde(default)]
    pub id: String,
    /// `user`, `assistant` or `system`.
    pub role: String,
    /// What it says.
    pub content: Vec<Content>,
    /// Where it came from.
    #[serde(default)]
    pub source: Source,
}

/// Where a message came from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// `user`, `model`, `tool`, `plugin`, ...
    pub kind: String,
    /// The call that a `tool` answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The provider of a `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model of a `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A block of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought.
    Reasoning {
        /// The text.
        text: String,
    },
    /// A call that the model asks for.
    ToolCall {
        /// The id of the call.
        id: String,
        /// The tool.
        name: String,
        /// The arguments, as the raw text that the model produced.
        arguments: String,
    },
    /// The answer of a tool.
    #[serde(rename_all = "camelCase")]
    ToolResult {
        /// The id of the call.
        tool_call_id: String,
        /// What it says.
        content: Vec<Content>,
        /// Whether it is an error.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// An image, a file, or a block of a later format.
    #[serde(other)]
    Other,
}

/// `system/message`, `assistant/message` and `tool/result`: a message in its step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepMessage {
    /// The turn.
    pub turn: u64,
    /// The step.
    pub step: u64,
    /// The message.
    pub message: Message,
    /// What a model's answer cost, for `assistant/message`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why a tool failed, for `tool/result`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
}

/// Why a tool failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolError {
    /// The name of the error.
    pub name: String,
    /// Its code.
    pub code: String,
}

/// Tokens that a model's answer cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens that the model read.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens that it wrote.
    #[serde(default)]
    pub output_tokens: u64,
    /// Of those read, how many came from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Of those read, how many went into a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Of those written, how many were reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

/// `tool/call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The turn.
    pub turn: u64,
    /// The step.
    pub step: u64,
    /// The id of the call.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// The arguments, as the raw text that the model produced.
    pub arguments: String,
}

/// `session/title`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Title {
    /// The title.
    pub title: String,
    /// The messages that it was made from; empty where a person wrote it.
    #[serde(default)]
    pub message_seqs: Vec<u64>,
    /// Who made it.
    pub source: Source,
}

/// `session/end-seed`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EndSeed {
    /// Whether the events before it were inherited from a parent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherited: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_data_reads_into_its_struct() {
        let end: TurnEnd = serde_json::from_str(r#"{"turn":1,"reason":{"kind":"max-tokens"}}"#).unwrap();
        assert_eq!(end.reason, TurnEndReason::MaxTokens);
        let end: TurnEnd =
            serde_json::from_str(r#"{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"user"}}}"#).unwrap();
        assert_eq!(end.reason, TurnEndReason::Aborted { reason: AbortReason { kind: "user".into() } });
        let result: StepMessage = serde_json::from_str(
            r#"{"turn":1,"step":2,"message":{"source":{"kind":"tool","callId":"c"},"content":[{"type":"tool-result","toolCallId":"c","content":[{"type":"text","text":"ok"},{"type":"image","attachment":{}}],"isError":true}],"role":"user","id":"m"},"error":{"name":"E","code":"C"}}"#,
        )
        .unwrap();
        assert_eq!(result.message.source.call_id.as_deref(), Some("c"));
        let text = Content::Text { text: "ok".into() };
        let Content::ToolResult { content, is_error: true, .. } = &result.message.content[0] else {
            panic!("a result")
        };
        assert_eq!(content, &[text, Content::Other]);
    }
}
