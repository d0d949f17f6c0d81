//! Rate limits: a domain is left alone until a time. Not a failure.

use crate::policy::ThrottlePolicy;
use crate::time::{Duration, Instant};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throttle {
    until: Option<Instant>,
    /// The wait that was last taken without guidance.
    last: Option<Duration>,
}

/// What a rate limit comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttled {
    /// The guidance is so long that it is a quota, not a rate.
    Quota,
    /// Left alone until then.
    Until(Instant),
}

impl Throttle {
    /// Until when it lasts, if it does at `now`.
    pub fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|u| now < *u)
    }

    /// A rate limit was met. Without `guidance` the wait starts at `initial` and doubles while limits follow each other;
    /// those of calls that were under way together are one.
    pub fn limit(&mut self, guidance: Option<Duration>, policy: &ThrottlePolicy, now: Instant) -> Throttled {
        let wait = match guidance {
            Some(wait) if wait > policy.max => return Throttled::Quota,
            Some(wait) => wait,
            None => {
                let running = self.until(now).is_some();
                let wait = match self.last {
                    Some(last) if running => last,
                    Some(last) => last.saturating_mul(2),
                    None => policy.initial,
                };
                let wait = wait.min(policy.max);
                self.last = Some(wait);
                wait
            }
        };
        // A shorter guidance never shortens a longer one that still runs.
        let until = now.after(wait).max(self.until.unwrap_or(now));
        self.until = Some(until);
        Throttled::Until(until)
    }

    /// A call succeeded: the next rate limit without guidance starts small again.
    pub fn succeeded(&mut self) {
        self.last = None;
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}
