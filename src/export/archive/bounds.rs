//! What an archive may unpack to.

/// The most bytes of one log: with one more, the 32 bits in which the plain form of an archive counts say something else.
pub const MAX_ENTRY_BYTES: u64 = u32::MAX as u64 - 1;

/// The most bytes of all logs of one archive together.
pub const MAX_ARCHIVE_BYTES: u64 = 64 << 30;

/// The most entries, and so sessions, of one archive.
pub const MAX_ENTRIES: u64 = 1 << 20;

/// How many bytes a log may unpack to from one packed byte. Logs with much repeated text reach 30 to 60.
pub const MAX_RATIO: u64 = 200;

/// Logs up to this many bytes may have any ratio: one long run of the same character is a legal event.
pub const FREE_BYTES: u64 = 256 << 20;
