//! The same faults in Google's words (`google.rpc.Status`): a script names a fault in OpenAI's form, here it becomes
//! what Gemini sends for it.

use serde_json::{Value, json};

use crate::envelope;
use crate::request::Carried;
use crate::script::{FixedReply, Script};

/// Gemini says this of each limit; only the details tell a limit per minute from one per day.
const EXHAUSTED: &str = "You exceeded your current quota, please check your plan and billing details. For more information on this error, \
     head to: https://ai.google.dev/gemini-api/docs/rate-limits.";
const METRIC: &str = "generativelanguage.googleapis.com/generate_content_free_tier_requests";

/// A script as its answer is sent on Gemini's endpoint. A fixed reply in OpenAI's form becomes Google's, and what its
/// headers say of when to come back goes into the body; any other stays as it is written.
pub(crate) fn spell(mut script: Script, carried: Carried) -> Script {
    let Some(reply) = &script.reply else { return script };
    let Some(error) = envelope::openai_error(reply) else { return script };
    let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    if word("code") == "content_policy_violation" {
        script.reply = Some(blocked(reply, carried));
        return script;
    }
    let wait = guidance(&script, word("message"));
    let (status, body) = translated(reply.status, word("code"), word("type"), word("message"), wait);
    let body = in_list(carried, body.to_string());
    script.reply = Some(FixedReply { status, content_type: reply.content_type.clone(), body });
    let is_guidance = |name: &str| name.starts_with("retry-after") || name.starts_with("x-ratelimit-");
    script.headers.retain(|(name, _)| !is_guidance(&name.to_ascii_lowercase()));
    script.date_headers.retain(|(name, _)| !is_guidance(&name.to_ascii_lowercase()));
    script
}

/// Where a list was asked for, an error is in one too.
pub(crate) fn in_list(carried: Carried, body: String) -> String {
    if carried == Carried::Array { format!("[{body}]") } else { body }
}

/// A prompt that is blocked is no error: an answer without candidates says why.
fn blocked(reply: &FixedReply, carried: Carried) -> FixedReply {
    let body = json!({
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4},
    });
    let (content_type, body) = match carried {
        Carried::Whole => (reply.content_type.clone(), body.to_string()),
        Carried::Array => (reply.content_type.clone(), format!("[{body}\n]")),
        Carried::Events => ("text/event-stream".to_owned(), format!("data: {body}\r\n\r\n")),
    };
    FixedReply { status: 200, content_type, body }
}

/// When a script says to come back, in milliseconds.
fn guidance(script: &Script, message: &str) -> Option<u64> {
    let header = |name: &str| {
        let own = script.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        own.and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let dated = script.date_headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"));
    let said = message.split_once("try again in ").and_then(|(_, rest)| rest.split('s').next()?.parse().ok());
    header("retry-after-ms")
        .or_else(|| Some(header("retry-after")?.saturating_mul(1000)))
        .or_else(|| u64::try_from(dated?.1).ok())
        .or_else(|| Some(u64::saturating_mul(said?, 1000)))
}

/// The status and the body of an error.
fn translated(status: u16, code: &str, kind: &str, message: &str, wait: Option<u64>) -> (u16, Value) {
    if status == 429 || kind == "insufficient_quota" || code == "rate_limit_exceeded" {
        return (429, exhausted(kind == "insufficient_quota" || code == "insufficient_quota", wait));
    }
    let invalid = |message: &str, details: Value| (400, google(400, message, details));
    match code {
        "context_length_exceeded" => {
            let message = "The input token count (9000) exceeds the maximum number of tokens allowed (8192).";
            return invalid(message, Value::Null);
        }
        "invalid_api_key" => {
            let info = json!({
                "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID",
                "domain": "googleapis.com", "metadata": {"service": "generativelanguage.googleapis.com"},
            });
            return invalid("API key not valid. Please pass a valid API key.", json!([info]));
        }
        _ => {}
    }
    let message = match status {
        503 => "The model is overloaded. Please try again later.",
        500 => {
            "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting"
        }
        504 => "Deadline expired before operation could complete.",
        _ => message,
    };
    (status, google(status, message, Value::Null))
}

fn exhausted(spent: bool, wait: Option<u64>) -> Value {
    let per = if spent { "Day" } else { "Minute" };
    let violation = json!({
        "quotaMetric": METRIC, "quotaId": format!("GenerateRequestsPer{per}PerProjectPerModel-FreeTier"),
        "quotaDimensions": {"location": "global", "model": "sim-model"}, "quotaValue": "10",
    });
    let mut details = vec![
        json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}),
        json!({"@type": "type.googleapis.com/google.rpc.Help", "links": [{
            "description": "Learn more about Gemini API quotas",
            "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
        }]}),
    ];
    let mut message =
        format!("{EXHAUSTED}\n* Quota exceeded for metric: {METRIC}, limit: 10, model: sim-model");
    if let Some(ms) = wait {
        let seconds = format!("{}", std::time::Duration::from_millis(ms).as_secs_f64());
        message.push_str(&format!("\nPlease retry in {seconds}s."));
        let delay =
            json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")});
        details.push(delay);
    }
    google(429, &message, details.into())
}

/// An error in Google's form, as a body or as an event of a stream; one that has it already stays.
pub(super) fn event(value: &Value) -> Value {
    let value = envelope::in_general(value);
    let error = value.get("error").unwrap_or(&value);
    if error.get("status").is_some_and(Value::is_string) {
        return json!({ "error": error });
    }
    let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let status = match word("type") {
        "rate_limit_error" | "insufficient_quota" | "requests" | "tokens" => 429,
        "overloaded_error" | "service_unavailable_error" => 503,
        "invalid_request_error" => 400,
        _ => 500,
    };
    translated(status, word("code"), word("type"), word("message"), None).1
}

/// An error of this status; no details if `null`.
pub(crate) fn google(code: u16, message: &str, details: Value) -> Value {
    let mut error = json!({"code": code, "message": message, "status": status_name(code)});
    if let (false, Some(error)) = (details.is_null(), error.as_object_mut()) {
        error.insert("details".to_owned(), details);
    }
    json!({ "error": error })
}

/// The name that goes with a status (`google.rpc.Code`).
fn status_name(code: u16) -> &'static str {
    match code {
        401 => "UNAUTHENTICATED",
        402 | 429 => "RESOURCE_EXHAUSTED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        499 => "CANCELLED",
        400..=499 => "INVALID_ARGUMENT",
        501 => "UNIMPLEMENTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    }
}
