//! An operator who takes targets out and brings them back.

use super::{EPOCH, Todo, World, seconds};
use crate::scenario::{Fault, FaultSpec};
use crate::seam::Seam;

impl<S: Seam> World<'_, S> {
    pub(super) fn plan_operations(&mut self) {
        let scenario = self.scenario;
        for fault in scenario.faults.iter().filter(|f| f.what == Fault::Killed) {
            for (target, _) in scenario.targets.iter().enumerate().filter(|(_, t)| strikes(fault, t)) {
                self.plan(EPOCH.after(seconds(fault.from)), Todo::Operate { target, kill: true });
                self.plan(EPOCH.after(seconds(fault.until)), Todo::Operate { target, kill: false });
            }
        }
    }

    /// At every replica, as an operator would.
    pub(super) fn operate(&mut self, target: usize, kill: bool) {
        let Some(spec) = self.scenario.targets.get(target) else { return };
        for (number, replica) in self.replicas.iter_mut().enumerate() {
            if kill {
                replica.fleet.set_killed(&spec.name, true);
            } else {
                replica.fleet.revive(&spec.name, self.now);
            }
            self.checker.operated(number, target, kill, &mut replica.fleet);
        }
    }
}

fn strikes(fault: &FaultSpec, target: &crate::scenario::TargetSpec) -> bool {
    fault.targets.contains(&target.name) || fault.region.as_ref().is_some_and(|r| *r == target.region)
}
