//! The words for what happened: failure kinds, phases, actions, outcomes, terminal reasons.

use core::fmt;

/// The normalised class of what went wrong in an attempt.
///
/// Each has one row in the failure matrix, which this enum's methods spell out: may the same target be retried, may an
/// equivalent take over (failover), may another model (fallback), and whom does it count against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// DNS, refused, TLS; reset or closed before the first response byte.
    Connect,
    /// A limit struck before commit (connect, headers, first token, response, idle), or the provider said 408 or 504.
    Timeout,
    /// 429 with a rate cause.
    RateLimit,
    /// The account's money or quota is used up.
    QuotaExhausted,
    /// 529, 503 with an overload cause.
    Overloaded,
    /// 500, 502, other 5xx, an error event before commit.
    ServerError,
    /// An answer that cannot be used: HTML in a 200, `choices: []`, an empty 200, a stream that ends before commit.
    BadResponse,
    /// Structured output that fails its schema before release.
    SchemaInvalid,
    /// 401, or a documented key error.
    Auth,
    /// 403 that is neither a key error nor policy.
    Permission,
    /// 404 on the upstream model or deployment.
    ModelNotFound,
    /// A parameter, feature or size that this target refuses.
    Unsupported,
    /// The prompt is too long for the model.
    ContextOverflow,
    /// Another 400 or 422, a malformed request.
    InvalidRequest,
    /// The provider's content filter refuses with an error.
    Policy,
    /// A break, error event or missing terminal event after commit.
    PartialStream,
    /// The client is gone, or a limit that the caller chose struck.
    Cancelled,
    /// What fits nothing above (5xx never does).
    Unknown,
}

/// Which other target may follow a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// Any candidate.
    Any,
    /// Only one on another account.
    OtherAccount,
    /// Only one whose context window is known to be larger.
    LargerWindow,
    /// Only one that is known or likely to support what was refused: another provider.
    OtherProvider,
    /// None.
    No,
}

impl FailureKind {
    /// All kinds, in the order of the failure matrix.
    pub const ALL: [Self; 18] = [
        Self::Connect,
        Self::Timeout,
        Self::RateLimit,
        Self::QuotaExhausted,
        Self::Overloaded,
        Self::ServerError,
        Self::BadResponse,
        Self::SchemaInvalid,
        Self::Auth,
        Self::Permission,
        Self::ModelNotFound,
        Self::Unsupported,
        Self::ContextOverflow,
        Self::InvalidRequest,
        Self::Policy,
        Self::PartialStream,
        Self::Cancelled,
        Self::Unknown,
    ];

    /// The name in config, logs, metrics and the ledger.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::RateLimit => "rate_limit",
            Self::QuotaExhausted => "quota_exhausted",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::BadResponse => "bad_response",
            Self::SchemaInvalid => "schema_invalid",
            Self::Auth => "auth",
            Self::Permission => "permission",
            Self::ModelNotFound => "model_not_found",
            Self::Unsupported => "unsupported",
            Self::ContextOverflow => "context_overflow",
            Self::InvalidRequest => "invalid_request",
            Self::Policy => "policy",
            Self::PartialStream => "partial_stream",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the same target may be tried again after this failure, as the failure matrix has it (the controller adds
    /// the conditions of the single kinds).
    pub const fn permits_retry(self) -> bool {
        matches!(self, Self::Connect | Self::RateLimit | Self::Overloaded | Self::ServerError)
    }

    /// Which other target of the same model may follow.
    pub const fn failover(self) -> Onward {
        match self {
            Self::Connect
            | Self::Timeout
            | Self::RateLimit
            | Self::Overloaded
            | Self::ServerError
            | Self::BadResponse
            | Self::Permission
            | Self::ModelNotFound => Onward::Any,
            Self::QuotaExhausted | Self::Auth => Onward::OtherAccount,
            Self::Unsupported | Self::SchemaInvalid => Onward::OtherProvider,
            Self::ContextOverflow => Onward::LargerWindow,
            Self::InvalidRequest | Self::Policy | Self::PartialStream | Self::Cancelled | Self::Unknown => {
                Onward::No
            }
        }
    }

    /// Which target of another model may follow, if the route allows substitution. `policy` is `No` here: only a route
    /// that says `on_policy: fallback` lifts it.
    pub const fn fallback(self) -> Onward {
        self.failover()
    }

    /// Whether the provider refused without executing: such attempts are bounded by `max_rejections`, not by
    /// `max_attempts`.
    pub const fn is_rejection(self) -> bool {
        matches!(
            self,
            Self::Auth | Self::Permission | Self::QuotaExhausted | Self::ModelNotFound | Self::Unsupported
        )
    }

    /// Whether it is the request's own fault: never anything against the health of a target.
    pub const fn is_requests_own(self) -> bool {
        matches!(
            self,
            Self::Unsupported | Self::ContextOverflow | Self::InvalidRequest | Self::Policy | Self::Cancelled
        )
    }

    /// Whether it counts against a breaker (of which domain, the phase says).
    pub const fn counts_against_breaker(self) -> bool {
        matches!(
            self,
            Self::Connect
                | Self::Timeout
                | Self::Overloaded
                | Self::ServerError
                | Self::BadResponse
                | Self::SchemaInvalid
                | Self::PartialStream
        )
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How far an attempt got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Nothing of the request has left.
    NotSent,
    /// The request, or part of it, may have arrived.
    Sent,
    /// Response headers came.
    Headers,
    /// Events without meaning came (role, pings).
    Preamble,
    /// The first meaningful output went to the client.
    Committed,
    /// The answer is complete.
    Done,
}

impl Phase {
    /// The name in the ledger and in error bodies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotSent => "not_sent",
            Self::Sent => "sent",
            Self::Headers => "headers",
            Self::Preamble => "preamble",
            Self::Committed => "committed",
            Self::Done => "done",
        }
    }
}

/// What brought an attempt about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The first attempt, on the first candidate of the requested model.
    Primary,
    /// Once more on the same target.
    Retry,
    /// Another target of the same model.
    Failover,
    /// Another model: a substitution.
    Fallback,
}

impl Action {
    /// The name in headers, metrics and the ledger.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Retry => "retry",
            Self::Failover => "failover",
            Self::Fallback => "fallback",
        }
    }
}

/// How an attempt came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// A complete answer.
    Succeeded,
    /// A failure whose effect is known.
    Failed,
    /// The request may have reached the provider whole and no answer came: it may have been executed and billed.
    Unknown,
}

impl Outcome {
    /// The name in metrics and the ledger.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Terminal {
    /// A complete answer went to the client.
    Success,
    /// Nothing is left that may be tried.
    Exhausted,
    /// The request's time is over.
    Deadline,
    /// The client is gone.
    Cancelled,
    /// The answer broke after commit.
    Partial,
    /// The request's own fault.
    Rejected,
    /// The provider's content policy refused.
    PolicyStop,
    /// A side effect may have happened and its outcome is unknown.
    ReconciliationRequired,
}

impl Terminal {
    /// The name in headers, metrics, error bodies and the ledger.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Exhausted => "exhausted",
            Self::Deadline => "deadline",
            Self::Cancelled => "cancelled",
            Self::Partial => "partial",
            Self::Rejected => "rejected",
            Self::PolicyStop => "policy_stop",
            Self::ReconciliationRequired => "reconciliation_required",
        }
    }
}

/// What a request asks of a model, as far as it makes a failure domain of its own: a target may answer text and yet
/// fail every request with tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Plain text: its domain is the target itself.
    #[default]
    Text,
    /// Tools.
    Tools,
    /// Structured output.
    Structured,
    /// Images in the prompt.
    Vision,
}

impl Capability {
    /// The name in domain names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Tools => "tools",
            Self::Structured => "structured",
            Self::Vision => "vision",
        }
    }
}
