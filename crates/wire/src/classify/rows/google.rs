//! Google: `status` holds the canonical code of google.rpc, and `details` what stands behind it (Gemini API documentation,
//! "Troubleshooting"; google.rpc, "ErrorInfo" and "QuotaFailure").

use crate::classify::FailureClass::{
    BadResponse, ContextOverflow, InvalidRequest, Permission, QuotaExhausted, RateLimit, ServerError,
    Timeout, Unsupported,
};
use crate::classify::evidence::Evidence;
use crate::classify::row::{Row, begins, codes, says};

/// The Gemini API's own words; [`STATUS`] follows.
pub(in crate::classify) const ROWS: &[Row] = &[
    codes(
        BadResponse,
        "Google: the model made a call that is none",
        &["malformed_function_call", "malformed_response", "too_many_tool_calls", "unexpected_tool_call"],
    ),
    codes(Unsupported, "Google: the history lacks the seals of its model", &["missing_thought_signature"]),
    // The history suits another model; elsewhere the conversation can go on.
    says(
        Unsupported,
        "Google: the history lacks the seals of its model",
        &["thought_signature", "thought signature"],
    )
    .status(&[400]),
    // Nothing is wrong with the account: the request names something of another one.
    begins(
        InvalidRequest,
        "Google: a cache or a file that does not exist",
        &["cachedcontent not found", "you do not have permission to access the file"],
    )
    .status(&[403, 404]),
    // It comes as an error of the server's too.
    says(
        ContextOverflow,
        "Google: the input is too long",
        &["exceeds the maximum number of tokens", "input context is too long"],
    )
    .status(&[400, 500]),
    codes(QuotaExhausted, "Google: nothing is left of what was paid", &["resource_exhausted"]).status(&[402]),
];

/// The canonical codes.
pub(in crate::classify) const STATUS: &[Row] = &[
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
