//! [`Layout`]: where in a root which session stands.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::runtime::cores;
use super::disk::{Disk, Name};
use crate::log::SessionId;

/// The project folder of sessions whose header names no folder.
const NO_CWD: &str = "_no-cwd";

/// The most UTF-16 units of a project folder's name between its marks.
const MAX_PROJECT: usize = 251;

/// How the lines of a log stand in its file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// Zstandard frames with checksums: the header line in the first, then one frame a batch.
    #[default]
    Zstd,
    /// Plain text, a line an event.
    Raw,
}

/// A log file of a session, by its name. Of several the one of the highest version is the session's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation {
    pub(super) version: u32,
    pub(super) encoding: Encoding,
}

impl Generation {
    pub(super) fn file_name(self) -> String {
        let version = if self.version == 0 { String::new() } else { format!(".v{}", self.version) };
        let suffix = if self.encoding == Encoding::Zstd { ".zstd" } else { "" };
        format!("session{version}.jsonl{suffix}")
    }

    /// The generation that a file name stands for; nothing for any other file, another spelling of a version included.
    pub(super) fn named(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("session")?;
        let (rest, encoding) = match rest.strip_suffix(".zstd") {
            Some(rest) => (rest, Encoding::Zstd),
            None => (rest, Encoding::Raw),
        };
        let version = match rest.strip_suffix(".jsonl")? {
            "" => 0,
            numbered => numbered.strip_prefix(".v")?.parse().ok()?,
        };
        let generation = Self { version, encoding };
        (generation.file_name() == name).then_some(generation)
    }
}

/// Where a stored session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Its folder.
    pub(super) folder: Arc<Path>,
    pub(super) generation: Generation,
}

impl Place {
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join(self.generation.file_name())
    }
}

/// What stands under a name of a session's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    One(Place),
    /// Something that no rule tells to be one log, with the reason.
    Unclear {
        folder: Arc<Path>,
        reason: String,
    },
}

impl Found {
    /// Its folder.
    pub(super) fn folder(&self) -> &Arc<Path> {
        match self {
            Self::One(Place { folder, .. }) | Self::Unclear { folder, .. } => folder,
        }
    }
}

/// The folders of a root: one a project, and in it one a session.
pub(super) struct Layout {
    root: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Layout {
    pub(super) fn new(root: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { root, disk }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a session with this folder and id.
    pub(super) fn folder(&self, cwd: Option<&str>, id: &SessionId) -> PathBuf {
        self.root.join(project_key(cwd)).join(id.escaped())
    }

    /// The project folders.
    pub(super) fn projects(&self) -> io::Result<Vec<PathBuf>> {
        let names = self.disk.read_dir(&self.root)?;
        Ok(names.into_iter().filter(|n| n.may_be_folder).map(|n| self.root.join(n.text)).collect())
    }

    /// Looks for a session in every project folder: the folder is found by the id alone.
    pub(super) fn find(&self, id: &SessionId) -> io::Result<Vec<Found>> {
        let segment = id.escaped();
        let mut found = Vec::new();
        for project in self.projects()? {
            found.extend(self.look_into(project.join(&segment).into())?);
        }
        Ok(found)
    }

    /// What a session's folder holds; nothing where it holds no log, or is none.
    pub(super) fn look_into(&self, folder: Arc<Path>) -> io::Result<Option<Found>> {
        let mut generations: Vec<_> =
            self.names(&folder)?.iter().filter_map(|name| Generation::named(&name.text)).collect();
        generations.sort_by_key(|g| std::cmp::Reverse(g.version));
        let Some(&generation) = generations.first() else { return Ok(None) };
        if generations.get(1).is_some_and(|second| second.version == generation.version) {
            let reason = format!(
                "{} holds format {} twice, as text and compressed; move one of the two files away",
                folder.display(),
                generation.version
            );
            return Ok(Some(Found::Unclear { folder, reason }));
        }
        Ok(Some(Found::One(Place { folder, generation })))
    }

    /// The log files in a session's folder, the oldest generation first.
    pub(super) fn generations(&self, folder: &Path) -> io::Result<Vec<Generation>> {
        let mut generations: Vec<_> =
            self.names(folder)?.iter().filter_map(|name| Generation::named(&name.text)).collect();
        generations.sort_by_key(|g| g.version);
        Ok(generations)
    }

    /// The names in a folder; none where there is no such folder.
    pub(super) fn names(&self, folder: &Path) -> io::Result<Vec<Name>> {
        match self.disk.read_dir(folder) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
            other => other,
        }
    }

    /// Every session of a root by the name of its folder. A folder whose name is no escaped id is none of ours.
    pub(super) fn all(&self) -> io::Result<Vec<(SessionId, Found)>> {
        let mut all = Vec::new();
        for project in self.projects()? {
            let look = |name: &Name| -> io::Result<Option<(SessionId, Found)>> {
                if !name.may_be_folder {
                    return Ok(None);
                }
                let folder = project.join(&name.text);
                let Some(id) = unescape(&name.text) else {
                    log::debug!("{} is no session's folder: passed over", folder.display());
                    return Ok(None);
                };
                Ok(self.look_into(folder.into())?.map(|found| (id, found)))
            };
            for found in cores::each(&self.names(&project)?, look) {
                all.extend(found?);
            }
        }
        Ok(all)
    }

    /// The encoding of the first log that is found; nothing in a root without one.
    pub(super) fn encoding(&self) -> io::Result<Option<Encoding>> {
        for project in self.projects()? {
            for name in self.names(&project)?.iter().filter(|name| name.may_be_folder) {
                if let Some(Found::One(place)) = self.look_into(project.join(&name.text).into())? {
                    return Ok(Some(place.generation.encoding));
                }
            }
        }
        Ok(None)
    }

    /// Whether everything in a root could be there without a session: the folders of projects, and what starts with a
    /// dot.
    pub(super) fn is_plausible(&self) -> io::Result<bool> {
        let names = self.disk.read_dir(&self.root)?;
        Ok(names.iter().all(|name| {
            let project =
                name.text == NO_CWD || name.text.len() >= 5 && name.text.starts_with("--") && name.text.ends_with("--");
            name.text.starts_with('.') || project && name.may_be_folder
        }))
    }

    /// Whether a folder holds a name as it is written here, on a file system that may not tell upper from lower case.
    pub(super) fn holds_exactly(&self, path: &Path) -> io::Result<bool> {
        Ok(self.name(path)?.is_some())
    }

    /// The name of a path in its folder, as it is written here.
    pub(super) fn name(&self, path: &Path) -> io::Result<Option<Name>> {
        let (Some(folder), Some(last)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
            return Ok(None);
        };
        Ok(self.names(folder)?.into_iter().find(|name| name.text == last))
    }
}

/// The one of several places where an id was found.
pub(super) fn one_of(mut found: Vec<Found>) -> Option<Found> {
    if found.len() < 2 {
        return found.pop();
    }
    let mut folders: Vec<_> = found.iter().map(|found| found.folder().clone()).collect();
    folders.sort();
    let names = folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(" and ");
    let reason = format!("it is stored in several places, {names}; move all but one away");
    folders.pop().map(|folder| Found::Unclear { folder, reason })
}

/// The name of the folder that holds the sessions of one working folder. Several working folders may share one: the
/// name is for people, and nothing is found by it.
pub(super) fn project_key(cwd: Option<&str>) -> String {
    let Some(cwd) = cwd else { return NO_CWD.to_owned() };
    let mut key = String::with_capacity(cwd.len());
    let mut in_separators = false;
    for unit in cwd.encode_utf16() {
        let ascii = u8::try_from(unit).ok().filter(u8::is_ascii);
        let separates = matches!(ascii, Some(b'/' | b'\\' | b':'));
        match ascii {
            _ if separates && in_separators => {}
            _ if separates => key.push('-'),
            Some(b) if b.is_ascii_alphanumeric() || b"._-".contains(&b) => key.push(b.into()),
            _ => write!(key, "~{unit:04X}").expect("a String takes any text"),
        }
        in_separators = separates;
    }
    let key = match key.trim_start_matches('-') {
        "" => "root",
        key => key,
    };
    format!("--{}--", &key[..key.len().min(MAX_PROJECT)])
}

/// The id whose escaped form a folder's name is; nothing for a name that is no escaped form.
pub(super) fn unescape(segment: &str) -> Option<SessionId> {
    let mut units = Vec::with_capacity(segment.len());
    let mut rest = segment;
    while let Some(first) = rest.chars().next() {
        if first == '~' {
            units.push(u16::from_str_radix(rest.get(1..5)?, 16).ok()?);
            rest = &rest[5..];
        } else {
            units.push(u16::try_from(u32::from(first)).ok()?);
            rest = &rest[first.len_utf8()..];
        }
    }
    let id = SessionId::new(String::from_utf16(&units).ok()?).ok()?;
    (id.escaped() == segment).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_project_is_named_as_other_programs_of_the_format_name_it() {
        for (cwd, key) in [
            ("/srv/app", "--srv-app--"),
            ("/a-/b", "--a--b--"),
            ("/a//b", "--a-b--"),
            ("/w", "--w--"),
            ("/w/", "--w---"),
            ("~", "--~007E--"),
            ("/home/a b", "--home-a~0020b--"),
            ("C:\\work", "--C-work--"),
            ("relative/x", "--relative-x--"),
            ("/", "--root--"),
            ("", "--root--"),
            ("--x", "--x--"),
            ("😀", "--~D83D~DE00--"),
        ] {
            assert_eq!(project_key(Some(cwd)), key, "{cwd:?}");
        }
        assert_eq!(project_key(None), "_no-cwd");
        assert_eq!(project_key(Some(&"x".repeat(300))).len(), 255);
        assert_eq!(project_key(Some(&("x".repeat(249) + " "))), format!("--{}~0--", "x".repeat(249)));
    }

    #[test]
    fn a_folder_name_gives_back_its_id_and_no_other_spelling_does() {
        for id in ["s", "a/b", ".", "..", "é", "😀", "~002E", "A", "a b", "--", "a\nb"] {
            let id = SessionId::new(id).unwrap();
            assert_eq!(unescape(&id.escaped()), Some(id));
        }
        for name in ["", ".", "..", "a b", "~", "~00", "~0041", "~002e", "~D83D", "é", "a~", "~+041"] {
            assert_eq!(unescape(name), None, "{name}");
        }
    }

    #[test]
    fn only_the_exact_names_are_generations() {
        for (name, version, encoding) in [
            ("session.jsonl", 0, Encoding::Raw),
            ("session.jsonl.zstd", 0, Encoding::Zstd),
            ("session.v3.jsonl", 3, Encoding::Raw),
            ("session.v12.jsonl.zstd", 12, Encoding::Zstd),
        ] {
            let generation = Generation { version, encoding };
            assert_eq!(Generation::named(name), Some(generation));
            assert_eq!(generation.file_name(), name);
        }
        for name in [
            "session.v0.jsonl",
            "session.v03.jsonl",
            "session.v+3.jsonl",
            "Session.v3.jsonl",
            "session.v3.jsonl.0123456789ab.tmp",
            "session.v3.jsonl.zst",
            "session.lock",
            "session.v99999999999.jsonl",
            "xsession.jsonl",
        ] {
            assert_eq!(Generation::named(name), None, "{name}");
        }
    }
}
