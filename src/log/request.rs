//! [`Requests`]: the request header and the request context in force.

use super::json_tokens::{is_object, member};
use super::json_tree::{KeyOrder, Tree};
use super::text::excerpt;
use super::{FoldError, Json, Seq, SessionEvent};

/// The request header and the request context in force: those of the last `request/header` and `request/context`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    header: Option<RequestHeader>,
    context: Option<RequestContext>,
}

impl Requests {
    /// Folds a whole log.
    ///
    /// # Errors
    ///
    /// As [`Requests::push`].
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a SessionEvent>) -> Result<Self, FoldError> {
        let mut requests = Self::default();
        for event in events {
            requests.push(event)?;
        }
        Ok(requests)
    }

    /// Takes in the next event of the log. Events of other types pass by.
    ///
    /// # Errors
    ///
    /// [`FoldError::UnexpectedData`] for a `request/header` without an object `header`, and a `request/context` whose
    /// data is no object; nothing is changed then.
    pub fn push(&mut self, event: &SessionEvent) -> Result<(), FoldError> {
        let seq = event.seq();
        let data = event.data().as_str();
        let refused = |event_type, path, found: Option<&str>| FoldError::UnexpectedData {
            seq,
            event_type,
            path,
            expected: "an object",
            found: found.map_or("nothing".into(), |text| excerpt(text).into()),
        };
        match event.event_type() {
            "request/header" => {
                let found = member(data, "header");
                let header = found.filter(|header| is_object(header));
                let header = header.ok_or_else(|| refused("request/header", "data.header", found))?;
                self.header = Some(RequestHeader { seq, json: Json::trusted(header) });
            }
            "request/context" if is_object(data) => {
                self.context = Some(RequestContext { seq, json: event.data().clone() });
            }
            "request/context" => return Err(refused("request/context", "data", Some(data))),
            _ => {}
        }
        Ok(())
    }

    /// The request header in force; nothing before the first request.
    pub fn header(&self) -> Option<&RequestHeader> {
        self.header.as_ref()
    }

    /// The request context in force; nothing before the first request.
    pub fn context(&self) -> Option<&RequestContext> {
        self.context.as_ref()
    }
}

/// How the requests to a model are made: the `header` in the data of a `request/header`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    seq: Seq,
    json: Json,
}

impl RequestHeader {
    /// The event that it comes from.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Its text: an object with `config` and, where there are some, `adapterDefaults` and `tools`.
    pub fn as_json(&self) -> &Json {
        &self.json
    }

    /// Whether another header asks for the same, so that a host need not record it again.
    ///
    /// Compared are `config`, `adapterDefaults` and `tools`, each with its keys in their order: prompts are cached as
    /// text. An `adapterDefaults` that marks nothing with `true` counts as absent, and so does an empty `tools`.
    pub fn is_same_as(&self, other: &Json) -> bool {
        let [a, b] = [&self.json, other].map(|header| {
            let mut tree = Tree::of(header.as_str());
            let marks = tree.root().and_then(|root| tree.member(root, "adapterDefaults"));
            let tools = tree.root().and_then(|root| tree.member(root, "tools"));
            if marks.is_some_and(|marks| !tree.has_true_member(marks)) {
                tree.remove(0, "adapterDefaults");
            }
            if tools.is_some_and(|tools| tree.is_empty_list(tools)) {
                tree.remove(0, "tools");
            }
            tree
        });
        ["config", "adapterDefaults", "tools"].iter().all(|key| {
            let [in_a, in_b] = [&a, &b].map(|tree| tree.root().and_then(|root| tree.member(root, key)));
            match (in_a, in_b) {
                (Some(in_a), Some(in_b)) => Tree::difference_below((&a, in_a), (&b, in_b), KeyOrder::Fixed).is_none(),
                _ => in_a == in_b,
            }
        })
    }
}

/// What is known of the model of a request: the data of a `request/context`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestContext {
    seq: Seq,
    json: Json,
}

impl RequestContext {
    /// The event that it comes from.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Its text: an object with `provider`, `model` and what else is known.
    pub fn as_json(&self) -> &Json {
        &self.json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event_type: &str, seq: u64, data: &str) -> SessionEvent {
        SessionEvent::new(event_type, seq, 0, Json::parse(data).unwrap()).unwrap()
    }

    fn header(text: &str) -> RequestHeader {
        RequestHeader { seq: Seq::from(0), json: Json::parse(text).unwrap() }
    }

    #[test]
    fn the_last_header_and_the_last_context_are_in_force() {
        let log = [
            event("request/header", 0, r#"{"header":{"config":{"model":"a"}},"reason":"initial"}"#),
            event("request/context", 1, r#"{"provider":"p","model":"a"}"#),
            event("turn/start", 2, r#"{"header":{}}"#),
            event("request/header", 3, r#"{"reason":"change","header":{ "config":{"model":"b"} }}"#),
        ];
        let requests = Requests::fold(&log).unwrap();
        let header = requests.header().unwrap();
        assert_eq!((header.seq(), header.as_json().as_str()), (Seq::from(3), r#"{ "config":{"model":"b"} }"#));
        let context = requests.context().unwrap();
        assert_eq!((context.seq(), context.as_json()), (Seq::from(1), log[1].data()));
        assert_eq!(Requests::fold(&log[2..3]).unwrap(), Requests::default());
    }

    #[test]
    fn data_without_what_the_fold_needs_is_refused_and_changes_nothing() {
        let mut requests = Requests::default();
        requests.push(&event("request/header", 0, r#"{"header":{}}"#)).unwrap();
        requests.push(&event("request/context", 1, "{}")).unwrap();
        let before = requests.clone();
        for (event_type, data, told) in [
            ("request/header", "{}", "seq 2: data.header of request/header must be an object, found nothing"),
            (
                "request/header",
                r#"{"header":[1]}"#,
                "seq 2: data.header of request/header must be an object, found [1]",
            ),
            ("request/context", "null", "seq 2: data of request/context must be an object, found null"),
        ] {
            let error = requests.push(&event(event_type, 2, data)).unwrap_err();
            assert_eq!((error.to_string().as_str(), error.seq()), (told, Some(Seq::from(2))));
        }
        assert_eq!(requests, before);
    }

    #[test]
    fn headers_are_the_same_that_ask_for_the_same() {
        for (a, b, same) in [
            (r#"{"config":{"model":"m","temperature":1}}"#, r#"{ "config" : {"model":"m","temperature":1.0} }"#, true),
            (r#"{"config":{"model":"m"}}"#, r#"{"config":{"model":"n"}}"#, false),
            (r#"{"config":{"provider":"p","model":"m"}}"#, r#"{"config":{"model":"m","provider":"p"}}"#, false),
            (r#"{"config":{},"tools":[]}"#, r#"{"tools":[],"config":{}}"#, true),
            (r#"{"config":{},"tools":[]}"#, r#"{"config":{}}"#, true),
            (r#"{"config":{},"tools":[{"name":"bash"}]}"#, r#"{"config":{}}"#, false),
            (r#"{"tools":[{"name":"a"},{"name":"b"}]}"#, r#"{"tools":[{"name":"b"},{"name":"a"}]}"#, false),
            (r#"{"config":{},"adapterDefaults":{}}"#, r#"{"config":{}}"#, true),
            (r#"{"config":{},"adapterDefaults":{"maxTokens":false}}"#, r#"{"config":{},"adapterDefaults":null}"#, true),
            (r#"{"config":{},"adapterDefaults":{"maxTokens":true}}"#, r#"{"config":{}}"#, false),
            (r#"{"config":{},"system":"a"}"#, r#"{"config":{},"system":"b"}"#, true),
        ] {
            assert_eq!(header(a).is_same_as(header(b).as_json()), same, "{a} {b}");
            assert_eq!(header(b).is_same_as(header(a).as_json()), same, "{b} {a}");
        }
    }
}
