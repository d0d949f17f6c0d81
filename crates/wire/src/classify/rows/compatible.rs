//! Hosted providers with an OpenAI-compatible endpoint: what they say beside the common words.

use crate::classify::FailureClass::{
    ContextOverflow, ModelNotFound, Overloaded, Policy, QuotaExhausted, RateLimit, Unsupported,
};
use crate::classify::row::{Row, any, begins, codes, says, status};

/// xAI (its documentation, "Debugging errors"; the texts as users report them): `error` is a text, `code` a sentence or a
/// word.
pub(in crate::classify) const XAI: &[Row] = &[
    says(Policy, "xAI: the usage guidelines", &["content violates usage guidelines"]).status(&[400, 403]),
    says(
        QuotaExhausted,
        "xAI: no credits",
        &["used all available credits", "have any credits or licenses", "run out of credits"],
    )
    .status(&[403, 429]),
    begins(ContextOverflow, "xAI: the prompt is too long", &["this model's maximum prompt length is"])
        .status(&[400]),
];

/// Together (its documentation, "Error codes").
pub(in crate::classify) const TOGETHER: &[Row] = &[
    says(ContextOverflow, "Together: prompt and output are too long", &["max_tokens", "context length"])
        .status(&[403]),
    status(Overloaded, "Together: status 503", &[503]),
];

/// Fireworks (its documentation, "Inference error codes"): 412 is a suspended account, or an adapter that failed to load.
pub(in crate::classify) const FIREWORKS: &[Row] = &[
    says(QuotaExhausted, "Fireworks: the account is suspended", &["suspended"]).status(&[412]),
    status(ModelNotFound, "Fireworks: a model that does not load", &[412]),
];

/// Cerebras (its documentation, "Error codes"; the bodies as users report them).
pub(in crate::classify) const CEREBRAS: &[Row] = &[
    codes(Overloaded, "Cerebras: the queue is full", &["queue_exceeded"]),
    says(Overloaded, "Cerebras: high traffic", &["experiencing high traffic"]).status(&[429]),
    codes(
        QuotaExhausted,
        "Cerebras: what a day allows is used up",
        &["request_quota_exceeded", "token_quota_exceeded"],
    )
    .phrases(&["per day"]),
    codes(
        RateLimit,
        "Cerebras: what a minute allows is used up",
        &["request_quota_exceeded", "token_quota_exceeded"],
    ),
    codes(Unsupported, "Cerebras: a field that it does not take", &["wrong_api_format"])
        .phrases(&["is unsupported"]),
];

/// Cohere (its documentation, "Errors").
pub(in crate::classify) const COHERE: &[Row] = &[
    says(QuotaExhausted, "Cohere: a trial key's calls of a month", &["api calls / month"]).status(&[429]),
    begins(Unsupported, "Cohere: more output than the model gives", &["too many tokens: max tokens must be"])
        .status(&[400]),
    begins(ContextOverflow, "Cohere: the prompt is too long", &["too many tokens"]).status(&[400]),
];

/// NVIDIA's hosted endpoints: a problem object (RFC 9457), its text in `detail`.
pub(in crate::classify) const NVIDIA: &[Row] = &[
    // It is the hosted function that is ill, and nothing is wrong with the request.
    any(Overloaded, "NVIDIA: the hosted function is degraded")
        .status(&[400])
        .and(|said| said.ends_with("degraded function cannot be invoked")),
];

/// Hugging Face's router.
pub(in crate::classify) const HUGGING_FACE: &[Row] = &[
    codes(ModelNotFound, "Hugging Face: no provider has the model", &["model_not_supported"]),
    begins(ModelNotFound, "Hugging Face: no provider has the model", &["model not supported by provider"])
        .status(&[400]),
];
