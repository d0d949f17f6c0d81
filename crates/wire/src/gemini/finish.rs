//! Why an answer ended (Gemini API reference, "FinishReason").

use crate::ir::Stop;

/// Ends by which the provider says that its model went wrong: a failure, not an end.
pub(super) fn is_failure(reason: &str) -> bool {
    matches!(
        reason,
        "MALFORMED_FUNCTION_CALL"
            | "MALFORMED_RESPONSE"
            | "MISSING_THOUGHT_SIGNATURE"
            | "TOO_MANY_TOOL_CALLS"
            | "UNEXPECTED_TOOL_CALL"
    )
}

/// Why an answer ended. That tools are called is no reason of its own here. Whatever is neither an end nor a limit is the
/// provider's policy, or treated so: an answer that was cut must not be taken for a whole one.
pub(super) fn stop(reason: &str, called: bool) -> Stop {
    match reason {
        "MAX_TOKENS" | "CONTINUATION" => Stop::Length,
        "" | "STOP" | "FINISH_REASON_UNSPECIFIED" if called => Stop::ToolCalls,
        "" | "STOP" | "FINISH_REASON_UNSPECIFIED" => Stop::End,
        _ => Stop::Refusal,
    }
}

/// The reason as it is written.
pub(super) fn reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::ContextFull | Stop::Length => "MAX_TOKENS",
        Stop::End | Stop::Paused | Stop::Sequence(_) | Stop::ToolCalls => "STOP",
        Stop::Refusal => "SAFETY",
    }
}
