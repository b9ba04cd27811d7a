//! [`Timer`]: the one thread of a router, which writes batches when they are due.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// When the thread is to wake up.
#[derive(Default)]
pub(super) struct Alarm {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: Option<Instant>,
    is_over: bool,
}

impl Alarm {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the thread wake up at a time, or earlier.
    pub(super) fn set(&self, at: Instant) {
        let mut state = self.state();
        if state.next.is_none_or(|next| at < next) {
            state.next = Some(at);
            self.changed.notify_one();
        }
    }

    fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_one();
    }

    /// Waits for the time that was set; whether the thread goes on.
    fn wait(&self) -> bool {
        let mut state = self.state();
        loop {
            if state.is_over {
                return false;
            }
            let now = Instant::now();
            state = match state.next {
                Some(next) if next <= now => {
                    state.next = None;
                    return true;
                }
                Some(next) => self.changed.wait_timeout(state, next - now).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// The thread; it has ended when this is dropped.
pub(super) struct Timer {
    alarm: Arc<Alarm>,
    thread: Option<JoinHandle<()>>,
}

impl Timer {
    /// Starts a thread that calls `ring` whenever the alarm goes off.
    pub(super) fn start(alarm: Arc<Alarm>, ring: impl Fn() + Send + 'static) -> io::Result<Self> {
        let waited = alarm.clone();
        let thread = std::thread::Builder::new().name("sessions-writer".to_owned()).spawn(move || {
            while waited.wait() {
                ring();
            }
        })?;
        Ok(Self { alarm, thread: Some(thread) })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.alarm.end();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread that writes sessions in the background panicked");
        }
    }
}
