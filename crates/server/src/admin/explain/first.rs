//! The first decision: what would happen if the request came now.

use pointsman_core::controller::{Command, Controller};
use pointsman_core::time::Instant;
use pointsman_core::trace::{Decision, Rule};
use serde::Serialize;

use super::millis;
use crate::fail::{ApiError, cause_name};
use crate::record::rule_of;
use crate::snapshot::Snapshot;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FirstDecision {
    /// `attempt`, `last_resort` (an attempt although nothing is healthy), `wait` or `stop`.
    pub decision: &'static str,
    /// The rule that decides.
    pub rule: &'static str,
    /// The target that would be called.
    pub target: Option<String>,
    /// The logical model that would answer.
    pub model: Option<String>,
    /// What the attempt would be: `primary` or `fallback`.
    pub action: Option<&'static str>,
    /// For how long it would wait before it decides again, in milliseconds.
    pub wait_ms: Option<u64>,
    /// How the request would end.
    pub terminal: Option<&'static str>,
    /// What its end would be put down to.
    pub cause: Option<&'static str>,
    /// The status that the client would get.
    pub status: Option<u16>,
    /// When it would be worth coming back, in milliseconds from now.
    pub retry_after_ms: Option<u64>,
    /// The decision in words.
    pub words: String,
}

pub(super) fn first(
    snapshot: &Snapshot,
    controller: &Controller,
    command: &Command,
    now: Instant,
) -> FirstDecision {
    let name = |place: usize| {
        let candidate = controller.candidate(place);
        candidate.map_or(String::new(), |c| snapshot.target_name(c.target).to_owned())
    };
    let last = controller.trace().entries().last().map(|e| &e.decision);
    let rule = last.map_or("plan", rule_of);
    let words = last.map_or_else(String::new, |d| d.words(&name, now));
    match command {
        Command::Attempt(attempt) => FirstDecision {
            decision: if is_last_resort(last) { "last_resort" } else { "attempt" },
            rule,
            target: Some(snapshot.target_name(attempt.target).to_owned()),
            model: controller.request().models.get(attempt.choice).map(|m| m.model.clone()),
            action: Some(attempt.action.name()),
            words,
            ..FirstDecision::default()
        },
        Command::Wait { until } => {
            let wait_ms = millis(*until, now);
            let words =
                format!("wait {:.1} s for the soonest recovery, then decide again", wait_ms as f64 / 1e3);
            FirstDecision {
                decision: "wait",
                rule,
                wait_ms: Some(wait_ms),
                words,
                ..FirstDecision::default()
            }
        }
        Command::Stop(stop) => FirstDecision {
            decision: "stop",
            rule,
            terminal: Some(stop.terminal.name()),
            cause: Some(cause_name(stop.cause)),
            status: Some(ApiError::of_cause(stop.cause, "", None).status.as_u16()),
            retry_after_ms: stop.retry_after.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            words: format!("{words} ({})", cause_name(stop.cause)),
            ..FirstDecision::default()
        },
        // Only progress is answered so, and a request that was just planned has made none.
        Command::Carry => FirstDecision { decision: "wait", rule, words, ..FirstDecision::default() },
    }
}

fn is_last_resort(decision: Option<&Decision>) -> bool {
    matches!(decision, Some(Decision::Attempt { rule: Rule::LastResort, .. }))
}
