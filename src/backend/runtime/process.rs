//! [`Process`]: the process in which a value was made. A process that is forked gets a copy of every value, and with it of
//! locks and descriptors that are its parent's: nothing may be read, written or given up through such a copy.

use crate::log::SessionId;
use crate::seam::{Error, Result};

/// The process in which a value was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn id(self) -> u32 {
        self.0
    }

    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Refuses what is asked for in another process. Call it before any lock is waited for: a thread that held one when the
    /// process was forked is not there to give up the copy.
    pub(crate) fn check(self, session: Option<&SessionId>) -> Result<()> {
        if self.is_current() {
            return Ok(());
        }
        Err(Error::InvalidArgument {
            session: session.cloned(),
            reason: format!(
                "the store was opened by process {}, and this is process {}, which was forked from it; open the store \
                 anew here",
                self.0,
                std::process::id()
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_is_refused_and_both_are_named() {
        Process::current().check(None).unwrap();
        let parent = Process(std::process::id() ^ 1);
        assert!(!parent.is_current());
        let id = SessionId::new("s").unwrap();
        let refused = parent.check(Some(&id)).unwrap_err();
        assert!(matches!(&refused, Error::InvalidArgument { session: Some(of), .. } if *of == id));
        for process in [Process::current(), parent] {
            assert!(refused.to_string().contains(&format!("process {}", process.0)), "{refused}");
        }
    }
}
