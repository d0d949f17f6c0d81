//! Hosted providers with few words of their own.

use crate::classify::FailureClass::{ModelNotFound, Overloaded, QuotaExhausted, Unsupported};
use crate::classify::row::{Row, codes, says, status};

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
