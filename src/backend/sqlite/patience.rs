//! [`Patience`]: how long SQLite waits for the locks of others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// A longer wait is as good as none.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a connection waits for the locks of others. SQLite's own wait sleeps longer and longer; against a process that
/// commits without a pause it hardly ever wakes up in time.
pub(super) struct Patience {
    timeout: Duration,
    deadline: Arc<Mutex<Instant>>,
}

impl Patience {
    pub(super) fn of(connection: &mut Connection, timeout: Duration) -> Result<Self, rusqlite::Error> {
        let patience = Self::lasting(timeout);
        let deadline = patience.deadline.clone();
        connection.busy_handler(Some(move |tries: i32| {
            let is_left = Instant::now() < *guard(&deadline);
            if is_left {
                pause(tries.unsigned_abs());
            }
            is_left
        }))?;
        Ok(patience)
    }

    /// For a connection that has nobody to wait for.
    pub(super) fn none() -> Self {
        Self::lasting(Duration::ZERO)
    }

    fn lasting(timeout: Duration) -> Self {
        Self { timeout: timeout.min(LONGEST), deadline: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Gives the whole time again.
    pub(super) fn renew(&self) {
        self.allow(self.timeout);
    }

    /// Gives so much time from now on.
    pub(super) fn allow(&self, time: Duration) {
        *guard(&self.deadline) = Instant::now() + time;
    }

    /// How much is left.
    pub(super) fn left(&self) -> Duration {
        guard(&self.deadline).saturating_duration_since(Instant::now())
    }
}

/// Has a connection wait for the locks of others for so long at most, each time that it meets one, with the same short sleeps.
pub(super) fn wait(connection: &mut Connection, timeout: Duration) -> Result<(), rusqlite::Error> {
    let timeout = timeout.min(LONGEST);
    let mut met = Instant::now();
    connection.busy_handler(Some(move |tries: i32| {
        if tries == 0 {
            met = Instant::now();
        }
        let is_left = met.elapsed() < timeout;
        if is_left {
            pause(tries.unsigned_abs());
        }
        is_left
    }))
}

fn guard(deadline: &Mutex<Instant>) -> MutexGuard<'_, Instant> {
    deadline.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits a little before the next try: less than a commit takes at first, never much longer.
pub(super) fn pause(tries: u32) {
    std::thread::sleep(Duration::from_micros(match tries {
        0..4 => 50,
        4..40 => 200,
        _ => 1000,
    }));
}
