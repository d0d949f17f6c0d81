//! The same faults in AWS's words: the kind of an error stands in a header, in a stream it is the name of an exception.

use serde_json::{Value, json};

use super::frame::Kind;
use crate::envelope;
use crate::script::Script;
use crate::speech::{Carrier, Event};

/// The header that names the kind of an error.
const KIND: &str = "x-amzn-errortype";
const TOO_MANY: &str = "Too many requests, please wait before trying again.";
const UNAVAILABLE: &str = "Bedrock is unable to process your request.";
const UNEXPECTED: &str =
    "The system encountered an unexpected error during processing. Try your request again.";
const TOO_LONG: &str = "Input is too long for requested model.";

/// An error of this status and kind.
pub(crate) fn error(status: u16, kind: &str, message: &str) -> Script {
    Script::fixed(status, "application/json", json!({ "message": message }).to_string())
        .header(KIND, format!("{kind}:http://internal.amazon.com/coral/com.amazon.bedrock/"))
}

/// A script as its answer is sent on Bedrock's endpoint. A fixed reply in OpenAI's form becomes AWS's, which never
/// says when to come back; any other stays as it is written.
pub(crate) fn spell(mut script: Script) -> Script {
    // Frames are no text, so they cannot begin with a byte order mark.
    script.wire.bom = false;
    let Some(said) = script.reply.as_ref().and_then(envelope::openai_error) else { return script };
    let status = script.reply.as_ref().map_or(500, |reply| reply.status);
    let word = |key: &str| said.get(key).and_then(Value::as_str).unwrap_or_default();
    let (status, kind, message) = match (word("code"), word("type"), status) {
        (_, "insufficient_quota", _) => {
            (400, "ServiceQuotaExceededException", "Your request exceeds the service quota for your account.")
        }
        ("context_length_exceeded", ..) => (400, "ValidationException", TOO_LONG),
        ("model_not_found", ..) => (400, "ValidationException", "The provided model identifier is invalid."),
        ("invalid_api_key", ..) | (_, _, 401) => {
            (403, "UnrecognizedClientException", "The security token included in the request is invalid.")
        }
        (_, _, 403) => {
            (403, "AccessDeniedException", "You don't have access to the model with the specified model ID.")
        }
        (_, _, 404) => (404, "ResourceNotFoundException", word("message")),
        (_, _, 408) => (408, "ModelTimeoutException", "The request took too long to process."),
        (_, _, 424) => {
            (424, "ModelErrorException", "The request failed due to an error while processing the model.")
        }
        (_, _, 429) => (429, "ThrottlingException", TOO_MANY),
        (_, _, 503) => (503, "ServiceUnavailableException", UNAVAILABLE),
        (_, _, 500..) => (status, "InternalServerException", UNEXPECTED),
        _ => (status, "ValidationException", word("message")),
    };
    let own = error(status, kind, message);
    let is_guidance = |name: &str| name.starts_with("retry-after") || name.starts_with("x-ratelimit-");
    script.headers.retain(|(name, _)| !is_guidance(&name.to_ascii_lowercase()));
    script.date_headers.retain(|(name, _)| !is_guidance(&name.to_ascii_lowercase()));
    script.headers.extend(own.headers);
    Script { reply: own.reply, ..script }
}

/// The exceptions that a stream of Converse may end in.
const EXCEPTIONS: [&str; 5] = [
    "internalServerException",
    "modelStreamErrorException",
    "serviceUnavailableException",
    "throttlingException",
    "validationException",
];

/// An error as the body of an answer that is not streamed.
pub(super) fn body(value: &Value) -> String {
    let event = event(value);
    match event.carrier {
        Carrier::Frame(Kind::Error) => json!({ "message": event.json }).to_string(),
        _ => event.json,
    }
}

/// An error in the middle of a stream. A value whose `type` is the name of an exception is that exception, one that is
/// a flat `error` is a message of the type `error`.
pub(super) fn event(value: &Value) -> Event {
    let kind = value.get("type").and_then(Value::as_str);
    if let Some(name) = EXCEPTIONS.iter().find(|name| kind == Some(*name)) {
        let mut fields = value.as_object().cloned().unwrap_or_default();
        fields.remove("type");
        return Event::framed(Kind::Exception, name, Value::from(fields).to_string());
    }
    let general = envelope::in_general(value);
    let error = general.get("error").unwrap_or(&general);
    let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    if kind == Some("error") && value.get("error").is_none() {
        return Event::framed(Kind::Error, "InternalFailure", word("message").to_owned());
    }
    let (name, message) = match word("type") {
        "rate_limit_error" | "insufficient_quota" | "requests" | "tokens" => {
            ("throttlingException", TOO_MANY)
        }
        "overloaded_error" | "service_unavailable_error" => ("serviceUnavailableException", UNAVAILABLE),
        "invalid_request_error" => ("validationException", word("message")),
        _ => ("internalServerException", UNEXPECTED),
    };
    Event::framed(Kind::Exception, name, json!({ "message": message }).to_string())
}
