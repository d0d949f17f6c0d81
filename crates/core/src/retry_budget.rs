//! How many same-target retries the whole process allows itself: the guard against retry storms.
//!
//! Retries of the last ten seconds may be at most a share of the requests of the last ten seconds, or the floor,
//! whichever is more. Failover to an equivalent is not a retry: it goes where there is room.

use crate::policy::RetryBudgetPolicy;
use crate::time::Instant;

const SECONDS: u64 = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Second {
    number: u64,
    requests: u32,
    retries: u32,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct RetryBudget {
    seconds: [Second; SECONDS as usize],
}

impl RetryBudget {
    /// A request came.
    pub fn request(&mut self, now: Instant) {
        self.edit(now, |s| s.requests = s.requests.saturating_add(1));
    }

    /// Takes one retry if there is one left.
    pub fn take(&mut self, policy: &RetryBudgetPolicy, now: Instant) -> bool {
        let has = self.remaining(policy, now) > 0;
        if has {
            self.edit(now, |s| s.retries = s.retries.saturating_add(1));
        }
        has
    }

    /// Retries left.
    pub fn remaining(&self, policy: &RetryBudgetPolicy, now: Instant) -> u64 {
        let (requests, retries) = self.sums(now);
        allowed(policy, requests).saturating_sub(retries)
    }

    /// Retries left as a share of those allowed, 0.0 to 1.0.
    pub fn remaining_ratio(&self, policy: &RetryBudgetPolicy, now: Instant) -> f64 {
        let (requests, retries) = self.sums(now);
        let allowed = allowed(policy, requests);
        if allowed == 0 { 0.0 } else { allowed.saturating_sub(retries) as f64 / allowed as f64 }
    }

    fn sums(&self, now: Instant) -> (u64, u64) {
        let newest = number(now);
        let live = self.seconds.iter().filter(|s| s.number + SECONDS > newest);
        live.fold((0, 0), |(q, r), s| (q + u64::from(s.requests), r + u64::from(s.retries)))
    }

    fn edit(&mut self, now: Instant, change: impl FnOnce(&mut Second)) {
        let number = number(now);
        let place = usize::try_from(number % SECONDS).unwrap_or(0);
        if let Some(second) = self.seconds.get_mut(place) {
            if second.number != number {
                *second = Second { number, ..Second::default() };
            }
            change(second);
        }
    }
}

/// Seconds are numbered from `SECONDS`, so that an untouched one (number 0) is always outside the window.
fn number(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000_000 + SECONDS
}

fn allowed(policy: &RetryBudgetPolicy, requests: u64) -> u64 {
    let by_ratio = (requests as f64 * policy.ratio) as u64;
    by_ratio.max(u64::from(policy.floor_per_second) * SECONDS)
}
