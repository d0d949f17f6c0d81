//! What a world consists of, as data: read from a file, made from a seed, and cut down when it fails.
//!
//! All times are in seconds from the start of the world, all shares between 0.0 and 1.0.

use serde::{Deserialize, Serialize};

mod build;
mod check;

pub use build::ROUTE;
pub use check::Unusable;

/// A world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// What it shows, in words.
    #[serde(default)]
    pub about: String,
    /// The seed of all its randomness.
    #[serde(default)]
    pub seed: u64,
    /// How many requests arrive at most.
    #[serde(default = "some_requests")]
    pub requests: u64,
    /// Gateway processes, each with a fleet of its own; requests come to them at random.
    #[serde(default = "one")]
    pub replicas: u32,
    /// The models of the route, in its order: the first is the requested one.
    pub models: Vec<ModelSpec>,
    /// What serves them.
    pub targets: Vec<TargetSpec>,
    /// How the gateway is configured.
    #[serde(default)]
    pub policy: PolicySpec,
    /// Who sends requests.
    pub clients: Vec<ClientSpec>,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<FaultSpec>,
}

/// A logical model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Its name.
    pub name: String,
    /// Whether it takes tools; absent is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
    /// Its context window in tokens; absent is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
}

/// A place that serves a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSpec {
    /// Its name.
    pub name: String,
    /// The model that it serves.
    pub model: String,
    /// Where it is: faults may strike a region.
    #[serde(default)]
    pub region: String,
    /// Its credential; absent is one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Its address; absent is one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Lower is asked first.
    #[serde(default = "one")]
    pub priority: u32,
    /// Its share for the strategy `weighted`.
    #[serde(default = "one")]
    pub weight: u32,
    /// The median time to first token.
    #[serde(default = "half_a_second")]
    pub first_token: f64,
    /// The median time from first token to the end of an answer.
    #[serde(default = "two_seconds")]
    pub answer: f64,
    /// How widely both are spread: the standard deviation of the logarithm.
    #[serde(default = "some_spread")]
    pub spread: f64,
    /// Requests in flight beyond which it gets slower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// The provider's own rate limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateSpec>,
    /// The share of calls that fail with a 500 for no reason.
    #[serde(default)]
    pub unreliable: f64,
    /// What the gateway is configured to send at most per minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpm: Option<u32>,
    /// What the gateway is configured to keep in flight at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// A provider's rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateSpec {
    /// Calls in any minute.
    pub per_minute: u32,
    /// Whether its 429 says when to come back.
    #[serde(default)]
    pub guidance: bool,
}

/// How the gateway is configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySpec {
    /// `standard`, `interactive`, `agent` or `batch`.
    pub profile: String,
    /// The order inside a tier, by its name in the configuration.
    pub strategy: String,
    /// A failed target is tried again before its equivalents.
    pub retry_first: bool,
    /// Other models may answer.
    pub substitution: bool,
    /// How long to wait for the route's own model first.
    pub substitution_wait: f64,
    /// A content-policy refusal may lead to another model.
    pub policy_fallback: bool,
    /// `budget.deadline`, if not the profile's.
    pub deadline: Option<f64>,
    /// `budget.max_attempts`, if not the profile's.
    pub max_attempts: Option<u32>,
    /// `breaker.failures`.
    pub failures: u32,
    /// `breaker.open_for`.
    pub open_for: f64,
    /// `breaker.probes`.
    pub probes: u32,
    /// `breaker.slow` is on.
    pub slow: bool,
    /// `queue.max`.
    pub queue: u32,
    /// `queue.max_wait`.
    pub queue_wait: f64,
    /// `retry_budget.ratio`.
    pub retry_ratio: f64,
    /// `retry_budget.floor_per_second`.
    pub retry_floor: u32,
}

impl Default for PolicySpec {
    fn default() -> Self {
        Self {
            profile: "standard".into(),
            strategy: "priority".into(),
            retry_first: false,
            substitution: true,
            substitution_wait: 0.0,
            policy_fallback: false,
            deadline: None,
            max_attempts: None,
            failures: 3,
            open_for: 30.0,
            probes: 2,
            slow: true,
            queue: 1_000,
            queue_wait: 5.0,
            retry_ratio: 0.2,
            retry_floor: 10,
        }
    }
}

/// Some clients of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientSpec {
    /// What they are called.
    pub name: String,
    /// When their requests come.
    pub arrival: Arrival,
    /// When they begin.
    pub from: f64,
    /// When they have had enough.
    pub until: f64,
    /// The model that they ask for; absent is the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The share that streams; half of the rest is gathered.
    pub streams: f64,
    /// The share with tools.
    pub tools: f64,
    /// The share that must not be executed twice.
    pub unsafe_share: f64,
    /// The share that is malformed: every provider refuses it.
    pub typos: f64,
    /// The share that every provider's content filter refuses.
    pub refused: f64,
    /// The share whose prompt is longer than the window says.
    pub too_long: f64,
    /// The share that is a retry by the client's own SDK.
    pub sdk_retries: f64,
    /// The share of streams that is read slowly.
    pub slow_readers: f64,
    /// The share that may not leave its target, and the same again that may not leave its model.
    pub bound: f64,
    /// How long they wait for the first output before they leave, in the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<f64>,
    /// Their own deadline, as they tell the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<f64>,
}

impl Default for ClientSpec {
    fn default() -> Self {
        Self {
            name: "clients".into(),
            arrival: Arrival::Poisson { per_second: 5.0 },
            from: 0.0,
            until: 1e9,
            model: None,
            streams: 0.6,
            tools: 0.0,
            unsafe_share: 0.0,
            typos: 0.0,
            refused: 0.0,
            too_long: 0.0,
            sdk_retries: 0.0,
            slow_readers: 0.0,
            bound: 0.0,
            patience: None,
            deadline: None,
        }
    }
}

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrival {
    /// So many at once, so often.
    Bursts {
        /// Seconds between two bursts.
        every: f64,
        /// Requests in a burst.
        size: u32,
    },
    /// So many users, each with one request at a time and a pause after it.
    Closed {
        /// Users.
        users: u32,
        /// The mean pause in seconds.
        pause: f64,
    },
    /// One at a time, independently of each other.
    Poisson {
        /// Requests per second.
        per_second: f64,
    },
}

/// Something that goes wrong at some targets for some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// What.
    pub what: Fault,
    /// At these targets.
    #[serde(default)]
    pub targets: Vec<String>,
    /// And at all targets of this region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// From then.
    pub from: f64,
    /// Until then.
    pub until: f64,
    /// The share of calls that it strikes.
    #[serde(default = "all")]
    pub share: f64,
    /// It comes and goes: so long there, so long away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flapping: Option<f64>,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// A 200 with a body that nobody can read.
    BadResponse,
    /// Everything takes longer by this factor.
    BrownOut {
        /// The factor.
        factor: f64,
    },
    /// Streams break in the middle.
    Cut,
    /// The credential is refused.
    DeadKey,
    /// Connections hang before they are established.
    Hang,
    /// An operator takes it out, and afterwards brings it back.
    Killed,
    /// The upstream model is not there.
    ModelGone,
    /// 529.
    Overloaded,
    /// The credential may not use the model.
    Permission,
    /// The account's quota is used up.
    Quota,
    /// 429, with so many seconds of guidance, or without.
    RateLimit {
        /// `Retry-After` in seconds.
        retry_after: Option<f64>,
    },
    /// Connections are refused.
    Refused,
    /// Connections are reset once the request was sent.
    Reset,
    /// The request is taken, and nothing comes back.
    Silence,
    /// It has just started: everything takes longer by this factor at first, and less and less so.
    SlowStart {
        /// The factor at first.
        factor: f64,
    },
    /// Streams stop in the middle without an end.
    Stall,
    /// This status.
    Status {
        /// 500 to 599.
        status: u16,
    },
    /// Every request with tools fails with a 500.
    ToolsBroken,
    /// A request is refused for a parameter that this provider does not know.
    Unsupported,
}

const fn one() -> u32 {
    1
}

const fn some_requests() -> u64 {
    1_000
}

const fn half_a_second() -> f64 {
    0.5
}

const fn two_seconds() -> f64 {
    2.0
}

const fn some_spread() -> f64 {
    0.4
}

const fn all() -> f64 {
    1.0
}
