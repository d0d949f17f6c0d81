//! Cuts a failing scenario down: fewer requests, replicas, faults, clients and targets, as long as the same promise breaks.

use crate::checker::{Invariant, Violation};
use crate::scenario::Scenario;
use crate::world::Outcome;

/// Worlds that are played at most to shrink one failure.
const TRIES: u32 = 400;

/// The smallest scenario found that breaks the same promise, and how it breaks it.
pub fn shrink(
    scenario: &Scenario,
    violation: &Violation,
    play: impl Fn(&Scenario) -> Outcome,
) -> (Scenario, Violation) {
    let mut best = (scenario.clone(), violation.clone());
    let mut tries = 0;
    loop {
        let before = best.0.clone();
        for smaller in smaller_than(&before) {
            tries += 1;
            if tries > TRIES {
                return best;
            }
            if let Some(found) = still_fails(smaller, violation.invariant, &play) {
                best = found;
                break;
            }
        }
        if best.0 == before {
            return best;
        }
    }
}

fn still_fails(
    mut scenario: Scenario,
    invariant: Invariant,
    play: &impl Fn(&Scenario) -> Outcome,
) -> Option<(Scenario, Violation)> {
    scenario.check().ok()?;
    let outcome = play(&scenario);
    let violation = outcome.violation.filter(|v| v.invariant == invariant)?;
    // What came after the promise broke had no part in it.
    scenario.requests = scenario.requests.min(outcome.arrived.max(1));
    Some((scenario, violation))
}

/// Scenarios with one thing less, the most promising first.
fn smaller_than(scenario: &Scenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Scenario)| {
        let mut smaller = scenario.clone();
        change(&mut smaller);
        if smaller != *scenario {
            all.push(smaller);
        }
    };
    for part in [8, 2] {
        with(&|s| s.requests = (s.requests / part).max(1));
    }
    with(&|s| s.requests = s.requests.saturating_sub(1 + s.requests / 8).max(1));
    with(&|s| s.replicas = 1);
    for place in 0..scenario.faults.len() {
        with(&|s| drop(s.faults.remove(place)));
    }
    for place in (0..scenario.clients.len()).filter(|_| scenario.clients.len() > 1) {
        with(&|s| drop(s.clients.remove(place)));
    }
    for place in (0..scenario.targets.len()).filter(|_| scenario.targets.len() > 1) {
        with(&|s| remove_target(s, place));
    }
    with(&|s| s.targets.iter_mut().for_each(plain_target));
    with(&|s| s.clients.iter_mut().for_each(plain_client));
    all
}

fn remove_target(scenario: &mut Scenario, place: usize) {
    let gone = scenario.targets.remove(place);
    for fault in &mut scenario.faults {
        fault.targets.retain(|name| *name != gone.name);
    }
    scenario.faults.retain(|f| !f.targets.is_empty() || f.region.is_some());
    let served = |name: &String| scenario.targets.iter().any(|t| t.model == *name);
    scenario.models.retain(|m| served(&m.name));
    scenario.clients.retain(|c| c.model.as_ref().is_none_or(served));
}

fn plain_target(target: &mut crate::scenario::TargetSpec) {
    target.unreliable = 0.0;
    target.capacity = None;
    target.rate = None;
}

fn plain_client(client: &mut crate::scenario::ClientSpec) {
    client.typos = 0.0;
    client.refused = 0.0;
    client.too_long = 0.0;
    client.sdk_retries = 0.0;
    client.slow_readers = 0.0;
    client.bound = 0.0;
}
