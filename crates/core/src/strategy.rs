//! The order of candidates inside one model and tier.
//!
//! Slow start and the use of a target's own limits lower its *share*: with a probability of one minus its share it goes
//! to the end of its tier. That acts only among equivalents: load or recovery never changes the model.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::fleet::{Availability, Fleet};
use crate::plan::{Candidate, Planner};
use crate::policy::Strategy;
use crate::request::Request;
use crate::rng::{Rng, below, stable_hash, unit};
use crate::target::Catalog;
use crate::time::{Duration, Instant};

/// What the provider said of its rate limit is believed for so long.
const HEADROOM_FOR: Duration = Duration::from_secs(60);
/// What a first token is taken to need where none was seen yet.
const UNKNOWN_LATENCY: Duration = Duration::from_secs(1);

/// Sorts candidates by model, then the caller's own order, then tier, then the strategy.
pub(crate) fn order(
    candidates: &mut Vec<Candidate>,
    request: &Request,
    planner: &mut Planner<'_>,
    rng: &mut dyn Rng,
) {
    let wanted = |c: &Candidate| wanted_place(c, request, planner.catalog);
    candidates.sort_by_key(|c| (c.choice, wanted(c), c.tier));
    let key = |c: &Candidate| (c.choice, wanted_place(c, request, planner.catalog), c.tier);
    let mut rest = core::mem::take(candidates);
    while let Some(first) = rest.first().map(key) {
        let size = rest.iter().take_while(|c| key(c) == first).count();
        let mut tier: Vec<Candidate> = rest.drain(..size).collect();
        if tier.len() > 1 {
            order_tier(&mut tier, request, planner, rng);
            demote(&mut tier, request, planner, rng);
        }
        candidates.append(&mut tier);
    }
}

/// The caller's `provider.order`: what it names comes first, in its order.
fn wanted_place(candidate: &Candidate, request: &Request, catalog: &Catalog) -> usize {
    let order = &request.preferences.order;
    let Some(target) = catalog.target(candidate.target) else { return order.len() };
    let place = order.iter().position(|n| *n == target.name || n.eq_ignore_ascii_case(&target.provider));
    place.unwrap_or(order.len())
}

fn order_tier(tier: &mut [Candidate], request: &Request, planner: &mut Planner<'_>, rng: &mut dyn Rng) {
    let now = planner.now;
    let fleet = &*planner.fleet;
    match request.governance.strategy {
        Strategy::Priority => {}
        Strategy::RoundRobin => tier.sort_by_key(|c| last_picked(fleet, c)),
        Strategy::LeastBusy => tier.sort_by_key(|c| (in_flight(fleet, c), last_picked(fleet, c))),
        Strategy::LowestCost => {
            tier.sort_by_key(|c| c.price.map_or(u64::MAX, |p| p.input.saturating_add(p.output)))
        }
        Strategy::Headroom => {
            tier.sort_by_key(|c| last_picked(fleet, c));
            tier.sort_by(|a, b| headroom(fleet, b, now).total_cmp(&headroom(fleet, a, now)));
        }
        Strategy::Sticky => {
            if let Some(affinity) = request.affinity {
                tier.sort_by_key(|c| Reverse(rendezvous(affinity, c, planner.catalog)));
            }
        }
        Strategy::LowestLatency => two_choices(tier, fleet, now, rng),
        Strategy::Weighted => smooth_weighted(tier, request, planner),
    }
}

fn last_picked(fleet: &Fleet, candidate: &Candidate) -> u64 {
    fleet.state_of(candidate.lane).map_or(0, |s| s.picked)
}

fn in_flight(fleet: &Fleet, candidate: &Candidate) -> u32 {
    fleet.state_of(candidate.lane).map_or(0, |s| s.in_flight)
}

/// What is known to be left of the rate limit: the provider's own recent word, else our own limits, else all.
fn headroom(fleet: &Fleet, candidate: &Candidate, now: Instant) -> f64 {
    let Some(state) = fleet.state_of(candidate.lane) else { return 1.0 };
    let said = state.headroom.filter(|(_, at)| now.since(*at) <= HEADROOM_FOR).map(|(share, _)| share);
    let own = state.usage.headroom(&state.limits, now);
    match (said, own) {
        (Some(a), Some(b)) => a.min(b),
        (a, b) => a.or(b).unwrap_or(1.0),
    }
}

/// Highest random weight (Thaler and Ravishankar, 1996): a target that is lost moves only its own share.
fn rendezvous(affinity: u64, candidate: &Candidate, catalog: &Catalog) -> u64 {
    let name = catalog.target(candidate.target).map_or("", |t| t.name.as_str());
    crate::rng::mix(affinity ^ stable_hash(name.as_bytes()))
}

/// Expected wait: latency by the number of requests that would share it. A target of which nothing is known is tried, by
/// one request at first: until it has answered, each that waits there already counts as if it took a second.
fn expected_wait(fleet: &Fleet, candidate: &Candidate, now: Instant) -> u128 {
    let Some(state) = fleet.state_of(candidate.lane) else { return 0 };
    let waiting = u128::from(state.in_flight);
    match state.first_token.at(now) {
        Some(latency) => latency.as_nanos().saturating_mul(waiting + 1),
        None => UNKNOWN_LATENCY.as_nanos().saturating_mul(waiting),
    }
}

/// The better of two drawn at random goes first (Mitzenmacher, 2001), the rest follow by expected wait.
fn two_choices(tier: &mut [Candidate], fleet: &Fleet, now: Instant, rng: &mut dyn Rng) {
    tier.sort_by_key(|c| expected_wait(fleet, c, now));
    let one = below(rng, tier.len());
    let other = (one + 1 + below(rng, tier.len().saturating_sub(1))) % tier.len().max(1);
    let better = one.min(other);
    if let Some(head) = tier.get_mut(..=better) {
        head.rotate_right(1);
    }
}

/// Smooth weighted round-robin (as in nginx): everyone gains its weight, the richest is picked and pays the sum.
/// Only those that may take a call now take part: a target that is out must not hoard credit.
fn smooth_weighted(tier: &mut [Candidate], request: &Request, planner: &mut Planner<'_>) {
    let weight = |c: &Candidate| planner.catalog.target(c.target).map_or(0, |t| i64::from(t.weight));
    let now = planner.now;
    let fleet = &mut *planner.fleet;
    let ready: Vec<bool> = tier
        .iter()
        .map(|c| matches!(fleet.availability(&c.call(request, false), now), Availability::Ready { .. }))
        .collect();
    let mut total = 0;
    for (candidate, _) in tier.iter().zip(&ready).filter(|(_, ready)| **ready) {
        let gain = weight(candidate);
        total += gain;
        if let Some(state) = fleet.state_of_mut(candidate.lane) {
            state.credit += gain;
        }
    }
    let credit = |fleet: &Fleet, c: &Candidate| fleet.state_of(c.lane).map_or(0, |s| s.credit);
    tier.sort_by_key(|c| {
        let out = !matches!(fleet.availability(&c.call(request, false), now), Availability::Ready { .. });
        (out, weight(c) == 0, Reverse(credit(fleet, c)))
    });
    if let Some(state) = tier.first().and_then(|c| fleet.state_of_mut(c.lane)).filter(|_| total > 0) {
        state.credit -= total;
    }
}

fn demote(tier: &mut Vec<Candidate>, request: &Request, planner: &Planner<'_>, rng: &mut dyn Rng) {
    let mut kept = Vec::with_capacity(tier.len());
    let mut back = Vec::new();
    for candidate in tier.drain(..) {
        let share = match planner.fleet.availability(&candidate.call(request, false), planner.now) {
            Availability::Ready { share, .. } => share,
            Availability::Blocked(_) => 1.0,
        };
        // No draw where nothing is to be decided: the same events then give the same numbers.
        if share < 1.0 && unit(rng) >= share {
            back.push(candidate);
        } else {
            kept.push(candidate);
        }
    }
    kept.append(&mut back);
    *tier = kept;
}
