//! Groq (its documentation, "API error codes and responses").

use crate::classify::FailureClass::{Auth, Overloaded, Permission, Unsupported};
use crate::classify::row::{Row, codes, status};

pub(in crate::classify) const ROWS: &[Row] = &[
    // The model's own output did not hold together. Another target may do better; the target's health is not
    // touched, or one client's odd tool schema would take it away from everybody.
    codes(
        Unsupported,
        "Groq: the model failed at the tool call or schema",
        &["tool_use_failed", "json_validate_failed"],
    ),
    status(Overloaded, "Groq: flex tier at capacity", &[498]),
    codes(Permission, "Groq: the model's terms are not accepted", &["model_terms_required"]),
    codes(Auth, "Groq: the organization is restricted", &["organization_restricted"]),
];
