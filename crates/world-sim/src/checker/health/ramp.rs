//! Recovery ramps up: after closing, a breaker's share grows from 10 % to 100 %.
//!
//! Which request goes where is chance, so the picks of a recovering target are held against the sum of the shares that it
//! was due, with six standard deviations of room.

use pointsman_core::fleet::Availability;
use pointsman_core::plan::Candidate;
use pointsman_core::target::Governance;
use pointsman_core::time::{Duration, Instant};

use super::{Checked, Health, Invariant, Step, broken, first_target, slow_start};

/// Where a slow start begins (the documented value).
const FROM: f64 = 0.1;
/// Picks that chance may add whatever the variance says.
const SLACK: f64 = 3.0;

/// The slow start of one domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ramp {
    since: Instant,
    picks: f64,
    due: f64,
    variance: f64,
}

impl Ramp {
    pub(super) const fn new(since: Instant) -> Self {
        Self { since, picks: 0.0, due: 0.0, variance: 0.0 }
    }

    fn share(&self, now: Instant, span: Duration) -> f64 {
        let grown = now.since(self.since).as_secs_f64() / span.as_secs_f64().max(1e-9);
        (FROM + (1.0 - FROM) * grown).min(1.0)
    }

    fn count(&mut self, picked: bool, share: f64) -> bool {
        self.picks += f64::from(u8::from(picked));
        self.due += share;
        self.variance += share * (1.0 - share);
        self.picks <= self.due + 6.0 * self.variance.sqrt() + SLACK
    }
}

impl Health {
    /// A request was planned: where a recovering target had a healthy equivalent, it gets no more than its share.
    pub(in crate::checker) fn ramp(&mut self, step: &Step<'_>, governance: &Governance) -> Checked {
        if self.ramps == 0 || step.fleet.queue.iter().next().is_some() {
            return Ok(());
        }
        let Some(picked) = first_target(step.command) else { return Ok(()) };
        let candidates = &step.controller.plan().candidates;
        let Some(first) = candidates.iter().find(|c| c.target.0 == picked) else { return Ok(()) };
        let tier: Vec<&Candidate> =
            candidates.iter().filter(|c| (c.choice, c.tier) == (first.choice, first.tier)).collect();
        let tools = step.controller.request().needs.tools;
        if !tier.iter().any(|c| self.is_steady(c, tools, step)) {
            return Ok(());
        }
        for candidate in &tier {
            let ours = candidate.target.0 == picked;
            if ours || share_of(candidate, step).is_some() {
                self.count_pick(candidate.target.0, ours, tools, step.now, slow_start(governance))?;
            }
        }
        Ok(())
    }

    /// Whether it takes its whole share of calls, and recovers from nothing.
    fn is_steady(&self, candidate: &Candidate, tools: bool, step: &Step<'_>) -> bool {
        let mut crossed = self.breakers(candidate.target.0, tools);
        crossed.all(|place| self.domains.get(place).is_some_and(|d| d.ramp.is_none()))
            && share_of(candidate, step).is_some_and(|share| share >= 1.0)
    }

    fn count_pick(
        &mut self,
        target: usize,
        picked: bool,
        tools: bool,
        now: Instant,
        span: Duration,
    ) -> Checked {
        for place in self.breakers(target, tools).collect::<Vec<_>>() {
            let Some(domain) = self.domains.get_mut(place) else { continue };
            let Some(ramp) = &mut domain.ramp else { continue };
            let share = ramp.share(now, span);
            if !ramp.count(picked, share) {
                let what = format!(
                    "recovering target {target} got {} requests, {:.1} were due",
                    ramp.picks, ramp.due
                );
                return broken(Invariant::CarefulProbes, what);
            }
            if share >= 1.0 {
                domain.ramp = None;
                self.ramps = self.ramps.saturating_sub(1);
            }
        }
        Ok(())
    }
}

/// Which share it would get now; `None` where it takes no call.
fn share_of(candidate: &Candidate, step: &Step<'_>) -> Option<f64> {
    let call = candidate.call(step.controller.request(), false);
    match step.fleet.availability(&call, step.now) {
        Availability::Ready { share, .. } => Some(share),
        Availability::Blocked(_) => None,
    }
}
