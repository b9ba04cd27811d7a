//! [`Vocabulary`]: which format and which event types a reader knows.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use super::header::CURRENT_VERSION;

/// The event types of format 3, in alphabetical order.
const V3_TYPES: [&str; 56] = [
    "agent-preset/selected",
    "agent/inbox/spliced",
    "approval/asked",
    "approval/decided",
    "approval/policy",
    "assistant/attempt",
    "assistant/message",
    "command/done",
    "command/run",
    "compaction/end",
    "compaction/prune",
    "compaction/start",
    "compaction/summary",
    "deliverables/presented",
    "feedback/message-delete",
    "feedback/message-put",
    "feedback/record",
    "goal/change",
    "hook/invoked",
    "hook/result",
    "llm/retry",
    "llm/retry-started",
    "model/selection",
    "permission/preset",
    "plan/mode",
    "request/context",
    "request/header",
    "sandbox/mode",
    "schedule/change",
    "session-log-deepseek/delivery-accepted",
    "session/end-seed",
    "session/title",
    "session/title-llm-request",
    "step/end",
    "step/start",
    "subagent/catalog",
    "subagent/descriptor",
    "subagent/model-selection-policy",
    "system/message",
    "team/member",
    "team/message/delivered",
    "team/message/queued",
    "team/task",
    "todo/write",
    "tool-workflow/agent-end",
    "tool-workflow/agent-start",
    "tool-workflow/run-end",
    "tool-workflow/run-start",
    "tool/call",
    "tool/ptc-dispatch",
    "tool/ptc-dispatch-start",
    "tool/result",
    "turn/end",
    "turn/start",
    "user/message",
    "web/deepseek-search-llm-request",
];

/// What format 3 calls otherwise than the formats before it, or has and they have not.
const SINCE_V3: [&str; 3] = ["system/message", "tool/ptc-dispatch", "tool/ptc-dispatch-start"];

/// What the formats before 3 have instead.
const UNTIL_V2: [&str; 3] = ["assistant/chunk", "tool/code-dispatch", "tool/code-dispatch-start"];

/// Whether a type is one of format `version` itself. Builds of the older formats knew different types of plugins; those
/// are taken for known in all of them.
pub(super) fn is_core(event_type: &str, version: u32) -> bool {
    let is_old = version < CURRENT_VERSION;
    (V3_TYPES.contains(&event_type) && !(is_old && SINCE_V3.contains(&event_type)))
        || (is_old && UNTIL_V2.contains(&event_type))
}

/// The format version and the event types that a reader knows: fixed by the host's build when it opens a store, so that
/// whether a log can be interpreted does not depend on what happens to be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    version: u32,
    types: HashSet<Arc<str>>,
}

impl Vocabulary {
    /// Format 3 with its 56 core types.
    pub fn v3() -> Self {
        Self::new(CURRENT_VERSION, V3_TYPES)
    }

    /// A vocabulary of another build.
    pub fn new<'a>(version: u32, types: impl IntoIterator<Item = &'a str>) -> Self {
        Self { version, types: types.into_iter().map(shared_name).collect() }
    }

    /// The same vocabulary with types of the host's own.
    #[must_use]
    pub fn with_types<'a>(mut self, types: impl IntoIterator<Item = &'a str>) -> Self {
        self.types.extend(types.into_iter().map(shared_name));
        self
    }

    /// The one format version that it interprets.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Whether it knows an event type.
    pub fn knows(&self, event_type: &str) -> bool {
        self.types.contains(event_type)
    }
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self::v3()
    }
}

/// The shared text of an event type: the types of format 3 are allocated once a process and not once an event.
pub(super) fn shared_name(name: &str) -> Arc<str> {
    static NAMES: LazyLock<HashMap<&str, Arc<str>>> =
        LazyLock::new(|| V3_TYPES.iter().map(|t| (*t, Arc::from(*t))).collect());
    NAMES.get(name).cloned().unwrap_or_else(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_its_own_core_types() {
        for (event_type, old, new) in [
            ("turn/start", true, true),
            ("system/message", false, true),
            ("assistant/chunk", true, false),
            ("acme/pulse", false, false),
        ] {
            assert_eq!([0, 1, 2, 3].map(|v| is_core(event_type, v)), [old, old, old, new], "{event_type}");
        }
    }

    #[test]
    fn a_host_adds_types_of_its_own() {
        let v3 = Vocabulary::v3();
        assert_eq!((v3.version(), v3.types.len()), (3, 56));
        assert!(v3.knows("turn/start") && !v3.knows("acme/pulse") && !v3.knows("assistant/chunk"));
        assert!(v3.with_types(["acme/pulse"]).knows("acme/pulse"));
    }
}
