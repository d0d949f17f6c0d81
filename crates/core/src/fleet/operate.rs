//! What an operator sees and does.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{DomainIndex, DomainKind, DomainState, Fleet, Instant, String, TargetState};
use crate::breaker::BreakerCause;
use crate::domain::Isolation;
use crate::kind::FailureKind;

/// A domain as an operator sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainView {
    /// What it is.
    pub kind: DomainKind,
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: DomainState,
    /// Its share, below 1.0 in a slow start.
    pub share: f64,
    /// When it is due to change, where that is known.
    pub until: Option<Instant>,
    /// Counted failures in a row.
    pub failures_in_a_row: u32,
    /// Why it is isolated, if it is; `None` inside is an operator.
    pub isolated: Option<Option<FailureKind>>,
    /// What brought its last transition about, in words.
    pub cause: Option<&'static str>,
    /// Transitions of its breaker so far.
    pub epoch: u64,
}

impl TargetState {
    /// The smallest unused share of the target's own limits per minute, 0.0 to 1.0, if it has any.
    pub fn own_headroom(&self, now: Instant) -> Option<f64> {
        self.usage.headroom(&self.limits, now)
    }
}

impl Fleet {
    /// Makes transitions that are due by time alone, so that views and counters tell the truth also without traffic.
    pub fn settle(&mut self, now: Instant) {
        for place in 0..self.domains.len() {
            let index = DomainIndex(place);
            let Some(domain) = self.domains.get_mut(place) else { continue };
            domain.breaker.settle(now);
            let told = domain.told;
            if domain.state(now) != told {
                self.note(index, told, BreakerCause::TimeOver.words(), false, now);
            }
        }
    }

    /// All domains of the targets of this name, most general first.
    pub fn domains_of(&self, target: &str, now: Instant) -> Vec<DomainView> {
        let mut seen: BTreeSet<DomainIndex> = BTreeSet::new();
        let mut found: Vec<DomainIndex> = Vec::new();
        let killed = self.target_state(target).is_some_and(|s| s.killed);
        for lane in self.lanes_of(target).filter(|lane| self.is_in_view(lane.target)) {
            found.extend(lane.domains().filter(|index| seen.insert(*index)));
        }
        found.iter().filter_map(|index| self.view(*index, killed, now)).collect()
    }

    /// Every domain, for metrics.
    pub fn domains(&self, now: Instant) -> Vec<DomainView> {
        let all = (0..self.domains.len()).map(DomainIndex).filter(|index| self.is_in_view(*index));
        all.filter_map(|index| self.view(index, false, now)).collect()
    }

    /// Whether the present binding leads there; what does not is what a reload left behind.
    fn is_in_view(&self, index: DomainIndex) -> bool {
        self.domains.get(index.0).is_some_and(|domain| domain.bound == self.bound)
    }

    /// Switches a target off or on again. Answers whether there is one of this name.
    pub fn set_killed(&mut self, target: &str, killed: bool) -> bool {
        let Some(state) = self.target_by_name.get(target).and_then(|place| self.targets.get_mut(*place))
        else {
            return false;
        };
        state.killed = killed;
        true
    }

    /// Takes a target out until [`Fleet::reset`] or [`Fleet::revive`]. Answers whether there is one of this name.
    pub fn isolate_target(&mut self, target: &str, now: Instant) -> bool {
        let indices: Vec<DomainIndex> = self.lanes_of(target).map(|l| l.target).collect();
        for index in &indices {
            let Some(domain) = self.domains.get_mut(index.0) else { continue };
            let from = domain.state(now);
            domain.isolation = Some(Isolation::new(None, Instant::FAR_FUTURE, now));
            self.note(*index, from, "isolated by an operator", false, now);
        }
        !indices.is_empty()
    }

    /// Closes the breakers of a target, its endpoint and its account, lifts cooldown, throttle and isolation. Permits
    /// given before change nothing any more. Answers whether there is one of this name.
    pub fn reset(&mut self, target: &str, now: Instant) -> bool {
        let mut indices: Vec<DomainIndex> = Vec::new();
        for lane in self.lanes_of(target) {
            indices.extend(lane.domains());
        }
        for index in &indices {
            let Some(domain) = self.domains.get_mut(index.0) else { continue };
            let from = domain.state(now);
            domain.reset();
            if from != DomainState::Closed {
                self.note(*index, from, BreakerCause::Operator.words(), false, now);
            }
        }
        !indices.is_empty()
    }

    /// Takes back a kill and resets.
    pub fn revive(&mut self, target: &str, now: Instant) -> bool {
        self.set_killed(target, false) && self.reset(target, now)
    }

    fn lanes_of(&self, target: &str) -> impl Iterator<Item = &super::Lane> {
        let place = self.target_by_name.get(target).copied();
        self.lanes.iter().filter(move |lane| Some(lane.state) == place)
    }

    fn view(&self, index: DomainIndex, killed: bool, now: Instant) -> Option<DomainView> {
        let domain = self.domains.get(index.0)?;
        let killed = killed && matches!(domain.kind, DomainKind::Target | DomainKind::Capability);
        Some(DomainView {
            kind: domain.kind,
            name: domain.name.clone(),
            state: if killed { DomainState::Killed } else { domain.state(now) },
            share: domain.breaker.share(now),
            until: domain.until(now).filter(|at| *at != Instant::FAR_FUTURE),
            failures_in_a_row: domain.breaker.failures_in_a_row(),
            isolated: domain.isolation.map(|i| i.cause),
            cause: domain.cause,
            epoch: domain.breaker.epoch(),
        })
    }
}
