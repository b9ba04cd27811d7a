//! The surface of logs that the tests write line by line.

mod cost;
mod fold;
mod rules;

use std::sync::Arc;

use super::*;
use crate::log::event::Rare;
use crate::log::{Json, text};

/// A log with its surface, which grows event by event.
struct Log {
    surface: Surface,
    events: Vec<SessionEvent>,
}

impl Log {
    fn new(version: u32) -> Self {
        Self { surface: Surface::new(version).unwrap(), events: Vec::new() }
    }

    /// The event of `rest`, which has all keys but the seq and the time.
    fn event(&self, rest: &str) -> SessionEvent {
        let line = format!(r#"{{"seq":{},"time":0,{rest}}}"#, self.events.len());
        text::parse_event(line.as_bytes()).unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    fn push_event(&mut self, event: SessionEvent) -> Result<Option<Replacement>, FoldError> {
        let pushed = self.surface.push(&event, |seq| event_at(&self.events, seq))?;
        self.events.push(event);
        Ok(pushed)
    }

    fn push(&mut self, rest: &str) -> Result<Option<Replacement>, FoldError> {
        self.push_event(self.event(rest))
    }

    fn refused(&mut self, rest: &str) -> String {
        let before = format!("{:?}", self.surface);
        let error = self.push(rest).expect_err(rest);
        assert!(format!("{:?}", self.surface) == before, "a refusal changes nothing: {error}");
        error.to_string()
    }

    /// Appends events of these types, each with the least data that a message has.
    fn append(mut self, types: impl IntoIterator<Item = &'static str>) -> Self {
        for event_type in types {
            let rest = match event_type {
                "turn/start" => r#""type":"turn/start","data":{"turn":1}"#.to_owned(),
                "tool/result" => format!(r#"{},"surfaceOp":"append""#, result("m", "said")),
                _ => format!(r#""type":"{event_type}","data":{{}},"surfaceOp":"append""#),
            };
            self.push(&rest).unwrap();
        }
        self
    }

    fn nodes(&self) -> Vec<u64> {
        let nodes: Vec<u64> = self.surface.nodes().map(u64::from).collect();
        let ends = [self.surface.first(), self.surface.last()].map(|end| end.map(u64::from));
        assert_eq!(ends, [nodes.first().copied(), nodes.last().copied()]);
        assert_eq!((nodes.len(), nodes.is_empty()), (self.surface.len(), self.surface.is_empty()));
        nodes
    }
}

/// The type and the data of a result of a tool.
fn result(id: &str, said: &str) -> String {
    format!(
        r#""type":"tool/result","data":{{"turn":1,"step":1,"message":{{"id":"{id}","content":[{{"type":"tool-result","toolCallId":"c","content":"{said}"}}]}}}}"#
    )
}

/// The keys of a replacement.
fn over(start: u64, end: u64, sources: &str) -> String {
    format!(r#""surfaceOp":{{"op":"replace","startSeq":{start},"endSeq":{end}}},"sourceEventSeqs":[{sources}]"#)
}

/// A message of the user in the place of others.
fn user_over(start: u64, end: u64, sources: &str) -> String {
    format!(r#""type":"user/message","data":{{}},{}"#, over(start, end, sources))
}

fn seqs(seqs: &[u64]) -> Vec<Seq> {
    seqs.iter().filter_map(|seq| Seq::new(*seq)).collect()
}
