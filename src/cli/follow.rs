//! [`Follow`]: the events of a session as they are written, by whatever process.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::failure::Failure;
use super::screen::Screen;
use super::show::Shown;
use crate::log::SessionEvent;
use crate::paging::Pages;
use crate::seam::{Error, SeqRange, SessionHandle, SessionPersistence, Snapshot};

/// How often the store is asked whether anything is new.
const POLL: Duration = Duration::from_millis(150);
/// A reading that takes long is followed by a rest of so many times as long: a folder of log files passes over a log that
/// another process writes each time that it grew.
const REST: u32 = 8;
/// The longest rest: a reader of the output that is slow says nothing of the store.
const LONGEST: Duration = Duration::from_secs(2);

/// A session that is followed.
pub(super) struct Follow<'a> {
    store: &'a dyn SessionPersistence,
    handle: &'a dyn SessionHandle,
    /// What the store told when it was read last.
    known: Snapshot,
    /// What comes next.
    next: u64,
    /// The last event before that, which proves that the log goes on where it was.
    last: Option<SessionEvent>,
    interrupted: Arc<AtomicBool>,
}

impl<'a> Follow<'a> {
    /// A session from an event on; the snapshot is not older than the handle.
    pub(super) fn new(
        store: &'a dyn SessionPersistence,
        handle: &'a dyn SessionHandle,
        known: Snapshot,
        from: u64,
    ) -> Result<Self, Failure> {
        let last = match from.checked_sub(1) {
            Some(before) => handle.read(SeqRange::new(before, Some(1)))?.pop(),
            None => None,
        };
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = interrupted.clone();
        // A host that calls this and has a handler of its own keeps it.
        if let Err(e) = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)) {
            log::debug!("Ctrl-C ends this as it ends the rest of the process: {e}");
        }
        Ok(Self { store, handle, known, next: from, last, interrupted })
    }

    /// Shows what is there and what comes, until all that was wanted is shown or nobody wants it any more.
    pub(super) fn run(mut self, shown: &mut Shown, screen: &mut Screen) -> Result<(), Failure> {
        loop {
            let started = Instant::now();
            self.read(shown, screen)?;
            let rest = POLL.max(started.elapsed() * REST).min(LONGEST);
            loop {
                if shown.left == 0 || self.is_interrupted() || wait(rest)? || self.is_interrupted() {
                    return Ok(());
                }
                let now = self.store.stat(self.handle.id())?.ok_or_else(|| self.removed())?;
                if now.revision != self.known.revision {
                    self.known = now;
                    break;
                }
            }
            let is_another = self.known.header.as_ref() != Some(self.handle.header());
            if is_another || self.known.event_count.is_some_and(|count| count < self.seen()) {
                return Err(self.replaced());
            }
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// How many events there are at least.
    fn seen(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.seq().get() + 1)
    }

    /// Shows what is new.
    fn read(&mut self, shown: &mut Shown, screen: &mut Screen) -> Result<(), Failure> {
        let start = self.last.as_ref().map_or(self.next, |last| last.seq().get());
        let mut pages = Pages::new(self.handle, &self.known, start);
        let mut proof = self.last.clone();
        while shown.left > 0 && !self.is_interrupted() {
            let mut page = match pages.next_page() {
                Err(Error::NotFound { .. }) => {
                    let is_there = self.store.stat(self.handle.id())?.is_some();
                    return Err(if is_there { self.replaced() } else { self.removed() });
                }
                page => page?,
            };
            if let Some(last) = proof.take() {
                if page.first() != Some(&last) {
                    return Err(self.replaced());
                }
                page.remove(0);
                if page.is_empty() {
                    continue;
                }
            }
            let Some(last) = page.last() else { break };
            self.last = Some(last.clone());
            self.next = pages.next_seq();
            shown.show(&page, screen)?;
        }
        Ok(screen.flush()?)
    }

    fn removed(&self) -> Failure {
        let message = format!("session {:?} was removed while it was followed", self.handle.id());
        Failure::Told { kind: "NotFound", message }
    }

    fn replaced(&self) -> Failure {
        let message = format!(
            "session {:?} is another one than the one that was followed up to seq {}, or its log was changed: look at \
             it anew with `sessions show`",
            self.handle.id(),
            self.seen().saturating_sub(1)
        );
        Failure::Told { kind: "Replaced", message }
    }
}

/// Waits for so long; whether whoever reads the output is gone.
#[cfg(unix)]
fn wait(rest: Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let out = io::stdout();
    // Nothing is asked for but what is always told: that nobody reads a pipe any more.
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    let rest = Timespec { tv_sec: rest.as_secs().cast_signed(), tv_nsec: i64::from(rest.subsec_nanos()) };
    match poll(&mut fds, Some(&rest)) {
        Ok(_) => Ok(!fds[0].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

#[cfg(not(unix))]
fn wait(rest: Duration) -> io::Result<bool> {
    std::thread::sleep(rest);
    Ok(false)
}
