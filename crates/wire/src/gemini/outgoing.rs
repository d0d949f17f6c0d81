//! Parts as they are written.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

/// One part: exactly one of its kinds is there.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutPart<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<Cow<'r, str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inline_data: Option<Blob<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_call: Option<OutCall<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_response: Option<OutResult<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<Cow<'r, str>>,
}

impl<'r> OutPart<'r> {
    pub(super) fn text(text: impl Into<Cow<'r, str>>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    pub(super) fn thought(text: impl Into<Cow<'r, str>>) -> Self {
        Self { thought: true, ..Self::text(text) }
    }

    pub(super) fn call(call: OutCall<'r>) -> Self {
        Self { function_call: Some(call), ..Self::default() }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blob<'r> {
    pub(super) mime_type: &'r str,
    pub(super) data: &'r str,
}

#[derive(Debug, Serialize)]
pub(super) struct OutCall<'r> {
    pub(super) id: Cow<'r, str>,
    pub(super) name: Cow<'r, str>,
    pub(super) args: Cow<'r, RawValue>,
}

#[derive(Debug, Serialize)]
pub(super) struct OutResult<'r> {
    pub(super) id: Cow<'r, str>,
    pub(super) name: Cow<'r, str>,
    pub(super) response: Response<'r>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<OutPart<'r>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Response<'r> {
    Error(Cow<'r, str>),
    Output(Cow<'r, str>),
}

#[derive(Debug, Serialize)]
pub(super) struct OutContent<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    pub(super) parts: Vec<OutPart<'r>>,
}
