//! What a request leaves behind: its record in the ledger, its metrics, one log line. No content.

use pointsman_core::kind::{FailureKind, Terminal};
use pointsman_core::time::Instant;
use pointsman_core::trace::{Decision, Rule};
use pointsman_store::{AttemptEntry, RequestEntry, TraceEntry, UsageEntry};

use crate::exchange::Exchange;
use crate::fail::cause_name;
use crate::metrics::Finished;

/// Settles a request that has ended.
pub(crate) fn settle(exchange: &Exchange) {
    let entry = entry(exchange);
    count(exchange, &entry);
    tracing::info!(
        request_id = entry.id,
        key = entry.key,
        endpoint = entry.endpoint,
        requested = entry.requested,
        terminal = entry.terminal,
        status = entry.status,
        target = entry.target,
        action = entry.action,
        attempts = entry.attempts.len(),
        duration_ms = entry.duration_ms,
        first_token_ms = entry.first_token_ms,
        "request ended"
    );
    exchange.app.ledger.append(entry);
}

fn entry(exchange: &Exchange) -> RequestEntry {
    let provenance = exchange.provenance();
    let stop = exchange.stop();
    let terminal = stop.map_or(Terminal::Cancelled, |s| s.terminal);
    let terminal = if exchange.estimated { Terminal::Success } else { terminal };
    let answered = matches!(terminal, Terminal::Success | Terminal::Partial);
    RequestEntry {
        id: exchange.inbound.id.clone(),
        correlation_id: exchange.inbound.correlation_id.clone(),
        at_unix_ms: exchange.inbound.at_unix_ms,
        key: exchange.inbound.caller.key_name().map(str::to_owned),
        dialect: exchange.inbound.envelope.dialect().name(),
        endpoint: exchange.inbound.envelope.endpoint().name(),
        requested: exchange.inbound.envelope.model().to_owned(),
        route: exchange.inbound.route.clone(),
        stream: exchange.inbound.envelope.stream(),
        terminal: terminal.name(),
        cause: match stop {
            _ if exchange.estimated => "estimated",
            Some(stop) => cause_name(stop.cause),
            None => "client_gone",
        },
        status: exchange.status,
        action: provenance.action,
        target: provenance.target.filter(|_| answered).map(str::to_owned),
        model: provenance.model.filter(|_| answered).map(str::to_owned),
        substituted: provenance.substituted && answered,
        model_mismatch: exchange.model_mismatch.clone(),
        early: exchange.early,
        duration_ms: since_ms(exchange, exchange.app.clock.now()),
        first_token_ms: exchange.first_token.map(|at| since_ms(exchange, at)),
        usage: exchange.usage.or(exchange.guess).map(|u| UsageEntry {
            input_tokens: u.input_tokens,
            cached_tokens: u.cached_tokens,
            cache_write_tokens: u.cache_write_tokens,
            output_tokens: u.output_tokens,
            reasoning_tokens: u.reasoning_tokens,
            estimated: exchange.usage.is_none(),
        }),
        cost_micro_usd: cost(exchange),
        malformed_events: exchange.malformed,
        attempts: attempts(exchange),
        trace: trace(exchange),
    }
}

/// What the answer cost: its usage by the price of the model that answered.
fn cost(exchange: &Exchange) -> Option<u64> {
    let usage = exchange.usage.or(exchange.guess)?;
    let last = exchange.controller.attempts().last()?;
    let price = exchange.controller.candidate(last.candidate)?.price?;
    let by = |tokens: u64, per_million: u64| u128::from(tokens) * u128::from(per_million);
    // Both are counted in the input, too.
    let read = usage.cached_tokens.min(usage.input_tokens);
    let written = usage.cache_write_tokens.min(usage.input_tokens - read);
    let sum = by(usage.input_tokens - read - written, price.input)
        + by(read, price.cache_read.unwrap_or(price.input))
        + by(written, price.cache_write.unwrap_or(price.input))
        + by(usage.output_tokens, price.output);
    u64::try_from(sum.div_ceil(1_000_000)).ok()
}

fn since_ms(exchange: &Exchange, at: Instant) -> u64 {
    u64::try_from(at.since(exchange.inbound.accepted).as_millis()).unwrap_or(u64::MAX)
}

fn attempts(exchange: &Exchange) -> Vec<AttemptEntry> {
    let attempts = exchange.controller.attempts().iter().enumerate();
    let entries = attempts.map(|(place, a)| {
        let note = exchange.notes.get(place);
        let candidate = exchange.controller.candidate(a.candidate);
        AttemptEntry {
            number: place + 1,
            target: exchange.target_of(a.candidate).to_owned(),
            model: exchange.model_of(a.candidate).to_owned(),
            upstream_model: candidate.map_or(String::new(), |c| c.upstream_model.clone()),
            action: a.action.name(),
            outcome: a.outcome.map_or("unknown", |o| o.name()),
            failure: a.kind.map(FailureKind::name),
            detail: note.and_then(|n| n.detail.clone()),
            status: a.status,
            phase: a.phase.name(),
            start_ms: since_ms(exchange, a.started),
            duration_ms: u64::try_from(a.ended.map_or(0, |e| e.since(a.started).as_millis()))
                .unwrap_or(u64::MAX),
            upstream_request_id: note.and_then(|n| n.upstream_request_id.clone()),
            stale_replaced: note.is_some_and(|n| n.stale_replaced),
            cost_estimate_micro_usd: a.cost.map(|c| c.0),
        }
    });
    entries.collect()
}

fn trace(exchange: &Exchange) -> Vec<TraceEntry> {
    let entries = exchange.controller.trace().entries().iter().map(|e| TraceEntry {
        at_ms: since_ms(exchange, e.at),
        rule: rule_of(&e.decision),
        decision: e.decision,
        target: e.decision.candidate().map(|c| exchange.target_of(c).to_owned()),
        request_began: exchange.controller.started(),
    });
    entries.collect()
}

/// The rule of a decision; what only reports has a name of its own.
pub(crate) fn rule_of(decision: &Decision) -> &'static str {
    match decision {
        Decision::Attempt { rule, .. } | Decision::Wait { rule, .. } | Decision::Stop { rule, .. } => {
            rule.name()
        }
        Decision::Commit => "commit",
        Decision::Failed { .. } => "failed",
        Decision::NoRetry(_) => Rule::Retry.name(),
        Decision::Skipped { .. } => "skipped",
    }
}

fn count(exchange: &Exchange, entry: &RequestEntry) {
    let metrics = &exchange.app.metrics;
    for a in &entry.attempts {
        metrics.attempt(&a.target, a.action, a.outcome, a.failure.unwrap_or("none"));
    }
    let target = entry.target.as_deref().unwrap_or("none");
    let model = model_label(exchange);
    if let Some(usage) = &entry.usage {
        metrics.answered(model, target, usage, entry.cost_micro_usd);
    }
    metrics.malformed(target, entry.malformed_events);
    if matches!(entry.cause, "nothing_has_room" | "queue_full" | "cost_spent") {
        metrics.limit_rejection("route", entry.cause);
    }
    let succeeded = entry.terminal == Terminal::Success.name();
    metrics.finished(&Finished {
        route: route_label(exchange, entry),
        dialect: entry.dialect,
        target,
        terminal: entry.terminal,
        action: entry.action.unwrap_or("none"),
        attempts: entry.attempts.len(),
        duration: entry.duration_ms as f64 / 1e3,
        first_token: entry.first_token_ms.map(|ms| ms as f64 / 1e3),
        succeeded,
        first_attempt_succeeded: succeeded && entry.attempts.len() == 1,
    });
}

/// A route's name, else the model's; never what the client wrote for a wildcard, which would be without bound.
fn route_label<'a>(exchange: &'a Exchange, entry: &'a RequestEntry) -> &'a str {
    if entry.route.is_some() {
        return &entry.requested;
    }
    label_of(exchange, 0)
}

/// The model of the last attempt, as a label.
fn model_label(exchange: &Exchange) -> &str {
    let last = exchange.controller.attempts().last();
    let choice = last.and_then(|a| exchange.controller.candidate(a.candidate)).map_or(0, |c| c.choice);
    label_of(exchange, choice)
}

fn label_of(exchange: &Exchange, choice: usize) -> &str {
    match exchange.controller.request().models.get(choice) {
        Some(choice) if choice.upstream.is_none() => &choice.model,
        _ => "wildcard",
    }
}
