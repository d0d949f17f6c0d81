//! Layers to governance: the profile and the documented defaults fill what no layer says; then the whole is checked.

use std::time::Duration;

use pointsman_core::policy::{
    BreakerPolicy, Budget, CooldownPolicy, HealthPolicy, RateRule, Reserve, RetryPolicy, SlowRule,
    StreamPolicy, SubstitutionPolicy, TimeLimits,
};
use pointsman_core::target::{Contract, Governance, StructuredOutput};

use crate::layer::{BudgetLayer, Layer};
use crate::problem::Report;
use crate::quantity::written;
use crate::reader::Fields;

/// The governance of a merged layer, for a route with so many models.
pub(crate) fn governance(layer: &Layer, models: usize) -> Governance {
    let profile = layer.words.profile.unwrap_or_default();
    Governance {
        profile,
        budget: budget(&layer.budget, Budget::of(profile)),
        strategy: layer.words.strategy.unwrap_or_default(),
        retry: retry(layer),
        substitution: substitution(layer, models),
        stream: stream(layer),
        health: HealthPolicy { breaker: breaker(layer), cooldown: cooldown(layer) },
        requires: requires(layer),
        on_model_mismatch: layer.words.on_model_mismatch.unwrap_or_default(),
        on_loss: layer.words.on_loss.unwrap_or_default(),
    }
}

fn budget(layer: &BudgetLayer, base: Budget) -> Budget {
    let max_attempts = layer.max_attempts.unwrap_or(base.max_attempts);
    // A default reserve never eats the only attempt; a written one that does is refused by `check`.
    let reserve_attempts = base.reserve_attempts.min(max_attempts.saturating_sub(1));
    Budget {
        deadline: layer.deadline.unwrap_or(base.deadline),
        stream: layer.stream.unwrap_or(base.stream),
        max_attempts,
        max_rejections: layer.max_rejections.unwrap_or(base.max_rejections),
        max_same_target_attempts: layer.max_same_target_attempts.unwrap_or(base.max_same_target_attempts),
        reserve_attempts: layer.reserve_attempts.unwrap_or(reserve_attempts),
        reserve_for_fallback: layer.reserve_for_fallback.unwrap_or(base.reserve_for_fallback),
        min_attempt: layer.min_attempt.unwrap_or(base.min_attempt),
        max_cost: layer.max_cost,
        limits: limits(layer, &base.limits),
    }
}

fn limits(layer: &BudgetLayer, base: &TimeLimits) -> TimeLimits {
    TimeLimits {
        connect: layer.connect.unwrap_or(base.connect),
        headers: layer.headers.or(base.headers),
        first_token: layer.first_token.unwrap_or(base.first_token),
        // A written value is taken as it is, also where the model reasons.
        first_token_reasoning: layer.first_token.unwrap_or(base.first_token_reasoning),
        response: layer.response.unwrap_or(base.response),
        idle: layer.idle.unwrap_or(base.idle),
        write: layer.write.unwrap_or(base.write),
    }
}

fn retry(layer: &Layer) -> RetryPolicy {
    let (layer, base) = (&layer.retry, RetryPolicy::default());
    RetryPolicy {
        order: layer.order.unwrap_or(base.order),
        base: layer.base.unwrap_or(base.base),
        max: layer.max.unwrap_or(base.max),
    }
}

fn substitution(layer: &Layer, models: usize) -> SubstitutionPolicy {
    let (layer, base) = (&layer.substitution, SubstitutionPolicy::default());
    SubstitutionPolicy {
        allowed: layer.allowed.unwrap_or(models > 1),
        written: layer.allowed == Some(true),
        price_ceiling: layer.price_ceiling.or(base.price_ceiling),
        wait: layer.wait.unwrap_or(base.wait),
        on_policy: layer.on_policy.unwrap_or(base.on_policy),
    }
}

fn stream(layer: &Layer) -> StreamPolicy {
    let (layer, base) = (&layer.stream, StreamPolicy::default());
    StreamPolicy {
        hold: layer.hold.unwrap_or(base.hold),
        buffer: layer.buffer.unwrap_or(base.buffer),
        gather: layer.gather.unwrap_or(base.gather),
    }
}

fn breaker(layer: &Layer) -> BreakerPolicy {
    let base = BreakerPolicy::default();
    let (own, rate) = (&layer.breaker, &layer.rate);
    BreakerPolicy {
        failures: own.failures.unwrap_or(base.failures),
        open_for: own.open_for.unwrap_or(base.open_for),
        probes: own.probes.unwrap_or(base.probes),
        probe_successes: own.probe_successes.unwrap_or(base.probe_successes),
        rate: RateRule {
            share: rate.share.unwrap_or(base.rate.share),
            min_calls: rate.min_calls.unwrap_or(base.rate.min_calls),
            window: rate.window.unwrap_or(base.rate.window),
        },
        slow: slow(layer, base.slow),
        slow_start: own.slow_start.unwrap_or(base.slow_start),
    }
}

fn slow(layer: &Layer, base: Option<SlowRule>) -> Option<SlowRule> {
    let own = &layer.slow;
    let base = base.filter(|_| own.off != Some(true))?;
    Some(SlowRule {
        factor: own.factor.unwrap_or(base.factor),
        share: own.share.unwrap_or(base.share),
        min_calls: own.min_calls.unwrap_or(base.min_calls),
    })
}

fn cooldown(layer: &Layer) -> CooldownPolicy {
    let (layer, base) = (&layer.cooldown, CooldownPolicy::default());
    CooldownPolicy {
        count: layer.count.unwrap_or(base.count),
        failures: layer.failures.unwrap_or(base.failures),
        window: layer.window.unwrap_or(base.window),
        base: layer.base.unwrap_or(base.base),
        max: layer.max.unwrap_or(base.max),
    }
}

fn requires(layer: &Layer) -> Contract {
    let layer = &layer.requires;
    Contract {
        modalities: layer.modalities.clone().unwrap_or_default(),
        tools: layer.tools.unwrap_or(false),
        parallel_tool_calls: layer.parallel_tool_calls.unwrap_or(false),
        // To require none is to require nothing, also of a model of which nothing is known.
        structured_output: layer.structured_output.filter(|least| *least != StructuredOutput::No),
        context_window_min: layer.context_window_min,
        max_output_tokens_min: layer.max_output_tokens_min,
    }
}

/// Reports values that contradict each other. `fields` is the route or `defaults` that said the last word; `layer` is
/// what it comes to. What nobody wrote is never blamed.
pub(crate) fn check(fields: &Fields<'_>, layer: &Layer, governance: &Governance, report: &mut Report) {
    let path = &fields.path;
    let mut contradictions: Vec<(&str, String)> = Vec::new();
    contradictions.extend(check_times(layer, &governance.budget).map(|m| ("budget", m)));
    contradictions.extend(check_attempts(&layer.budget, &governance.budget).map(|m| ("budget", m)));
    let retry = &governance.retry;
    if retry.base > retry.max {
        contradictions.push(("retry", longer("base", retry.base, retry.max)));
    }
    let cooldown = &governance.health.cooldown;
    if cooldown.base > cooldown.max {
        contradictions.push(("cooldown", longer("base", cooldown.base, cooldown.max)));
    }
    if governance.stream.buffer && governance.stream.hold > 0 {
        contradictions.push(("stream", "`hold` means nothing with `buffer: true`; remove one".to_owned()));
    }
    // What a route only inherits is blamed where it is written.
    let is_own = |section: &str| {
        fields.get(section).is_some() || (section == "budget" && fields.get("profile").is_some())
    };
    for (section, message) in contradictions.into_iter().filter(|(section, _)| is_own(section)) {
        report.error(fields.mark(section), format!("`{path}.{section}`: {message}"));
    }
}

/// A first step that is longer than the last.
pub(crate) fn longer(first: &str, step: Duration, max: Duration) -> String {
    format!("`{first}` ({}) is longer than `max` ({})", written(step), written(max))
}

fn check_times(layer: &Layer, budget: &Budget) -> Option<String> {
    let (deadline, least) = (budget.deadline, budget.min_attempt);
    let whole = written(deadline);
    if least >= deadline {
        let least = written(least);
        return Some(format!(
            "a `deadline` of {whole} leaves no time for an attempt; `min_attempt` is {least}"
        ));
    }
    let limits = [
        ("connect", layer.budget.connect),
        ("headers", layer.budget.headers),
        ("first_token", layer.budget.first_token),
        ("response", layer.budget.response),
    ];
    let too_long =
        limits.into_iter().find_map(|(name, limit)| Some((name, limit.filter(|l| *l > deadline)?)));
    if let Some((name, limit)) = too_long {
        return Some(format!("`{name}` ({}) is longer than the `deadline` ({whole})", written(limit)));
    }
    match layer.budget.reserve_for_fallback {
        Some(Reserve::Span(span)) if span + least > deadline => {
            let span = written(span);
            Some(format!("`reserve_for_fallback` ({span}) leaves nothing of the `deadline` ({whole})"))
        }
        Some(Reserve::Share(share)) if share >= 1.0 => {
            Some("`reserve_for_fallback` leaves nothing of the `deadline`".to_owned())
        }
        _ => None,
    }
}

fn check_attempts(layer: &BudgetLayer, budget: &Budget) -> Option<String> {
    let max = budget.max_attempts;
    match (layer.reserve_attempts, layer.max_same_target_attempts) {
        (Some(reserve), _) if reserve >= max => {
            Some(format!("`reserve_attempts` ({reserve}) leaves none of `max_attempts` ({max})"))
        }
        (_, Some(same)) if same > max => {
            Some(format!("`max_same_target_attempts` ({same}) is more than `max_attempts` ({max})"))
        }
        _ => None,
    }
}
