//! Blocks as they are written (Amazon Bedrock API Reference, "ContentBlock").

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

/// One block: an object with the one member that says what it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum OutBlock<'r> {
    Audio(OutMedia<'r>),
    CachePoint(CachePoint),
    Document(OutMedia<'r>),
    Image(OutMedia<'r>),
    ReasoningContent(OutThoughts<'r>),
    Text(Cow<'r, str>),
    ToolResult(OutResult<'r>),
    ToolUse(OutCall<'r>),
}

impl<'r> OutBlock<'r> {
    pub(super) fn text(text: impl Into<Cow<'r, str>>) -> Self {
        Self::Text(text.into())
    }
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct CachePoint {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ttl: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(super) struct OutMedia<'r> {
    pub(super) format: &'static str,
    /// Documents have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) source: OutSource<'r>,
}

#[derive(Debug, Serialize)]
pub(super) struct OutSource<'r> {
    /// Base64.
    pub(super) bytes: Cow<'r, str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum OutThoughts<'r> {
    ReasoningText { text: &'r str, signature: &'r str },
    RedactedContent(&'r str),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutCall<'r> {
    pub(super) tool_use_id: Cow<'r, str>,
    pub(super) name: Cow<'r, str>,
    pub(super) input: Cow<'r, RawValue>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutResult<'r> {
    pub(super) tool_use_id: Cow<'r, str>,
    pub(super) content: Vec<OutBlock<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<&'static str>,
}
