//! The rules of single event types that a live session keeps before it stores anything: what a stored log may break
//! without being unreadable, and what no session may be made of.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::log::SessionEvent;

/// What an appended event of its type must be, beside what any event must be.
pub(super) fn check_appended(event: &SessionEvent) -> Result<(), String> {
    match event.event_type() {
        "request/header" => check_request_header(event),
        "tool/result" => check_error_is_told(event),
        _ => Ok(()),
    }
}

/// What an event of a seed must be, beside what an appended one must be.
pub(super) fn check_seeded(event: &SessionEvent) -> Result<(), String> {
    check_appended(event)?;
    match event.event_type() {
        "request/header" => check_seeded_request_header(event),
        "user/message" => {
            let message: Message<'_> = read(event)?;
            message.check("user")
        }
        "system/message" => {
            let message = wrapped(event)?;
            message.check("system")?;
            message.check_source("plugin", &["plugin"])
        }
        "assistant/message" => {
            let settled: Settled = read(event)?;
            settled.check()?;
            let message = wrapped(event)?;
            message.check("assistant")?;
            message.check_source("model", &["provider", "model"])
        }
        "tool/result" => check_tool_result(event),
        _ => Ok(()),
    }
}

fn read<'e, T: Deserialize<'e>>(event: &'e SessionEvent) -> Result<T, String> {
    serde_json::from_str(event.data().as_str())
        .map_err(|e| format!("its data are not those of {}: {e}", event.event_type()))
}

#[derive(Deserialize)]
struct RequestHeader<'e> {
    #[serde(borrow)]
    header: Header<'e>,
    reason: Option<&'e RawValue>,
    #[serde(rename = "startsSeries")]
    starts_series: Option<&'e RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'e> {
    system: Option<&'e RawValue>,
    #[serde(borrow)]
    tools: Option<Vec<&'e RawValue>>,
    adapter_defaults: Option<serde_json::Map<String, serde_json::Value>>,
    config: Option<serde_json::Map<String, serde_json::Value>>,
}

fn check_request_header(event: &SessionEvent) -> Result<(), String> {
    let RequestHeader { header, .. } = read(event)?;
    if header.system.is_some() {
        return Err("data.header.system is of an earlier format; append a system/message".to_owned());
    }
    if header.tools.is_some_and(|tools| tools.is_empty()) {
        return Err("data.header.tools is empty; leave it out".to_owned());
    }
    if header.adapter_defaults.is_some_and(|defaults| defaults.is_empty()) {
        return Err("data.header.adapterDefaults is empty; leave it out".to_owned());
    }
    Ok(())
}

fn check_seeded_request_header(event: &SessionEvent) -> Result<(), String> {
    let RequestHeader { header, reason, starts_series } = read(event)?;
    let config = header.config.ok_or("data.header.config is missing")?;
    for key in ["provider", "model"] {
        if !config.get(key).is_some_and(serde_json::Value::is_string) {
            return Err(format!("data.header.config.{key} is not a text"));
        }
    }
    if config.get("reasoningEffort").is_some_and(|effort| !effort.is_string()) {
        return Err("data.header.config.reasoningEffort is not a text".to_owned());
    }
    for (key, value) in header.adapter_defaults.iter().flatten() {
        let is_known = matches!(&**key, "reasoningEffort" | "maxTokens") && value == &serde_json::Value::Bool(true);
        if !is_known || !config.contains_key(key) {
            return Err(format!("data.header.adapterDefaults.{key} is not a marker of a key of config"));
        }
    }
    let reason = reason.map_or("", RawValue::get);
    if !["\"initial\"", "\"resume\"", "\"change\"", "\"series\""].contains(&reason) {
        return Err("data.reason is none of initial, resume, change, series".to_owned());
    }
    if starts_series.is_some_and(|marker| marker.get() != "true") {
        return Err("data.startsSeries is something else than true".to_owned());
    }
    Ok(())
}

#[derive(Deserialize)]
struct Told<'e> {
    #[serde(borrow)]
    message: Blocks<'e>,
    error: Option<&'e RawValue>,
}

#[derive(Deserialize)]
struct Blocks<'e> {
    #[serde(borrow)]
    content: Vec<&'e RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block {
    r#type: Option<String>,
    tool_call_id: Option<String>,
    #[serde(default)]
    is_error: Option<serde_json::Value>,
}

fn check_error_is_told(event: &SessionEvent) -> Result<(), String> {
    let Told { message, error } = read(event)?;
    let is_error = |block: &&RawValue| {
        serde_json::from_str::<Block>(block.get()).is_ok_and(|b| b.is_error == Some(serde_json::Value::Bool(true)))
    };
    if error.is_some() && !message.content.iter().any(is_error) {
        return Err("data.error is given, and no block has isError: true".to_owned());
    }
    Ok(())
}

#[derive(Deserialize)]
struct Wrapped<'e> {
    #[serde(borrow)]
    message: Message<'e>,
}

fn wrapped(event: &SessionEvent) -> Result<Message<'_>, String> {
    read::<Wrapped<'_>>(event).map(|wrapped| wrapped.message)
}

#[derive(Deserialize)]
struct Message<'e> {
    id: Option<String>,
    role: Option<String>,
    source: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(borrow)]
    content: Option<Vec<&'e RawValue>>,
}

impl Message<'_> {
    fn check(&self, role: &str) -> Result<(), String> {
        if self.id.as_deref().unwrap_or_default().is_empty() {
            return Err("its message has no id".to_owned());
        }
        if self.role.as_deref() != Some(role) {
            return Err(format!("its message must have the role {role:?}"));
        }
        if self.kind().is_empty() {
            return Err("its message has no source with a kind".to_owned());
        }
        if self.content.is_none() {
            return Err("its message has no list as content".to_owned());
        }
        Ok(())
    }

    fn kind(&self) -> &str {
        self.text_of("kind")
    }

    fn text_of(&self, key: &str) -> &str {
        self.source.as_ref().and_then(|source| source.get(key)?.as_str()).unwrap_or_default()
    }

    fn check_source(&self, kind: &str, keys: &[&str]) -> Result<(), String> {
        if self.kind() != kind || keys.iter().any(|key| self.text_of(key).is_empty()) {
            return Err(format!("its message must have a source of kind {kind:?} with {}", keys.join(" and ")));
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Settled {
    turn: serde_json::Value,
    step: serde_json::Value,
    stream: serde_json::Value,
}

impl Settled {
    fn check(&self) -> Result<(), String> {
        let is_seq = |value: &serde_json::Value| value.as_u64().is_some_and(|n| n <= crate::log::Seq::MAX.get());
        if !is_seq(&self.turn) || !is_seq(&self.step) || !self.stream.is_array() {
            return Err("its turn and step must be natural numbers and its stream a list".to_owned());
        }
        Ok(())
    }
}

fn check_tool_result(event: &SessionEvent) -> Result<(), String> {
    let message = wrapped(event)?;
    message.check("user")?;
    message.check_source("tool", &["callId"])?;
    let [block] = message.content.as_deref().unwrap_or_default() else {
        return Err("its message must have one block, a tool-result".to_owned());
    };
    let block: Block = serde_json::from_str(block.get()).map_err(|e| format!("its block cannot be read: {e}"))?;
    if block.r#type.as_deref() != Some("tool-result") {
        return Err("its message must have one block, a tool-result".to_owned());
    }
    if block.tool_call_id.as_deref() != Some(message.text_of("callId")) {
        return Err("its block and its source name different calls".to_owned());
    }
    Ok(())
}
