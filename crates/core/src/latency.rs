//! What is remembered of latencies: a median over recent samples, and a peak EWMA.

use crate::time::{Duration, Instant};

const KEPT: usize = 64;

/// The last 64 samples of a duration.
#[derive(Clone, Debug)]
pub struct Samples {
    nanos: [u64; KEPT],
    next: usize,
    len: usize,
}

impl Default for Samples {
    fn default() -> Self {
        Self { nanos: [0; KEPT], next: 0, len: 0 }
    }
}

impl Samples {
    /// Adds a sample; the oldest of 64 goes.
    pub fn push(&mut self, took: Duration) {
        if let Some(slot) = self.nanos.get_mut(self.next) {
            *slot = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        }
        self.next = (self.next + 1) % KEPT;
        self.len = (self.len + 1).min(KEPT);
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The middle one (the upper of the two middles), if there is any.
    pub fn median(&self) -> Option<Duration> {
        let mut sorted = self.nanos;
        let used = sorted.get_mut(..self.len)?;
        if used.is_empty() {
            return None;
        }
        let middle = used.len() / 2;
        let (_, median, _) = used.select_nth_unstable(middle);
        Some(Duration::from_nanos(*median))
    }
}

/// How fast a peak fades.
const DECAY: Duration = Duration::from_secs(10);

/// What is kept of a peak after `passed`: 1/(1+x) instead of e^-x, which needs no floating-point library and falls just
/// as steadily.
fn keep(passed: Duration) -> f64 {
    1.0 / (1.0 + passed.as_secs_f64() / DECAY.as_secs_f64())
}

/// Peak EWMA (as in Finagle's load balancers): a slower sample counts at once and in full, a faster one moves the
/// average down with the time that has passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeakEwma {
    nanos: f64,
    at: Instant,
    seen: bool,
}

impl PeakEwma {
    /// Adds a sample.
    pub fn observe(&mut self, took: Duration, now: Instant) {
        let sample = took.as_nanos() as f64;
        if !self.seen || sample >= self.nanos {
            self.nanos = sample;
        } else {
            let keep = keep(now.since(self.at));
            self.nanos = self.nanos * keep + sample * (1.0 - keep);
        }
        self.seen = true;
        self.at = now;
    }

    /// The estimate at the last sample, if there was any.
    pub fn get(&self) -> Option<Duration> {
        self.seen.then(|| Duration::from_nanos(self.nanos as u64))
    }

    /// The estimate at `now`: it fades while nothing is heard, so that one slow answer does not banish a target for ever.
    pub fn at(&self, now: Instant) -> Option<Duration> {
        let keep = keep(now.since(self.at));
        self.seen.then(|| Duration::from_nanos((self.nanos * keep) as u64))
    }
}
