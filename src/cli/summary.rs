//! What an event says, in a few words for a person.

use super::screen::{AnsiColor, BOLD, DIM, Style, color};
use crate::log::SessionEvent;
use crate::log::payload::{
    Content, EndSeed, Message, Step, StepMessage, Title, ToolCall, TurnEnd, TurnEndReason, TurnStart,
};

/// How much of a text is shown, in characters.
const TEXT: usize = 600;
/// How much of the arguments of a tool, of its answer and of other data is shown, in characters.
const DETAIL: usize = 240;

/// How much of the arguments is shown where a message asks for a call, in characters.
const ASKED: usize = 48;

/// What an event says: paragraphs of raw text, which may hold anything, and how its type is painted.
pub(super) struct Summary {
    pub(super) style: Style,
    pub(super) paragraphs: Vec<String>,
}

/// The summary of an event; of one whose data has another shape than its type tells, the start of the data.
pub(super) fn of(event: &SessionEvent) -> Summary {
    match known(event) {
        Ok(Some(summary)) => summary,
        Ok(None) | Err(_) => Summary { style: Style::new(), paragraphs: vec![start(event.data().as_str(), DETAIL)] },
    }
}

fn known(event: &SessionEvent) -> Result<Option<Summary>, serde_json::Error> {
    let quiet = |text: String| Summary { style: DIM, paragraphs: vec![text] };
    Ok(Some(match event.event_type() {
        "turn/start" => quiet(format!("turn {}", event.data_as::<TurnStart>()?.turn)),
        "turn/end" => turn_end(&event.data_as()?),
        "step/start" | "step/end" => {
            let step: Step = event.data_as()?;
            quiet(format!("turn {}, step {}", step.turn, step.step))
        }
        "user/message" => {
            let message: Message = event.data_as()?;
            let mut paragraphs = said(&message.content);
            if message.source.kind != "user" {
                paragraphs.insert(0, format!("(from {})", message.source.kind));
            }
            Summary { style: color(AnsiColor::Green), paragraphs }
        }
        "assistant/message" => {
            let answer: StepMessage = event.data_as()?;
            let mut paragraphs = said(&answer.message.content);
            if let Some(usage) = answer.usage {
                paragraphs.push(format!("({} tokens in, {} out)", usage.input_tokens, usage.output_tokens));
            }
            Summary { style: color(AnsiColor::Cyan), paragraphs }
        }
        "system/message" => Summary { style: DIM, paragraphs: said(&event.data_as::<StepMessage>()?.message.content) },
        "tool/call" => {
            let call: ToolCall = event.data_as()?;
            let text = format!("{} {}", call.name, start(&call.arguments, DETAIL));
            Summary { style: color(AnsiColor::Yellow), paragraphs: vec![text] }
        }
        "tool/result" => tool_result(&event.data_as()?),
        "session/title" => {
            Summary { style: BOLD, paragraphs: vec![format!("“{}”", event.data_as::<Title>()?.title)] }
        }
        "session/end-seed" => quiet(
            match event.data_as::<EndSeed>()?.inherited {
                true => "everything before this comes from the parent session",
                false => "the session was taken up again here",
            }
            .to_owned(),
        ),
        _ => return Ok(None),
    }))
}

fn turn_end(end: &TurnEnd) -> Summary {
    let (how, style) = match &end.reason {
        TurnEndReason::Completed => ("completed".to_owned(), DIM),
        TurnEndReason::Blocked => ("stopped by a hook".to_owned(), color(AnsiColor::Yellow)),
        TurnEndReason::MaxTokens => ("cut at the limit of tokens".to_owned(), color(AnsiColor::Yellow)),
        TurnEndReason::Interrupted => ("interrupted".to_owned(), color(AnsiColor::Yellow)),
        TurnEndReason::Aborted { reason } => (format!("aborted ({})", reason.kind), color(AnsiColor::Yellow)),
        TurnEndReason::Error { error } => {
            (format!("failed: {} ({})", error.message, error.code), color(AnsiColor::Red))
        }
    };
    Summary { style, paragraphs: vec![format!("turn {} {how}", end.turn)] }
}

fn tool_result(result: &StepMessage) -> Summary {
    let mut paragraphs = Vec::new();
    let mut style = color(AnsiColor::Yellow);
    if let Some(error) = &result.error {
        paragraphs.push(format!("{} ({})", error.name, error.code));
    }
    for block in &result.message.content {
        let Content::ToolResult { content, is_error, .. } = block else { continue };
        if *is_error {
            style = color(AnsiColor::Red);
        }
        paragraphs.extend(content.iter().map(|block| of_block(block, DETAIL, ASKED)));
    }
    Summary { style, paragraphs }
}

fn said(content: &[Content]) -> Vec<String> {
    content.iter().map(|block| of_block(block, TEXT, ASKED)).collect()
}

/// What a part of a message says: raw text, of at most `limit` characters, or `asked` of the arguments of a call.
pub(super) fn of_block(block: &Content, limit: usize, asked: usize) -> String {
    match block {
        Content::Text { text } => start(text, limit),
        Content::Reasoning { text } => format!("(thinks) {}", start(text, limit)),
        // The call itself, which follows, shows more of it.
        Content::ToolCall { name, arguments, .. } => format!("→ {name} {}", start(arguments, asked)),
        Content::ToolResult { .. } => "(the answer of a tool)".to_owned(),
        Content::Other => "(an image, a file or something newer)".to_owned(),
    }
}

fn start(text: &str, limit: usize) -> String {
    let text = text.trim_end();
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Json;

    fn paragraphs(event_type: &str, data: &str) -> Vec<String> {
        of(&SessionEvent::new(event_type, 0, 0, Json::parse(data).unwrap()).unwrap()).paragraphs
    }

    #[test]
    fn core_events_are_told_in_words() {
        assert_eq!(
            paragraphs("turn/end", r#"{"turn":2,"reason":{"kind":"aborted","reason":{"kind":"user"}}}"#),
            ["turn 2 aborted (user)"]
        );
        let call = r#"{"turn":1,"step":1,"callId":"c","name":"ls","arguments":"{\"a\":1}"}"#;
        assert_eq!(paragraphs("tool/call", call), ["ls {\"a\":1}"]);
        let plugin = r#"{"role":"user","content":[{"type":"text","text":"hi "}],"source":{"kind":"plugin"}}"#;
        assert_eq!(paragraphs("user/message", plugin), ["(from plugin)", "hi"]);
    }

    #[test]
    fn data_of_another_shape_is_shown_as_it_is() {
        assert_eq!(paragraphs("turn/start", r#"{"turn":"\ud83d"}"#), [r#"{"turn":"\ud83d"}"#]);
        assert_eq!(paragraphs("acme/pulse", "[1.0]"), ["[1.0]"]);
        assert_eq!(paragraphs("x", &format!("\"{}\"", "é".repeat(1000)))[0].chars().count(), DETAIL + 1);
    }
}
