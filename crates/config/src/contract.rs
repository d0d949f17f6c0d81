//! What a route asks for and what is known of its models: where nothing is known, nothing will answer, and that is better
//! said at the start than by a 503.

use pointsman_core::target::{Contract, Governance, Model};

/// Whether a price ceiling has nothing to measure by.
pub(crate) fn lacks_measure(governance: &Governance, first: Option<&Model>) -> bool {
    governance.substitution.price_ceiling.is_some() && first.is_none_or(|m| m.price.is_none())
}

/// The keys of `requires`, `substitution` and `budget` for which too little, or too little of it, is known of a model.
pub(crate) fn unkept(
    governance: &Governance,
    model: Option<&Model>,
    is_substitute: bool,
) -> Vec<&'static str> {
    let mut keys = unkept_requirements(&governance.requires, model);
    let unpriced = model.is_none_or(|m| m.price.is_none());
    if unpriced && is_substitute && governance.substitution.price_ceiling.is_some() {
        keys.push("substitution.price_ceiling");
    }
    if unpriced && governance.budget.max_cost.is_some() {
        keys.push("budget.max_cost");
    }
    keys
}

fn unkept_requirements(contract: &Contract, model: Option<&Model>) -> Vec<&'static str> {
    let has = |known: fn(&Model) -> Option<bool>| model.and_then(known) == Some(true);
    let at_least = |least: Option<u64>, known: fn(&Model) -> Option<u64>| {
        least.is_none_or(|least| model.and_then(known).is_some_and(|has| has >= least))
    };
    let takes = |modality: &String| {
        modality == "text" || model.and_then(|m| m.modalities.as_ref()).is_some_and(|m| m.contains(modality))
    };
    let structured = model.and_then(|m| m.structured_output);
    let rules = [
        ("requires.modalities", contract.modalities.iter().all(takes)),
        ("requires.tools", !contract.tools || has(|m| m.tools)),
        ("requires.parallel_tool_calls", !contract.parallel_tool_calls || has(|m| m.parallel_tool_calls)),
        (
            "requires.structured_output",
            contract.structured_output.is_none_or(|least| structured >= Some(least)),
        ),
        ("requires.context_window_min", at_least(contract.context_window_min, |m| m.context_window)),
        ("requires.max_output_tokens_min", at_least(contract.max_output_tokens_min, |m| m.max_output)),
    ];
    rules.into_iter().filter(|(_, kept)| !kept).map(|(key, _)| key).collect()
}
