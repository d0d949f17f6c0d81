//! The candidate chain: who may serve this request, in which order, and why the others may not.
//!
//! Filters that do not change while a request lives (preferences, contract, what the request needs) decide here, once.
//! Health changes all the time: the [`controller`](crate::controller) asks for it whenever it chooses.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::domain::DomainIndex;
use crate::fleet::{Bindings, Call, Fleet, LaneIndex, Wanted};
use crate::request::{ModelChoice, Request};
use crate::rng::Rng;
use crate::strategy;
use crate::target::{Catalog, Model, Price, Target, TargetIndex};
use crate::time::Instant;

mod filter;

/// An estimate of the prompt excludes a target only above this multiple of its window.
const WINDOW_TOLERANCE: f64 = 1.2;

/// A target that may serve this request.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Which target.
    pub target: TargetIndex,
    /// The failure domains that a call to it crosses.
    pub lane: LaneIndex,
    /// Its account: some failures allow only another one.
    pub account: DomainIndex,
    /// Which of the request's models it serves; 0 is the requested one.
    pub choice: usize,
    /// What the provider calls the model.
    pub upstream_model: String,
    /// Its priority tier, lower first.
    pub tier: u32,
    /// Prompt and output together, in tokens, if known.
    pub window: Option<u64>,
    /// Its price, if known.
    pub price: Option<Price>,
    /// Output tokens at most, if known.
    pub max_output: Option<u64>,
    /// The model thinks before it speaks.
    pub reasons: bool,
    /// No equivalent (same model and tier) could take its load.
    pub alone: bool,
}

/// Why a target may not serve this request, whatever its health.
#[derive(Clone, Debug, PartialEq)]
pub enum Exclusion {
    /// It needs a credential that the caller did not bring.
    CallerKeyMissing,
    /// The route requires something that the model does not have, or of which nothing is known.
    Contract(&'static str),
    /// It does not speak the request's wire format.
    Dialect(&'static str),
    /// Its provider does not have the API that the request is for.
    Endpoint(&'static str),
    /// The prompt is far longer than its window, both in tokens.
    ContextWindow {
        /// The estimate.
        estimate: u64,
        /// The window.
        window: u64,
    },
    /// The request needs something that the model does not have.
    Lacks(&'static str),
    /// A preference of the caller excludes it.
    Preference(&'static str),
    /// It costs more than the route's ceiling allows for a substitute, or its price is unknown.
    PriceCeiling,
    /// It serves another model, and the route does not allow substitution.
    SubstitutionNotAllowed,
    /// It serves another model, whose answers do not mix with the requested one's, and substitution is not written out.
    SubstitutionNotWritten,
}

impl Exclusion {
    /// Whether it would be another model's answer that is not wanted.
    pub fn is_substitution(&self) -> bool {
        matches!(self, Self::SubstitutionNotAllowed | Self::SubstitutionNotWritten)
    }

    /// Whether the reason is data handling, which tags may be about: nothing compliant is left if all reasons are such.
    pub fn is_compliance(&self) -> bool {
        matches!(self, Self::Preference("data_collection" | "zdr" | "x-pointsman-tags"))
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CallerKeyMissing => {
                f.write_str("it needs the caller's own credential, and the request brought none")
            }
            Self::Contract(what) => {
                write!(f, "the route requires {what}, which the model is not known to have")
            }
            Self::Dialect(dialect) => {
                write!(
                    f,
                    "it does not speak the request's dialect, {dialect}, nor one that it is translated into"
                )
            }
            Self::ContextWindow { estimate, window } => {
                write!(f, "the prompt is about {estimate} tokens, its window {window}")
            }
            Self::Endpoint(name) => write!(f, "its provider has no endpoint for {name}"),
            Self::Lacks(what) => write!(f, "the request needs {what}, which the model does not have"),
            Self::Preference(which) => write!(f, "the caller's preference `{which}` excludes it"),
            Self::PriceCeiling => {
                f.write_str("it costs more than the route's price ceiling allows, or its price is unknown")
            }
            Self::SubstitutionNotAllowed => {
                f.write_str("it serves another model, and substitution is not allowed")
            }
            Self::SubstitutionNotWritten => f.write_str(
                "it serves another model, whose vectors do not mix with the requested one's: only a route with `substitution: { allowed: true }` written out goes there",
            ),
        }
    }
}

/// A target that was left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Excluded {
    /// Which target.
    pub target: TargetIndex,
    /// For which of the request's models.
    pub choice: usize,
    /// Why.
    pub why: Exclusion,
}

/// The candidate chain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In their order: by model, then priority tier, then strategy.
    pub candidates: Vec<Candidate>,
    /// Who was left out, and why.
    pub excluded: Vec<Excluded>,
}

/// What planning reads and advances.
#[derive(Debug)]
pub struct Planner<'a> {
    /// The present moment.
    pub now: Instant,
    /// What may serve.
    pub catalog: &'a Catalog,
    /// Its lanes.
    pub bindings: &'a Bindings,
    /// What all requests share.
    pub fleet: &'a mut Fleet,
}

impl Plan {
    /// Makes the chain for a request.
    pub fn make(request: &Request, planner: &mut Planner<'_>, rng: &mut dyn Rng) -> Self {
        let mut plan = Self::default();
        for (choice, models) in request.models.iter().enumerate() {
            for target in &models.targets {
                plan.consider(request, choice, models, *target, planner);
            }
        }
        plan.keep_a_last_candidate(request, planner);
        plan.mark_alone();
        strategy::order(&mut plan.candidates, request, planner, rng);
        plan
    }

    fn consider(
        &mut self,
        request: &Request,
        choice: usize,
        models: &ModelChoice,
        index: TargetIndex,
        planner: &mut Planner<'_>,
    ) {
        let Some(target) = planner.catalog.target(index) else { return };
        let model = planner.catalog.facts(target, &models.model);
        if let Some(why) = filter::exclusion(request, choice, target, model, planner.catalog) {
            self.excluded.push(Excluded { target: index, choice, why });
            return;
        }
        if let Some(candidate) = candidate(choice, models, index, target, model, planner, request.endpoint) {
            self.candidates.push(candidate);
        }
    }

    /// An estimate may be wrong: it never excludes the last candidate.
    fn keep_a_last_candidate(&mut self, request: &Request, planner: &mut Planner<'_>) {
        if !self.candidates.is_empty() {
            return;
        }
        let widest = self.excluded.iter().enumerate().filter_map(|(place, e)| match e.why {
            Exclusion::ContextWindow { window, .. } => Some((window, core::cmp::Reverse(place))),
            _ => None,
        });
        let Some((_, core::cmp::Reverse(place))) = widest.max() else { return };
        let Excluded { target: index, choice, .. } = self.excluded.remove(place);
        let (Some(models), Some(target)) = (request.models.get(choice), planner.catalog.target(index)) else {
            return;
        };
        let model = planner.catalog.facts(target, &models.model);
        self.candidates.extend(candidate(choice, models, index, target, model, planner, request.endpoint));
    }

    fn mark_alone(&mut self) {
        let mut counts: BTreeMap<(usize, u32), usize> = BTreeMap::new();
        for candidate in &self.candidates {
            *counts.entry((candidate.choice, candidate.tier)).or_default() += 1;
        }
        for candidate in &mut self.candidates {
            candidate.alone = counts.get(&(candidate.choice, candidate.tier)) == Some(&1);
        }
    }
}

/// Whether a prompt's rough estimate may be so wrong that it excludes a target by its window, or fails to: a quarter of the
/// bytes is at most four times too small, and hardly ever four times too large. False where there is nobody else to go to.
pub fn window_is_close(request: &Request, catalog: &Catalog) -> bool {
    let served = || request.models.iter().flat_map(|models| models.targets.iter().map(move |t| (models, *t)));
    if request.endpoint.is_some() || served().nth(1).is_none() {
        return false;
    }
    let (rough, output) = (request.needs.prompt_tokens, request.needs.max_output.unwrap_or(0));
    let windows = served()
        .filter_map(|(models, index)| catalog.facts(catalog.target(index)?, &models.model)?.context_window);
    windows.map(|window| window as f64 * WINDOW_TOLERANCE).any(|most| {
        let with = |prompt: u64| prompt.saturating_add(output) as f64;
        with(rough / 4) <= most && with(rough.saturating_mul(4)) > most
    })
}

impl Candidate {
    /// The call that an attempt on it would be.
    pub fn call(&self, request: &Request, last_resort: bool) -> Call {
        Call {
            lane: self.lane,
            capability: request.needs.capability(),
            request: request.id,
            estimated_tokens: request.estimated_tokens(),
            last_resort,
            alone: self.alone,
        }
    }
}

fn candidate(
    choice: usize,
    models: &ModelChoice,
    index: TargetIndex,
    target: &Target,
    model: Option<&Model>,
    planner: &mut Planner<'_>,
    endpoint: Option<&'static str>,
) -> Option<Candidate> {
    let upstream_model =
        models.upstream.as_ref().or(target.upstream_model.as_ref()).unwrap_or(&models.model).clone();
    let wanted = Wanted { target: index, upstream_model: &upstream_model, endpoint };
    let lane = planner.fleet.lane(planner.catalog, planner.bindings, &wanted, planner.now)?;
    Some(Candidate {
        target: index,
        lane,
        account: planner.fleet.account_of(lane)?,
        choice,
        upstream_model,
        tier: target.priority,
        window: model.and_then(|m| m.context_window),
        price: model.and_then(|m| m.price),
        max_output: model.and_then(|m| m.max_output),
        reasons: model.and_then(|m| m.reasoning).unwrap_or(false),
        alone: false,
    })
}
