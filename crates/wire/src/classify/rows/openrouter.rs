//! OpenRouter (its documentation, "Errors and debugging"). `code` is the status as a number, often inside a 200.

use crate::classify::FailureClass::{
    InvalidRequest, ModelNotFound, Permission, Policy, QuotaExhausted, RateLimit, Unsupported,
};
use crate::classify::row::{Row, codes, says, status};

pub(in crate::classify) const ROWS: &[Row] = &[
    status(RateLimit, "OpenRouter: the budget for requests in flight", &[402])
        .and(|evidence| evidence.asks_to_wait),
    says(QuotaExhausted, "OpenRouter: the key's own limit", &["key limit exceeded"]),
    says(QuotaExhausted, "OpenRouter: free requests of the day", &["free-models-per-day"]),
    // Elsewhere this code is the content policy's; here it says that a message is malformed.
    codes(InvalidRequest, "OpenRouter: a message is malformed", &["invalid_prompt"]),
    says(Permission, "OpenRouter: the account's data policy leaves no endpoint", &["data policy"]),
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
    says(
        ModelNotFound,
        "OpenRouter: no endpoint for this model",
        &["no endpoints found for", "is not a valid model id"],
    ),
    says(Policy, "OpenRouter: moderation", &["flagged", "requires moderation"]).status(&[403]),
];
