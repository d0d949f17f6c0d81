//! The only reader of the real clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pointsman_core::time::Instant;

/// Monotonic time for decisions, wall time for people. Clones share it.
#[derive(Clone, Debug)]
pub struct Clock {
    epoch: std::time::Instant,
    /// How far it was put forward, in nanoseconds: tests see minutes go by without waiting for them.
    ahead: Arc<AtomicU64>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { epoch: std::time::Instant::now(), ahead: Arc::new(AtomicU64::new(0)) }
    }
}

impl Clock {
    /// The present moment, for the core.
    pub fn now(&self) -> Instant {
        let ahead = Duration::from_nanos(self.ahead.load(Ordering::Relaxed));
        Instant::ZERO.after(self.epoch.elapsed() + ahead)
    }

    /// The present moment in milliseconds of Unix time.
    pub fn unix_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    /// Puts it forward. Timers that already run are not shortened.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.ahead.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// The operating system's entropy behind the core's trait.
#[derive(Debug)]
pub(crate) struct Entropy(fastrand::Rng);

impl Entropy {
    pub(crate) fn new() -> Self {
        Self(fastrand::Rng::new())
    }
}

impl pointsman_core::rng::Rng for Entropy {
    fn next_u64(&mut self) -> u64 {
        self.0.u64(..)
    }
}
