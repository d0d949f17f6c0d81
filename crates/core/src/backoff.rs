//! Full jitter: `uniform(0, min(max, base * 2^n))` (Brooker, "Exponential Backoff and Jitter", 2015).

use crate::policy::RetryPolicy;
use crate::rng::{Rng, unit};
use crate::time::Duration;

/// The wait before the retry number `retries_before` (0 for the first) of one target.
pub fn full_jitter(policy: &RetryPolicy, retries_before: u32, rng: &mut dyn Rng) -> Duration {
    let factor = 1u32.checked_shl(retries_before.min(31)).unwrap_or(u32::MAX);
    let ceiling = policy.base.saturating_mul(factor).min(policy.max);
    ceiling.mul_f64(unit(rng))
}
