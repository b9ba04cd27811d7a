//! [`Bar`]: how far long work is, for a person who waits for it.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::screen::visible;
use crate::log::SessionId;

/// A line at the standard error that is there while work is under way, where that is a terminal.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        // Time passes also where nothing is told for long.
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(125));
        }
        Self(bar)
    }

    /// Tells how much of a log was read.
    pub(super) fn reading(&self, session: &SessionId, read: u64, of: Option<u64>) {
        if self.0.is_hidden() {
            return;
        }
        let of = of.map(|of| format!(" of {of}")).unwrap_or_default();
        self.doing(&format!("{}: {read}{of} events", visible(session.as_str())));
    }

    /// Tells what is done now.
    pub(super) fn doing(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.tick();
    }

    /// Writes lines without the bar in their way.
    pub(super) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.suspend(write)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
