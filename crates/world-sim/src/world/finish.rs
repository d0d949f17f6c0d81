//! The end of a world: everything is well again, and must be seen to be.

use pointsman_core::domain::DomainState;
use pointsman_core::time::Duration;

use super::{EPOCH, Todo, World, seconds};
use crate::checker::{Invariant, Violation};
use crate::report::RecoveryReport;
use crate::seam::Seam;

/// Longer than the longest cooldown, throttle and wait for a probe (ten minutes each).
const QUIET: Duration = Duration::from_secs(700);
/// Requests that look whether a target is back: enough for the probes of its breakers.
const VISITS: u32 = 6;

impl<S: Seam> World<'_, S> {
    /// All requests have ended: nothing may be left of them.
    pub(super) fn at_rest(&self) -> Result<(), Violation> {
        for (number, replica) in self.replicas.iter().enumerate() {
            self.checker.at_rest(number, &replica.fleet, self.now)?;
        }
        Ok(())
    }

    /// After a quiet time without faults every target answers and is in service.
    pub(super) fn come_back(&mut self) -> Result<(), Violation> {
        let over = self.scenario.faults.iter().map(|f| EPOCH.after(seconds(f.until))).max().unwrap_or(EPOCH);
        self.now = self.now.max(over).after(QUIET);
        self.providers.iter_mut().for_each(crate::provider::Provider::calm_down);
        for replica in 0..self.replicas.len() {
            self.plan_visits(replica);
        }
        self.until_quiet()?;
        self.at_rest()?;
        self.all_in_service()
    }

    fn plan_visits(&mut self, replica: usize) {
        for (target, spec) in self.scenario.targets.iter().enumerate() {
            let tools = self.scenario.models.iter().find(|m| m.name == spec.model).and_then(|m| m.tools);
            let apart = seconds((6.0 * (spec.first_token + spec.answer)).max(5.0));
            let kinds: &[bool] = if tools == Some(false) { &[false] } else { &[false, true] };
            let mut at = self.now;
            for with_tools in kinds {
                for visit in 1..=VISITS {
                    at = at.after(apart);
                    let last = visit == VISITS;
                    self.sequence += 1;
                    let todo = Todo::Visit { replica, target, tools: *with_tools, last };
                    self.agenda.push(std::cmp::Reverse((at, self.sequence, todo)));
                }
            }
        }
    }

    fn all_in_service(&mut self) -> Result<(), Violation> {
        let now = self.now;
        for (number, replica) in self.replicas.iter_mut().enumerate() {
            replica.fleet.settle(now);
            let out = replica.fleet.domains(now).into_iter().find(|d| d.state != DomainState::Closed);
            if let Some(domain) = out {
                let what = format!(
                    "replica {number}: {} {} stays {}",
                    domain.kind,
                    domain.name,
                    domain.state.name()
                );
                return Err(Violation { invariant: Invariant::NoWedge, at: now, request: 0, what });
            }
        }
        Ok(())
    }

    pub(super) fn settle_report(&mut self) {
        for (spec, provider) in self.scenario.targets.iter().zip(&self.providers) {
            for recovery in provider.recoveries() {
                if let Some(after) = recovery.after {
                    self.report.recovery.add(after);
                }
                self.report.target(&spec.name).recoveries.push(RecoveryReport {
                    what: recovery.what,
                    until: recovery.until.since(EPOCH).as_secs_f64(),
                    after: recovery.after.map(|d| d.as_secs_f64()),
                });
            }
        }
    }
}
