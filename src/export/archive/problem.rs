//! [`ArchiveProblem`]: why an archive is refused as a whole.

use std::fmt;

use super::{MAX_ARCHIVE_BYTES, MAX_ENTRIES, MAX_ENTRY_BYTES, MAX_RATIO};
use crate::log::SessionId;

/// Why an archive is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArchiveProblem {
    /// A name with `..` in it.
    ParentFolder,
    /// A name that starts at the root of a disk.
    AbsolutePath,
    /// A name with a backslash in it, which some systems take for a separator.
    Backslash,
    /// A name that starts with the letter of a drive.
    DriveLetter,
    /// A link, a folder, a device or anything else that is no plain file.
    NotAFile,
    /// A name that no export gives.
    ForeignName,
    /// A name that stands twice, be it in other letters' case.
    DuplicateName,
    /// A session that has two entries.
    DuplicateSession {
        /// The session.
        session: SessionId,
    },
    /// The entry of the session that the archive is of is missing or stands twice.
    NotOneRoot {
        /// How many there are.
        found: usize,
    },
    /// An entry that only a password opens.
    Encrypted,
    /// An entry that is packed in another way than deflate.
    OtherCompression,
    /// The log of an entry does not start with a header of a session.
    NoHeader {
        /// What is wrong with it.
        reason: String,
    },
    /// The log of an entry is of another session than its name tells.
    OtherSession {
        /// The session of the log.
        session: SessionId,
    },
    /// The log of an entry has another format version than its name tells.
    OtherVersion {
        /// The version of the log.
        version: u32,
    },
    /// More than [`MAX_ENTRIES`] entries.
    TooManyEntries,
    /// An entry that unpacks to more than [`MAX_ENTRY_BYTES`], whatever it declares.
    EntryTooLarge,
    /// Entries that unpack to more than [`MAX_ARCHIVE_BYTES`] together.
    ArchiveTooLarge,
    /// An entry that unpacks to more than [`MAX_RATIO`] times its packed size.
    Ratio,
    /// Bytes that belong to no entry, or to two, or that two readers of the archive would understand in two ways.
    Ambiguous {
        /// Which.
        reason: String,
    },
    /// An archive that was cut, or an entry that is not what was packed.
    Damaged {
        /// What is wrong.
        reason: String,
    },
}

impl fmt::Display for ArchiveProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ParentFolder => f.write_str("leads out of the archive with \"..\""),
            Self::AbsolutePath => f.write_str("has an absolute path"),
            Self::Backslash => f.write_str("has a backslash in its name"),
            Self::DriveLetter => f.write_str("has the letter of a drive in its name"),
            Self::NotAFile => f.write_str("is no plain file"),
            Self::ForeignName => f.write_str(
                "has a name that no export of sessions gives; import the logs of such an archive one by one, unpacked",
            ),
            Self::DuplicateName => f.write_str("has the name of another entry"),
            Self::DuplicateSession { session } => {
                write!(f, "holds session {session:?}, which another entry holds too")
            }
            Self::NotOneRoot { found } => {
                write!(f, "holds {found} logs beside those of descendants, where an export has one")
            }
            Self::Encrypted => f.write_str("is encrypted; unpack it with its password and import the log"),
            Self::OtherCompression => f.write_str("is compressed in another way than deflate"),
            Self::NoHeader { reason } => write!(f, "does not start with the header of a session: {reason}"),
            Self::OtherSession { session } => write!(f, "holds session {session:?}, which its name does not tell"),
            Self::OtherVersion { version } => {
                write!(f, "holds a log of format {version}, which its name does not tell")
            }
            Self::TooManyEntries => write!(f, "has more than {MAX_ENTRIES} entries"),
            Self::EntryTooLarge => write!(f, "unpacks to more than {MAX_ENTRY_BYTES} bytes"),
            Self::ArchiveTooLarge => write!(f, "unpacks to more than {MAX_ARCHIVE_BYTES} bytes"),
            Self::Ratio => write!(f, "unpacks to more than {MAX_RATIO} times its packed size"),
            Self::Ambiguous { reason } => write!(f, "can be understood in more than one way: {reason}"),
            Self::Damaged { reason } => write!(f, "is damaged: {reason}; get it again from where it was made"),
        }
    }
}
