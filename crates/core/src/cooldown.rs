//! The long penalty of a target that keeps failing.
//!
//! It counts openings of the target's breakers (or every counted failure, if so configured): enough of them within the
//! window start a penalty. Whatever comes within a quiet period as long as the last penalty is a relapse: it doubles
//! the penalty at once. A quiet period without one forgives. What comes while a penalty still runs is no relapse: it was
//! under way before.

use alloc::collections::VecDeque;

use crate::policy::CooldownPolicy;
use crate::time::{Duration, Instant};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Cooldown {
    marks: VecDeque<Instant>,
    until: Option<Instant>,
    penalty: Duration,
}

impl Cooldown {
    /// Until when it lasts, if it does at `now`.
    pub fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|u| now < *u)
    }

    /// Counts one opening (or failure). Answers with the end of the penalty if that started one.
    pub fn mark(&mut self, policy: &CooldownPolicy, now: Instant) -> Option<Instant> {
        if self.until(now).is_some() {
            return None;
        }
        if self.is_relapse(now) {
            return Some(self.start(self.penalty.saturating_mul(2).min(policy.max), now));
        }
        self.marks.push_back(now);
        while self.marks.front().is_some_and(|at| now.since(*at) > policy.window) {
            self.marks.pop_front();
        }
        if self.marks.len() < policy.failures.max(1) as usize {
            // The policy may have been loosened by a reload: what it cannot need is not kept.
            return None;
        }
        Some(self.start(policy.base.min(policy.max), now))
    }

    /// Ends the penalty now; a relapse within a quiet period still doubles it.
    pub fn lift(&mut self, now: Instant) {
        self.until = self.until.map(|until| until.min(now));
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    fn is_relapse(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until.after(self.penalty))
    }

    fn start(&mut self, penalty: Duration, now: Instant) -> Instant {
        let until = now.after(penalty);
        self.marks.clear();
        self.penalty = penalty;
        self.until = Some(until);
        until
    }
}
