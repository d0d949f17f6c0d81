//! What all requests of one process share: calls in flight, limits of targets, the retry budget, the queue.

use std::collections::VecDeque;

use pointsman_core::controller::{Attempt, Command};
use pointsman_core::kind::{Action, Phase};
use pointsman_core::policy::ProcessPolicy;
use pointsman_core::time::{Duration, Instant};

use super::watch::Live;
use super::{Checked, Invariant, Step, Truth, Watch, broken};
use crate::scenario::Scenario;

/// The window of the retry budget.
const WINDOW: Duration = Duration::from_secs(10);
/// What every window of the budget covers, however it is counted.
const AT_LEAST: Duration = Duration::from_secs(9);
const MINUTE: u64 = 60_000_000_000;

#[derive(Debug)]
struct Load {
    name: String,
    in_flight: u32,
    minute: u64,
    begun: u32,
    rpm: Option<u32>,
    concurrency: Option<u32>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Shared {
    loads: Vec<Load>,
    arrivals: VecDeque<Instant>,
    retries: VecDeque<Instant>,
    waiting: u32,
}

impl Shared {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let loads = scenario.targets.iter().map(|t| Load {
            name: t.name.clone(),
            in_flight: 0,
            minute: 0,
            begun: 0,
            rpm: t.rpm,
            concurrency: t.concurrency,
        });
        Self { loads: loads.collect(), arrivals: VecDeque::new(), retries: VecDeque::new(), waiting: 0 }
    }

    /// The attempt that was live has ended.
    pub(super) fn release(&mut self, truth: &Truth, live: Option<&Live>, now: Instant) {
        let Some(live) = live else { return };
        let Some(load) = self.loads.get_mut(live.target) else { return };
        match truth {
            Truth::Arrived | Truth::Ticked | Truth::Committed { .. } => {}
            Truth::Succeeded | Truth::Gone => load.in_flight = load.in_flight.saturating_sub(1),
            Truth::Failed { failed, .. } => {
                load.in_flight = load.in_flight.saturating_sub(1);
                let this_minute = live.begun.as_nanos() / MINUTE == now.as_nanos() / MINUTE;
                if failed.phase == Phase::NotSent && this_minute && load.minute == now.as_nanos() / MINUTE {
                    load.begun = load.begun.saturating_sub(1);
                }
            }
        }
    }

    /// An attempt begins.
    pub(super) fn begin(&mut self, attempt: &Attempt, now: Instant) -> Checked {
        let Some(load) = self.loads.get_mut(attempt.target.0) else { return Ok(()) };
        let minute = now.as_nanos() / MINUTE;
        if load.minute != minute {
            (load.minute, load.begun) = (minute, 0);
        }
        load.begun += 1;
        load.in_flight += 1;
        if load.concurrency.is_some_and(|most| load.in_flight > most) {
            let what = format!("{} calls in flight at {}", load.in_flight, load.name);
            return broken(Invariant::ExactAdmission, what);
        }
        if load.rpm.is_some_and(|most| load.begun > most) {
            return broken(
                Invariant::ExactAdmission,
                format!("{} calls a minute to {}", load.begun, load.name),
            );
        }
        Ok(())
    }

    /// After the step: counts agree, retries are within their budget, few wait.
    pub(super) fn check(&mut self, watch: &Watch, step: &Step<'_>, process: &ProcessPolicy) -> Checked {
        let place = match (step.command, watch.last()) {
            (Command::Attempt(attempt), _) => Some(attempt.target.0),
            (_, last) => last.map(|t| t.target),
        };
        if let Some(load) = place.and_then(|place| self.loads.get(place)) {
            let counted = step.fleet.target_state(&load.name).map_or(0, |s| s.in_flight);
            if counted != load.in_flight {
                let what = format!("{} calls to {}, {counted} counted", load.in_flight, load.name);
                return broken(Invariant::Accounted, what);
            }
        }
        self.check_retries(watch, step, process)?;
        self.check_queue(watch, step, process)
    }

    fn check_retries(&mut self, watch: &Watch, step: &Step<'_>, process: &ProcessPolicy) -> Checked {
        let now = step.now;
        if step.truth == Truth::Arrived {
            self.arrivals.push_back(now);
        }
        // A retry is decided when its backoff begins, or at once.
        let decided = match step.command {
            Command::Wait { .. } => watch.attempts() > 0,
            Command::Attempt(attempt) => attempt.action == Action::Retry && !watch.backing_off,
            _ => false,
        };
        if !decided {
            return Ok(());
        }
        self.retries.push_back(now);
        forget(&mut self.arrivals, now, WINDOW);
        forget(&mut self.retries, now, AT_LEAST);
        let budget = &process.retry_budget;
        let floor = u64::from(budget.floor_per_second) * WINDOW.as_secs();
        let most = (self.arrivals.len() as f64 * budget.ratio).max(floor as f64);
        if self.retries.len() as f64 > most {
            let what = format!("{} retries for {} requests", self.retries.len(), self.arrivals.len());
            return broken(Invariant::NoRetryStorm, what);
        }
        Ok(())
    }

    fn check_queue(&mut self, watch: &Watch, step: &Step<'_>, process: &ProcessPolicy) -> Checked {
        let waits = matches!(step.command, Command::Wait { .. }) && watch.attempts() == 0;
        if waits == watch.queued {
            return Ok(());
        }
        self.waiting = if waits { self.waiting + 1 } else { self.waiting.saturating_sub(1) };
        let counted: usize = step.fleet.queue.iter().map(|(_, n)| n).sum();
        if counted != self.waiting as usize {
            return broken(Invariant::Accounted, format!("{} wait, {counted} counted", self.waiting));
        }
        let longest = step.fleet.queue.iter().map(|(_, n)| n).max().unwrap_or(0);
        if longest > process.queue.max as usize {
            return broken(Invariant::QueueBounded, format!("{longest} wait for one model"));
        }
        Ok(())
    }
}

fn forget(times: &mut VecDeque<Instant>, now: Instant, older_than: Duration) {
    while times.front().is_some_and(|at| now.since(*at) > older_than) {
        times.pop_front();
    }
}
