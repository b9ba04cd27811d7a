//! [`ErrorKind`]: what a program decides by.

use std::fmt;

/// The kind of an [`Error`](super::Error), to decide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is the variant of Error of the same name, documented there")]
pub enum ErrorKind {
    NotFound,
    AlreadyExists,
    AlreadyOwned,
    OwnershipLost,
    ReadOnly,
    HandleClosed,
    NotContiguous,
    NotLossless,
    InvalidArgument,
    FormatUnsupported,
    Corruption,
    StoreBusy,
    StorageFull,
    StorageReadOnly,
    UnsupportedStore,
    Io,
}

impl ErrorKind {
    /// Its name, as in `NotFound`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::AlreadyOwned => "AlreadyOwned",
            Self::OwnershipLost => "OwnershipLost",
            Self::ReadOnly => "ReadOnly",
            Self::HandleClosed => "HandleClosed",
            Self::NotContiguous => "NotContiguous",
            Self::NotLossless => "NotLossless",
            Self::InvalidArgument => "InvalidArgument",
            Self::FormatUnsupported => "FormatUnsupported",
            Self::Corruption => "Corruption",
            Self::StoreBusy => "StoreBusy",
            Self::StorageFull => "StorageFull",
            Self::StorageReadOnly => "StorageReadOnly",
            Self::UnsupportedStore => "UnsupportedStore",
            Self::Io => "Io",
        }
    }
}

impl ErrorKind {
    /// Whether the storage failed, and not the call.
    pub(crate) fn is_of_storage(self) -> bool {
        matches!(
            self,
            Self::Corruption
                | Self::StoreBusy
                | Self::StorageFull
                | Self::StorageReadOnly
                | Self::UnsupportedStore
                | Self::OwnershipLost
                | Self::Io
        )
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
