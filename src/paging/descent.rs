//! [`Descent`]: which sessions descend from one, as their headers tell.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::log::{SessionHeader, SessionId};

/// So many generations are looked for by their parents. Further down one look at all sessions is cheaper.
const GENERATIONS: usize = 16;

/// The descendants of a session.
pub(crate) struct Descent<T> {
    /// Depth first: each before its own children, the children of one parent by the time of their creation and then by
    /// id; with the number of generations between. Each once, and the session itself is none of them.
    pub(crate) found: Vec<(T, usize)>,
    /// The session itself, where it descends from itself, and how many of those found come before it.
    pub(crate) circle: Option<(T, usize)>,
}

/// Finds the descendants of a session. `children` gives the sessions with one of the parents, or all sessions where it is
/// asked for no parent; each has one parent, so that a circle can only be closed at the session itself.
pub(crate) fn descend<T, E>(
    root: &SessionId,
    mut children: impl FnMut(Option<&[SessionId]>) -> Result<Vec<(SessionHeader, T)>, E>,
) -> Result<Descent<T>, E> {
    let mut by_parent: HashMap<String, Vec<(SessionHeader, T)>> = HashMap::new();
    let mut known = HashSet::new();
    let mut generation = vec![root.clone()];
    for depth in 0..=GENERATIONS {
        if generation.is_empty() {
            break;
        }
        let found = children((depth < GENERATIONS).then_some(&generation[..]))?;
        generation.clear();
        for (header, session) in found {
            let Some(parent) = header.parent_session().map(str::to_owned) else { continue };
            if !known.insert(header.id().clone()) {
                continue;
            }
            if header.id() != root {
                generation.push(header.id().clone());
            }
            by_parent.entry(parent).or_default().push((header, session));
        }
    }
    let mut waiting = Vec::new();
    let mut add = |waiting: &mut Vec<_>, parent: &SessionId, depth| {
        let mut own = by_parent.remove(parent.as_str()).unwrap_or_default();
        // Taken from the end, so the first child has to stand there.
        own.sort_by_cached_key(|(header, _)| Reverse((header.created_at(), header.id().clone())));
        waiting.extend(own.into_iter().map(|(header, session)| (header, session, depth)));
    };
    let mut descent = Descent { found: Vec::new(), circle: None };
    add(&mut waiting, root, 1);
    while let Some((header, session, depth)) = waiting.pop() {
        if header.id() == root {
            descent.circle = Some((session, descent.found.len()));
            continue;
        }
        add(&mut waiting, header.id(), depth + 1);
        descent.found.push((session, depth));
    }
    Ok(descent)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn header(name: &str, created_at: u64, parent: &str) -> SessionHeader {
        SessionHeader::new(SessionId::new(name).unwrap(), created_at).unwrap().with_parent_session(parent)
    }

    type Named = (String, usize);

    /// What is found, and how often was asked for it.
    fn descent(root: &str, all: &[SessionHeader]) -> (Vec<Named>, Option<Named>, usize) {
        let mut asked = 0;
        let descent = descend(&SessionId::new(root).unwrap(), |parents| {
            asked += 1;
            let is_child = |header: &&SessionHeader| {
                parents.is_none_or(|parents| parents.iter().any(|p| Some(p.as_str()) == header.parent_session()))
            };
            let found = all.iter().filter(is_child).map(|header| (header.clone(), header.id().to_string()));
            Ok::<_, Infallible>(found.collect())
        });
        let Ok(Descent { found, circle }) = descent;
        (found, circle, asked)
    }

    #[test]
    fn each_stands_before_its_children_and_a_generation_is_asked_for_once() {
        let all =
            [header("b", 2, "r"), header("a", 2, "r"), header("c", 1, "a"), header("d", 0, "b"), header("e", 0, "x")];
        let told = [("a", 1), ("c", 2), ("b", 1), ("d", 2)].map(|(name, depth)| (name.to_owned(), depth));
        assert_eq!(descent("r", &all), (told.to_vec(), None, 3));
    }

    #[test]
    fn a_deep_chain_is_asked_for_as_a_whole_in_the_end() {
        let all: Vec<_> = (1..1000).map(|n| header(&n.to_string(), 0, &(n - 1).to_string())).collect();
        let (found, circle, asked) = descent("0", &all);
        assert_eq!((found.len(), circle, asked), (999, None, GENERATIONS + 1));
        assert!(found.iter().zip(1..).all(|((name, depth), n)| *name == n.to_string() && *depth == n));
    }

    #[test]
    fn a_circle_ends_where_it_began() {
        let all = [header("r", 0, "c"), header("c", 0, "b"), header("b", 0, "r"), header("z", 9, "r")];
        let (found, circle, _) = descent("r", &all);
        assert_eq!(found, [("b", 1), ("c", 2), ("z", 1)].map(|(name, depth)| (name.to_owned(), depth)));
        assert_eq!(circle, Some(("r".to_owned(), 2)));
    }
}
