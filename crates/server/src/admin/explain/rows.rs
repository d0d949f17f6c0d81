//! Each target of a request: in or out, and why.

use pointsman_core::controller::Controller;
use pointsman_core::domain::DomainState;
use pointsman_core::fleet::{Availability, Block, BlockReason, Call, Fleet, Wanted};
use pointsman_core::limit::LimitHit;
use pointsman_core::plan::{Candidate, Excluded, Exclusion};
use pointsman_core::time::Instant;
use pointsman_core::trace::block_words;
use serde::Serialize;

use super::millis;
use crate::snapshot::Snapshot;

/// One target of one of the request's models.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TargetRow {
    /// Which target.
    pub target: String,
    /// The logical model that it would answer with.
    pub model: String,
    /// What the provider calls the model.
    pub upstream_model: Option<String>,
    /// Whether it may serve this request now.
    #[serde(rename = "in")]
    pub is_in: bool,
    /// Its place in the chain, from 1; none if it may not serve this request whatever its health.
    pub order: Option<usize>,
    /// Its priority tier, lower first.
    pub priority: u32,
    /// Why, as a code: `healthy`, `killed`, `throttled`, `lacks`, `substitution_not_allowed`, ….
    pub reason: &'static str,
    /// Why, in words.
    pub why: String,
    /// Its health now, as far as this request is concerned.
    pub health: HealthView,
}

/// The health of a target as a request meets it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HealthView {
    /// Whether it takes a call now.
    pub available: bool,
    /// The state of the domain that decides.
    pub state: &'static str,
    /// Its share of what its equivalents would give it, below 1.0 in a slow start or near a limit; 0.0 if it takes none.
    pub share: f64,
    /// In how many milliseconds it is due to take calls again, where that is known.
    pub until_ms: Option<u64>,
}

struct Health {
    view: HealthView,
    reason: &'static str,
    words: String,
}

/// All targets: the candidates in their order, then those that are out.
pub(super) fn rows(
    snapshot: &Snapshot,
    controller: &Controller,
    fleet: &mut Fleet,
    now: Instant,
) -> Vec<TargetRow> {
    let plan = controller.plan();
    let mut rows = Vec::with_capacity(plan.candidates.len() + plan.excluded.len());
    for (place, candidate) in plan.candidates.iter().enumerate() {
        rows.extend(candidate_row(snapshot, controller, fleet, place, candidate, now));
    }
    for excluded in &plan.excluded {
        rows.extend(excluded_row(snapshot, controller, fleet, excluded, now));
    }
    rows
}

fn candidate_row(
    snapshot: &Snapshot,
    controller: &Controller,
    fleet: &mut Fleet,
    place: usize,
    candidate: &Candidate,
    now: Instant,
) -> Option<TargetRow> {
    let request = controller.request();
    let target = snapshot.config.catalog.target(candidate.target)?;
    let wanted = Wanted {
        target: candidate.target,
        upstream_model: &candidate.upstream_model,
        endpoint: request.endpoint,
    };
    let lane = fleet.lane(&snapshot.config.catalog, &snapshot.bindings, &wanted, now)?;
    let call = Call { lane, ..candidate.call(request, false) };
    let health = health(fleet, &target.name, &call, now);
    let spoken = request.endpoint.is_none() && !target.dialects.is_empty();
    let foreign = spoken && target.dialects.iter().all(|d| d != request.dialect);
    let why = match target.dialects.first().filter(|_| foreign) {
        Some(dialect) => format!("{}; translated into {dialect}", health.words),
        None => health.words,
    };
    Some(TargetRow {
        target: target.name.clone(),
        model: request.models.get(candidate.choice)?.model.clone(),
        upstream_model: Some(candidate.upstream_model.clone()),
        is_in: health.view.available,
        order: Some(place + 1),
        priority: target.priority,
        reason: health.reason,
        why,
        health: health.view,
    })
}

fn excluded_row(
    snapshot: &Snapshot,
    controller: &Controller,
    fleet: &mut Fleet,
    excluded: &Excluded,
    now: Instant,
) -> Option<TargetRow> {
    let request = controller.request();
    let catalog = &snapshot.config.catalog;
    let target = catalog.target(excluded.target)?;
    let choice = request.models.get(excluded.choice)?;
    let upstream_model = choice.upstream.as_ref().or(target.upstream_model.as_ref()).unwrap_or(&choice.model);
    let wanted = Wanted { target: excluded.target, upstream_model, endpoint: request.endpoint };
    let call = Call {
        lane: fleet.lane(catalog, &snapshot.bindings, &wanted, now)?,
        capability: request.needs.capability(),
        request: request.id,
        estimated_tokens: request.estimated_tokens(),
        last_resort: false,
        alone: false,
    };
    Some(TargetRow {
        target: target.name.clone(),
        model: choice.model.clone(),
        upstream_model: Some(upstream_model.clone()),
        is_in: false,
        order: None,
        priority: target.priority,
        reason: exclusion_code(&excluded.why),
        why: excluded.why.to_string(),
        health: health(fleet, &target.name, &call, now).view,
    })
}

fn health(fleet: &Fleet, name: &str, call: &Call, now: Instant) -> Health {
    match fleet.availability(call, now) {
        Availability::Blocked(block) => blocked(fleet, &block, now),
        Availability::Ready { share, probe } => {
            let (state, reason, words) = ready(fleet, name, share, probe);
            let view = HealthView { available: true, state, share, until_ms: None };
            Health { view, reason, words }
        }
    }
}

fn ready(fleet: &Fleet, name: &str, share: f64, probe: bool) -> (&'static str, &'static str, String) {
    let busy = fleet.target_state(name).map_or(0, |s| s.in_flight);
    if probe {
        let words = "it was out of service, and this call would be one of its probes".to_owned();
        return (DomainState::HalfOpen.name(), "probe", words);
    }
    if share < 1.0 {
        let percent = (share * 100.0).round();
        let words = format!(
            "it takes about {percent:.0} % of its share: it just recovered, or is near its own limit"
        );
        return (DomainState::Closed.name(), "reduced_share", words);
    }
    (DomainState::Closed.name(), "healthy", format!("healthy, {busy} in flight"))
}

fn blocked(fleet: &Fleet, block: &Block, now: Instant) -> Health {
    let until_ms = block.until.map(|at| millis(at, now));
    let (reason, own_state) = block_code(block.why);
    let state = match own_state {
        Some(state) => state,
        None => block.domain.and_then(|d| fleet.domain(d)).map_or(DomainState::Closed, |d| d.state(now)),
    };
    let domain = block.domain.and_then(|d| fleet.domain(d));
    let whose = match domain {
        Some(domain) if block.why != BlockReason::Killed => format!(" ({} '{}')", domain.kind, domain.name),
        _ => String::new(),
    };
    let when = until_ms.map_or(String::new(), |ms| format!(", for {:.1} s more", ms as f64 / 1e3));
    let words = format!("{}{whose}{when}", block_words(block.why));
    let view = HealthView { available: false, state: state.name(), share: 0.0, until_ms };
    Health { view, reason, words }
}

/// The code of a reason, and the state that it stands for where that does not depend on a domain.
const fn block_code(why: BlockReason) -> (&'static str, Option<DomainState>) {
    match why {
        BlockReason::Cooldown => ("cooldown", Some(DomainState::Cooldown)),
        BlockReason::HalfOpenFull => ("half_open_full", Some(DomainState::HalfOpen)),
        BlockReason::Isolated(_) => ("isolated", Some(DomainState::Isolated)),
        BlockReason::Killed => ("killed", Some(DomainState::Killed)),
        BlockReason::Limit(LimitHit::Concurrency) => ("limit_concurrency", None),
        BlockReason::Limit(LimitHit::Requests) => ("limit_rpm", None),
        BlockReason::Limit(LimitHit::Tokens) => ("limit_tpm", None),
        BlockReason::Open => ("open", Some(DomainState::Open)),
        BlockReason::Throttled => ("throttled", Some(DomainState::Throttled)),
        BlockReason::WarmingUp => ("warming_up", None),
    }
}

const fn exclusion_code(why: &Exclusion) -> &'static str {
    match why {
        Exclusion::CallerKeyMissing => "caller_key_missing",
        Exclusion::Contract(_) => "contract",
        Exclusion::ContextWindow { .. } => "context_window",
        Exclusion::Dialect(_) => "dialect",
        Exclusion::Endpoint(_) => "endpoint",
        Exclusion::Lacks(_) => "lacks",
        Exclusion::Preference(_) => "preference",
        Exclusion::PriceCeiling => "price_ceiling",
        Exclusion::SubstitutionNotAllowed => "substitution_not_allowed",
        Exclusion::SubstitutionNotWritten => "substitution_not_written",
    }
}
