//! A target's own admission limits: what went to it in the last minute, and how much room that leaves.

use crate::target::TargetLimits;
use crate::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(60);
/// From this use of a limit on, the share falls.
const FALL_FROM: f64 = 0.85;

/// A sliding minute in two sub-windows: the current one in full, the last one by the part of it that the sliding window
/// still covers, rounded up. What lay unevenly in the last one may make a sliding minute hold more than the limit, but less
/// than twice as much, as with a bucket of tokens.
#[derive(Clone, Copy, Debug, Default)]
struct Minute {
    number: u64,
    current: u64,
    last: u64,
}

impl Minute {
    fn roll(&mut self, now: Instant) {
        let number = now.as_nanos() / WINDOW.as_nanos() as u64;
        if number == self.number.saturating_add(1) {
            self.last = self.current;
            self.current = 0;
        } else if number > self.number {
            self.last = 0;
            self.current = 0;
        }
        self.number = self.number.max(number);
    }

    fn sum(mut self, now: Instant) -> u64 {
        self.roll(now);
        // How the last sub-window's events lie in it is not known: they count by the part of it that the sliding minute
        // still covers, rounded up. Good enough to pace by; the provider's own limiter has the last word.
        let into = now.as_nanos() % WINDOW.as_nanos() as u64;
        let left = WINDOW.as_nanos() as u64 - into;
        let carried = (u128::from(self.last) * u128::from(left)).div_ceil(WINDOW.as_nanos());
        self.current.saturating_add(u64::try_from(carried).unwrap_or(u64::MAX))
    }

    fn add(&mut self, amount: u64, now: Instant) {
        self.roll(now);
        self.current = self.current.saturating_add(amount);
    }

    /// Takes back what was added at `then`, as far as it still counts.
    fn take_back(&mut self, amount: u64, then: Instant, now: Instant) {
        self.roll(now);
        let number = then.as_nanos() / WINDOW.as_nanos() as u64;
        if number == self.number {
            self.current = self.current.saturating_sub(amount);
        } else if number.saturating_add(1) == self.number {
            self.last = self.last.saturating_sub(amount);
        }
    }
}

/// What went to a target in the last minute.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    requests: Minute,
    tokens: Minute,
}

/// Why a target takes no more right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitHit {
    /// Requests in flight.
    Concurrency,
    /// Requests per minute.
    Requests,
    /// Tokens per minute.
    Tokens,
}

impl LimitHit {
    /// The configuration key that it came from.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Concurrency => "limits.concurrency",
            Self::Requests => "limits.rpm",
            Self::Tokens => "limits.tpm",
        }
    }
}

impl Usage {
    /// Counts a call and the tokens that it is expected to take.
    pub fn charge(&mut self, tokens: u64, now: Instant) {
        self.requests.add(1, now);
        self.tokens.add(tokens, now);
    }

    /// Replaces the estimate that a call was charged with at `then` by what it really took.
    pub fn settle(&mut self, estimated: u64, actual: u64, then: Instant, now: Instant) {
        self.tokens.take_back(estimated.saturating_sub(actual), then, now);
        self.tokens.add(actual.saturating_sub(estimated), now);
    }

    /// Takes back the charge of a call that was never sent.
    pub fn refund(&mut self, estimated: u64, then: Instant, now: Instant) {
        self.requests.take_back(1, then, now);
        self.tokens.take_back(estimated, then, now);
    }

    /// Which limit leaves no room for one more call, if any does.
    pub fn hit(&self, limits: &TargetLimits, in_flight: u32, now: Instant) -> Option<LimitHit> {
        if limits.concurrency.is_some_and(|max| in_flight >= max) {
            return Some(LimitHit::Concurrency);
        }
        if limits.rpm.is_some_and(|max| self.requests.sum(now) >= u64::from(max)) {
            return Some(LimitHit::Requests);
        }
        if limits.tpm.is_some_and(|max| self.tokens.sum(now) >= max) {
            return Some(LimitHit::Tokens);
        }
        None
    }

    /// When the limits that are per minute leave room again, if nothing more is sent until then.
    pub fn room_at(&self, limits: &TargetLimits, now: Instant) -> Instant {
        let full = |at| self.hit(limits, 0, at).is_some();
        let (mut low, mut high) = (now.as_nanos(), now.after(WINDOW * 2).as_nanos());
        // Sums only fall while nothing is sent, so the first moment with room can be bisected, to a millisecond.
        while high.saturating_sub(low) > 1_000_000 {
            let middle = low + (high - low) / 2;
            if full(Instant::from_nanos(middle)) { low = middle } else { high = middle }
        }
        Instant::from_nanos(high)
    }

    /// The share that use leaves: 1.0 up to 85 % of a limit, then falling to 0.0 at 100 %.
    pub fn share(&self, limits: &TargetLimits, now: Instant) -> f64 {
        let by = |sum: u64, max: Option<u64>| {
            let Some(max) = max.filter(|m| *m > 0) else { return 1.0 };
            let used = sum as f64 / max as f64;
            ((1.0 - used) / (1.0 - FALL_FROM)).clamp(0.0, 1.0)
        };
        by(self.requests.sum(now), limits.rpm.map(u64::from)).min(by(self.tokens.sum(now), limits.tpm))
    }

    /// The smallest unused share of a configured limit, 0.0 to 1.0, if any is configured.
    pub fn headroom(&self, limits: &TargetLimits, now: Instant) -> Option<f64> {
        let left = |sum: u64, max: u64| (1.0 - sum as f64 / max.max(1) as f64).clamp(0.0, 1.0);
        let rpm = limits.rpm.map(|max| left(self.requests.sum(now), u64::from(max)));
        let tpm = limits.tpm.map(|max| left(self.tokens.sum(now), max));
        match (rpm, tpm) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
