//! [`ModelMessage`]: one message as the model sees it.

use serde::de::DeserializeOwned;

use super::json_tokens::{is_empty_list, is_object, member};
use super::surface::Kind;
use super::text::excerpt;
use super::{FoldError, Json, Seq, SessionEvent};

/// One message as the model sees it: the text that stands in its event, to the byte. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelMessage {
    seq: Seq,
    json: Json,
}

impl ModelMessage {
    /// The message of an event: the data of a `user/message`, the `message` in the data of a `system/message`,
    /// `assistant/message` or `tool/result`. Nothing is added, merged or reframed.
    ///
    /// Nothing for any other event, and for a `system/message` or `assistant/message` whose content is empty: such an
    /// event holds a place on the surface and says nothing.
    ///
    /// # Errors
    ///
    /// [`FoldError::UnexpectedData`] where no message stands.
    pub fn project(event: &SessionEvent) -> Result<Option<Self>, FoldError> {
        // The newest format has all types; those that an older one has not are not on its surface.
        let Some(kind) = Kind::of(event.event_type(), super::header::CURRENT_VERSION) else { return Ok(None) };
        #[cfg(test)]
        tests::PROJECTIONS.set(tests::PROJECTIONS.get() + 1);
        let seq = event.seq();
        let data = event.data().as_str();
        let refused = |path, expected, found: Option<&str>| FoldError::UnexpectedData {
            seq,
            event_type: kind.event_type(),
            path,
            expected,
            found: found.map_or("nothing".into(), |text| excerpt(text).into()),
        };
        if kind == Kind::User {
            if !is_object(data) {
                return Err(refused("data", "a message object", Some(data)));
            }
            return Ok(Some(ModelMessage { seq, json: event.data().clone() }));
        }
        let found = member(data, "message");
        let message = found
            .filter(|message| is_object(message))
            .ok_or_else(|| refused("data.message", "a message object", found))?;
        if kind != Kind::ToolResult {
            let content = member(message, "content");
            let is_empty = content.and_then(is_empty_list);
            if is_empty.ok_or_else(|| refused("data.message.content", "a list of blocks", content))? {
                return Ok(None);
            }
        }
        Ok(Some(ModelMessage { seq, json: Json::trusted(message) }))
    }

    /// The event that it comes from.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Its text.
    pub fn as_json(&self) -> &Json {
        &self.json
    }

    /// It as a Rust value, as in `message.read::<payload::Message>()`.
    ///
    /// # Errors
    ///
    /// As [`Json::to`].
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.json.to()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// How many events were looked into.
        pub(crate) static PROJECTIONS: Cell<u64> = const { Cell::new(0) };
    }

    fn message(event_type: &str, data: &str) -> Result<Option<ModelMessage>, FoldError> {
        ModelMessage::project(&SessionEvent::new(event_type, 7, 0, Json::parse(data).unwrap()).unwrap())
    }

    fn text_of(event_type: &str, data: &str) -> Option<String> {
        message(event_type, data).unwrap().map(|message| message.as_json().as_str().to_owned())
    }

    #[test]
    fn a_message_is_the_text_that_stands_in_its_event() {
        let user = r#"{ "content":[],"n":1.0,"k":1,"k":2,"s":"\ud800" }"#;
        assert_eq!(text_of("user/message", user).as_deref(), Some(user));
        let inner = r#"{ "content" : [ {"type":"text","text":"\u0041"} ] , "role":"x" }"#;
        let data = format!(r#"{{"turn":1,"message":{inner},"stream":[{{"message":1}}]}}"#);
        for event_type in ["system/message", "assistant/message", "tool/result"] {
            assert_eq!(text_of(event_type, &data).as_deref(), Some(inner), "{event_type}");
        }
    }

    #[test]
    fn an_empty_system_or_assistant_message_has_no_message() {
        let data = r#"{"message":{"content":[ ]}}"#;
        assert_eq!(text_of("system/message", data), None);
        assert_eq!(text_of("assistant/message", data), None);
        assert_eq!(text_of("tool/result", data).as_deref(), Some(r#"{"content":[ ]}"#));
        assert_eq!(text_of("user/message", r#"{"content":[]}"#).as_deref(), Some(r#"{"content":[]}"#));
    }

    #[test]
    fn other_events_have_no_message() {
        for event_type in ["turn/start", "assistant/attempt", "assistant/chunk", "acme/message"] {
            assert_eq!(text_of(event_type, r#"{"message":{"content":[1]}}"#), None, "{event_type}");
        }
    }

    #[test]
    fn data_without_a_message_is_refused_with_what_was_found() {
        for (event_type, data, told) in [
            ("user/message", "[]", "seq 7: data of user/message must be a message object, found []"),
            ("tool/result", "{}", "seq 7: data.message of tool/result must be a message object, found nothing"),
            (
                "tool/result",
                r#"{"message":"m"}"#,
                "seq 7: data.message of tool/result must be a message object, found \"m\"",
            ),
            (
                "system/message",
                r#"{"message":{}}"#,
                "seq 7: data.message.content of system/message must be a list of blocks, found nothing",
            ),
            (
                "assistant/message",
                r#"{"message":{"content":"text"}}"#,
                "seq 7: data.message.content of assistant/message must be a list of blocks, found \"text\"",
            ),
        ] {
            assert_eq!(message(event_type, data).unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn a_message_reads_into_its_struct() {
        let data = r#"{"id":"m","role":"user","content":[{"type":"text","text":"Hi"}],"source":{"kind":"user"}}"#;
        let message = message("user/message", data).unwrap().unwrap();
        let read: crate::log::payload::Message = message.read().unwrap();
        assert_eq!((read.id.as_str(), read.content.len(), message.seq()), ("m", 1, Seq::from(7)));
    }
}
