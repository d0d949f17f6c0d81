//! Hosted providers with few words of their own.

use crate::classify::FailureClass::{
    ModelNotFound, Overloaded, Permission, QuotaExhausted, RateLimit, ServerError, Timeout, Unsupported,
};
use crate::classify::evidence::Evidence;
use crate::classify::row::{Row, codes, says, status};

/// Google's OpenAI-compatible endpoints: `status` holds the canonical code of google.rpc.
pub(in crate::classify) const GOOGLE: &[Row] = &[
    codes(QuotaExhausted, "Google: a quota of zero", &["resource_exhausted"])
        .and(Evidence::names_limit_of_zero),
    codes(QuotaExhausted, "Google: a quota of a day", &["resource_exhausted"])
        .phrases(&["perday", "per day", "per_day"]),
    codes(RateLimit, "Google: a quota of a minute", &["resource_exhausted"]),
    codes(ServerError, "Google: internal", &["internal"]),
    codes(Timeout, "Google: deadline exceeded", &["deadline_exceeded"]),
    codes(Unsupported, "Google: not implemented", &["unimplemented"]),
    codes(Permission, "Google: not allowed here", &["failed_precondition"]),
];

/// DeepSeek (its documentation, "Error codes": 402 balance, 429 rate, 503 overloaded).
pub(in crate::classify) const DEEPSEEK: &[Row] = &[
    status(Overloaded, "DeepSeek: status 503", &[503]),
    // A conversation that another provider began lacks DeepSeek's reasoning; elsewhere it can go on.
    says(Unsupported, "DeepSeek: the history lacks its reasoning", &["reasoning_content"])
        .status(&[400, 422]),
];

/// Mistral.
pub(in crate::classify) const MISTRAL: &[Row] = &[
    // The id came from another provider; elsewhere the conversation can go on.
    says(
        Unsupported,
        "Mistral: the form of a tool call's id",
        &["tool call id was", "tool call id has to be"],
    )
    .status(&[400, 422]),
    says(Unsupported, "Mistral: the last message's role", &["expected last role"]).status(&[400, 422]),
    codes(ModelNotFound, "Mistral: unknown model", &["invalid_model", "1500"]),
    says(QuotaExhausted, "Mistral: usage limit reached", &["inactive subscription", "usage limit reached"])
        .status(&[401, 402, 403, 429]),
];
