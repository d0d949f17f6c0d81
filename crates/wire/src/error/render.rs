//! Errors for clients, in their dialect.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::{Map, Value};

use super::UpstreamError;
use crate::gemini::status_word;

/// What an error body shall say. An absent value is written as `null`.
#[derive(Debug, Clone, Copy)]
pub struct ErrorView<'a> {
    /// The HTTP status; the one that it would have where it is the last event of a stream.
    pub status: u16,
    /// The sentence.
    pub message: &'a str,
    /// `type`.
    pub kind: Option<&'a str>,
    /// `param`.
    pub param: Option<&'a str>,
    /// `code`.
    pub code: Option<&'a str>,
    /// Further fields of the error object. They cannot replace the four above.
    pub extra: Option<&'a Map<String, Value>>,
}

impl<'a> From<&'a UpstreamError> for ErrorView<'a> {
    fn from(error: &'a UpstreamError) -> Self {
        Self {
            status: error.status().unwrap_or(500),
            message: &error.message,
            kind: error.kind.as_deref(),
            param: error.param.as_deref(),
            code: error.code.as_deref(),
            extra: Some(&error.extra),
        }
    }
}

impl Serialize for ErrorView<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("message", self.message)?;
        map.serialize_entry("type", &self.kind)?;
        map.serialize_entry("param", &self.param)?;
        map.serialize_entry("code", &self.code)?;
        for (key, value) in self.extra.into_iter().flatten() {
            if !matches!(key.as_str(), "message" | "type" | "param" | "code") {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct Body<'a> {
    error: &'a ErrorView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointsman: Option<&'a Value>,
}

/// The body of an error answer: `{"error": {…}, "pointsman": {…}}`.
#[must_use]
pub fn chat_error_body(view: &ErrorView<'_>, pointsman: Option<&Value>) -> Vec<u8> {
    // Strings and JSON values always serialise; the constant only satisfies the type.
    serde_json::to_vec(&Body { error: view, pointsman })
        .unwrap_or_else(|_| br#"{"error":{"message":""}}"#.to_vec())
}

/// The same as one event of a stream: `data: {…}` and a blank line. Nothing may follow it, `[DONE]` neither.
#[must_use]
pub fn chat_error_event(view: &ErrorView<'_>, pointsman: Option<&Value>) -> Bytes {
    let body = chat_error_body(view, pointsman);
    let mut out = BytesMut::with_capacity(body.len() + 8);
    out.put_slice(b"data: ");
    out.put_slice(&body);
    out.put_slice(b"\n\n");
    out.freeze()
}

/// The members of an Anthropic error: `type` and `message`, and what else the provider's error object held
/// (`details` above all). It has no `param` and no `code`.
struct MessagesError<'v, 'a>(&'v ErrorView<'a>);

impl Serialize for MessagesError<'_, '_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.0.kind.unwrap_or("api_error"))?;
        map.serialize_entry("message", self.0.message)?;
        for (key, value) in self.0.extra.into_iter().flatten() {
            if !matches!(key.as_str(), "message" | "type") {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct MessagesBody<'b, 'v, 'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: MessagesError<'v, 'a>,
    request_id: Option<&'b str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointsman: Option<&'b Value>,
}

/// The body of an error answer in the `messages` dialect (Anthropic API, "Errors"):
/// `{"type": "error", "error": {"type", "message"}, "request_id", "pointsman"}`.
#[must_use]
pub fn messages_error_body(
    view: &ErrorView<'_>,
    request_id: Option<&str>,
    pointsman: Option<&Value>,
) -> Vec<u8> {
    let body = MessagesBody { kind: "error", error: MessagesError(view), request_id, pointsman };
    // Strings and JSON values always serialise; the constant only satisfies the type.
    serde_json::to_vec(&body)
        .unwrap_or_else(|_| br#"{"type":"error","error":{"type":"api_error","message":""}}"#.to_vec())
}

#[derive(Serialize)]
struct GeminiBody<'b> {
    error: GeminiError<'b>,
}

#[derive(Serialize)]
struct GeminiError<'b> {
    code: u16,
    message: &'b str,
    status: &'static str,
    details: Vec<Cow<'b, Value>>,
}

/// The body of an error answer in the `gemini` dialect (google.rpc.Status):
/// `{"error": {"code", "message", "status", "details"}}`. What the gateway has to say, and what its error body has in other
/// dialects, is the first of the details.
#[must_use]
pub fn gemini_error_body(
    view: &ErrorView<'_>,
    request_id: Option<&str>,
    pointsman: Option<&Value>,
) -> Vec<u8> {
    let of_provider = |name: &str| view.extra.and_then(|extra| extra.get(name));
    let word = of_provider("status").and_then(Value::as_str).or(view.kind);
    let mut own = pointsman.and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, value) in [("request_id", request_id), ("code", view.code), ("param", view.param)] {
        if let Some(value) = value {
            own.insert(name.to_owned(), value.into());
        }
    }
    let wait = own.get("retry_after_ms").and_then(Value::as_u64).map(retry_info);
    let mut details = vec![Cow::Owned(Value::Object(own))];
    let of_provider = of_provider("details").and_then(Value::as_array).into_iter().flatten();
    details.extend(of_provider.filter(|detail| detail.is_object()).map(Cow::Borrowed));
    details.extend(wait.map(Cow::Owned));
    let status = status_word(word, view.status);
    let body =
        GeminiBody { error: GeminiError { code: view.status, message: view.message, status, details } };
    // Strings and JSON values always serialise; the constant only satisfies the type.
    serde_json::to_vec(&body)
        .unwrap_or_else(|_| br#"{"error":{"code":500,"message":"","status":"INTERNAL"}}"#.to_vec())
}

/// When to come back, as Google says it (google.rpc.RetryInfo): its clients know no header for it.
fn retry_info(ms: u64) -> Value {
    serde_json::json!({
        "@type": "type.googleapis.com/google.rpc.RetryInfo",
        "retryDelay": format!("{}.{:03}s", ms / 1_000, ms % 1_000),
    })
}
