//! Errors for clients, in their dialect.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::{Map, Value};

use super::UpstreamError;

/// What an error body shall say. An absent value is written as `null`.
#[derive(Debug, Clone, Copy)]
pub struct ErrorView<'a> {
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
