//! OpenRouter (its documentation, "Errors and debugging"). `code` is the status as a number, often inside a 200.

use crate::classify::FailureClass::{
    InvalidRequest, ModelNotFound, Permission, Policy, QuotaExhausted, RateLimit, Unsupported,
};
use crate::classify::row::{Row, any, codes, says};

pub(in crate::classify) const ROWS: &[Row] = &[
    codes(
        Unsupported,
        "OpenRouter: the request alone costs more than the account's budget",
        &["weight_exceeds_budget"],
    ),
    codes(RateLimit, "OpenRouter: the budget for requests in flight", &["openrouter_in_flight_budget"]),
    codes(
        QuotaExhausted,
        "OpenRouter: a budget is spent",
        &["openrouter_guardrail_budget", "openrouter_workspace_budget", "openrouter_key_limit"],
    ),
    says(QuotaExhausted, "OpenRouter: the key's own limit", &["key limit exceeded"]).status(&[403]),
    says(QuotaExhausted, "OpenRouter: free requests of the day", &["free-models-per-day"]).status(&[429]),
    // Elsewhere this code is the content policy's; here it says that a message is malformed.
    codes(InvalidRequest, "OpenRouter: a message is malformed", &["invalid_prompt"]),
    says(Permission, "OpenRouter: the account's data policy leaves no endpoint", &["data policy"])
        .status(&[404]),
    says(
        Unsupported,
        "OpenRouter: no endpoint for what the request needs",
        &[
            "no endpoints found that support",
            "no endpoints found that can handle",
            "no allowed providers are available",
            "meets your routing requirements",
        ],
    ),
    any(ModelNotFound, "OpenRouter: no such model")
        .status(&[400])
        .and(|said| said.ends_with("is not a valid model id")),
    says(Policy, "OpenRouter: moderation", &["flagged", "requires moderation"]).status(&[403]),
];
