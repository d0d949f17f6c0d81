//! The decision trace: what was decided, by which rule, and why; in data and in words.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::fleet::{Block, BlockReason};
use crate::kind::{Action, FailureKind, Outcome, Phase, Terminal};
use crate::time::{Duration, Instant};

/// The rule of the controller that decided a step, in the order in which it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The first candidate of the plan that may take a call.
    Plan,
    /// 1. The client is gone.
    ClientGone,
    /// 2. Output went to the client already.
    Committed,
    /// 3. A side effect may have happened.
    SideEffect,
    /// 4. The kind of failure permits nothing more.
    KindForbids,
    /// 5. No attempts left.
    AttemptsSpent,
    /// 5. No time left.
    TimeSpent,
    /// 5. No money left.
    CostSpent,
    /// 6. The same target again.
    Retry,
    /// 7. The next equivalent.
    Failover,
    /// 8. The next substitution.
    Fallback,
    /// 9. Nothing is left.
    NothingLeft,
    /// Wait for the soonest recovery.
    Wait,
    /// Nothing is healthy: the one that is soonest to recover is tried all the same.
    LastResort,
    /// Nothing may be tried.
    AllBlocked,
}

impl Rule {
    /// The name in the ledger and the admin API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::ClientGone => "1_client_gone",
            Self::Committed => "2_committed",
            Self::SideEffect => "3_side_effect",
            Self::KindForbids => "4_kind_forbids",
            Self::AttemptsSpent => "5_attempts_spent",
            Self::TimeSpent => "5_time_spent",
            Self::CostSpent => "5_cost_spent",
            Self::Retry => "6_retry",
            Self::Failover => "7_failover",
            Self::Fallback => "8_fallback",
            Self::NothingLeft => "9_nothing_left",
            Self::Wait => "wait",
            Self::LastResort => "last_resort",
            Self::AllBlocked => "all_blocked",
        }
    }
}

/// Why the target that failed was not tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRetry {
    /// What is left of the attempts is kept for a substitute.
    AttemptsKept,
    /// One of its domains takes no calls.
    Blocked(BlockReason),
    /// The process spends no more on retries right now.
    Budget,
    /// The kind of failure permits none.
    Kind,
    /// One of its domains is out and lets only probes through: they are for other requests.
    Probing,
    /// It had its number of attempts.
    SameTarget,
    /// The client's SDK retries by itself.
    SdkRetries,
    /// The wait does not fit.
    Wait(Duration),
}

/// One decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// An attempt begins.
    Attempt {
        /// Which candidate of the plan.
        candidate: usize,
        /// What brought it about.
        action: Action,
        /// The rule that decided.
        rule: Rule,
    },
    /// Output goes to the client.
    Commit,
    /// An attempt failed.
    Failed {
        /// Which candidate.
        candidate: usize,
        /// How.
        kind: FailureKind,
        /// How far it had got.
        phase: Phase,
        /// Whether its effect is known.
        outcome: Outcome,
    },
    /// The target that failed is not tried again.
    NoRetry(NoRetry),
    /// A candidate was passed over.
    Skipped {
        /// Which.
        candidate: usize,
        /// Why.
        block: Block,
    },
    /// The request ended.
    Stop {
        /// How.
        terminal: Terminal,
        /// The rule that decided.
        rule: Rule,
    },
    /// Nothing is done until then.
    Wait {
        /// Until when.
        until: Instant,
        /// The rule that decided.
        rule: Rule,
    },
}

/// A decision and when it was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// When.
    pub at: Instant,
    /// What.
    pub decision: Decision,
}

/// The decisions of one request in their order. Bounded: waiting for long repeats itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    entries: Vec<Entry>,
}

/// More entries than any budget allows attempts for.
const KEPT: usize = 128;

impl Trace {
    pub(crate) fn note(&mut self, at: Instant, decision: Decision) {
        let stop = matches!(decision, Decision::Stop { .. });
        if self.entries.len() < KEPT || stop {
            self.entries.push(Entry { at, decision });
        }
    }

    /// All of them.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl Decision {
    /// The candidate that it is about, where it is about one.
    pub const fn candidate(&self) -> Option<usize> {
        match self {
            Self::Attempt { candidate, .. }
            | Self::Failed { candidate, .. }
            | Self::Skipped { candidate, .. } => Some(*candidate),
            Self::Commit | Self::NoRetry(_) | Self::Stop { .. } | Self::Wait { .. } => None,
        }
    }

    /// The decision in words; `name` gives a candidate's target name.
    pub fn words(&self, name: &dyn Fn(usize) -> String, started: Instant) -> String {
        match self {
            Self::Attempt { candidate, action, rule } => {
                format!("{} on {}: {}", action.name(), name(*candidate), attempt_words(*rule))
            }
            Self::Commit => {
                "commit: the first meaningful output goes to the client, no other target may answer now"
                    .into()
            }
            Self::Failed { candidate, kind, phase, outcome } => {
                format!(
                    "{} failed: {kind} in phase {}, outcome {}",
                    name(*candidate),
                    phase.name(),
                    outcome.name()
                )
            }
            Self::NoRetry(why) => format!("no retry: {}", no_retry_words(*why)),
            Self::Skipped { candidate, block } => {
                let until = block
                    .until
                    .map_or(String::new(), |u| format!(" until {:.3}s", u.since(started).as_secs_f64()));
                format!("{} is passed over: {}{until}", name(*candidate), block_words(block.why))
            }
            Self::Stop { terminal, rule } => format!("stop, {}: {}", terminal.name(), stop_words(*rule)),
            Self::Wait { until, rule } => {
                let what = if *rule == Rule::Retry {
                    "backoff before a retry"
                } else {
                    "wait for the soonest recovery"
                };
                format!("{what}, until {:.3}s", until.since(started).as_secs_f64())
            }
        }
    }
}

const fn attempt_words(rule: Rule) -> &'static str {
    match rule {
        Rule::Retry => "no healthy equivalent with room comes first, and the budgets allow a retry",
        Rule::Failover => "the next healthy equivalent of the same model",
        Rule::Fallback => "no target of the requested model is left, and the route allows another model",
        Rule::LastResort => "nothing is healthy, and this one is soonest to recover",
        _ => "the first candidate in order that takes calls",
    }
}

const fn no_retry_words(why: NoRetry) -> &'static str {
    match why {
        NoRetry::AttemptsKept => "the attempts that are left are kept for a substitute",
        NoRetry::Blocked(why) => block_words(why),
        NoRetry::Budget => "the process-wide retry budget is spent",
        NoRetry::Kind => "this kind of failure does not go away by asking again",
        NoRetry::Probing => "it is not back in service yet, and its probes are for other requests",
        NoRetry::SameTarget => "the target had its number of attempts",
        NoRetry::SdkRetries => "the client's SDK is retrying by itself",
        NoRetry::Wait(_) => "the wait that it asks for does not fit",
    }
}

const fn stop_words(rule: Rule) -> &'static str {
    match rule {
        Rule::ClientGone => "the client is gone",
        Rule::Committed => "output went to the client already, so no other target may answer",
        Rule::SideEffect => "a side effect may have happened, its outcome is unknown",
        Rule::KindForbids => "this kind of failure permits no other attempt",
        Rule::AttemptsSpent => "the attempts are spent",
        Rule::TimeSpent => "less time is left than an attempt is worth",
        Rule::CostSpent => "the attempts left would cost more than allowed",
        Rule::NothingLeft => "no candidate is left",
        Rule::AllBlocked => "no candidate may take a call now",
        _ => "the answer is complete",
    }
}

/// Why a lane takes no calls, in words.
pub const fn block_words(why: BlockReason) -> &'static str {
    match why {
        BlockReason::Cooldown => "in cooldown",
        BlockReason::HalfOpenFull => "half-open, and its probes are on their way",
        BlockReason::Isolated(None) => "isolated by an operator",
        BlockReason::Isolated(Some(FailureKind::Auth)) => "isolated: its credential is refused",
        BlockReason::Isolated(Some(FailureKind::QuotaExhausted)) => "isolated: its quota is used up",
        BlockReason::Isolated(Some(FailureKind::Permission)) => {
            "isolated: it has no permission for the model"
        }
        BlockReason::Isolated(Some(FailureKind::ModelNotFound)) => {
            "isolated: the provider does not know the model"
        }
        BlockReason::Isolated(Some(_)) => "isolated",
        BlockReason::Killed => "switched off by an operator",
        BlockReason::Limit(crate::limit::LimitHit::Concurrency) => "at its own limit of requests in flight",
        BlockReason::Limit(crate::limit::LimitHit::Requests) => "at its own limit of requests per minute",
        BlockReason::Limit(crate::limit::LimitHit::Tokens) => "at its own limit of tokens per minute",
        BlockReason::Open => "its breaker is open",
        BlockReason::Throttled => "the provider's rate limit is waited out",
        BlockReason::WarmingUp => "just recovered, and it takes only a few requests at once",
    }
}
