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

/// What a model wrote as arguments, where it is an object.
pub(super) fn arguments(text: &str) -> Option<Cow<'_, RawValue>> {
    let text = text.trim();
    if text.is_empty() {
        return serde_json::from_str::<&RawValue>("{}").ok().map(Cow::Borrowed);
    }
    let raw = text.starts_with('{').then(|| serde_json::from_str::<&RawValue>(text).ok());
    raw.flatten().map(Cow::Borrowed)
}

/// Arguments that are no object, as a text in one.
pub(super) fn wrapped(text: &str) -> Cow<'static, RawValue> {
    let wrapped = serde_json::json!({ "_raw": text.trim() }).to_string();
    Cow::Owned(RawValue::from_string(wrapped).unwrap_or_default())
}
