//! Randomness from one seed: a stream of its own for each purpose, so that dropping one client or fault from a scenario
//! changes nothing about the luck of the others.

use pointsman_core::rng::{Rng, SplitMix64, stable_hash};
use pointsman_core::time::Duration;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(SplitMix64);

impl Rng for Stream {
    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

impl Stream {
    /// The stream of this purpose under this seed.
    pub fn of(seed: u64, purpose: &str) -> Self {
        Self(SplitMix64::new(stable_hash(purpose.as_bytes()) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A uniform number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Whether something of this probability happens. Draws even where that is certain, so that the numbers after it stay
    /// the same when a share changes.
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// A uniform number in `[low, high)`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A uniform whole number in `low..=high`.
    pub fn whole(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low).saturating_add(1);
        let wide = u128::from(self.next_u64()) * u128::from(span);
        low.saturating_add(u64::try_from(wide >> 64).unwrap_or(0))
    }

    /// One of these; `None` only of nothing.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        let last = u64::try_from(among.len()).unwrap_or(u64::MAX).checked_sub(1)?;
        among.get(usize::try_from(self.whole(0, last)).unwrap_or(0))
    }

    /// A uniform span between these, in seconds.
    pub fn span(&mut self, low: f64, high: f64) -> Duration {
        seconds(self.between(low, high))
    }

    /// The time to the next arrival of a Poisson process with this many per second.
    pub fn until_next(&mut self, per_second: f64) -> Duration {
        // 1 - unit lies in (0, 1]: its logarithm is finite.
        seconds(-(1.0 - self.unit()).ln() / per_second.max(1e-6))
    }

    /// A factor around 1.0 that is distributed log-normally: `spread` is the standard deviation of its logarithm.
    pub fn log_normal(&mut self, spread: f64) -> f64 {
        // Irwin-Hall: the sum of twelve uniform numbers less six is close to a standard normal, without tails that no
        // provider shows.
        let normal: f64 = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        (normal * spread).exp()
    }
}

/// A span of so many seconds; what is no span is none, and nothing is longer than a year.
pub fn seconds(seconds: f64) -> Duration {
    const YEAR: f64 = 31_536_000.0;
    Duration::try_from_secs_f64(seconds.clamp(0.0, YEAR)).unwrap_or(Duration::ZERO)
}
