//! [`SessionHeader`]: the first line of a session log.

use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::json::push_string;
use super::text::{self, excerpt, push_number};
use super::usual::Usual;
use super::{InvalidRecord, Seq, SessionId};

/// The newest format whose headers this crate writes.
pub(crate) const CURRENT_VERSION: u32 = 3;

/// The first line of a session log: who the session is and where it came from. Never changed, cheap to clone.
///
/// The `with_...` methods make a new header in the usual spelling: what a parsed line spelled otherwise, and keys of a newer
/// format that this build does not know, are not taken over.
///
/// Two headers are equal when their lines are equal, byte for byte.
///
/// ```
/// use session_persistence::{SessionHeader, SessionId};
///
/// let header = SessionHeader::new(SessionId::new("s1")?, 1_700_000_000_000)?.with_cwd("/w");
/// assert_eq!(
///     header.to_line(),
///     r#"{"type":"session","version":3,"id":"s1","createdAt":1700000000000,"cwd":"/w","isSeeded":false,"delegationDepth":0}"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SessionHeader(Arc<Fields>);

#[derive(Clone, PartialEq, Eq)]
struct Fields {
    version: u32,
    id: SessionId,
    created_at: u64,
    cwd: Option<String>,
    parent_session: Option<String>,
    seed_length: Option<u64>,
    is_seeded: Option<bool>,
    origin: Option<Origin>,
    delegation_depth: Option<u64>,
    agent_preset: Option<String>,
    /// The line that was read, where the values alone would be written otherwise.
    line: Option<String>,
}

/// Who started a session, where it was not a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// Another session delegated to this one.
    Subagent,
}

impl Origin {
    /// Its name in the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Subagent => "subagent",
        }
    }
}

impl SessionHeader {
    /// A header of format 3 without a folder, parent or seed. `created_at` is in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`InvalidRecord`] when `created_at` is beyond 2^53 - 1.
    pub fn new(id: SessionId, created_at: u64) -> Result<Self, InvalidRecord> {
        if created_at > Seq::MAX.get() {
            return Err(InvalidRecord::new(format!("createdAt {created_at} is beyond {}", Seq::MAX)));
        }
        Ok(Self(Arc::new(Fields {
            version: CURRENT_VERSION,
            id,
            created_at,
            cwd: None,
            parent_session: None,
            seed_length: None,
            is_seeded: Some(false),
            origin: None,
            delegation_depth: Some(0),
            agent_preset: None,
            line: None,
        })))
    }

    fn with(mut self, change: impl FnOnce(&mut Fields)) -> Self {
        let fields = Arc::make_mut(&mut self.0);
        fields.line = None;
        change(fields);
        self
    }

    /// The same header with a working folder. Any text: sessions are found by id, never by folder.
    #[must_use]
    pub fn with_cwd(self, cwd: impl Into<String>) -> Self {
        self.with(|f| f.cwd = Some(cwd.into()))
    }

    /// The same header with the id of a parent session, which need not be stored.
    #[must_use]
    pub fn with_parent_session(self, parent: impl Into<String>) -> Self {
        self.with(|f| f.parent_session = Some(parent.into()))
    }

    /// The same header, marked as holding a prefix that was inherited from its parent. Its host appends that prefix and
    /// then a `session/end-seed` event with `{"inherited":true}`: the log tells by it how much was inherited.
    #[must_use]
    pub fn with_seed(self) -> Self {
        self.with(|f| {
            // The formats before 2 tell it by a seed length.
            if f.version < 2 {
                f.seed_length.get_or_insert(0);
            } else {
                f.is_seeded = Some(true);
            }
        })
    }

    /// The same header with an origin.
    #[must_use]
    pub fn with_origin(self, origin: Origin) -> Self {
        self.with(|f| f.origin = Some(origin))
    }

    /// The same header at a depth of delegation; 0 for a session that a person started. Depths past 2^53 - 1 become that.
    #[must_use]
    pub fn with_delegation_depth(self, depth: u64) -> Self {
        self.with(|f| f.delegation_depth = Some(depth.min(Seq::MAX.get())))
    }

    /// The same header with the name of an agent preset.
    #[must_use]
    pub fn with_agent_preset(self, preset: impl Into<String>) -> Self {
        self.with(|f| f.agent_preset = Some(preset.into()))
    }

    /// The same header under another format version. Versions below 2 have a seed length where later ones say whether
    /// the session is seeded, so that from one side of 2 to the other the header becomes one without a seed.
    #[must_use]
    pub fn with_version(self, version: u32) -> Self {
        self.with(|f| {
            f.version = version;
            f.is_seeded = (version >= 2).then_some(f.is_seeded.unwrap_or(false));
            f.seed_length = f.seed_length.filter(|_| version < 2);
            if version >= CURRENT_VERSION {
                f.delegation_depth.get_or_insert(0);
            }
        })
    }

    /// The same header for a session of another name, spelled as it is: keys that this build does not know stay.
    pub(crate) fn renamed(&self, id: &SessionId) -> Self {
        let renamed = self.0.line.as_ref().and_then(|line| Self::parse(with_id(line, id)?.as_bytes()).ok());
        renamed.unwrap_or_else(|| self.clone().with(|f| f.id = id.clone()))
    }

    /// The same header with another seed length, where its format has one and it is given.
    pub(crate) fn with_seed_length(self, length: u64) -> Self {
        if self.seed_length().is_none_or(|before| before == length) {
            return self;
        }
        self.with(|f| f.seed_length = Some(length))
    }

    /// The format version of the log.
    pub fn version(&self) -> u32 {
        self.0.version
    }

    /// The name of the session.
    pub fn id(&self) -> &SessionId {
        &self.0.id
    }

    /// When it was created, in milliseconds since 1970.
    pub fn created_at(&self) -> u64 {
        self.0.created_at
    }

    /// The working folder, as its host wrote it.
    pub fn cwd(&self) -> Option<&str> {
        self.0.cwd.as_deref()
    }

    /// The id of the parent session.
    pub fn parent_session(&self) -> Option<&str> {
        self.0.parent_session.as_deref()
    }

    /// Whether the log starts with events that were inherited from a parent. In formats 0 and 1: whether a seed length
    /// is given, even 0.
    pub fn is_seeded(&self) -> bool {
        self.0.is_seeded.unwrap_or(self.0.seed_length.is_some())
    }

    /// How many events were inherited, in formats 0 and 1. Later formats mark the place in the log itself.
    pub fn seed_length(&self) -> Option<u64> {
        self.0.seed_length
    }

    /// Who started it, where it was not a person.
    pub fn origin(&self) -> Option<Origin> {
        self.0.origin
    }

    /// How many delegations lead to it; 0 where the header gives none.
    pub fn delegation_depth(&self) -> u64 {
        self.0.delegation_depth.unwrap_or(0)
    }

    /// The name of its agent preset.
    pub fn agent_preset(&self) -> Option<&str> {
        self.0.agent_preset.as_deref()
    }

    /// Its line in an exported log, without the line feed.
    pub fn to_line(&self) -> String {
        let mut line = String::with_capacity(192);
        self.write_line(&mut line);
        line
    }

    /// Appends its line, without a line feed.
    pub(crate) fn write_line(&self, out: &mut String) {
        match &self.0.line {
            Some(line) => out.push_str(line),
            None => self.write_values(out),
        }
    }

    fn write_values(&self, out: &mut String) {
        let f = &*self.0;
        let number = |out: &mut String, key: &str, n: Option<u64>| {
            if let Some(n) = n {
                out.push_str(key);
                push_number(out, n);
            }
        };
        let string = |out: &mut String, key: &str, s: Option<&str>| {
            if let Some(s) = s {
                out.push_str(key);
                push_string(out, s);
            }
        };
        out.push_str("{\"type\":\"session\"");
        number(out, ",\"version\":", Some(f.version.into()));
        string(out, ",\"id\":", Some(f.id.as_str()));
        number(out, ",\"createdAt\":", Some(f.created_at));
        string(out, ",\"cwd\":", f.cwd.as_deref());
        string(out, ",\"parentSession\":", f.parent_session.as_deref());
        number(out, ",\"seedLength\":", f.seed_length);
        match f.is_seeded {
            Some(true) => out.push_str(",\"isSeeded\":true"),
            Some(false) => out.push_str(",\"isSeeded\":false"),
            None => {}
        }
        string(out, ",\"origin\":", f.origin.map(Origin::as_str));
        number(out, ",\"delegationDepth\":", f.delegation_depth);
        string(out, ",\"agentPreset\":", f.agent_preset.as_deref());
        out.push('}');
    }

    /// Reads the first line of a log, without its line feed; carriage returns at its end are no part of it. Formats 0 to 3 are checked to the last key; of a newer
    /// format the keys known here are read, and the rest is kept in the line.
    ///
    /// # Errors
    ///
    /// [`InvalidRecord`] names what is wrong: invalid UTF-8 with its byte, no session header, an unknown key, a missing
    /// one, one given twice, a value of the wrong kind, an id that cannot be used.
    pub fn parse(line: &[u8]) -> Result<Self, InvalidRecord> {
        let line = text::one_line(line)?;
        match Fields::usual(line) {
            Some(fields) => Ok(Self(Arc::new(fields))),
            None => Self::parse_any(line),
        }
    }

    /// The header of a line in whatever spelling and format.
    fn parse_any(line: &str) -> Result<Self, InvalidRecord> {
        let entries = text::object(line)?;
        let value = |key: &str| entries.iter().find(|(name, _)| name == key).map(|(_, v)| *v);
        let required = |key: &str| value(key).ok_or_else(|| missing(key));
        if value("type").is_none_or(|v| v.get() != "\"session\"") {
            return Err(InvalidRecord::new("not a session header: its type is not \"session\""));
        }
        let version = text::whole("version", required("version")?)?;
        let version =
            u32::try_from(version).map_err(|_| InvalidRecord::new(format!("version {version} is no format")))?;
        check_keys(version, entries.iter().map(|(name, _)| &**name))?;

        let whole = |key: &str| value(key).map(|v| text::whole(key, v)).transpose();
        let string = |key: &str| value(key).map(|v| text::string(key, v)).transpose();
        let id = text::string("id", required("id")?)?;
        let fields = Fields {
            version,
            id: SessionId::new(id).map_err(|e| InvalidRecord::new(e.to_string()))?,
            created_at: text::whole("createdAt", required("createdAt")?)?,
            cwd: string("cwd")?,
            parent_session: string("parentSession")?,
            seed_length: whole("seedLength")?,
            is_seeded: value("isSeeded").map(boolean).transpose()?,
            origin: value("origin").map(|v| origin(version, v)).transpose()?.flatten(),
            delegation_depth: whole("delegationDepth")?,
            agent_preset: string("agentPreset")?,
            line: None,
        };
        if version == CURRENT_VERSION && fields.delegation_depth.is_none() {
            return Err(missing("delegationDepth"));
        }
        if (2..=CURRENT_VERSION).contains(&version) && fields.is_seeded.is_none() {
            return Err(missing("isSeeded"));
        }
        let mut header = Self(Arc::new(fields));
        if header.to_line() != line {
            Arc::make_mut(&mut header.0).line = Some(line.to_owned());
        }
        Ok(header)
    }
}

impl Fields {
    /// The header of a line of this format that is spelled as headers are written; nothing where it is not, or is no header.
    fn usual(line: &str) -> Option<Self> {
        let mut rest = Usual::new(line);
        rest.pass("{\"type\":\"session\",\"version\":")?;
        let version = rest.whole().filter(|version| *version == u64::from(CURRENT_VERSION))?;
        rest.pass(",\"id\":")?;
        let id = SessionId::new(rest.string()?).ok()?;
        rest.pass(",\"createdAt\":")?;
        let created_at = rest.whole()?;
        let mut optional = |key| match rest.passes(key) {
            true => rest.string().map(|text| Some(text.to_owned())),
            false => Some(None),
        };
        let (cwd, parent_session) = (optional(",\"cwd\":")?, optional(",\"parentSession\":")?);
        rest.pass(",\"isSeeded\":")?;
        let is_seeded = rest.passes("true");
        if !is_seeded {
            rest.pass("false")?;
        }
        let origin = rest.passes(",\"origin\":\"subagent\"").then_some(Origin::Subagent);
        rest.pass(",\"delegationDepth\":")?;
        let delegation_depth = rest.whole()?;
        let agent_preset = match rest.passes(",\"agentPreset\":") {
            true => Some(rest.string()?.to_owned()),
            false => None,
        };
        rest.pass("}")?;
        rest.ends()?;
        Some(Self {
            version: version as u32,
            id,
            created_at,
            cwd,
            parent_session,
            seed_length: None,
            is_seeded: Some(is_seeded),
            origin,
            delegation_depth: Some(delegation_depth),
            agent_preset,
            line: None,
        })
    }
}

/// The line of a header with another id in the place of its own.
fn with_id(line: &str, id: &SessionId) -> Option<String> {
    let entries = text::object(line).ok()?;
    let (_, before) = entries.iter().find(|(name, _)| name == "id")?;
    let at = (before.get().as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
    let mut renamed = line.get(..at)?.to_owned();
    push_string(&mut renamed, id.as_str());
    renamed.push_str(line.get(at + before.get().len()..)?);
    Some(renamed)
}

fn check_keys<'a>(version: u32, keys: impl Iterator<Item = &'a str>) -> Result<(), InvalidRecord> {
    const KEYS: [&str; 9] =
        ["type", "version", "id", "createdAt", "cwd", "parentSession", "origin", "delegationDepth", "agentPreset"];
    let seed_key = if version < 2 { "seedLength" } else { "isSeeded" };
    let mut seen = Vec::new();
    for key in keys {
        if seen.contains(&key) {
            return Err(InvalidRecord::new(format!("header key {key:?} stands twice")));
        }
        seen.push(key);
        if key == "sandboxMode" || key == "approvalPolicy" {
            return Err(InvalidRecord::new(format!("header key {key:?} belongs to a retired policy baseline")));
        }
        if version <= CURRENT_VERSION && !KEYS.contains(&key) && key != seed_key {
            return Err(InvalidRecord::new(format!("unknown header key {:?} for format {version}", excerpt(key))));
        }
    }
    Ok(())
}

fn missing(key: &str) -> InvalidRecord {
    InvalidRecord::new(format!("header key {key:?} is missing"))
}

fn boolean(value: &RawValue) -> Result<bool, InvalidRecord> {
    match value.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(InvalidRecord::new(format!("isSeeded must be true or false, found {}", excerpt(other)))),
    }
}

fn origin(version: u32, value: &RawValue) -> Result<Option<Origin>, InvalidRecord> {
    match value.get() {
        "\"subagent\"" => Ok(Some(Origin::Subagent)),
        _ if version > CURRENT_VERSION => Ok(None),
        other => Err(InvalidRecord::new(format!("origin may only be \"subagent\", found {}", excerpt(other)))),
    }
}

impl fmt::Debug for SessionHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_line())
    }
}

#[cfg(test)]
mod tests;
