//! [`searchable_text`]: what a person may look for in an event.

use super::SessionEvent;
use super::fields::{elements, field, fields, is_string, said};

/// How deep results are looked for in results: each level costs another pass over what is in it.
const MAX_DEPTH: usize = 16;

/// The text by which a person finds an event; empty for an event that has none.
///
/// - `user/message` and `assistant/message`: their text, the name and the arguments of each call that the model asks for,
///   and the text inside results, down to 16 results inside one another.
/// - `tool/call`: the name and the arguments. `tool/result`: its text, and the name and the code of its error.
/// - `todo/write`: the status and the content of each item.
/// - `turn/end`: `error` and the message of the error, or `aborted`, `max-tokens` or `interrupted`.
///
/// What the model thought and what systems say to it is not searched, nor is any other type. The pieces stand in their order,
/// without white space at their ends, one on a line; empty ones are left out. Data of another shape than its type has is no
/// error: what cannot be read says nothing. A lone surrogate is U+FFFD.
///
/// ```
/// use session_persistence::{searchable_text, text::parse_event};
///
/// let line = br#"{"type":"tool/call","seq":4,"time":0,"data":{"callId":"c","name":"grep","arguments":" {\"q\":1} "}}"#;
/// assert_eq!(searchable_text(&parse_event(line)?), "grep\n{\"q\":1}");
/// # Ok::<(), session_persistence::InvalidRecord>(())
/// ```
pub fn searchable_text(event: &SessionEvent) -> String {
    let data = event.data().as_str();
    let mut pieces = Pieces::default();
    match event.event_type() {
        "user/message" => pieces.message(Some(data)),
        "assistant/message" => pieces.message(field(data, "message")),
        "tool/call" => pieces.strings(fields(data, ["name", "arguments"])),
        "tool/result" => {
            let [message, error] = fields(data, ["message", "error"]);
            pieces.message(message);
            pieces.strings(error.map_or([None; 2], |error| fields(error, ["name", "code"])));
        }
        "todo/write" => {
            for item in field(data, "todos").map(elements).unwrap_or_default() {
                pieces.strings(fields(item, ["status", "content"]));
            }
        }
        "turn/end" => {
            let Some([kind, error]) = field(data, "reason").map(|reason| fields(reason, ["kind", "error"])) else {
                return String::new();
            };
            if is_string(kind, "error") {
                pieces.strings([kind, error.and_then(|error| field(error, "message"))]);
            } else if ["aborted", "max-tokens", "interrupted"].iter().any(|word| is_string(kind, word)) {
                pieces.strings([kind]);
            }
        }
        _ => {}
    }
    pieces.0
}

/// White space as the harness has it that wrote the logs: what Unicode calls so but for the control of a next line, and the
/// byte order mark.
pub(crate) fn is_white_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}

#[derive(Default)]
struct Pieces(String);

impl Pieces {
    fn message(&mut self, message: Option<&str>) {
        if let Some(content) = message.and_then(|message| field(message, "content")) {
            self.blocks(content, 0);
        }
    }

    fn blocks(&mut self, content: &str, depth: usize) {
        for block in elements(content) {
            let [kind, text, name, arguments, content] =
                fields(block, ["type", "text", "name", "arguments", "content"]);
            if is_string(kind, "text") {
                self.strings([text]);
            } else if is_string(kind, "tool-call") {
                self.strings([name, arguments]);
            } else if is_string(kind, "tool-result")
                && depth < MAX_DEPTH
                && let Some(content) = content
            {
                self.blocks(content, depth + 1);
            }
        }
    }

    fn strings<const N: usize>(&mut self, strings: [Option<&str>; N]) {
        for string in strings.into_iter().flatten() {
            let said = said(string).unwrap_or_default();
            let piece = said.trim_matches(is_white_space);
            if !piece.is_empty() {
                if !self.0.is_empty() {
                    self.0.push('\n');
                }
                self.0.push_str(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Json;

    #[track_caller]
    fn assert_text(event_type: &str, data: &str, text: &str) {
        let event = SessionEvent::new(event_type, 9, 0, Json::parse(data).unwrap()).unwrap();
        assert_eq!(searchable_text(&event), text, "{event_type} {data}");
    }

    #[test]
    fn messages_say_their_text_their_calls_and_what_stands_in_results() {
        let content = concat!(
            r#"[{"type":"reasoning","text":"secret"},{"type":"text","text":"  Hi \n there "},{"type":"text","text":" \t"},"#,
            r#"{"type":"tool-call","id":"c","name":"grep","arguments":"{\"q\":\"x\"}"},"#,
            r#"{"type":"tool-result","toolCallId":"c","content":[{"type":"text","text":"in"},{"type":"tool-result","#,
            r#""content":[{"type":"text","text":"deeper"}]},{"type":"image","text":"no"}]},{"type":"text","text":"end"}]"#,
        );
        let text = "Hi \n there\ngrep\n{\"q\":\"x\"}\nin\ndeeper\nend";
        assert_text("user/message", &format!(r#"{{"id":"secret","content":{content}}}"#), text);
        assert_text("assistant/message", &format!(r#"{{"message":{{"content":{content}}},"stream":["no"]}}"#), text);
    }

    #[test]
    fn calls_results_lists_and_ends_say_what_the_format_has_for_them() {
        assert_text("tool/call", r#"{"callId":"no","name":"bash","arguments":"ls"}"#, "bash\nls");
        assert_text(
            "tool/result",
            r#"{"message":{"content":[{"type":"tool-result","isError":true,"content":[{"type":"text","text":"out"}]}]},"error":{"name":"E","code":"C"},"meta":"no"}"#,
            "out\nE\nC",
        );
        assert_text(
            "todo/write",
            r#"{"todos":[{"content":"wash","status":"pending"},{"status":"done","content":" "}]}"#,
            "pending\nwash\ndone",
        );
        assert_text("turn/end", r#"{"reason":{"kind":"error","error":{"message":"boom","code":"no"}}}"#, "error\nboom");
        assert_text("turn/end", r#"{"reason":{"kind":"aborted","reason":{"kind":"user"}}}"#, "aborted");
        assert_text("turn/end", r#"{"reason":{"kind":"max-tokens"}}"#, "max-tokens");
        assert_text("turn/end", r#"{"reason":{"kind":"interrupted"}}"#, "interrupted");
    }

    #[test]
    fn what_systems_say_and_all_other_types_say_nothing() {
        let message = r#"{"message":{"content":[{"type":"text","text":"no"}]},"reason":{"kind":"completed"}}"#;
        for event_type in ["system/message", "assistant/attempt", "session/title", "turn/start", "turn/end", "acme/x"] {
            assert_text(event_type, message, "");
        }
        assert_text("turn/end", r#"{"reason":{"kind":"blocked"}}"#, "");
    }

    #[test]
    fn white_space_is_that_of_the_harness() {
        assert_text(
            "user/message",
            "{\"content\":[{\"type\":\"text\",\"text\":\"\u{feff}\u{a0} a\u{85}\u{2028}\"}]}",
            "a\u{85}",
        );
    }

    #[test]
    fn data_of_another_shape_says_what_can_be_read_of_it() {
        for data in ["1", "null", "[]", r#"{"content":{}}"#, r#"{"content":[1,{"type":"text","text":7}]}"#] {
            assert_text("user/message", data, "");
            assert_text("turn/end", data, "");
            assert_text("todo/write", data, "");
        }
        assert_text("user/message", r#"{"content":[{"type":"text","text":"\ud800é\n"}]}"#, "\u{fffd}é");
    }

    #[test]
    fn results_are_looked_for_in_results_only_so_deep() {
        let nested = |levels: usize| {
            let open = r#"[{"type":"tool-result","content":"#.repeat(levels);
            format!(r#"{{"content":{open}[{{"type":"text","text":"in"}}]{}}}"#, "}]".repeat(levels))
        };
        assert_text("user/message", &nested(16), "in");
        assert_text("user/message", &nested(17), "");
        assert_text("user/message", &nested(20_000), "");
    }
}
