//! One failure domain: the smallest useful thing to blame.

use alloc::string::String;
use core::fmt;

use crate::breaker::{Breaker, BreakerState};
use crate::cooldown::Cooldown;
use crate::kind::FailureKind;
use crate::throttle::Throttle;
use crate::time::{Duration, Instant};

/// A domain's place in the [`Fleet`](crate::fleet::Fleet).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainIndex(pub(crate) usize);

/// What a domain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DomainKind {
    /// One credential at one provider.
    Account,
    /// A target with one capability.
    Capability,
    /// Scheme, host and port.
    Endpoint,
    /// An account with one upstream model: what rate limits are about.
    Rate,
    /// A target (a wildcard target: with one upstream model).
    Target,
}

impl DomainKind {
    /// The name in metrics and the admin API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Capability => "capability",
            Self::Endpoint => "endpoint",
            Self::Rate => "rate",
            Self::Target => "target",
        }
    }
}

impl fmt::Display for DomainKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a domain stands, most serious first to win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DomainState {
    /// In service.
    Closed,
    /// A few probes pass.
    HalfOpen,
    /// Fails fast.
    Open,
    /// The long penalty.
    Cooldown,
    /// A rate limit is waited out.
    Throttled,
    /// Out until a probe or an operator.
    Isolated,
    /// Switched off by an operator.
    Killed,
}

impl DomainState {
    /// The value of the gauge `pointsman_domain_state`.
    pub const fn gauge(self) -> i64 {
        match self {
            Self::Closed => 0,
            Self::HalfOpen => 1,
            Self::Open => 2,
            Self::Cooldown => 3,
            Self::Throttled => 4,
            Self::Isolated => 5,
            Self::Killed => 6,
        }
    }

    /// The name in the admin API, logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
            Self::Cooldown => "cooldown",
            Self::Throttled => "throttled",
            Self::Isolated => "isolated",
            Self::Killed => "killed",
        }
    }
}

/// How often an isolated domain gets one real request as a probe.
pub const ISOLATION_PROBE_EVERY: Duration = Duration::from_secs(300);
/// How long an upstream model that a wildcard target does not have stays out.
pub const UNKNOWN_MODEL_FOR: Duration = Duration::from_secs(60);

/// Why and since when a domain is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// What brought it about; `None` is an operator.
    pub cause: Option<FailureKind>,
    /// Since when.
    pub since: Instant,
    /// When the next real request may go through as a probe.
    pub probe_at: Instant,
    /// A probe is on its way.
    pub(crate) probing: bool,
}

impl Isolation {
    pub(crate) fn new(cause: Option<FailureKind>, probe_at: Instant, now: Instant) -> Self {
        Self { cause, since: now, probe_at, probing: false }
    }

    /// Whether one request may go through as a probe.
    pub fn is_due(&self, now: Instant) -> bool {
        !self.probing && now >= self.probe_at
    }
}

/// One failure domain and all that is known of its health.
#[derive(Clone, Debug)]
pub struct Domain {
    /// What it is.
    pub kind: DomainKind,
    /// Its name: an endpoint's address, an account's label, a target's name.
    pub name: String,
    /// The short breaker.
    pub breaker: Breaker,
    /// The long penalty.
    pub cooldown: Cooldown,
    /// Rate limits.
    pub throttle: Throttle,
    /// Out until a probe or an operator.
    pub isolation: Option<Isolation>,
    /// The request whose authentication failed last: a second, different one isolates.
    pub(crate) strike: Option<u64>,
    /// The state that was last told as a transition.
    pub(crate) told: DomainState,
    /// What brought that transition about, in words.
    pub(crate) cause: Option<&'static str>,
    /// The last binding that led here; older ones are what a reload left behind.
    pub(crate) bound: u64,
}

impl Domain {
    pub(crate) fn new(kind: DomainKind, name: String) -> Self {
        Self {
            kind,
            name,
            breaker: Breaker::default(),
            cooldown: Cooldown::default(),
            throttle: Throttle::default(),
            isolation: None,
            strike: None,
            told: DomainState::Closed,
            cause: None,
            bound: 0,
        }
    }

    /// Where it stands (a kill is the target's, not the domain's).
    pub fn state(&self, now: Instant) -> DomainState {
        if self.isolation.is_some() {
            return DomainState::Isolated;
        }
        if self.throttle.until(now).is_some() {
            return DomainState::Throttled;
        }
        let breaker = self.breaker.state(now);
        if self.cooldown.until(now).is_some() && breaker != BreakerState::HalfOpen {
            return DomainState::Cooldown;
        }
        match breaker {
            BreakerState::Closed => DomainState::Closed,
            BreakerState::HalfOpen => DomainState::HalfOpen,
            BreakerState::Open { .. } => DomainState::Open,
        }
    }

    /// When it is due to leave its present state, where that is known.
    pub fn until(&self, now: Instant) -> Option<Instant> {
        if let Some(isolation) = &self.isolation {
            return Some(isolation.probe_at);
        }
        let breaker = match self.breaker.state(now) {
            BreakerState::Open { until } => Some(until),
            _ => None,
        };
        self.throttle.until(now).max(self.cooldown.until(now)).max(breaker)
    }

    pub(crate) fn reset(&mut self) {
        self.breaker.reset();
        self.cooldown.reset();
        self.throttle.reset();
        self.isolation = None;
        self.strike = None;
    }
}
