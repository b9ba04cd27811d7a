//! [`Tree`]: JSON text as values that can be held against those of another text, at any depth.

use std::borrow::Cow;
use std::collections::HashMap;

use super::json_tokens::{Token, Tokens, is_string, unescaped};
use super::path::{self, Step};

/// The values of a JSON text in one list, each with its place in the one around it. Neither making it nor comparing it
/// nor dropping it takes more of the stack for deeper nesting.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    nodes: Vec<Node<'a>>,
}

#[derive(Debug)]
struct Node<'a> {
    parent: usize,
    label: Label<'a>,
    value: Value<'a>,
}

/// How the value is found in the one around it.
#[derive(Debug, Clone, Copy)]
enum Label<'a> {
    Root,
    /// As it is spelled, with its quotes.
    Key(&'a str),
    Index(usize),
}

#[derive(Debug)]
enum Value<'a> {
    Scalar(&'a str),
    Array(Vec<usize>),
    Object(Vec<usize>),
}

/// Whether the order of an object's keys tells two texts apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyOrder {
    Free,
    Fixed,
}

impl<'a> Tree<'a> {
    /// The tree of text that is known to be well-formed.
    pub(super) fn of(text: &'a str) -> Self {
        let mut nodes: Vec<Node<'a>> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut key = None;
        for token in Tokens::new(text) {
            let value = match (token, open.last().map(|parent| &nodes[*parent].value)) {
                (Token::Close, _) => {
                    open.pop();
                    continue;
                }
                (Token::Scalar(name), Some(Value::Object(_))) if key.is_none() => {
                    key = Some(name);
                    continue;
                }
                (Token::Scalar(scalar), _) => Value::Scalar(scalar),
                (Token::Array, _) => Value::Array(Vec::new()),
                (Token::Object, _) => Value::Object(Vec::new()),
            };
            let place = nodes.len();
            let parent = open.last().copied().unwrap_or_default();
            let label = match nodes.get_mut(parent).map(|node| &mut node.value) {
                Some(Value::Array(items)) => {
                    items.push(place);
                    Label::Index(items.len() - 1)
                }
                Some(Value::Object(members)) => {
                    members.push(place);
                    Label::Key(key.take().unwrap_or_default())
                }
                Some(Value::Scalar(_)) | None => Label::Root,
            };
            if !matches!(value, Value::Scalar(_)) {
                open.push(place);
            }
            nodes.push(Node { parent, label, value });
        }
        Self { nodes }
    }

    /// The value as a whole.
    pub(super) fn root(&self) -> Option<usize> {
        (!self.nodes.is_empty()).then_some(0)
    }

    /// A member of an object; of a key that stands twice the last one.
    pub(super) fn member(&self, object: usize, name: &str) -> Option<usize> {
        let Value::Object(members) = &self.nodes[object].value else { return None };
        members.iter().rev().copied().find(|member| self.is_named(*member, name))
    }

    /// The item of a list that has no other.
    pub(super) fn only_item(&self, array: usize) -> Option<usize> {
        match &self.nodes[array].value {
            Value::Array(items) if items.len() == 1 => items.first().copied(),
            _ => None,
        }
    }

    /// Whether a list is empty.
    pub(super) fn is_empty_list(&self, node: usize) -> bool {
        matches!(&self.nodes[node].value, Value::Array(items) if items.is_empty())
    }

    /// Whether one of an object's members is `true`.
    pub(super) fn has_true_member(&self, object: usize) -> bool {
        self.members(object).iter().any(|(_, member)| matches!(self.nodes[*member].value, Value::Scalar("true")))
    }

    /// Takes a member out of an object.
    pub(super) fn remove(&mut self, object: usize, name: &str) {
        if let Value::Object(members) = &self.nodes[object].value {
            let others = members.iter().copied().filter(|member| !self.is_named(*member, name)).collect();
            self.nodes[object].value = Value::Object(others);
        }
    }

    fn is_named(&self, member: usize, name: &str) -> bool {
        matches!(self.nodes[member].label, Label::Key(key) if is_string(key, name))
    }

    /// The members of an object as JSON readers elsewhere have them: of a key that stands twice the last value, in the
    /// place of the first.
    fn members(&self, object: usize) -> Vec<(Cow<'a, [u8]>, usize)> {
        let Value::Object(members) = &self.nodes[object].value else { return Vec::new() };
        let mut unique: Vec<(Cow<'a, [u8]>, usize)> = Vec::with_capacity(members.len());
        let mut places = HashMap::with_capacity(members.len());
        for member in members {
            let Label::Key(key) = self.nodes[*member].label else { continue };
            let key = unescaped(key);
            let place = *places.entry(key.clone()).or_insert(unique.len());
            match unique.get_mut(place) {
                Some((_, value)) => *value = *member,
                None => unique.push((key, *member)),
            }
        }
        unique
    }

    fn path(&self, mut node: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        loop {
            let Node { parent, label, .. } = &self.nodes[node];
            match label {
                Label::Root => return steps,
                Label::Index(index) => steps.push(Step::Index(*index)),
                Label::Key(key) => steps.push(key_step(&unescaped(key))),
            }
            node = *parent;
        }
    }

    /// The path of a place where two texts differ, as in `message.content[0].text`; nothing where they say the same,
    /// and an empty path for the texts as wholes.
    ///
    /// Numbers are the same when they are the same as IEEE doubles, as every JSON reader that keeps them as such has
    /// it: `1`, `1.0` and `1e0` are, and so are two integers beyond 2^53 that such a reader rounds to one. Strings are
    /// the same when they are so with their escapes resolved.
    pub(super) fn difference(a: &Tree<'_>, b: &Tree<'_>, order: KeyOrder) -> Option<String> {
        match (a.root(), b.root()) {
            (Some(root_a), Some(root_b)) => Self::difference_below((a, root_a), (b, root_b), order),
            (root_a, root_b) => (root_a != root_b).then(String::new),
        }
    }

    /// The same for one value of each text.
    pub(super) fn difference_below(
        (a, node_a): (&Tree<'_>, usize),
        (b, node_b): (&Tree<'_>, usize),
        order: KeyOrder,
    ) -> Option<String> {
        let mut pairs = vec![(node_a, node_b)];
        while let Some((in_a, in_b)) = pairs.pop() {
            let from = pairs.len();
            match (&a.nodes[in_a].value, &b.nodes[in_b].value) {
                (Value::Scalar(a), Value::Scalar(b)) if is_same_scalar(a, b) => {}
                (Value::Array(items_a), Value::Array(items_b)) if items_a.len() == items_b.len() => {
                    pairs.extend(items_a.iter().copied().zip(items_b.iter().copied()));
                }
                (Value::Object(_), Value::Object(_)) => {
                    let [mut members_a, mut members_b] = [a.members(in_a), b.members(in_b)];
                    if order == KeyOrder::Free {
                        members_a.sort_unstable();
                        members_b.sort_unstable();
                    }
                    for ((key_a, member_a), (key_b, member_b)) in members_a.iter().zip(&members_b) {
                        if key_a != key_b {
                            // In sorted order the lesser key is the one that the other text has not.
                            return Some(a.path_of_key(in_a, key_a.min(key_b)));
                        }
                        pairs.push((*member_a, *member_b));
                    }
                    let shared = members_a.len().min(members_b.len());
                    if let Some((key, _)) = members_a.get(shared).or(members_b.get(shared)) {
                        return Some(a.path_of_key(in_a, key));
                    }
                }
                _ => return Some(path::of(&a.path(in_a))),
            }
            // The next pair is the first in the order of the text.
            pairs[from..].reverse();
        }
        None
    }

    fn path_of_key(&self, object: usize, key: &[u8]) -> String {
        let mut steps = vec![key_step(key)];
        steps.extend(self.path(object));
        path::of(&steps)
    }
}

fn key_step(key: &[u8]) -> Step {
    Step::Key(String::from_utf8_lossy(key).into_owned())
}

fn is_same_scalar(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let is_text = |scalar: &str| scalar.starts_with('"');
    if is_text(a) || is_text(b) {
        return is_text(a) && is_text(b) && unescaped(a) == unescaped(b);
    }
    let number = |scalar: &str| {
        scalar.parse::<f64>().ok().filter(|_| scalar.starts_with(|c: char| c == '-' || c.is_ascii_digit()))
    };
    matches!((number(a), number(b)), (Some(a), Some(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(a: &str, b: &str, order: KeyOrder) -> Option<String> {
        Tree::difference(&Tree::of(a), &Tree::of(b), order)
    }

    #[test]
    fn equal_values_are_equal_in_any_spelling() {
        for (a, b) in [
            (r#"{"a":1,"b":[true,null]}"#, r#" { "b" : [ true , null ] , "a" : 1.0 } "#),
            (r#"{"k":1,"k":2}"#, r#"{"k":2}"#),
            (r#"{"\u006b":"\u0041"}"#, r#"{"k":"A"}"#),
            ("1e21", "1000000000000000000000"),
            ("9007199254740993", "9007199254740992"),
            ("-0", "0"),
            ("1e400", "2e400"),
            ("[[],{}]", "[ [ ] , { } ]"),
            (r#""😀""#, r#""\ud83d\ude00""#),
        ] {
            assert_eq!(difference(a, b, KeyOrder::Free), None, "{a} {b}");
            assert_eq!(difference(b, a, KeyOrder::Free), None, "{b} {a}");
        }
    }

    #[test]
    fn a_difference_is_told_by_its_path() {
        for (a, b, path) in [
            ("1", "2", ""),
            ("1", "\"1\"", ""),
            ("true", "false", ""),
            ("null", "0", ""),
            ("[]", "{}", ""),
            ("0", "[]", ""),
            (r#"{"a":{"b":[0,{"c":1}]}}"#, r#"{"a":{"b":[0,{"c":2}]}}"#, "a.b[1].c"),
            (r#"{"a":[1]}"#, r#"{"a":[1,2]}"#, "a"),
            (r#"{"a":1,"b":2}"#, r#"{"a":1}"#, "b"),
            (r#"{"b":2}"#, r#"{"b":2,"a":1}"#, "a"),
            (r#"{"a":1,"c":0}"#, r#"{"b":1,"c":0}"#, "a"),
            (r#"{"k":1,"k":2}"#, r#"{"k":1}"#, "k"),
            (r#"{"a":[1,2],"b":3}"#, r#"{"a":[1,0],"b":0}"#, "a[1]"),
            (r#"{"x":"\ud800"}"#, r#"{"x":"\ud801"}"#, "x"),
        ] {
            assert_eq!(difference(a, b, KeyOrder::Free).as_deref(), Some(path), "{a} {b}");
            assert_eq!(difference(b, a, KeyOrder::Free).as_deref(), Some(path), "{b} {a}");
        }
    }

    #[test]
    fn the_order_of_keys_counts_where_it_is_asked_to() {
        let (a, b) = (r#"{"x":{"a":1,"b":2}}"#, r#"{"x":{"b":2,"a":1}}"#);
        assert_eq!(difference(a, b, KeyOrder::Free), None);
        assert_eq!(difference(a, b, KeyOrder::Fixed).as_deref(), Some("x.a"));
        assert_eq!(difference(a, a, KeyOrder::Fixed), None);
        assert_eq!(difference(r#"{"a":0,"b":2,"a":1}"#, r#"{"a":1,"b":2}"#, KeyOrder::Fixed), None);
    }

    #[test]
    fn a_hundred_thousand_levels_are_compared_without_recursion() {
        let (objects, ends) = (r#"{"a":[0,"#.repeat(100_000), "]}".repeat(100_000));
        let [a, b] = ["1", "2"].map(|inner| format!("{objects}{inner}{ends}"));
        assert_eq!(difference(&a, &a, KeyOrder::Free), None);
        assert!(difference(&a, &b, KeyOrder::Free).unwrap().ends_with("[1].a[1].a[1]"));
    }

    #[test]
    fn members_are_found_and_taken_out_by_what_their_keys_say() {
        let mut tree = Tree::of(r#"{"m":[0],"\u006d":[{"content":1,"id":2,"content":3}]}"#);
        let message = tree.member(0, "m").unwrap();
        let block = tree.only_item(message).unwrap();
        tree.remove(block, "content");
        assert_eq!(tree.member(block, "content"), None);
        assert_eq!(Tree::difference(&tree, &Tree::of(r#"{"m":[{"id":2}]}"#), KeyOrder::Free), None);
        assert_eq!(tree.only_item(0), None);
        assert_eq!(tree.member(message, "m"), None);
    }
}
