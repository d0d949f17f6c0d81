//! The filters that do not depend on health, each with its reason.

use super::{Catalog, Exclusion, Model, Price, Request, Target, WINDOW_TOLERANCE};
use crate::request::{Needs, Preferences};
use crate::target::Contract;

/// The first reason for which a target may not serve, if there is one.
pub(super) fn exclusion(
    request: &Request,
    choice: usize,
    target: &Target,
    model: Option<&Model>,
    catalog: &Catalog,
) -> Option<Exclusion> {
    unfit(request, target)
        .or_else(|| by_preference(&request.preferences, target, model))
        .or_else(|| (choice > 0 && !request.may_substitute()).then(|| not_a_substitute(request)))
        .or_else(|| {
            let missing = target.caller_key && !request.caller_keys.contains(&target.provider);
            missing.then_some(Exclusion::CallerKeyMissing)
        })
        .or_else(|| by_contract(&request.governance.requires, model))
        .or_else(|| by_needs(&request.needs, model, request.preferences.require_parameters))
        .or_else(|| by_price(request, choice, model, catalog))
        .or_else(|| by_window(request, model))
}

/// Where it lies that a target cannot be asked at all. An API of its own has one form only, whatever else a target is
/// asked in.
fn unfit(request: &Request, target: &Target) -> Option<Exclusion> {
    match request.endpoint {
        None => (!speaks(request, target)).then_some(Exclusion::Dialect(request.dialect)),
        Some(name) => {
            let lacks = target.serves.as_ref().is_some_and(|serves| !serves.contains(&name));
            lacks.then_some(Exclusion::Endpoint(name))
        }
    }
}

fn not_a_substitute(request: &Request) -> Exclusion {
    let policy = &request.governance.substitution;
    if policy.allowed && !policy.written && request.needs.same_model {
        return Exclusion::SubstitutionNotWritten;
    }
    Exclusion::SubstitutionNotAllowed
}

/// Dialects between which requests and answers are translated.
const TRANSLATED: [&str; 5] = ["chat", "messages", "responses", "gemini", "bedrock"];

fn speaks(request: &Request, target: &Target) -> bool {
    let translated = TRANSLATED.contains(&request.dialect);
    target.dialects.is_empty()
        || target
            .dialects
            .iter()
            .any(|d| d == request.dialect || translated && TRANSLATED.contains(&d.as_str()))
}

fn names(list: &[alloc::string::String], target: &Target) -> bool {
    list.iter().any(|n| *n == target.name || n.eq_ignore_ascii_case(&target.provider))
}

fn by_preference(wants: &Preferences, target: &Target, model: Option<&Model>) -> Option<Exclusion> {
    let refused = if !wants.only.is_empty() && !names(&wants.only, target) {
        "provider.only"
    } else if names(&wants.ignore, target) {
        "provider.ignore"
    } else if wants.allow_fallbacks == Some(false) && !wants.order.is_empty() && !names(&wants.order, target)
    {
        "provider.allow_fallbacks"
    } else if wants.no_training && target.data.training != Some(false) {
        "data_collection"
    } else if wants.zero_retention && target.data.zero_retention != Some(true) {
        "zdr"
    } else if !wants.tags.iter().all(|t| target.tags.contains(t)) {
        "x-pointsman-tags"
    } else if !wants.quantizations.is_empty() {
        "provider.quantizations"
    } else if wants.max_price.is_some_and(|max| !costs_at_most(model, max)) {
        "provider.max_price"
    } else {
        return None;
    };
    Some(Exclusion::Preference(refused))
}

fn costs_at_most(model: Option<&Model>, max: Price) -> bool {
    model.and_then(|m| m.price).is_some_and(|p| p.input <= max.input && p.output <= max.output)
}

/// What is unknown fails a contract.
fn by_contract(contract: &Contract, model: Option<&Model>) -> Option<Exclusion> {
    let has = |known: fn(&Model) -> Option<bool>| model.and_then(known) == Some(true);
    let at_least = |min: Option<u64>, known: fn(&Model) -> Option<u64>| {
        min.is_none_or(|min| model.and_then(known).is_some_and(|has| has >= min))
    };
    let modalities = model.and_then(|m| m.modalities.as_ref());
    let missing = if contract.tools && !has(|m| m.tools) {
        "tools"
    } else if contract.parallel_tool_calls && !has(|m| m.parallel_tool_calls) {
        "parallel tool calls"
    } else if contract
        .structured_output
        .is_some_and(|min| model.and_then(|m| m.structured_output) < Some(min))
    {
        "structured output"
    } else if !contract.modalities.iter().all(|w| w == "text" || modalities.is_some_and(|m| m.contains(w))) {
        "its input modalities"
    } else if !at_least(contract.context_window_min, |m| m.context_window) {
        "its smallest context window"
    } else if !at_least(contract.max_output_tokens_min, |m| m.max_output) {
        "its smallest maximum output"
    } else {
        return None;
    };
    Some(Exclusion::Contract(missing))
}

/// What is unknown passes here, unless the caller requires that parameters are supported.
fn by_needs(needs: &Needs, model: Option<&Model>, strict: bool) -> Option<Exclusion> {
    let lacks = |known: fn(&Model) -> Option<bool>| match model.and_then(known) {
        Some(has) => !has,
        None => strict,
    };
    let modalities = model.and_then(|m| m.modalities.as_ref());
    let unseen = |wanted: &&str| modalities.map_or(strict, |m| !m.contains(*wanted));
    let structured = model.and_then(|m| m.structured_output);
    let missing = if needs.tools && lacks(|m| m.tools) {
        "tools"
    } else if needs.parallel_tool_calls && lacks(|m| m.parallel_tool_calls) {
        "parallel tool calls"
    } else if needs.structured_output.is_some_and(|min| structured.map_or(strict, |has| has < min)) {
        "structured output"
    } else if needs.prefill && lacks(|m| m.prefill) {
        "the continuation of an assistant message (prefill)"
    } else {
        needs.modalities.iter().find(|m| unseen(m))?
    };
    Some(Exclusion::Lacks(missing))
}

fn by_price(request: &Request, choice: usize, model: Option<&Model>, catalog: &Catalog) -> Option<Exclusion> {
    let ceiling = request.governance.substitution.price_ceiling.filter(|_| choice > 0)?;
    let first = request.models.first().and_then(|m| catalog.models.get(&m.model)).and_then(|m| m.price);
    let within = match (first, model.and_then(|m| m.price)) {
        (Some(first), Some(own)) => {
            own.input as f64 <= first.input as f64 * ceiling
                && own.output as f64 <= first.output as f64 * ceiling
        }
        _ => false,
    };
    (!within).then_some(Exclusion::PriceCeiling)
}

/// Only a conversation has to fit as a whole: the texts of other APIs are many, each with a window of its own.
fn by_window(request: &Request, model: Option<&Model>) -> Option<Exclusion> {
    let needs = Some(&request.needs).filter(|_| request.endpoint.is_none())?;
    let window = model.and_then(|m| m.context_window)?;
    let estimate = needs.prompt_tokens.saturating_add(needs.max_output.unwrap_or(0));
    (estimate as f64 > window as f64 * WINDOW_TOLERANCE)
        .then_some(Exclusion::ContextWindow { estimate, window })
}
