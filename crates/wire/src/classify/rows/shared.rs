//! Rows that hold for everybody who speaks the `chat` dialect. Codes and types are those of OpenAI's API
//! reference ("Error codes") unless a comment names another source.

use crate::classify::FailureClass::{
    Auth, BadResponse, Cancelled, ContextOverflow, InvalidRequest, ModelNotFound, Overloaded, Permission,
    Policy, QuotaExhausted, RateLimit, ServerError, Timeout, Unknown, Unsupported,
};
use crate::classify::evidence::Evidence;
use crate::classify::row::{Row, any, begins, codes, says, status};

/// Codes that say for certain what it is.
pub(in crate::classify) const CODES: &[Row] = &[
    // It comes as a rate limit, but no wait makes it fit. Blaming the account would take it away from everybody,
    // so it counts as what it is: a size that this target refuses, and a larger account may not.
    says(
        Unsupported,
        "the request alone is larger than the account's token limit",
        &["request too large for"],
    )
    .status(&[429, 413]),
    says(
        Unsupported,
        "the request alone is larger than the account's token limit",
        &["tokens per min", "(tpm)"],
    )
    .and(|evidence| evidence.asks_more_than_limit()),
    codes(
        QuotaExhausted,
        "a code for a spent quota or a closed bill",
        &[
            "insufficient_quota",
            "credit_balance_exhausted",
            "organization_spend_limit_exceeded",
            "project_spend_limit_exceeded",
            "organization_usage_limit_exceeded",
            "billing_not_active",
            "billing_hard_limit_reached",
            "billing_error",
            "enforced_spend_limit_reached",
            "contract_spend_limit_reached",
            "organization_on_hold",
            "payment_required",
            "insufficient_balance",
            "insufficient_credits",
        ],
    ),
    codes(
        Policy,
        "a code of the content policy",
        &[
            "content_filter",
            "contentfiltered",
            "responsibleaipolicyviolation",
            "content_policy_violation",
            "invalid_prompt",
            "bio_policy",
            "cyber_policy",
            "misalignment_policy_violation",
            "moderation_blocked",
        ],
    ),
    codes(
        ContextOverflow,
        "a code for a prompt that is too long",
        &[
            "context_length_exceeded",
            "exceed_context_size_error",
            "context_window_exceeded",
            "model_context_window_exceeded",
        ],
    ),
    codes(
        Unsupported,
        "a code for something that this model does not take",
        &[
            "unsupported_parameter",
            "unsupported_value",
            "unsupported_model",
            "unsupported_endpoint",
            "not_supported_error",
            "operationnotsupported",
            "unsupported_media_type",
        ],
    ),
    codes(
        Auth,
        "a code for a refused key",
        &[
            "invalid_api_key",
            "invalid_authentication",
            "authentication_error",
            "unauthorizederror",
            "invalid_organization",
            "mismatched_organization",
            "account_deactivated",
            "expired_api_key",
            "api_key_invalid",
            "unauthenticated",
        ],
    ),
    codes(
        ModelNotFound,
        "a code for an unknown model",
        &[
            "model_not_found",
            "deploymentnotfound",
            "model_decommissioned",
            "model_not_available",
            "invalid_model",
        ],
    ),
    codes(
        Permission,
        "a code for something not allowed",
        &[
            "unsupported_country_region_territory",
            "permission_error",
            "permission_denied",
            "permissiondenied",
        ],
    ),
    // Until 2026 it was a 503 and meant load; since then it is a 429 and means a rate that grew too fast.
    codes(Overloaded, "slow down, as a server error", &["slow_down"]).status(&[503]),
    codes(
        Overloaded,
        "a code for overload",
        &[
            "server_is_overloaded",
            "engine_overloaded",
            "overloaded_error",
            "overloaded",
            "unavailable_error",
            "serviceunavailableerror",
            "service_unavailable_error",
            "service_unavailable",
            "serviceunavailable",
            "insufficient_system_resource",
            "capacity_exceeded",
            "unavailable",
        ],
    ),
    codes(
        RateLimit,
        "a code for a rate limit",
        &[
            "rate_limit_exceeded",
            "rate_limit_error",
            "rate_limited",
            "ratelimitreached",
            "ratelimitexceeded",
            "ratelimiterror",
            "slow_down",
            "ramp_limit_exceeded",
            "too_many_requests",
            "toomanyrequests",
            "service_tier_capacity_exceeded",
        ],
    )
    .and(|evidence| !evidence.names_limit_of_zero() && !names_money(evidence)),
];

/// Words about money in a message that goes with a rate limit's code or a bare 429.
fn names_money(evidence: &Evidence) -> bool {
    MONEY.iter().any(|phrase| evidence.says(phrase))
}

/// "Quota" alone is not among these: Azure and Google use the word for limits per minute.
const MONEY: &[&str] = &[
    "credit balance is too low",
    "insufficient credits",
    "insufficient balance",
    "insufficient account balance",
    "insufficient_quota",
    "exceeded your current quota, please check your plan and billing details",
    "billing hard limit",
    "spend limit",
    "spending limit",
    "specified api usage limits",
    "monthly usage limit",
    "never purchased credits",
    "requires more credits",
];

/// Messages of providers that have no code for it.
pub(in crate::classify) const PHRASES: &[Row] = &[
    any(QuotaExhausted, "a limit of zero").status(&[429]).and(Evidence::names_limit_of_zero),
    // Google says the same of a quota that is whole again in a minute, and then says when.
    says(RateLimit, "a quota that comes back", &["exceeded your current quota"])
        .status(&[429])
        .and(|evidence| evidence.asks_to_wait),
    says(QuotaExhausted, "the message speaks of spent money", MONEY).status(&[402, 403, 429]),
    begins(
        QuotaExhausted,
        "the message speaks of spent money",
        &[
            "your credit balance is too low",
            "you have reached your specified api usage limits",
            "insufficient balance",
            "insufficient credits",
        ],
    )
    .status(&[400]),
    says(
        ContextOverflow,
        "the message says that the prompt is too long",
        &[
            "maximum context length",
            "context_length_exceeded",
            "prompt is too long",
            "exceed context limit",
            "exceeds the context limit",
            "longer than the model's context length",
            "exceeds the model's context length",
            "exceeds the context length",
            "exceeds the maximum context",
            "exceeds the maximum number of tokens allowed",
            "exceeds the maximum allowed input length",
            "exceeds the available context size",
            "context size has been exceeded",
            "exceeds the context window",
            "exceeds context window",
            "context window exceeded",
            "input is too long for requested model",
            "too many input tokens",
            "prompt too long",
            "reduce the length of the messages",
            "too large for model with",
        ],
    ),
    says(
        Policy,
        "the message says that the content policy refuses",
        &[
            "content management policy",
            "content policy",
            "content filter",
            "content exists risk",
            "safety system",
            "usage policies",
            "usage policy",
            "input was flagged",
            "requires moderation",
        ],
    )
    .status(&[400, 403, 422, 451]),
    says(
        Unsupported,
        "the message says that this is not supported",
        &[
            "is not supported with this model",
            "is not supported by this model",
            "not supported for this model",
            "not supported when using",
            "does not support tools",
            "does not support image",
            "does not support assistant message prefill",
            "does not support parameters",
            "does not support the",
            "extra inputs are not permitted",
            "unrecognized request argument",
            "is not a multimodal model",
            "not supported in the v1/chat/completions",
            "not supported in /v1/chat/completions",
            "not a chat model",
            // A model that is asked for what it is not made for.
            "not supported in the v1/completions",
            "does not support embeddings",
        ],
    )
    .status(&[400, 404, 422, 500, 501]),
    begins(
        Unsupported,
        "the model is not made for this endpoint",
        &["you are not allowed to generate embeddings from this model"],
    )
    .status(&[403]),
    says(ModelNotFound, "the message says that the model does not exist", &["do not have access to it"])
        .status(&[403]),
    begins(
        ModelNotFound,
        "the message says that the model does not exist",
        &["model not exist", "model not found", "model does not exist"],
    )
    .status(&[400]),
    says(Auth, "the message refuses the key", &["incorrect api key", "invalid api key", "api key not valid"])
        .status(&[403]),
    begins(
        Auth,
        "the message refuses the key",
        &["api key not valid", "api key expired", "incorrect api key"],
    )
    .status(&[400]),
    says(
        Overloaded,
        "the message speaks of load",
        &[
            "overloaded",
            "high demand",
            "over capacity",
            "at capacity",
            "loading model",
            "queue is full",
            "server busy",
            "server is busy",
            "temporarily unavailable",
            "no available capacity",
        ],
    )
    .status(&[429, 500, 502, 503, 529]),
];

/// Types so general that a message or the status of the answer can say more.
pub(in crate::classify) const GENERAL_CODES: &[Row] = &[
    codes(
        InvalidRequest,
        "a type for a wrong request",
        &["invalid_request_error", "badrequesterror", "badrequest", "validationexception"],
    )
    .and(|evidence| evidence.status.is_none()),
    codes(ModelNotFound, "a type for something not found", &["not_found_error", "notfounderror"])
        .and(|evidence| evidence.status.is_none()),
    codes(
        Timeout,
        "a type for a timeout",
        &["timeout", "timeout_error", "deadline_exceeded", "requesttimeout"],
    ),
];

/// What is left: the status of the answer, or the one that the body names.
pub(in crate::classify) const STATUS: &[Row] = &[
    status(Auth, "status 401", &[401]),
    status(QuotaExhausted, "status 402", &[402]),
    // A firewall before the provider answers with a page, and does so because of what the request says. That is
    // nothing against the target.
    status(Unsupported, "status 403 with a page instead of an error", &[403]).and(|evidence| evidence.html),
    status(Permission, "status 403", &[403, 451]),
    status(ModelNotFound, "status 404", &[404, 410]),
    status(Timeout, "a status for a timeout", &[408, 504]),
    status(ContextOverflow, "status 413 with a text about tokens", &[413]).phrases(&["token", "context"]),
    status(ServerError, "a proxy on the way wants credentials", &[407]),
    status(RateLimit, "status 429", &[429]),
    status(Cancelled, "status 499", &[499]),
    status(Unsupported, "status 501", &[501]),
    status(Overloaded, "status 529", &[529]),
    status(Overloaded, "status 503 with a time to come back", &[503]).and(|evidence| evidence.asks_to_wait),
    any(InvalidRequest, "another 4xx").and(|evidence| in_range(evidence.status, 400, 500)),
    any(ServerError, "another 5xx").and(|evidence| in_range(evidence.status, 500, 600)),
    any(ServerError, "an error inside a successful answer")
        .and(|evidence| evidence.in_success && evidence.has_error),
    any(BadResponse, "no error and no answer in a successful response").and(|evidence| evidence.in_success),
    any(BadResponse, "a redirect").and(|evidence| in_range(evidence.own_status, 300, 400)),
    any(Unknown, "nothing fits"),
];

fn in_range(status: Option<u16>, from: u16, to: u16) -> bool {
    status.is_some_and(|status| (from..to).contains(&status))
}
