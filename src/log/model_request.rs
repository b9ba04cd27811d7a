//! [`check_model_request`]: whether a model is asked what the log says that it is asked.

use super::fields::{field, fields};
use super::json::push_string;
use super::json_tree::{KeyOrder, Tree};
use super::text::excerpt;
use super::{Json, LifecycleState, Rule, SessionEvent, Violation};

/// What a host is about to send to a model. Each value is the one that is sent, as JSON text; `None` where none is
/// sent.
///
/// ```
/// use session_persistence::{Json, ModelRequest};
///
/// let mut request = ModelRequest::new("some-model", Vec::new());
/// request.temperature = Some(Json::of(&0.7)?);
/// # Ok::<(), session_persistence::NotLossless>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The messages, in their order.
    pub messages: Vec<Json>,
    /// The name of the model.
    pub model: String,
    /// The temperature, a number.
    pub temperature: Option<Json>,
    /// The most tokens of the answer, a number.
    pub max_tokens: Option<Json>,
    /// The texts that stop the answer, an array.
    pub stop: Option<Json>,
    /// The tools, an array. An empty one is the same as none.
    pub tools: Option<Json>,
    /// A system prompt beside the messages. Format 3 has none: there it is a message.
    pub system: Option<Json>,
}

impl ModelRequest {
    /// A request with nothing but a model and messages.
    pub fn new(model: impl Into<String>, messages: Vec<Json>) -> Self {
        let model = model.into();
        Self { messages, model, temperature: None, max_tokens: None, stop: None, tools: None, system: None }
    }
}

/// What a log says of requests to a model, as a fold: whether a step has started, and the last `request/header`. It
/// holds that one event, however long the log, and reads no data until a request is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestBasis {
    has_step: bool,
    header: Option<SessionEvent>,
}

impl RequestBasis {
    /// What an empty log says.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a log says.
    pub fn replay<'a>(events: impl IntoIterator<Item = &'a SessionEvent>) -> Self {
        let mut basis = Self::new();
        events.into_iter().for_each(|event| basis.observe(event));
        basis
    }

    /// Takes in the next event of the log. All but `step/start` and `request/header` may be left out.
    pub fn observe(&mut self, event: &SessionEvent) {
        match event.event_type() {
            "step/start" => self.has_step = true,
            "request/header" => self.header = Some(event.clone()),
            _ => {}
        }
    }

    /// The last `request/header`.
    pub fn header(&self) -> Option<&SessionEvent> {
        self.header.as_ref()
    }
}

/// Whether a request is the one that the log of a live session gives: its messages are `derived`, the messages that the
/// log's surface has for the model now, and its model, temperature, most tokens, stop texts and tools are those of the
/// last `request/header`. The provider and the effort of reasoning are not compared.
///
/// Two values are the same that differ in white space, escapes and the spelling of numbers; the order of keys counts.
///
/// # Errors
///
/// The first [`Violation`]: one of the rules from [`Rule::RequestOfLiveSession`] on.
pub fn check_model_request(
    state: LifecycleState,
    basis: &RequestBasis,
    derived: &[Json],
    request: &ModelRequest,
) -> Result<(), Violation> {
    if !matches!(state, LifecycleState::Live { .. }) {
        return Err(Violation::new(Rule::RequestOfLiveSession, "a live session", state.to_string()));
    }
    if !basis.has_step {
        return Err(Violation::new(Rule::RequestInStep, "a step/start in the log", "none"));
    }
    let Some(header) = &basis.header else {
        return Err(Violation::new(Rule::RequestHasHeader, "a request/header in the log", "none"));
    };
    if let Some(system) = &request.system {
        let found = format!("the system prompt {}", excerpt(system.as_str()));
        return Err(Violation::new(Rule::SystemPromptIsMessage, "none beside the messages", found));
    }
    check_messages(derived, &request.messages)?;
    check_header(header, request).map_err(|violation| violation.at(header))
}

fn check_messages(derived: &[Json], sent: &[Json]) -> Result<(), Violation> {
    let differ = |at: usize| match (derived.get(at), sent.get(at)) {
        (Some(derived), Some(sent)) => !is_same_value(derived.as_str(), sent.as_str()),
        _ => true,
    };
    let Some(at) = (0..derived.len().max(sent.len())).find(|at| differ(*at)) else { return Ok(()) };
    let from = derived.get(at).zip(sent.get(at)).map_or(0, |(d, s)| common_length(d.as_str(), s.as_str()));
    let shown = |messages: &[Json]| match messages.get(at) {
        Some(message) => format!("at byte {from} of message {at}: {}", excerpt(&message.as_str()[from..])),
        None => format!("{} messages", messages.len()),
    };
    Err(Violation::new(Rule::RequestSendsDerivedMessages, shown(derived), shown(sent)))
}

/// Whether two texts are one value in two spellings, which the order of keys is not.
fn is_same_value(a: &str, b: &str) -> bool {
    a == b || Tree::difference(&Tree::of(a), &Tree::of(b), KeyOrder::Fixed).is_none()
}

/// How many bytes two texts have in common at their start, in whole characters.
fn common_length(a: &str, b: &str) -> usize {
    a.char_indices().zip(b.chars()).find(|((_, a), b)| a != b).map_or(a.len().min(b.len()), |((at, _), _)| at)
}

fn check_header(header: &SessionEvent, request: &ModelRequest) -> Result<(), Violation> {
    let header = field(header.data().as_str(), "header").unwrap_or("null");
    let [config, tools] = fields(header, ["config", "tools"]);
    let [model, temperature, max_tokens, stop] =
        fields(config.unwrap_or("null"), ["model", "temperature", "maxTokens", "stop"]);
    let mut sent_model = String::new();
    push_string(&mut sent_model, &request.model);
    let is_some_tool = |tools: &&str| !is_same_value(tools, "[]");
    for (name, expected, found) in [
        ("model", model, Some(&*sent_model)),
        ("temperature", temperature, request.temperature.as_ref().map(Json::as_str)),
        ("maxTokens", max_tokens, request.max_tokens.as_ref().map(Json::as_str)),
        ("stop", stop, request.stop.as_ref().map(Json::as_str)),
        ("tools", tools.filter(is_some_tool), request.tools.as_ref().map(Json::as_str).filter(is_some_tool)),
    ] {
        let is_same = match expected.zip(found) {
            Some((expected, found)) => is_same_value(expected, found),
            None => expected == found,
        };
        if !is_same {
            let shown = |json: Option<&str>| json.map_or(format!("no {name}"), |j| format!("{name} {}", excerpt(j)));
            return Err(Violation::new(Rule::RequestFollowsHeader, shown(expected), shown(found)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::text::parse_event;

    const STEP: &str = r#"{"type":"step/start","seq":1,"time":0,"data":{"turn":1,"step":1}}"#;
    const HEADER: &str = r#"{"type":"request/header","seq":2,"time":0,"data":{"reason":"initial","header":{"config":{"provider":"p","model":"m","reasoningEffort":"high","temperature":0.5,"maxTokens":100,"stop":["x"]},"tools":[{"name":"t"}]}}}"#;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    fn basis(lines: &[&str]) -> RequestBasis {
        let events: Vec<_> = lines.iter().map(|line| parse_event(line.as_bytes()).unwrap()).collect();
        RequestBasis::replay(&events)
    }

    fn derived() -> Vec<Json> {
        vec![json(r#"{"id":"a","role":"user"}"#), json(r#"{"id":"b","role":"assistant"}"#)]
    }

    fn request() -> ModelRequest {
        let mut request = ModelRequest::new("m", derived());
        request.temperature = Some(json("0.5"));
        request.max_tokens = Some(json("100"));
        request.stop = Some(json(r#"["x"]"#));
        request.tools = Some(json(r#"[{"name":"t"}]"#));
        request
    }

    fn check(request: &ModelRequest) -> Result<(), Violation> {
        check_model_request(LifecycleState::RUNNING, &basis(&[STEP, HEADER]), &derived(), request)
    }

    #[test]
    fn a_request_as_the_log_gives_it_passes() {
        check(&request()).unwrap();
        let mut spelled = request();
        spelled.messages[0] = json(r#"{ "id": "\u0061", "role": "user" }"#);
        spelled.max_tokens = Some(json("1e2"));
        check(&spelled).unwrap();
    }

    #[test]
    fn only_a_live_session_asks_a_model() {
        for state in [LifecycleState::Created, LifecycleState::Disposed] {
            let violation = check_model_request(state, &basis(&[STEP, HEADER]), &derived(), &request()).unwrap_err();
            assert_eq!(violation.rule(), Rule::RequestOfLiveSession);
        }
    }

    #[test]
    fn a_model_is_asked_only_behind_a_step_and_a_header() {
        for (lines, rule) in [(&[HEADER], Rule::RequestInStep), (&[STEP], Rule::RequestHasHeader)] {
            let violation =
                check_model_request(LifecycleState::RUNNING, &basis(lines), &derived(), &request()).unwrap_err();
            assert_eq!(violation.rule(), rule);
        }
    }

    #[test]
    fn a_message_changed_left_out_added_or_moved_is_told_with_its_place() {
        let mut changed = request();
        changed.messages[1] = json(r#"{"id":"b","role":"user"}"#);
        let violation = check(&changed).unwrap_err();
        assert_eq!(violation.rule(), Rule::RequestSendsDerivedMessages);
        assert_eq!(violation.expected(), r#"at byte 18 of message 1: assistant"}"#);
        assert_eq!(violation.found(), r#"at byte 18 of message 1: user"}"#);

        let mut cut = request();
        cut.messages.pop();
        assert_eq!(check(&cut).unwrap_err().found(), "1 messages");
        let mut longer = request();
        longer.messages.push(json("{}"));
        assert_eq!(check(&longer).unwrap_err().expected(), "2 messages");
        let mut moved = request();
        moved.messages.swap(0, 1);
        check(&moved).unwrap_err();
        let mut reordered = request();
        reordered.messages[0] = json(r#"{"role":"user","id":"a"}"#);
        check(&reordered).unwrap_err();
    }

    #[test]
    fn each_field_of_the_header_that_is_compared_must_be_sent() {
        type Change = fn(&mut ModelRequest);
        let changes: [(&str, Change); 9] = [
            ("model \"n\"", |r| r.model = "n".into()),
            ("temperature 0.6", |r| r.temperature = Some(json("0.6"))),
            ("no temperature", |r| r.temperature = None),
            ("maxTokens 99", |r| r.max_tokens = Some(json("99"))),
            ("no maxTokens", |r| r.max_tokens = None),
            ("stop []", |r| r.stop = Some(json("[]"))),
            ("no stop", |r| r.stop = None),
            ("tools [1]", |r| r.tools = Some(json("[1]"))),
            ("no tools", |r| r.tools = Some(json("[ ]"))),
        ];
        for (found, change) in changes {
            let mut request = request();
            change(&mut request);
            let violation = check(&request).unwrap_err();
            assert_eq!((violation.rule(), violation.found()), (Rule::RequestFollowsHeader, found));
            assert_eq!((violation.seq().unwrap().get(), violation.event_type()), (2, Some("request/header")));
        }
    }

    #[test]
    fn the_last_header_counts_and_no_tools_are_the_same_as_an_empty_list() {
        let later = r#"{"type":"request/header","seq":5,"time":0,"data":{"header":{"config":{"provider":"q","model":"n"},"tools":[]}}}"#;
        let basis = basis(&[STEP, HEADER, later]);
        let request = ModelRequest::new("n", derived());
        check_model_request(LifecycleState::IDLE, &basis, &derived(), &request).unwrap();
        assert_eq!(basis.header().unwrap().seq().get(), 5);
    }

    #[test]
    fn a_system_prompt_beside_the_messages_is_refused() {
        let mut request = request();
        request.system = Some(json("\"be kind\""));
        assert_eq!(check(&request).unwrap_err().rule(), Rule::SystemPromptIsMessage);
    }
}
