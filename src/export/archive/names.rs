//! The names of the entries of an archive.

use std::collections::HashMap;

use crate::log::SessionId;

/// The folder of the sessions that descend from the one an archive is of.
const DESCENDANTS: &str = "subagents";

/// What sets the folders of two ids apart that differ in nothing but upper and lower case. No escaped id holds it: there a
/// `~` is followed by four digits.
const SAME_LETTERS: &str = "~~";

/// Gives the entries of one archive their names.
///
/// A descendant's folder has the name of its escaped id. A disk that does not tell `A` from `a` would take two such
/// folders for one, so of sessions whose escaped ids differ in case only, the second in the order of the archive has
/// `~~2` behind its name, the third `~~3`, and so on.
#[derive(Default)]
pub(super) struct EntryNames {
    taken: HashMap<String, u64>,
}

impl EntryNames {
    /// The entry of the session that the archive is of.
    pub(super) fn root(version: u32) -> String {
        log_name(version)
    }

    /// The entry of the next descendant.
    pub(super) fn descendant(&mut self, id: &SessionId, version: u32) -> String {
        let folder = id.escaped();
        let count = self.taken.entry(folder.to_ascii_lowercase()).or_default();
        *count += 1;
        let mark = if *count > 1 { format!("{SAME_LETTERS}{count}") } else { String::new() };
        format!("{DESCENDANTS}/{folder}{mark}/{}", log_name(version))
    }
}

/// What the name of an entry tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryName<'a> {
    /// The folder of a descendant; none for the session that the archive is of.
    folder: Option<&'a str>,
    /// The format version of the log.
    pub(super) version: u32,
}

impl<'a> EntryName<'a> {
    /// Reads a name; nothing where it is none that an export gives.
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        match name.split('/').collect::<Vec<_>>()[..] {
            [log] => Some(Self { folder: None, version: version_of(log)? }),
            [DESCENDANTS, folder, log] if !folder.is_empty() => {
                Some(Self { folder: Some(folder), version: version_of(log)? })
            }
            _ => None,
        }
    }

    pub(super) fn is_root(&self) -> bool {
        self.folder.is_none()
    }

    /// Whether an export gives this name to an entry of the session.
    pub(super) fn is_of(&self, id: &SessionId) -> bool {
        let Some(folder) = self.folder else { return true };
        let escaped = id.escaped();
        let Some(mark) = folder.strip_prefix(&escaped) else { return false };
        mark.is_empty()
            || mark
                .strip_prefix(SAME_LETTERS)
                .and_then(number)
                .is_some_and(|(n, digits)| n > 1 && digits == n.to_string())
    }
}

fn number(digits: &str) -> Option<(u64, &str)> {
    digits.parse().ok().map(|n| (n, digits))
}

/// The name of a plain log file of a format version.
fn log_name(version: u32) -> String {
    if version == 0 { "session.jsonl".to_owned() } else { format!("session.v{version}.jsonl") }
}

fn version_of(log: &str) -> Option<u32> {
    let middle = log.strip_prefix("session")?.strip_suffix(".jsonl")?;
    let version = if middle.is_empty() { 0 } else { middle.strip_prefix(".v")?.parse().ok()? };
    (log_name(version) == log).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn id(id: &str) -> SessionId {
        SessionId::new(id).unwrap()
    }

    #[test]
    fn every_name_is_its_own_where_upper_and_lower_case_are_one() {
        let long = "x".repeat(240);
        let ids = ["A", "a", "../../x", "a/b", "A/b", "..", "é", "😀", "~", "a~~2", "aB", "Ab", "AB", &long];
        let mut names = EntryNames::default();
        let mut folded = HashSet::new();
        for text in ids {
            let name = names.descendant(&id(text), 3);
            assert!(folded.insert(name.to_lowercase()), "{name}");
            assert!(name.split('/').all(|part| part.len() <= 255 && part != ".."), "{name}");
            let parsed = EntryName::parse(&name).expect(&name);
            assert_eq!(parsed.version, 3);
            let owners: Vec<_> = ids.iter().filter(|other| parsed.is_of(&id(other))).collect();
            assert_eq!(owners, [&text], "{name}");
        }
        let mut names = EntryNames::default();
        let folders = ["A", "a", "b", "a"].map(|text| names.descendant(&id(text), 0));
        let expected = ["A", "a~~2", "b", "a~~3"].map(|folder| format!("subagents/{folder}/session.jsonl"));
        assert_eq!(folders, expected);
    }

    #[test]
    fn only_names_that_an_export_gives_are_read() {
        assert!(EntryName::parse("session.jsonl").unwrap().is_root());
        assert_eq!(EntryName::parse("session.v12.jsonl").unwrap().version, 12);
        for name in [
            "",
            "/session.jsonl",
            "x/session.jsonl",
            "session.v0.jsonl",
            "session.v03.jsonl",
            "session.v3.jsonl.zstd",
            "Session.v3.jsonl",
            "subagents/session.v3.jsonl",
            "subagents//session.v3.jsonl",
            "subagents/a/b/session.v3.jsonl",
            "subagents/a/session.v3.jsonl/",
            "subagents/a/",
            "media/x.png",
        ] {
            assert_eq!(EntryName::parse(name), None, "{name}");
        }
        for folder in ["a~~1", "a~~02", "a~~", "a~~x", "b", "aa"] {
            let name = format!("subagents/{folder}/session.v3.jsonl");
            assert!(!EntryName::parse(&name).unwrap().is_of(&id("a")), "{name}");
        }
    }
}
