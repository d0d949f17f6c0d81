//! Validated knobs: budgets and profiles, retry, substitution, breaker, cooldown, throttle, queue, retry budget.
//!
//! Every default here is the documented one; [`Budget::of`] is the table of profiles.

use crate::time::{Duration, share_of};

/// An amount of money in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroUsd(pub u64);

impl MicroUsd {
    /// The sum; saturates.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// A named set of budget defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Long agent turns: patient first token, long streams.
    Agent,
    /// Unattended work: minutes of patience, more attempts.
    Batch,
    /// A person waits: tight limits, gathered answers.
    Interactive,
    /// The default: just under the SDKs' own ten minutes.
    #[default]
    Standard,
}

/// A reserve of time: a share of the deadline, or a fixed span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reserve {
    /// A share of the deadline, 0.0 to 1.0.
    Share(f64),
    /// A span.
    Span(Duration),
}

impl Reserve {
    /// The span it comes to for a request with this deadline.
    pub fn span(self, deadline: Duration) -> Duration {
        match self {
            Self::Share(share) => share_of(deadline, share),
            Self::Span(span) => span.min(deadline),
        }
    }
}

/// What one request may spend: time, attempts, money.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// The whole request, waiting and backoff included. For a stream it bounds the time to commit; for gathered,
    /// buffered and plain answers the whole answer.
    pub deadline: Duration,
    /// A stream's whole life.
    pub stream: Duration,
    /// Attempts that may have executed.
    pub max_attempts: u32,
    /// Attempts that the provider refused without executing.
    pub max_rejections: u32,
    /// First try plus retries on one target.
    pub max_same_target_attempts: u32,
    /// Attempts kept for a permitted substitute.
    pub reserve_attempts: u32,
    /// Time kept while other candidates remain.
    pub reserve_for_fallback: Reserve,
    /// Below this much time no attempt is worth starting.
    pub min_attempt: Duration,
    /// Over all attempts, failed and abandoned ones included. With it, an attempt of unknown price is not made.
    pub max_cost: Option<MicroUsd>,
    /// The time limits of a single attempt.
    pub limits: TimeLimits,
}

/// The time limits of a single attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeLimits {
    /// DNS, TCP, TLS and HTTP/2 handshake together.
    pub connect: Duration,
    /// Response headers of a stream, if wanted apart from the first token.
    pub headers: Option<Duration>,
    /// First meaningful output of a stream or a gathered answer.
    pub first_token: Duration,
    /// The same where the model reasons; equal to `first_token` where that was given explicitly.
    pub first_token_reasoning: Duration,
    /// Response headers of a plain answer.
    pub response: Duration,
    /// Between two events. Runs only while we read.
    pub idle: Duration,
    /// A client or upstream that takes nothing.
    pub write: Duration,
}

/// A target's own values for the time limits of an attempt; what is absent is the route's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeOverrides {
    /// See [`TimeLimits::connect`].
    pub connect: Option<Duration>,
    /// See [`TimeLimits::headers`].
    pub headers: Option<Duration>,
    /// See [`TimeLimits::first_token`]; taken as it is also where the model reasons.
    pub first_token: Option<Duration>,
    /// See [`TimeLimits::response`].
    pub response: Option<Duration>,
    /// See [`TimeLimits::idle`].
    pub idle: Option<Duration>,
    /// See [`TimeLimits::write`].
    pub write: Option<Duration>,
}

impl TimeLimits {
    /// These limits with a target's own values in their place.
    #[must_use]
    pub fn with(&self, over: &TimeOverrides) -> Self {
        Self {
            connect: over.connect.unwrap_or(self.connect),
            headers: over.headers.or(self.headers),
            first_token: over.first_token.unwrap_or(self.first_token),
            first_token_reasoning: over.first_token.unwrap_or(self.first_token_reasoning),
            response: over.response.unwrap_or(self.response),
            idle: over.idle.unwrap_or(self.idle),
            write: over.write.unwrap_or(self.write),
        }
    }
}

impl Budget {
    /// The budget of a profile: one column of the documented table.
    pub const fn of(profile: Profile) -> Self {
        let limits = match profile {
            Profile::Standard => TimeLimits::of_secs(3, 30, 300, 300, 60, 30),
            Profile::Interactive => TimeLimits::of_secs(2, 5, 60, 20, 15, 10),
            Profile::Agent => TimeLimits::of_secs(3, 60, 300, 300, 60, 30),
            Profile::Batch => TimeLimits::of_secs(5, 120, 300, 900, 120, 60),
        };
        let (deadline, stream, max_attempts, same_target) = match profile {
            Profile::Standard => (secs(570), secs(3_600), 4, 2),
            Profile::Interactive => (secs(60), secs(600), 4, 2),
            Profile::Agent => (secs(570), secs(7_200), 4, 2),
            Profile::Batch => (secs(1_800), secs(7_200), 6, 3),
        };
        let (reserve, min_attempt) = match profile {
            Profile::Standard | Profile::Interactive => (0.25, secs(1)),
            Profile::Agent => (0.25, secs(2)),
            Profile::Batch => (0.10, secs(5)),
        };
        Self {
            deadline,
            stream,
            max_attempts,
            max_rejections: 8,
            max_same_target_attempts: same_target,
            reserve_attempts: 1,
            reserve_for_fallback: Reserve::Share(reserve),
            min_attempt,
            max_cost: None,
            limits,
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(Profile::Standard)
    }
}

impl TimeLimits {
    const fn of_secs(connect: u64, first: u64, reasoning: u64, response: u64, idle: u64, write: u64) -> Self {
        Self {
            connect: secs(connect),
            headers: None,
            first_token: secs(first),
            first_token_reasoning: secs(reasoning),
            response: secs(response),
            idle: secs(idle),
            write: secs(write),
        }
    }
}

/// Whether a failed target is tried again before or after its equivalents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryOrder {
    /// A retry comes only when no healthy equivalent with room is left.
    #[default]
    FailoverFirst,
    /// A retry comes before an equivalent is tried.
    RetryFirst,
}

/// Backoff and order of same-target retries.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Before or after equivalents.
    pub order: RetryOrder,
    /// First ceiling of the full jitter.
    pub base: Duration,
    /// Last ceiling, and the longest wait for a target's own `Retry-After`.
    pub max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { order: RetryOrder::FailoverFirst, base: Duration::from_millis(500), max: secs(5) }
    }
}

/// What a content-policy refusal leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPolicy {
    /// The route allows another model to answer.
    Fallback,
    /// The refusal goes to the client.
    #[default]
    Stop,
}

/// Whether and how another model may answer.
#[derive(Clone, Debug, PartialEq)]
pub struct SubstitutionPolicy {
    /// Whether at all.
    pub allowed: bool,
    /// `allowed` was written out by the operator, and does not merely follow from a list of several models.
    pub written: bool,
    /// A substitute may cost at most this multiple of the first model; an unknown price does not pass.
    pub price_ceiling: Option<f64>,
    /// How long to wait for the route's own model first.
    pub wait: Duration,
    /// What a policy refusal leads to.
    pub on_policy: OnPolicy,
}

impl Default for SubstitutionPolicy {
    fn default() -> Self {
        Self {
            allowed: false,
            written: false,
            price_ceiling: None,
            wait: Duration::ZERO,
            on_policy: OnPolicy::Stop,
        }
    }
}

/// How candidates of one model and tier are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strategy {
    /// Most remaining rate quota first.
    Headroom,
    /// Fewest requests in flight first.
    LeastBusy,
    /// Lowest price first.
    LowestCost,
    /// Peak EWMA of time to first token, power of two choices.
    LowestLatency,
    /// As configured.
    #[default]
    Priority,
    /// One after the other.
    RoundRobin,
    /// The same conversation keeps its target while it is healthy (rendezvous hashing).
    Sticky,
    /// Smooth weighted round-robin.
    Weighted,
}

impl Strategy {
    /// All strategies with their names in config and headers.
    pub const NAMES: [(&'static str, Self); 8] = [
        ("priority", Self::Priority),
        ("round-robin", Self::RoundRobin),
        ("weighted", Self::Weighted),
        ("least-busy", Self::LeastBusy),
        ("lowest-latency", Self::LowestLatency),
        ("lowest-cost", Self::LowestCost),
        ("headroom", Self::Headroom),
        ("sticky", Self::Sticky),
    ];

    /// The strategy of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(n, _)| *n == name).map(|(_, s)| *s)
    }

    /// The name in config, headers and explanations.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, s)| *s == self).map_or("priority", |(n, _)| n)
    }
}

/// When too large a share of calls fails.
#[derive(Clone, Debug, PartialEq)]
pub struct RateRule {
    /// Share of failed calls, 0.0 to 1.0.
    pub share: f64,
    /// Fewer calls than this in the window decide nothing.
    pub min_calls: u32,
    /// The window.
    pub window: Duration,
}

/// When too large a share of calls is slow: a brown-out is an outage too.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowRule {
    /// A call is slow when its time to first token is over this multiple of the domain's own median.
    pub factor: f64,
    /// Share of slow calls, 0.0 to 1.0.
    pub share: f64,
    /// Fewer calls than this in the window decide nothing.
    pub min_calls: u32,
}

/// The circuit breaker of a failure domain.
#[derive(Clone, Debug, PartialEq)]
pub struct BreakerPolicy {
    /// Consecutive counted failures that open it.
    pub failures: u32,
    /// How long it fails fast before it lets probes through.
    pub open_for: Duration,
    /// Probes at once while half-open.
    pub probes: u32,
    /// Successes of probes that close it.
    pub probe_successes: u32,
    /// The failure-rate rule.
    pub rate: RateRule,
    /// The slowness rule; `None` switches it off.
    pub slow: Option<SlowRule>,
    /// Over which time the share grows back from 10 % to 100 % after closing.
    pub slow_start: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            failures: 3,
            open_for: secs(30),
            probes: 2,
            probe_successes: 2,
            rate: RateRule { share: 0.5, min_calls: 20, window: secs(30) },
            slow: Some(SlowRule { factor: 4.0, share: 0.5, min_calls: 20 }),
            slow_start: secs(30),
        }
    }
}

/// What a cooldown counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CooldownCount {
    /// Every counted failure.
    Failures,
    /// Openings of the target's breakers; a failed probe is one.
    #[default]
    Openings,
}

/// The long penalty of a target that keeps failing.
#[derive(Clone, Debug, PartialEq)]
pub struct CooldownPolicy {
    /// What is counted.
    pub count: CooldownCount,
    /// How many of them start a cooldown.
    pub failures: u32,
    /// Within which time.
    pub window: Duration,
    /// The first penalty; it doubles with each relapse.
    pub base: Duration,
    /// The longest penalty.
    pub max: Duration,
}

impl Default for CooldownPolicy {
    fn default() -> Self {
        Self {
            count: CooldownCount::Openings,
            failures: 3,
            window: secs(120),
            base: secs(60),
            max: secs(600),
        }
    }
}

/// How health reacts to what a route's requests meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HealthPolicy {
    /// The short circuit breaker.
    pub breaker: BreakerPolicy,
    /// The long penalty.
    pub cooldown: CooldownPolicy,
}

/// How a rate limit without guidance is waited out. Process-wide.
#[derive(Clone, Debug, PartialEq)]
pub struct ThrottlePolicy {
    /// The first wait without guidance; it doubles while rate limits follow each other.
    pub initial: Duration,
    /// The longest; guidance beyond it means a quota, not a rate.
    pub max: Duration,
}

impl Default for ThrottlePolicy {
    fn default() -> Self {
        Self { initial: secs(5), max: secs(600) }
    }
}

/// Waiting for the soonest recovery. Process-wide.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuePolicy {
    /// The longest wait of one request.
    pub max_wait: Duration,
    /// The most requests that wait per model.
    pub max: u32,
}

impl Default for QueuePolicy {
    fn default() -> Self {
        Self { max_wait: secs(5), max: 1_000 }
    }
}

/// How many same-target retries the process allows itself.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryBudgetPolicy {
    /// Retries per request over the last ten seconds.
    pub ratio: f64,
    /// Retries per second that are always allowed.
    pub floor_per_second: u32,
}

impl Default for RetryBudgetPolicy {
    fn default() -> Self {
        Self { ratio: 0.2, floor_per_second: 10 }
    }
}

/// Policies of the whole process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessPolicy {
    /// Waiting for recovery.
    pub queue: QueuePolicy,
    /// Same-target retries.
    pub retry_budget: RetryBudgetPolicy,
    /// Rate limits.
    pub throttle: ThrottlePolicy,
}

/// Whether plain answers are run as a stream upstream and gathered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatherPolicy {
    /// Only in the `interactive` profile.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Wherever the target's stream carries everything.
    On,
}

/// How a route's streams are released.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamPolicy {
    /// Output tokens held back until the stream proves steady; 0 releases at once.
    pub hold: u32,
    /// Release only a whole, valid answer.
    pub buffer: bool,
    /// Plain answers as gathered streams.
    pub gather: GatherPolicy,
}

/// What to do where a request loses something on its way into a target's dialect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// Say so, and go on.
    #[default]
    Disclose,
    /// Do not send it there.
    Reject,
}

/// What to do about something that the client should know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMismatch {
    /// Say so, and go on.
    #[default]
    Disclose,
    /// Treat the answer as unusable.
    Reject,
}
