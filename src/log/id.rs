//! [`SessionId`]: the name of a session.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

/// The name of a session: any text that is not empty, holds no NUL, and whose [escaped form](SessionId::escaped) has at
/// most [`SessionId::MAX_ESCAPED`] characters. `A` and `a` are two sessions; no normal form is applied.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// The longest escaped form, in characters: with room for a suffix it is one path segment on every file system.
    pub const MAX_ESCAPED: usize = 240;

    /// Checks the rule above.
    ///
    /// # Errors
    ///
    /// [`InvalidSessionId`] says which part of the rule the text breaks.
    pub fn new(id: impl AsRef<str>) -> Result<Self, InvalidSessionId> {
        let id = id.as_ref();
        let refuse = |reason| Err(InvalidSessionId { id: id.chars().take(80).collect(), reason });
        if id.is_empty() {
            return refuse("it is empty".to_owned());
        }
        if id.contains('\0') {
            return refuse("it holds a NUL character".to_owned());
        }
        let length = if is_safe(id) { id.len() } else { escape(id).len() };
        if length > Self::MAX_ESCAPED {
            return refuse(format!("its escaped form has {length} characters, more than {}", Self::MAX_ESCAPED));
        }
        Ok(Self(id.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as one safe path segment: `A-Z a-z 0-9 . _ -` stand for themselves, every other UTF-16 unit is `~` and
    /// four upper-case hex digits, and the names `.` and `..` are escaped whole. Different names escape differently.
    ///
    /// ```
    /// # use session_persistence::SessionId;
    /// assert_eq!(SessionId::new("a/b")?.escaped(), "a~002Fb");
    /// assert_eq!(SessionId::new("..")?.escaped(), "~002E~002E");
    /// # Ok::<(), session_persistence::InvalidSessionId>(())
    /// ```
    pub fn escaped(&self) -> String {
        escape(&self.0)
    }
}

/// Whether it stands for itself where it is escaped.
fn is_safe(id: &str) -> bool {
    id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) && id != "." && id != ".."
}

fn escape(id: &str) -> String {
    if id == "." || id == ".." {
        return "~002E".repeat(id.len());
    }
    let mut out = String::with_capacity(id.len());
    for unit in id.encode_utf16() {
        match u8::try_from(unit) {
            Ok(b) if b.is_ascii_alphanumeric() || b"._-".contains(&b) => out.push(b.into()),
            _ => write!(out, "~{unit:04X}").expect("a String takes any text"),
        }
    }
    out
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SessionId {
    type Err = InvalidSessionId;
    fn from_str(id: &str) -> Result<Self, Self::Err> {
        Self::new(id)
    }
}

impl AsRef<str> for SessionId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Text that cannot name a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("session id {id:?} cannot be used: {reason}")]
pub struct InvalidSessionId {
    id: String,
    reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_every_kind_are_kept_and_escaped_injectively() {
        let ids = [
            "../../x", "a/b", "a\\b", "a%2Fb", "A", "a", ".", "..", "...", "é", "e\u{301}", "con", "a.", "--", "~002E",
            "a\nb", "😀", " ", "a~002Fb",
        ];
        let escaped: std::collections::HashSet<_> =
            ids.iter().map(|id| SessionId::new(id).unwrap().escaped()).collect();
        assert_eq!(escaped.len(), ids.len());
        for segment in &escaped {
            assert!(segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-~".contains(&b)), "{segment}");
            assert!(segment != "." && segment != "..");
        }
        assert_eq!(SessionId::new("😀").unwrap().escaped(), "~D83D~DE00");
        assert_eq!(SessionId::new("é").unwrap().escaped(), "~00E9");
    }

    #[test]
    fn the_bound_counts_the_escaped_form() {
        SessionId::new("x".repeat(240)).unwrap();
        SessionId::new("x".repeat(241)).unwrap_err();
        SessionId::new("/".repeat(48)).unwrap();
        SessionId::new("/".repeat(49)).unwrap_err();
        SessionId::new("").unwrap_err();
        SessionId::new("a\0b").unwrap_err();
    }
}
