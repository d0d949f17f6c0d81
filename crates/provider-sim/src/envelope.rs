//! The same faults in the words of each endpoint: a script names a fault, the endpoint decides how it is spelled.

use serde_json::{Map, Value, json};

use crate::answer::Voice;
use crate::bedrock;
use crate::catalogue;
use crate::gemini;
use crate::request::Form;
use crate::script::{FixedReply, LineEnd, Script};

/// A script as its answer is sent on an endpoint. Where it is not Chat Completions, a fixed reply that is an error in
/// OpenAI's form (all four keys, a code that is no number) becomes the error that its provider sends for the same
/// fault; whatever else is sent as written.
pub(crate) fn spell(form: Form, mut script: Script, voice: &Voice) -> Script {
    match form {
        Form::Chat | Form::Service(_) => {}
        Form::Messages => script.reply = script.reply.map(|reply| anthropic_reply(&reply, voice)),
        Form::Responses => script.reply = script.reply.map(|reply| responses_reply(&reply)),
        Form::Gemini(carried) => {
            // Google ends the lines of its events like this.
            if script.wire.line_end == LineEnd::Lf {
                script.wire.line_end = LineEnd::Crlf;
            }
            return gemini::spell(script, carried);
        }
        Form::Bedrock { .. } => return bedrock::spell(script),
    }
    script
}

/// Responses has the errors of Chat Completions, and its own words for an input that is too long.
fn responses_reply(reply: &FixedReply) -> FixedReply {
    let error = openai_error(reply);
    if error.as_ref().and_then(|error| error.get("code")?.as_str()) != Some("context_length_exceeded") {
        return reply.clone();
    }
    let body = catalogue::error(
        catalogue::INPUT_TOO_LONG,
        "invalid_request_error",
        Some("input"),
        Some("context_length_exceeded"),
    );
    FixedReply { body, ..reply.clone() }
}

fn anthropic_reply(reply: &FixedReply, voice: &Voice) -> FixedReply {
    let Some((status, kind, message)) = in_their_words(reply) else { return reply.clone() };
    let body = catalogue::anthropic_error(&kind, &message, None, &format!("req_sim_{}", voice.call));
    FixedReply { status, content_type: reply.content_type.clone(), body }
}

/// The failures that only a stream of Responses has, as the error object that all others have: `{"error": {…}}`.
pub(crate) fn in_general(value: &Value) -> Value {
    let error = match value.get("type").and_then(Value::as_str) {
        Some("response.failed") => value.pointer("/response/error"),
        Some("error") => value.get("error").or_else(|| value.get("code").map(|_| value)),
        _ => None,
    };
    let Some(error) = error.filter(|error| error.get("code").is_some_and(Value::is_string)) else {
        return value.clone();
    };
    let kind = match error.get("code").and_then(Value::as_str) {
        Some("rate_limit_exceeded") => "rate_limit_error",
        Some("insufficient_quota") => "insufficient_quota",
        Some("server_is_overloaded") => "service_unavailable_error",
        Some("context_length_exceeded" | "invalid_prompt") => "invalid_request_error",
        _ => "server_error",
    };
    json!({"error": {"message": error.get("message"), "type": kind, "param": null, "code": error.get("code")}})
}

/// The data of an error event on the Messages endpoint.
pub(crate) fn event(value: &Value) -> Value {
    let value = &in_general(value);
    let Some(error) = value.get("error").filter(|_| value.get("type").is_none()) else {
        return value.clone();
    };
    let message = error.get("message").and_then(Value::as_str).unwrap_or("error");
    let kind = match error.get("type").and_then(Value::as_str) {
        Some("server_error") | None => "api_error",
        Some("service_unavailable_error") => "overloaded_error",
        Some(kind) => kind,
    };
    let mut out = json!({"type": kind, "message": message});
    if let (Some(details), Some(out)) = (error.get("details"), out.as_object_mut()) {
        out.insert("details".to_owned(), details.clone());
    }
    json!({"type": "error", "error": out})
}

fn in_their_words(reply: &FixedReply) -> Option<(u16, String, String)> {
    let error = openai_error(reply)?;
    let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let message = word("message");
    let (status, kind, message) = match (word("code"), word("type")) {
        ("context_length_exceeded", _) => (400, "invalid_request_error", catalogue::PROMPT_TOO_LONG),
        (_, "insufficient_quota") => (400, "invalid_request_error", catalogue::CREDIT_BALANCE),
        ("server_is_overloaded", _) => (529, "overloaded_error", "Overloaded"),
        ("invalid_api_key", _) => (401, "authentication_error", "invalid x-api-key"),
        _ => (reply.status, kind_of(reply.status), message),
    };
    Some((status, kind.to_owned(), message.to_owned()))
}

/// The error object of a reply in OpenAI's form.
pub(crate) fn openai_error(reply: &FixedReply) -> Option<Map<String, Value>> {
    let mut body: Value = serde_json::from_str(&reply.body).ok()?;
    let Some(Value::Object(error)) = body.get_mut("error").map(Value::take) else { return None };
    let keys = ["message", "type", "param", "code"];
    let whole = error.len() == keys.len() && keys.iter().all(|key| error.contains_key(*key));
    (whole && !error.get("code").is_some_and(Value::is_number)).then_some(error)
}

/// The type that goes with a status (Anthropic API, "Errors").
fn kind_of(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        408 | 504 => "timeout_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..500 => "invalid_request_error",
        _ => "api_error",
    }
}

/// Ready error answers of Anthropic.
impl Script {
    /// An error of this status and type, with a stable cause in `details.error_code` if one is given.
    pub fn anthropic_error(status: u16, kind: &str, message: &str, error_code: Option<&str>) -> Self {
        let body = catalogue::anthropic_error(kind, message, error_code, "req_sim");
        Self::fixed(status, "application/json", body)
    }

    /// 529 `overloaded_error`.
    pub fn anthropic_overloaded() -> Self {
        Self::anthropic_error(529, "overloaded_error", "Overloaded", None)
    }

    /// 429 `rate_limit_error` with `retry-after` in seconds and the `anthropic-ratelimit-*` headers: the tokens of
    /// input are used up and whole again after that time.
    pub fn anthropic_rate_limit(retry_after: u64) -> Self {
        let reset = i64::try_from(retry_after).unwrap_or(i64::MAX);
        let message =
            "This request would exceed your organization's rate limit of 50,000 input tokens per minute.";
        Self::anthropic_error(429, "rate_limit_error", message, None)
            .header("retry-after", retry_after.to_string())
            .header("anthropic-ratelimit-requests-limit", "50")
            .header("anthropic-ratelimit-requests-remaining", "49")
            .header("anthropic-ratelimit-input-tokens-limit", "50000")
            .header("anthropic-ratelimit-input-tokens-remaining", "0")
            .header_date("anthropic-ratelimit-input-tokens-reset", reset)
    }

    /// 429 `enforced_spend_limit_reached`: waiting does not help.
    pub fn anthropic_spend_limit() -> Self {
        let message = "The spend limit of your organization is reached.";
        Self::anthropic_error(429, "rate_limit_error", message, Some("enforced_spend_limit_reached"))
    }

    /// 400 for a spent credit balance.
    pub fn anthropic_credit_balance() -> Self {
        Self::anthropic_error(400, "invalid_request_error", catalogue::CREDIT_BALANCE, None)
    }

    /// 400 for a prompt that is too long.
    pub fn anthropic_prompt_too_long() -> Self {
        Self::anthropic_error(400, "invalid_request_error", catalogue::PROMPT_TOO_LONG, None)
    }

    /// 500 `api_error`.
    pub fn anthropic_api_error() -> Self {
        Self::anthropic_error(500, "api_error", "Internal server error", None)
    }
}
