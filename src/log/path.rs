//! The path of a value inside another, as in `items[3].x`.

use super::json::push_string;

/// One step of a path.
#[derive(Debug)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// The path of steps that were taken from the inside to the outside.
pub(super) fn of(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps.iter().rev() {
        match step {
            Step::Index(i) => path.push_str(&format!("[{i}]")),
            Step::Key(key) if is_plain(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
            Step::Key(key) => {
                path.push('[');
                push_string(&mut path, key);
                path.push(']');
            }
        }
    }
    path
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b == b'-')
}
