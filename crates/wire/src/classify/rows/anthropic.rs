//! Anthropic (its API documentation, "Errors"): the type is in `error.type`, the stable cause in
//! `error.details.error_code`. What the shared rows say of its words is not repeated here.

use crate::classify::FailureClass::{
    ContextOverflow, InvalidRequest, Permission, QuotaExhausted, Unsupported,
};
use crate::classify::row::{Row, begins, codes, says};

pub(in crate::classify) const ROWS: &[Row] = &[
    // They come as rate limits or permissions, but it is the length of this one request that the account lacks.
    begins(
        Unsupported,
        "Anthropic: the account does not take prompts this long",
        &["extra usage is required for long context", "the long context beta is not yet available"],
    )
    .status(&[400, 403, 429]),
    begins(
        QuotaExhausted,
        "Anthropic: a limit on spending that the account has set itself",
        &["you have reached your specified workspace api usage limits"],
    )
    .status(&[400]),
    begins(Permission, "Anthropic: the organization is closed", &["this organization has been disabled"])
        .status(&[400]),
    codes(Permission, "Anthropic: the customer's own key is off", &["cmek_key_disabled"]),
    codes(
        ContextOverflow,
        "Anthropic: the request is too large",
        &["request_too_large", "request_body_too_large_after_decoding"],
    ),
    // Nothing is wrong with the model: the request names something of an account that is not there.
    codes(InvalidRequest, "Anthropic: a thread that does not exist", &["thread_not_found"]),
    begins(InvalidRequest, "Anthropic: a file or container that does not exist", &["file", "container"])
        .status(&[404]),
    // The history or the headers suit another model or account; elsewhere the conversation can go on.
    says(
        Unsupported,
        "Anthropic: thinking that this target did not sign",
        &["invalid `signature` in `thinking` block"],
    )
    .status(&[400]),
    says(
        Unsupported,
        "Anthropic: a beta that is not open to this account",
        &["unsupported beta header", "for the `anthropic-beta` header"],
    )
    .status(&[400]),
    says(
        Unsupported,
        "Anthropic: a parameter that this model no longer takes",
        &["is deprecated for this model", "is not supported on this model"],
    )
    .status(&[400]),
];
